# What the tests of the extension share: servers with a small tier, and looks behind it.
#
# A test says in its head which rules it is about ("# Rules: ..."); each is a value of mezzanine.planted. `run
# --planted` runs the test once for each of them, with the rule taken out, and wants it to fail.
package Mezzanine;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  tier_node tier_standby add_tier exchange flash_path without_tier evict crash file_lsn page_lsn is_stale relation_path
  whole start_fails log_since only_for create_extension spoil rot_everywhere clean_pages_node look_at frames_of
);

# A new server of 1 MB of shared buffers with a tier.
#
# mode: the sync mode; flash: the size in MB; conf: more lines of configuration; init: arguments of initdb's
# wrapper.
sub tier_node
{
	my ($name, %given) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(%{ $given{init} // {} });
	$node->append_conf('postgresql.conf', <<'END');
shared_buffers = 1MB
max_connections = 20
autovacuum = off
log_checkpoints = on
restart_after_crash = on
checkpoint_timeout = 1h
bgwriter_lru_maxpages = 0
END
	add_tier($node, %given);
	return $node;
}

# Gives a server a tier of its own, beside the data directory.
sub add_tier
{
	my ($node, %given) = @_;
	my $mode = $given{mode} // 'durable';
	my $flash = $given{flash} // 32;
	my $path = flash_path($node);
	my $planted = $ENV{MEZZ_RULE} // '';

	$node->append_conf('postgresql.conf', <<"END");
dynamic_library_path = '$ENV{MEZZ_LIBRARY}:\$libdir'
shared_preload_libraries = 'mezzanine'
mezzanine.flash_path = '$path'
mezzanine.flash_size = ${flash}MB
mezzanine.sync_mode = $mode
END
	$node->append_conf('postgresql.conf', "mezzanine.planted = '$planted'\n") if $planted ne '';
	$node->append_conf('postgresql.conf', $given{conf}) if defined $given{conf};
	return;
}

# Makes a copy of the directory what the server finds, and keeps what was there.
sub exchange
{
	my ($node, $copy) = @_;
	my $data = $node->data_dir;

	rename $data, "$data.kept" or die "$data: $!";
	rename $copy, $data or die "$copy: $!";
	rename "$data.kept", $copy or die "$data.kept: $!";
	unlink "$data/postmaster.pid";
	return;
}

# A standby with a tier, from a new backup of its primary. `given` as for tier_node().
sub tier_standby
{
	my ($primary, $name, %given) = @_;
	my $standby = PostgreSQL::Test::Cluster->new($name);

	$primary->backup("base_$name");
	$standby->init_from_backup($primary, "base_$name", has_streaming => 1);
	add_tier($standby, %given);
	$standby->start;
	return $standby;
}

sub flash_path
{
	my ($node) = @_;
	return $node->basedir . '/flash';
}

# Takes the tier out of a server's configuration.
sub without_tier
{
	my ($node) = @_;
	my $conf = $node->data_dir . '/postgresql.conf';
	my $text = join '', grep { !/^(mezzanine\.|shared_preload_libraries)/ } split /^/m, slurp_file($conf);

	open my $file, '>', $conf or die "$conf: $!";
	print $file $text;
	close $file;
	return;
}

# Has a relation's pages, or everybody's of this database, leave shared buffers. Dirty ones are written first:
# to the tier, if it takes them.
sub evict
{
	my ($node, $relation, $database) = @_;
	my $which = defined $relation ? "relfilenode = pg_relation_filenode('$relation')" : 'relfilenode IS NOT NULL';

	$database //= 'postgres';
	$node->safe_psql($database, 'CREATE EXTENSION IF NOT EXISTS pg_buffercache');
	# What is pinned just now, and what another backend is changing, stays: ask again.
	for (1 .. 3)
	{
		$node->safe_psql($database,
			"SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache WHERE $which");
	}
	return;
}

# A running server whose clean pages are those of an older directory in the end: redo takes what it finds, for
# there are no page images, and nothing logs snapshots of running transactions. Its table "filler" has more
# pages than the tier has frames. In durable such a directory is refused (rollback.pl).
sub clean_pages_node
{
	my ($name) = @_;
	my $node = tier_node($name, mode => 'drained', flash => 4,
		conf => "wal_level = minimal\nmax_wal_senders = 0\nfull_page_writes = off\n");

	$node->start;
	create_extension($node);
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache; CREATE EXTENSION pageinspect');
	$node->safe_psql('postgres', q{CREATE TABLE filler AS SELECT repeat('x', 900) FROM generate_series(1, 8000)});
	$node->safe_psql('postgres', 'SELECT count(*) FROM filler');
	return $node;
}

# Looks at the first pages of a fork, or at all, as a whole, which sets no hint bits: they would be logged. So
# many other pages than the buffer pool has push those of the table out of it.
sub look_at
{
	my ($node, $table, $pages, $fork) = @_;
	$fork //= 'main';
	$pages //= "pg_relation_size('$table', '$fork') / 8192";
	$node->safe_psql('postgres', "SELECT count(get_raw_page('$table', '$fork', b::int)), count(CASE WHEN b % 16 = 0 THEN pg_sleep(0.005)::text END)
		FROM generate_series(0, $pages - 1) b");
	return;
}

# How many pages of a fork, by its number, are on flash as clean ones, and how many are in the tier besides.
sub frames_of
{
	my ($node, $table, $fork) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) FILTER (WHERE NOT isdirty AND NOT isstaged), count(*) FILTER (WHERE isdirty OR isstaged)
		FROM pg_mezzanine_frames WHERE relfilenode = pg_relation_filenode('$table') AND relforknumber = $fork");
}

# Stops a server as a crash does: shared memory is lost and nothing is written any more. It is not started
# again.
sub crash
{
	my ($node) = @_;
	$node->stop('immediate');
	return;
}

sub relation_path
{
	my ($node, $relation, $database) = @_;
	return $node->data_dir . '/'
	  . $node->safe_psql($database // 'postgres', "SELECT pg_relation_filepath('$relation')");
}

# The LSN of a block as it is in a file; '0/0' past its end.
sub file_lsn
{
	my ($path, $block) = @_;
	open my $file, '<:raw', $path or return '0/0';
	seek $file, $block * 8192, 0;
	my $read = read $file, my $bytes, 8;
	close $file;
	return '0/0' if $read != 8;
	my ($high, $low) = unpack 'LL', $bytes;
	return sprintf '%X/%X', $high, $low;
}

# The LSN of a block as the server sees it.
sub page_lsn
{
	my ($node, $relation, $block, $database) = @_;
	$database //= 'postgres';
	$node->safe_psql($database, 'CREATE EXTENSION IF NOT EXISTS pageinspect');
	return $node->safe_psql($database, "SELECT lsn FROM page_header(get_raw_page('$relation', $block))");
}

# Whether a block's file is older than the server's version.
sub is_stale
{
	my ($node, $relation, $block) = @_;
	my $shown = page_lsn($node, $relation, $block);
	return file_lsn(relation_path($node, $relation), $block) ne $shown;
}

# What CREATE EXTENSION would do, without anything being installed.
sub create_extension
{
	my ($node) = @_;
	my $script = slurp_file("$FindBin::RealBin/../mezzanine--1.0.sql");

	$script =~ s/^\\echo.*$//m;
	$script =~ s/MODULE_PATHNAME/mezzanine/g;
	$node->safe_psql('postgres', $script);
	return;
}

# Damages the sectors of a server's flash in which a text lies; a name says what is not text.
sub spoil
{
	my ($node, $text, $name) = @_;
	my $spoilt = 0;

	open my $flash, '+<:raw', flash_path($node) or die;
	local $/;
	my $bytes = <$flash>;
	for (my $at = index($bytes, $text); $at >= 0; $at = index($bytes, $text, $at + 1))
	{
		seek $flash, $at - $at % 512, 0;
		print $flash 'bad sector' x 51;
		$spoilt++;
	}
	close $flash or die;
	cmp_ok($spoilt, '>', 0, "flash has " . ($name // "\"$text\""));
	return;
}

# Damages every block of a server's flash behind the first MiB.
sub rot_everywhere
{
	my ($node) = @_;

	open my $flash, '+<:raw', flash_path($node) or die;
	for (my $offset = 1 << 20; $offset < -s $flash; $offset += 4096)
	{
		seek $flash, $offset, 0;
		print $flash 'rot' x 10;
	}
	close $flash or die;
	return;
}

# A table that tells whether every row is there once and in its newest version: count, sum of keys, sum of
# versions.
sub whole
{
	my ($node, $table, $database) = @_;
	return $node->safe_psql($database // 'postgres', "SELECT count(*), sum(id), sum(ver) FROM $table");
}

# Tries to start a server that must refuse, and returns what it logged.
sub start_fails
{
	my ($node, $name) = @_;
	my $from = -s $node->logfile // 0;
	my $started = $node->start(fail_ok => 1);

	ok(!$started, $name);
	$node->stop('immediate') if $started;
	return log_since($node, $from);
}

sub log_since
{
	my ($node, $from) = @_;
	return slurp_file($node->logfile, $from);
}

# Skips the test if a program outside of the server's own build is missing.
sub only_for
{
	my ($variable, $what) = @_;
	plan skip_all => "$variable does not name $what" unless $ENV{$variable};
	return $ENV{$variable};
}

1;
