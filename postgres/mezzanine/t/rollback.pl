# A data directory or a flash device of an earlier moment is put back: of another session, or of the same one
# with a checkpoint in between or without. Where flash may have the only copies the server refuses; else the
# tier is emptied, and every row is right. Older flash of the same session and redo point is used: the log has
# the rest.
#
# Kept by crates/ffi: session.rs, sync_mark.rs and startup.rs.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $apart = qr/the flash tier on ".*" and the data directory are not of the same moment/;

# Puts a copy of a file or directory in its place.
sub copy
{
	my ($from, $to) = @_;
	system_or_bail('rm', '-rf', $to);
	system_or_bail('cp', '-a', $from, $to);
	return;
}

# A server of which each page of a table is in its tier, stopped in order; its redo point stays what it is
# until the next checkpoint.
sub stopped_node
{
	my ($name, $mode) = @_;
	my $node = tier_node($name, mode => $mode);
	$node->start;
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
	$node->safe_psql('postgres', 'CHECKPOINT');
	update($node, 1);
	$node->stop;
	return $node;
}

sub update
{
	my ($node, $ver) = @_;
	$node->safe_psql('postgres', "UPDATE t SET ver = $ver");
	evict($node, 't');
	return;
}

# A session in which the table is changed, and which ends in a crash.
sub session
{
	my ($node, $ver) = @_;
	$node->start;
	update($node, $ver);
	crash($node);
	return;
}

# What a start has to come to with parts that do not belong together: a refusal for this reason, or an empty
# tier and these rows.
sub comes_apart
{
	my ($node, $mode, $why, $ver, $name) = @_;
	if ($mode eq 'durable')
	{
		my $log = start_fails($node, "$mode: $name is refused");
		like($log, $apart, "$mode: $name: it says so");
		like($log, $why, "$mode: $name: it says which is older");
		like($log, qr/Put both back from the same moment/, "$mode: $name: it says what to do");
		return;
	}
	my $from = -s $node->logfile;
	$node->start;
	my $log = log_since($node, $from);
	like($log, qr/flash tier emptied/, "$mode: $name: the tier is emptied");
	like($log, $why, "$mode: $name: it says why");
	is(whole($node, 't'), '5000|12502500|' . 5000 * $ver, "$mode: $name: every row is right");
	$node->stop;
	command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], "$mode: $name: every checksum is right");
	return;
}

for my $mode (qw(durable drained through))
{
	# A cold copy of the directory beside newer flash.
	my $node = stopped_node("cold_$mode", $mode);
	my $data = $node->data_dir;
	my $flash = flash_path($node);
	my $aside = $node->basedir;
	copy($data, "$aside/older");
	copy($flash, "$aside/older_flash");
	session($node, 2);
	copy($data, "$aside/newest");
	copy($flash, "$aside/newest_flash");
	copy("$aside/older", $data);
	comes_apart($node, $mode, qr/the data directory is the older one, for the tier was used in a later session/, 1, 'an older directory');

	# Older flash, of another session, beside the newest directory.
	copy("$aside/newest", $data);
	copy("$aside/older_flash", $flash);
	comes_apart($node, $mode, qr/the tier is the older one, or was used with another copy of the data directory/, 2, 'older flash');

	# All of one moment goes on.
	copy("$aside/newest", $data);
	copy("$aside/newest_flash", $flash);
	my $from = -s $node->logfile;
	$node->start;
	is(whole($node, 't'), '5000|12502500|10000', "$mode: the newest of both has every row");
	like(log_since($node, $from), qr/flash tier adopted/, "$mode: and its tier") if $mode ne 'through';
	$node->stop;
	copy("$aside/older", $data);
	copy("$aside/older_flash", $flash);
	$node->start;
	is(whole($node, 't'), '5000|12502500|5000', "$mode: so does the older of both");
	$node->stop;

	# Two clones, both used as often, have exchanged their flash.
	my $one = stopped_node("one_$mode", $mode);
	$one->backup_fs_cold('copy');
	my $other = PostgreSQL::Test::Cluster->new("other_$mode");
	$other->init_from_backup($one, 'copy');
	my @flash = (flash_path($one), flash_path($other));
	copy($flash[0], $flash[1]);
	$other->append_conf('postgresql.conf', "mezzanine.flash_path = '$flash[1]'");
	session($one, 2);
	session($other, 3);
	copy($flash[0], "$aside/one_flash");
	copy($flash[1], $flash[0]);
	copy("$aside/one_flash", $flash[1]);
	comes_apart($one, $mode, qr/each was used in a session of the server that the other does not know/, 2, 'the flash of a clone');
	# Its files are copies, so its tier was emptied at the first start, which counts as one session more.
	comes_apart($other, $mode, qr/the tier is the older one, or was used with another copy of the data directory/, 3, 'the flash of its original');
}

