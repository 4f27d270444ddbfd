# A checkpoint counts what is only in the tier's memory as unwritten: after a crash the log before it is not
# replayed.
#
# Rules: checkpoint_sync, through
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use Test::More;

for my $mode (qw(durable drained through))
{
	my $node = tier_node("checkpoint_$mode", mode => $mode);
	$node->start;
	$node->safe_psql('postgres',
		'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 3000) g');
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
	evict($node, 't');
	ok(is_stale($node, 't', 0), "$mode: the file is older than the tier")
	  if $mode eq 'durable';
	$node->safe_psql('postgres', 'CHECKPOINT');
	crash($node);
	$node->start;
	is(whole($node, 't'), '3000|4501500|3000', "$mode: what the checkpoint covered is there");

	# Pages that the checkpoint itself writes, not a victim's.
	$node->safe_psql('postgres', 'UPDATE t SET ver = 2 WHERE id % 10 = 0');
	$node->safe_psql('postgres', 'CHECKPOINT');
	crash($node);
	$node->start;
	is(whole($node, 't'), '3000|4501500|3300', "$mode: and what the checkpoint itself wrote");
	$node->stop;
}
done_testing();
