# What offline tools do to the files of a server that was shut down is what the server sees when it starts
# again.
#
# Rules: checksum_version
use strict;
use warnings FATAL => 'all';

use Mezzanine;
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
done_testing();
