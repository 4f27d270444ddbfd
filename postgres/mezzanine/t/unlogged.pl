# Unlogged relations, init forks and temporary tables never enter the tier: after a crash the first are copied
# from the second, as files.
#
# Kept by the core (BufferTierMayHold).
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use Test::More;

for my $mode (qw(durable drained))
{
	my $node = tier_node("unlogged_$mode", mode => $mode);
	$node->start;
	$node->safe_psql('postgres', <<'END');
CREATE UNLOGGED TABLE u (id int, words int[]);
CREATE INDEX u_words ON u USING gin (words);
CREATE INDEX u_id ON u (id);
CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 1000) g;
INSERT INTO u SELECT g, ARRAY[g % 10, g % 7] FROM generate_series(1, 5000) g;
END
	evict($node);
	is($node->safe_psql('postgres', 'SELECT count(*) FROM u WHERE words @> ARRAY[3]'),
		$node->safe_psql('postgres', 'SELECT count(*) FROM u WHERE 3 = ANY (words)'), "$mode: index and table agree");
	$node->safe_psql('postgres', 'CHECKPOINT');
	is(page_lsn($node, 'u', 0), file_lsn(relation_path($node, 'u'), 0), "$mode: an unlogged page goes to its file");

	# Temporary tables live in memory of their own; more than fits spills to files, past the tier.
	is($node->safe_psql('postgres', <<'END'), "20000\n20000", "$mode: temporary tables");
SET temp_buffers = '800kB';
CREATE TEMPORARY TABLE p AS SELECT g AS id, repeat('x', 200) AS pad FROM generate_series(1, 20000) g;
SELECT count(*) FROM p;
UPDATE p SET id = id + 1;
SELECT count(DISTINCT id) FROM p;
END

	for my $round (1 .. 2)
	{
		crash($node);
		$node->start;
		is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), '0', "$mode: an unlogged table is empty after a crash");
		# This waits for ever, or fails, if the index was copied from an init fork that is not all there.
		my ($code, $out, $err) = $node->psql('postgres', <<'END', timeout => 60);
INSERT INTO u SELECT g, ARRAY[g % 10, g % 7] FROM generate_series(1, 3000) g;
END
		is($err, '', "$mode: rows are inserted into its indexes");
		is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM u WHERE words @> ARRAY[3]'),
			'686', "$mode: and found by the index");
		evict($node);
		is(whole($node, 't'), '1000|500500|1000', "$mode: a permanent table is whole");
	}
	$node->stop;
	$node->start;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), '3000', "$mode: a shutdown keeps unlogged tables");
	$node->stop;
}
done_testing();
