# A block that is written past the tier is forgotten there. With admission of clean pages only, every dirty
# page goes past it.
#
# Rules: overwrite
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use Test::More;

my $node = tier_node('overwrite', mode => 'durable', conf => "mezzanine.admission = clean\n");
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 3000) g');
for my $round (1 .. 3)
{
	# Written past the tier; then read, and clean when it leaves.
	evict($node, 't');
	is(whole($node, 't'), '3000|4501500|' . 3000 * ($round - 1), "round $round: as written");
	evict($node, 't');
	$node->safe_psql('postgres', 'UPDATE t SET ver = ver + 1');
	$node->safe_psql('postgres', 'VACUUM t');
}
evict($node, 't');
is(whole($node, 't'), '3000|4501500|9000', 'the newest version');
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);
$node->start;
is(whole($node, 't'), '3000|4501500|9000', 'after a crash');
$node->stop;
done_testing();
