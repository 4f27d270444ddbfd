# Pages of maps of visibility and of free space are lost while the server runs: they count as empty, as
# damaged ones do without a tier, and the table is readable and writable. What counts as empty is not taken
# for what the page had: it stays lost until VACUUM writes it anew.
#
# Rules: lost_map
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('maps', mode => 'durable', flash => 64);
$node->start;
create_extension($node);
$node->safe_psql('postgres', 'CREATE EXTENSION pageinspect; CREATE EXTENSION pg_visibility');
$node->safe_psql('postgres', 'CREATE TABLE m AS SELECT g AS id FROM generate_series(1, 5000) g');
$node->safe_psql('postgres', 'DELETE FROM m WHERE id % 3 = 0; VACUUM (FREEZE) m');
evict($node);
$node->safe_psql('postgres', 'CHECKPOINT');

# What no other page begins with.
sub header
{
	my ($fork) = @_;
	return pack 'H*', $node->safe_psql('postgres', "SELECT encode(substr(get_raw_page('m', '$fork', 0), 1, 24), 'hex')");
}

sub lost
{
	return $node->safe_psql('postgres', 'SELECT lost_pages FROM pg_stat_mezzanine');
}

my ($visibility, $space) = (header('vm'), header('fsm'));
evict($node);
# What comes after them has them go from memory to flash.
$node->safe_psql('postgres', 'CREATE TABLE others AS SELECT g, repeat($$o$$, 500) AS o FROM generate_series(1, 10000) g');
evict($node);
spoil($node, $visibility, 'the map of visibility');
spoil($node, $space, 'the map of free space');

my ($status, $out, $error) = $node->psql('postgres', q(SELECT get_raw_page('m', 'vm', 0)));
like($error, qr/ERROR:  invalid page in block 0 of relation/, 'who asks for the page itself gets an error');
my $from = -s $node->logfile;
is($node->safe_psql('postgres', q(SELECT all_visible FROM pg_visibility_map_summary('m'))), '0', 'the map of visibility counts as empty');
like(log_since($node, $from), qr/WARNING:  invalid page in block 0 of relation .*_vm; zeroing out page/, 'the core warns');
like(log_since($node, $from), qr/LOG:  the newest version of block 0 in file ".*_vm" cannot be read from the flash tier/, 'and the tier says why');
# An empty map that was only read has left shared buffers, and is in nobody's way.
evict($node, 'others');
evict($node);
($status, $out, $error) = $node->psql('postgres', q(SELECT get_raw_page('m', 'vm', 0)));
like($error, qr/ERROR:  invalid page in block 0 of relation/, 'what counts as empty has not come into the tier');

for my $query ('DELETE FROM m WHERE id = 1', 'INSERT INTO m SELECT generate_series(10001, 20000)', 'SELECT count(*) FROM m', 'VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) m')
{
	($status, $out, $error) = $node->psql('postgres', $query);
	is($status, 0, "$query: goes on; $error");
}
is($node->psql('postgres', q(SELECT get_raw_page('m', 'vm', 0), get_raw_page('m', 'fsm', 0))), 0, 'VACUUM has written them anew');
evict($node);
crash($node);
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM m'), 3333 + 10000, 'all rows are there');
is($node->safe_psql('postgres', q(SELECT count(*) FROM pg_check_visible('m'))), '0', 'and the map says what is so');
is(lost(), '0', 'nothing is lost any more');
$node->stop;
done_testing();
