# What offline tools do to the files of a server that was shut down is what the server sees when it starts
# again.
#
# Rules: checksum_version
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('offline', mode => 'durable');
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
my $ver = 5000;

for my $round (1 .. 2)
{
	# Without checksums the pages in the tier have none.
	evict($node, 't');
	whole($node, 't');
	evict($node, 't');
	$node->stop;
	command_ok([ 'pg_checksums', '--disable', '-D', $node->data_dir ], "round $round: checksums are disabled");
	$node->start;
	is(whole($node, 't'), "5000|12502500|$ver", "round $round: read without checksums");
	$node->safe_psql('postgres', 'UPDATE t SET ver = ver + 1');
	$ver += 5000;
	evict($node, 't');
	$node->stop;
	command_ok([ 'pg_checksums', '--enable', '-D', $node->data_dir ], "round $round: and enabled");
	$node->start;
	is(whole($node, 't'), "5000|12502500|$ver", "round $round: read with checksums");
	$node->safe_psql('postgres', 'UPDATE t SET ver = ver + 1');
	$ver += 5000;
}

# pg_resetwal moves the redo pointer: what the tier has may not be believed, and is on disk.
$node->stop;
command_ok([ 'pg_resetwal', '-D', $node->data_dir ], 'the log is reset');
my $from = -s $node->logfile;
$node->start;
like(log_since($node, $from), qr/flash tier emptied/, 'the tier is emptied');
is(whole($node, 't'), "5000|12502500|$ver", 'and nothing is missing');

# Not after a crash.
$node->safe_psql('postgres', 'UPDATE t SET ver = ver + 1');
evict($node, 't');
crash($node);
command_fails([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'pg_checksums refuses after a crash');
command_fails([ 'pg_resetwal', '-D', $node->data_dir ], 'so does pg_resetwal');
$node->start;
is(whole($node, 't'), '5000|12502500|' . ($ver + 5000), 'and nothing has happened');

# A cold backup of an earlier shutdown is put back: the tier is of a later one.
$node->stop;
my $data = $node->data_dir;
system_or_bail('cp', '-a', $data, "$data.cold");
$node->start;
$node->safe_psql('postgres', 'UPDATE t SET ver = 0');
evict($node, 't');
$node->stop;
system_or_bail('mv', $data, "$data.later");
system_or_bail('mv', "$data.cold", $data);
$from = -s $node->logfile;
$node->start;
like(log_since($node, $from), qr/flash tier emptied/, 'an earlier state of the data directory: the tier is emptied');
is(whole($node, 't'), '5000|12502500|' . ($ver + 5000), 'and the rows are those of that state');

# The same where pages are missing from the files: refused either way.
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', 'UPDATE t SET ver = 7');
evict($node, 't');
crash($node);
system_or_bail('cp', '-a', $data, "$data.cold");
$node->start;
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);
system_or_bail('mv', $data, "$data.newer");
system_or_bail('mv', "$data.cold", $data);
like(start_fails($node, 'an older copy of a data directory that lacks pages is refused'),
	qr/are not of the same moment/, 'it says why');
system_or_bail('rm', '-rf', $data);
system_or_bail('mv', "$data.newer", $data);
$node->start;
is(whole($node, 't'), '5000|12502500|35000', 'the right one is whole');
$node->stop;

# pg_checksums writes no page whose checksum is right already, and so leaves the file as it was: only that the
# tier is of the other kind says that what it has of that file cannot be used. Such a page in the tier is not
# the one in the file: a standby sets hint bits that it does not write, and which without checksums leave the
# page's old one wrong.
my $primary = tier_node('primary', init => { allows_streaming => 1 });
without_tier($primary);
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
# The standby's start redoes nothing of it.
$primary->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "wal_log_hints = on\n");
$standby->start;
$primary->wait_for_catchup($standby);
my $path = relation_path($standby, 't');
$standby->stop;
command_ok([ 'pg_checksums', '--disable', '-D', $standby->data_dir ], 'checksums of a standby are disabled');
# A tier that had these pages before would keep them as they were.
add_tier($standby);
my $before = slurp_file($path);
$standby->start;
$primary->wait_for_catchup($standby);
for (1 .. 2)
{
	is(whole($standby, 't'), '5000|12502500|5000', 'hint bits are set, and the pages come from the tier');
	$standby->safe_psql('postgres', 'SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache') for 1 .. 2;
}
$standby->stop;
my $changed = (stat $path)[10];
command_ok([ 'pg_checksums', '--enable', '-D', $standby->data_dir ], 'and enabled');
ok(slurp_file($path) eq $before && (stat $path)[10] == $changed, "nobody has written the table's file");
$standby->start;
my ($status, $out, $error) = $standby->psql('postgres', 'SELECT count(*), sum(id), sum(ver) FROM t');
is($out, '5000|12502500|5000', "the table is read with checksums; got '$error'");
$standby->stop;
$primary->stop;
done_testing();
