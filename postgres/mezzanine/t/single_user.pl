# A single-user server has no worker: it recovers the tier, carries out its jobs itself, and leaves it in
# order.
#
# Rules: shutdown_drain
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

for my $mode (qw(durable drained through))
{
	my $node = tier_node("single_$mode", mode => $mode, flash => 4);
	$node->start;
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 50000) g');
	$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
	crash($node);

	my ($out, $err);
	my $statements = "UPDATE t SET ver = ver + 1;\nCHECKPOINT;\nSELECT sum(ver) FROM t;\n";
	ok(IPC::Run::run([ 'postgres', '--single', '-D', $node->data_dir, 'postgres' ],
			'<', \$statements, '>', \$out, '2>', \$err, IPC::Run::timeout(120)), "$mode: a single-user server runs")
	  or diag($err);
	like($out, qr/sum = "100000"/, "$mode: it sees what was there and what it has changed");
	like($err, qr/flash tier closed; the files are up to date/, "$mode: it closes the tier");
	unlink flash_path($node);
	$node->start;
	is(whole($node, 't'), '50000|1250025000|100000', "$mode: the files have everything");
	$node->stop;
}
done_testing();