# Copies of one session of a server that runs and rests, so that each is as good as an atomic snapshot.
for my $mode (qw(durable drained through))
{
	my $node = tier_node("session_$mode", mode => $mode);
	my $data = $node->data_dir;
	my $flash = flash_path($node);
	my $aside = $node->basedir;
	my $snapshot = sub {
		my ($name) = @_;
		copy($data, "$aside/$name");
		copy($flash, "$aside/${name}_flash");
		unlink "$aside/$name/postmaster.pid";
	};
	my $put = sub {
		my ($directory, $device) = @_;
		copy("$aside/$directory", $data);
		copy("$aside/${device}_flash", $flash);
	};

	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
	$node->safe_psql('postgres', 'CHECKPOINT');
	update($node, 1);
	$snapshot->('first');
	update($node, 2);
	$snapshot->('second');
	$node->safe_psql('postgres', 'CHECKPOINT');
	update($node, 3);
	$snapshot->('third');
	crash($node);

	# A checkpoint lies between them.
	my $apart_by_redo = qr/redo begins at [0-9A-F\/]+ on timeline 1, and the tier was last used at [0-9A-F\/]+ on timeline 1/;
	for my $older (qw(first second))
	{
		my $ver = $older eq 'first' ? 1 : 2;
		$put->($older, 'third');
		comes_apart($node, $mode, $apart_by_redo, $ver, "the directory of the $older moment");
		$put->('third', $older);
		comes_apart($node, $mode, $apart_by_redo, 3, "the flash of the $older moment");
	}
	# None does, and the flash is the older one.
	$put->('second', 'first');
	my $from = -s $node->logfile;
	$node->start;
	like(log_since($node, $from), qr/flash tier adopted/, "$mode: older flash of the same redo point is used") if $mode ne 'through';
	is(whole($node, 't'), '5000|12502500|10000', "$mode: and the log has the rest");
	$node->safe_psql('postgres', 'CHECKPOINT');
	evict($node, 't');
	is(whole($node, 't'), '5000|12502500|10000', "$mode: so has the tier then");
	$node->stop;
	command_ok([ 'pg_checksums', '--check', '-D', $data ], "$mode: every checksum is right");
	# All of one moment is used whole.
	for my $moment (['first', 1], ['second', 2], ['third', 3])
	{
		$put->($moment->[0], $moment->[0]);
		$node->start;
		is(whole($node, 't'), '5000|12502500|' . 5000 * $moment->[1], "$mode: the $moment->[0] moment of both has every row");
		crash($node);
	}
}

# A copy of the directory of a running server, put back when pages have left the tier for disk: the log has
# nothing of them.
my $node = tier_node('running', mode => 'durable', flash => 8);
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
$node->safe_psql('postgres', 'CREATE TABLE more AS SELECT g AS id, repeat(\'x\', 500) AS filler FROM generate_series(1, 1000) g');
update($node, 1);
$node->safe_psql('postgres', 'CHECKPOINT');
copy($node->data_dir, $node->basedir . '/older');
unlink $node->basedir . '/older/postmaster.pid';
my $before = $node->safe_psql('postgres', "SELECT redo_lsn FROM pg_control_checkpoint()");
$node->safe_psql('postgres', 'INSERT INTO more SELECT g, repeat(\'y\', 500) FROM generate_series(1, 30000) g');
evict($node);
is($node->safe_psql('postgres', "SELECT redo_lsn FROM pg_control_checkpoint()"), $before, 'there was no checkpoint');
crash($node);
copy($node->data_dir, $node->basedir . '/newest');
copy($node->basedir . '/older', $node->data_dir);
my $log = start_fails($node, 'a copy of a running directory is refused');
like($log, $apart, 'it says so');
like($log, qr/the data directory is the older one, for the disk was synced [1-9][0-9]* times since then/, 'it says which is older');
copy($node->basedir . '/newest', $node->data_dir);
$node->start;
is(whole($node, 't'), '5000|12502500|5000', 'the newest has every row');
$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'and every checksum is right');
done_testing();
