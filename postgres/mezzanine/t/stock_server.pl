# A server that knows nothing of the tier refuses a data directory that lacks pages, and takes one that was
# shut down.
#
# Rules: control_mark, shutdown_drain
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $stock = only_for('MEZZ_STOCK_BIN', 'the programs of an unpatched PostgreSQL');
my $node = tier_node('stock', mode => 'durable');
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
evict($node, 't');
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);

my $data = $node->data_dir;
my ($out, $err);
sub refused
{
	my ($program, @arguments) = @_;
	ok(!IPC::Run::run([ "$stock/$program", @arguments ], '<', \'', '>', \$out, '2>', \$err), "stock $program refuses")
	  or diag("$out$err");
	return "$out$err";
}

# Its own settings name a library that it does not have; without them it would start.
without_tier($node);
like(refused('postgres', '--single', '-D', $data, 'postgres'), qr/database files are incompatible with server/, 'it says so');
refused('pg_checksums', '--check', '-D', $data);
like(refused('pg_resetwal', '-D', $data), qr/broken or wrong version/, 'it does without force');

add_tier($node);
$node->start;
is(whole($node, 't'), '5000|12502500|5000', 'the patched server has everything');
$node->safe_psql('postgres', 'UPDATE t SET ver = 2');
$node->stop;

without_tier($node);
ok(IPC::Run::run([ "$stock/pg_checksums", '--check', '-D', $data ], '>', \$out, '2>', \$err),
	'stock pg_checksums finds all checksums right')
  or diag("$out$err");
ok(IPC::Run::run([ "$stock/postgres", '--single', '-D', $data, 'postgres' ], '<', \"SELECT sum(ver) FROM t;\n", '>', \$out, '2>', \$err),
	'a stock server starts after a shutdown');
like($out, qr/sum = "10000"/, 'and has everything');
done_testing();
