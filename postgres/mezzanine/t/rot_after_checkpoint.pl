# A sector rots in the newest group of the tier, which the last checkpoint relied on, and the server crashes
# before anything follows that group. Recovery took it for one that the crash had torn, and left it out: all
# its pages were read from older files, without a word, and redo had nothing for them.
#
# The engine's rule is PromiseUncounted (crates/ffi/tests/relied.rs).
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('rot', mode => 'durable', flash => 32);

$node->start;
create_extension($node);
$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 3000) g');
evict($node);
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
$node->safe_psql('postgres', "CREATE TABLE v AS SELECT 'the only' || ' victim' AS a");
evict($node);
$node->safe_psql('postgres', 'CHECKPOINT');
evict($node);
spoil($node, 'the only victim');
crash($node);
$node->start;

my ($status, $out, $error) = $node->psql('postgres', 'SELECT * FROM v');
like($error, qr/the newest version of block 0 in file ".*" cannot be read from the flash tier/, 'the page is an error');
is(whole($node, 't'), '3000|4501500|3000', 'all others are there');
$node->stop('immediate');

done_testing();
