# The log has that a relation is dropped, and redo does not come there: a standby waits, as one does with
# recovery_min_apply_delay, or its recovery ends before. What the relation lies on is not mounted while redo
# needs room in the tier: stage-out keeps its pages, as those of a file that nobody drops, and once it is
# mounted every row is there in its newest version.
#
# Rules: drops_redone
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my %conf = (
	waits => "recovery_min_apply_delay = '1h'\n",
	ends => "recovery_target_name = 'before'\nrecovery_target_action = 'promote'\n");

for my $name (qw(waits ends))
{
	# Until redo has to fit into the tier everything else stays in shared buffers.
	my $primary = tier_node("primary_$name", init => { allows_streaming => 1 },
		conf => "max_wal_size = 4GB\nshared_buffers = 64MB\nallow_in_place_tablespaces = on\n");
	without_tier($primary);
	$primary->start;
	$primary->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
	$primary->safe_psql('postgres', "CREATE TABLESPACE s LOCATION ''");
	# Fewer pages than half of the standby's tier, so that clients find room while they stay.
	$primary->safe_psql('postgres',
		'CREATE TABLE t (id int, ver int, filler text) WITH (fillfactor = 50) TABLESPACE s');
	$primary->safe_psql('postgres',
		"INSERT INTO t SELECT g, 0, repeat('x', 900) FROM generate_series(1, 400) g");
	my $standby = tier_standby($primary, "standby_$name", flash => 4);
	# Of every page. Reading them all sets hint bits, which are logged, too.
	$primary->safe_psql('postgres', 'UPDATE t SET ver = 1 WHERE id % 4 = 0');
	whole($primary, 't');
	$primary->safe_psql('postgres', 'CHECKPOINT');
	$primary->wait_for_catchup($standby);
	my $all = whole($standby, 't');
	is($all, '400|80200|100', "$name: the newest rows");
	evict_there($standby, 't');
	# They are from before the redo point now, and no file has them.
	$standby->safe_psql('postgres', 'CHECKPOINT');
	my $path = relation_path($standby, 't');
	# More than the tier holds; a page of the last table that leaves moves minRecoveryPoint behind all of it.
	$primary->safe_psql('postgres', 'CREATE TABLE big (id int, ver int)');
	$primary->safe_psql('postgres', 'INSERT INTO big SELECT g, 1 FROM generate_series(1, 300000) g');
	$primary->safe_psql('postgres', 'CREATE TABLE last AS SELECT 1 AS id');
	$primary->wait_for_catchup($standby);
	evict_there($standby, 'last');
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
	$standby->poll_query_until('postgres', "SELECT pg_get_wal_replay_pause_state() = 'paused'")
		or die 'it does not pause';
	# The standby will wait at the end of this, before the table is locked by who drops it.
	$primary->safe_psql('postgres', 'CREATE TABLE later AS SELECT 1 AS id');
	$primary->safe_psql('postgres', "SELECT pg_create_restore_point('before')");
	$primary->safe_psql('postgres', 'DROP TABLE t');
	$primary->wait_for_catchup($standby, 'flush');
	crash($standby);

	my ($space) = $path =~ m{^(.*/pg_tblspc/\d+)/};
	rename $space, "$space.device" or die "$space: $!";
	mkdir $space or die "$space: $!";
	$standby->append_conf('postgresql.conf', "shared_buffers = 1MB\n$conf{$name}");
	my $from = -s $standby->logfile;
	$standby->start;
	if ($name eq 'ends')
	{
		$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'it is not promoted';
	}
	like(log_since($standby, $from), qr/LOG:  could not open file "pg_tblspc.*": No such file or directory/,
		"$name: redo had the tier write its pages");
	my ($status, $out, $error) = $standby->psql('postgres', 'SELECT count(*), sum(id), sum(ver) FROM t');
	isnt($status, 0, "$name: the table cannot be read; got '$out'");
	like($error, qr/could not open file/, "$name: as without a tier");
	ok(!-e $path, "$name: no file was made in its place");
	is(whole($standby, 'big'), '300000|45000150000|300000', "$name: redo has gone on");
	crash($standby);

	system_or_bail('rm', '-r', $space);
	rename "$space.device", $space or die "$space: $!";
	$standby->start;
	is(whole($standby, 't'), $all, "$name: mounted again, it has all rows in their newest version");
	if ($name eq 'waits')
	{
		$standby->append_conf('postgresql.conf', "recovery_min_apply_delay = 0\n");
		$standby->reload;
		$primary->wait_for_catchup($standby);
		is($standby->safe_psql('postgres', "SELECT to_regclass('t') IS NULL"), 't', "$name: and goes on to the drop");
	}
	else
	{
		$standby->safe_psql('postgres', 'UPDATE t SET ver = ver + 1');
		is(whole($standby, 't'), '400|80200|500', "$name: and is written to");
	}
	$standby->stop;
	$primary->stop;
}

sub evict_there
{
	my ($standby, $relation) = @_;
	$standby->safe_psql('postgres', "SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache
		WHERE relfilenode = pg_relation_filenode('$relation')") for 1 .. 2;
	return;
}
done_testing();
