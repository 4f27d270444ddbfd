# At the end of redo a file cannot be given the length that the tier's pages reach, because its disk is full,
# or because it is not there: it is given that when the reason has passed, while the server runs.
#
# Rules: lengths_again
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = only_for('MEZZ_FAULTS_LIBRARY', 'the library that has calls fail');

for my $reason ('a full disk', 'a missing file')
{
	my $name = $reason =~ s/\W/_/gr;
	# Every page of these tables is newer in the tier than on disk: before that everything stays in shared
	# buffers.
	my $node = tier_node($name, mode => 'durable', flash => 8, conf => "mezzanine.drain_on_shutdown = off\nshared_buffers = 64MB\n");
	my $faults = $node->basedir . '/faults';
	append_to_file($faults, '');
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{MEZZ_FAULTS} = $faults;
	$node->start;
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 20000) g');
	$node->safe_psql('postgres', 'CREATE TABLE dropped AS SELECT * FROM t');
	$node->safe_psql('postgres', "UPDATE $_ SET ver = 1") for qw(t dropped);
	my $path = relation_path($node, 't');
	my $dropped = relation_path($node, 'dropped');
	# Reading them sets hint bits, which are logged; redo is to have nothing for these files.
	whole($node, 'dropped');
	my $all = whole($node, 't');
	my $length = -s $path;
	evict($node);
	$node->safe_psql('postgres', 'CHECKPOINT');
	crash($node);
	# Shorter than it was, as a power cut may leave it.
	for ($path, $dropped)
	{
		truncate $_, 8192 or die "$_: $!";
	}
	my @hidden = $reason eq 'a missing file' ? ($path, $dropped) : ();
	rename $_, "$_.away" or die "$_: $!" for @hidden;
	append_to_file($faults, "full $_\n") for @hidden ? () : ($path, $dropped);

	my $from = -s $node->logfile;
	$node->start;
	my $log = log_since($node, $from);
	like($log, @hidden ? qr/WARNING:  the flash tier has pages of file ".*", which does not exist/ : qr/ERROR:  could not .*No space left/,
		"$reason: the log says so");
	sleep 2;
	cmp_ok(-s $path // 0, '<=', 8192, "$reason: the file has not got its length");
	# Others go on, and one of the files is not needed any more.
	$node->safe_psql('postgres', 'DROP TABLE dropped');
	$node->safe_psql('postgres', 'CREATE TABLE other AS SELECT g AS id, 1 AS ver FROM generate_series(1, 1000) g');
	$from = -s $node->logfile;
	unlink $faults;
	append_to_file($faults, '');
	rename "$path.away", $path or die "$path: $!" for grep { $_ eq $path } @hidden;
	ok($node->poll_query_until('postgres', 'SELECT count(*), sum(id), sum(ver) FROM t', $all), "$reason: when that has passed, all rows are there");
	is(-s $path, $length, "$reason: and the file has its length");
	$node->safe_psql('postgres', 'INSERT INTO t SELECT g, 1 FROM generate_series(20001, 21000) g');
	is(whole($node, 't'), '21000|220510500|21000', "$reason: it grows from there");
	is(whole($node, 'other'), '1000|500500|1000', "$reason: others");
	ok(!-s $dropped, "$reason: what was dropped meanwhile is not made again");
	$node->append_conf('postgresql.conf', "mezzanine.drain_on_shutdown = on\n");
	$node->stop;
	$node->start;
	is(whole($node, 't'), '21000|220510500|21000', "$reason: after a stop as well");
	$node->stop;
	unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, "$reason: nobody has ended");
}
done_testing();
