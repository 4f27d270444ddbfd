# Blocks that are cut off a file are gone: rows, bits of the visibility map and of the free space map do not
# come back.
#
# Rules: drop_fork, checkpoint_sync
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use Test::More;

my $node = tier_node('truncate', mode => 'durable');
$node->start;
create_extension($node);
$node->safe_psql('postgres', <<'END');
CREATE EXTENSION pg_visibility;
CREATE EXTENSION amcheck;
CREATE TABLE t AS SELECT g AS id, 1 AS ver, repeat('x', 500) AS pad FROM generate_series(1, 6000) g;
CREATE INDEX t_id ON t (id);
VACUUM (FREEZE) t;
END
evict($node, 't');
$node->safe_psql('postgres', 'CHECKPOINT');
my $blocks = $node->safe_psql('postgres', "SELECT pg_relation_size('t') / 8192");

# VACUUM cuts off what lies behind the first third.
$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 2000');
$node->safe_psql('postgres', 'VACUUM t');
cmp_ok($node->safe_psql('postgres', "SELECT pg_relation_size('t') / 8192"), '<', $blocks / 2, 'the table was truncated');

sub right
{
	my ($when, $expected) = @_;

	is(whole($node, 't'), $expected, "$when: the rows are right");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_check_visible(\'t\')'), '0',
		"$when: the visibility map says of no page that has other rows that all see all");
	is($node->safe_psql('postgres', <<'END'), (split /\|/, $expected)[0], "$when: an index-only scan agrees");
SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM t WHERE id > 0;
END
	is($node->safe_psql('postgres', "SELECT count(*) FROM verify_heapam('t')"), '0', "$when: the heap is in order");
	return;
}

right('truncated', '2000|2001000|2000');
# What was cut off and is still in the tier would be written behind the end of the file.
is($node->safe_psql('postgres', 'SELECT mezzanine_drain() > 0; SELECT disk_writes_refused FROM pg_stat_mezzanine'), "t\n0",
	'truncated: nothing is left to be written behind the end');
crash($node);
$node->start;
right('truncated and crashed', '2000|2001000|2000');

# The same blocks again, with rows that are not visible to all.
$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 1000');
$node->safe_psql('postgres', 'VACUUM t');
evict($node);
$node->safe_psql('postgres', "INSERT INTO t SELECT g, 2, repeat('y', 500) FROM generate_series(10001, 14000) g");
evict($node);
right('grown again', '5000|48502500|9000');
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);
$node->start;
right('grown again and crashed', '5000|48502500|9000');

# TRUNCATE of a table of the same transaction cuts the file itself.
$node->safe_psql('postgres', <<'END');
BEGIN;
CREATE TABLE u AS SELECT g AS id, 1 AS ver, repeat('x', 500) AS pad FROM generate_series(1, 6000) g;
TRUNCATE u;
INSERT INTO u SELECT g, 2, 'z' FROM generate_series(1, 10) g;
COMMIT;
END
evict($node);
is(whole($node, 'u'), '10|55|20', 'a table that was truncated where it was created');
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);
$node->start;
is(whole($node, 'u'), '10|55|20', 'and after a crash');
$node->stop;
done_testing();
