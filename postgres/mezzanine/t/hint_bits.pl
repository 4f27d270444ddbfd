# A hint bit says what became of a transaction by a record of the log that lies behind the page's own
# position. A copy of the directory from before that record is put back beside flash that has the page with
# its bits: nothing of this transaction must be seen.
#
# Rules: log_flushed, log_end
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

for my $mode (qw(durable drained))
{
	my $node = tier_node("hints_$mode", mode => $mode, conf => "shared_buffers = 4MB\n");
	my $data = $node->data_dir;
	my $copy = $node->basedir . '/copy';
	# With checksums a hint is logged with its page, if redo has none of that yet.
	system_or_bail('pg_checksums', '--disable', '-D', $data);
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 3000) g');
	$node->safe_psql('postgres', 'VACUUM t');
	evict($node);

	# The changes lie before the redo point: redo has no page of them.
	my $session = $node->background_psql('postgres');
	# Rows of which no page is pruned later, which would move its position.
	$session->query_safe($_) for 'BEGIN', 'INSERT INTO t SELECT g, 2 FROM generate_series(3001, 30000) g';
	evict($node, 't');
	$node->safe_psql('postgres', 'CHECKPOINT');
	system_or_bail('cp', '-a', $data, $copy);
	$session->query_safe('COMMIT');
	$session->quit;
	is(whole($node, 't'), '30000|450015000|57000', "$mode: the newest rows");
	evict($node, 't');
	crash($node);

	exchange($node, $copy);
	if ($mode eq 'durable')
	{
		my $from = -s $node->logfile;
		my $started = $node->start(fail_ok => 1);
		ok(!$started, 'an older directory does not start with newer hint bits');
		is(whole($node, 't'), '3000|4501500|3000', 'or has the rows of its moment') if $started;
		like(log_since($node, $from), qr/the data directory is the older one, for the tier has pages from behind the end of its log/, 'it says why');
		$node->stop if $started;
		exchange($node, $copy);
		$node->start;
		is(whole($node, 't'), '30000|450015000|57000', 'the newest directory goes on');
		$node->stop;
		next;
	}
	$node->start;
	is(whole($node, 't'), '3000|4501500|3000', 'the rows are those of the moment of the copy');
	$node->safe_psql('postgres', 'UPDATE t SET ver = 5');
	evict($node, 't');
	crash($node);
	$node->start;
	is(whole($node, 't'), '3000|4501500|15000', 'and it goes on');
	$node->stop;
}
done_testing();
