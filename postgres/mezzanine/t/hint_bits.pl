# Without data checksums the core writes shared buffers as they are, and others set hint bits in them
# meanwhile. The tier has a checksum of its own, so what it takes is a copy of one moment of the page: that of
# the call.
#
# A session writes a page and waits just after that moment, while another one reads the page for the first
# time. In "through" the same bytes go to the file.
#
# Rules: write_copy
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Flag of a tuple, and where its flags are in it.
use constant HEAP_XMIN_COMMITTED => 0x0100;
use constant INFOMASK_AT => 20;

# The cluster that the others are copied from has checksums.
my $node = tier_node('hints', mode => 'through', flash => 4, init => { force_initdb => 1 });
$node->append_conf('postgresql.conf', "shared_buffers = 32MB\n");
$node->start;
is($node->safe_psql('postgres', 'SHOW data_checksums'), 'off', 'pages have no checksums of their own');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
$node->safe_psql('postgres', 'CREATE TABLE t (id int)');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', 'INSERT INTO t VALUES (1)');
my $buffer = $node->safe_psql('postgres', "SELECT bufferid FROM pg_buffercache
	WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 0 AND relblocknumber = 0 AND isdirty");
like($buffer, qr/^\d+$/, 'a dirty page is in shared buffers');

my $pause = $node->basedir . '/pause';
my $session = $node->background_psql('postgres');
$session->query_safe("SET mezzanine.pause = 'write $pause'");
$session->query_until(qr/writes/, "\\echo writes\nSELECT pg_buffercache_evict($buffer);\n");
for (1 .. 3000)
{
	last if -e $pause;
	select undef, undef, undef, 0.01;
}
ok(-e $pause, 'it is being written');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '1', 'it is read meanwhile');
unlink $pause or die "$pause: $!";
$session->quit;

my $page = slurp_file(relation_path($node, 't'));
my $tuple = unpack('V', substr($page, 24, 4)) & 0x7fff;
cmp_ok($tuple, '>', 0, 'the file has the row');
my $flags = unpack('v', substr($page, $tuple + INFOMASK_AT, 2));
is($flags & HEAP_XMIN_COMMITTED, 0, 'and not what was set after the tier was given the page');
$node->stop;
done_testing();
