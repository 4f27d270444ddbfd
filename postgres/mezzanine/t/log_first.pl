# No page reaches the tier before its log reaches the disk: after a crash no page is newer than the end of the
# log.
#
# Kept by the core (FlushBuffer() calls the tier after XLogFlush()).
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use Test::More;

for my $mode (qw(durable drained through))
{
	# Nobody but who evicts a page has a reason to flush the log.
	my $node = tier_node("log_$mode", mode => $mode, conf => <<'END');
synchronous_commit = off
wal_writer_delay = 10s
wal_writer_flush_after = 0
wal_buffers = 16MB
full_page_writes = off
END
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION pageinspect; CREATE EXTENSION pg_buffercache');
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 20000) g');
	$node->safe_psql('postgres', 'CHECKPOINT');
	for my $round (1 .. 3)
	{
		# One session, killed with the rest of the server before its log is written.
		my $session = $node->background_psql('postgres');
		$session->query_safe('BEGIN');
		$session->query_safe('UPDATE t SET ver = ver + 1 WHERE id % 4 = 0');
		$session->query_safe('SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache');
		# Whatever was in the tier's memory is written with the checkpoint's flush; this crash comes without one.
		crash($node);
		$session->{run}->finish;
		$node->start;
		is($node->safe_psql('postgres', <<'END'), '0', "$mode, round $round: no page is from after the end of the log");
SELECT count(*) FROM generate_series(0, pg_relation_size('t') / 8192 - 1) b
 WHERE (page_header(get_raw_page('t', b::int))).lsn > pg_current_wal_insert_lsn()
END
		is(whole($node, 't'), '20000|200010000|0', "$mode, round $round: and no row is lost");
	}
	$node->stop;
}
done_testing();
