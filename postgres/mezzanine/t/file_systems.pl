# The tier or the database on a file system that is full or read-only: refused with the reason and the next
# step, and nothing is lost.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Mounted by `run`, which has to be root for that: 24 MB; a directory, and the same one read-only.
my $small = only_for('MEZZ_SMALL_FS', 'a small file system');
my $writable = only_for('MEZZ_WRITABLE_FS', 'a directory that is read-only elsewhere');
my $read_only = only_for('MEZZ_READ_ONLY_FS', 'the place where it is');

# node_on(NAME, PATH, MORE...): a server whose tier is to be at this path.
sub node_on
{
	my ($name, $path, %given) = @_;
	my $node = tier_node($name, %given);
	$node->append_conf('postgresql.conf', "mezzanine.flash_path = '$path'\n");
	return $node;
}

# refused(NODE, NAME, PATTERN...)
sub refused
{
	my ($node, $name, @patterns) = @_;
	my $log = start_fails($node, "$name: refused");
	like($log, $_, "$name: " . ($_ =~ /HINT/ ? 'the next step' : 'the reason')) for @patterns;
	return;
}

sub fill
{
	my ($path) = @_;
	system('sh', '-c', "dd if=/dev/zero of='$path' bs=64k 2>/dev/null");
	return;
}

# Full from the start: less than the tier needs.
my $node = node_on('full', "$small/flash", flash => 64);
refused($node, 'a full file system', qr/FATAL:  the flash device ".*flash" cannot hold the tier: .*(No space left|full)/i,
	qr/DETAIL:  It needs 6[34] MB there/, qr/HINT:  Free space on its file system, lower mezzanine\.flash_size/);
is(-s "$small/flash", 0, 'it takes no space for nothing');
unlink "$small/flash" or die;

# Full later: the tier has its space, and cannot have more.
$node = node_on('filled', "$small/flash", flash => 12, conf => "mezzanine.flash_size_max = 20MB\n");
$node->start;
fill("$small/filler");
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 60000) g');
$node->safe_psql('postgres', "UPDATE t SET ver = $_") for 1 .. 3;
evict($node, 't');
is(whole($node, 't'), '60000|1800030000|180000', 'a tier whose file system has been filled goes on');
my ($status, $out, $error) = $node->psql('postgres',
	"CREATE FUNCTION pg_temp.resize(bigint) RETURNS void AS 'mezzanine', 'mezzanine_resize' LANGUAGE C; SELECT pg_temp.resize(20 << 20)");
isnt($status, 0, 'it cannot grow');
like($error, qr/ERROR:  the flash device ".*flash" cannot hold the tier: /, 'the reason');
like($error, qr/HINT:  Free space on its file system/, 'the next step');
is(whole($node, 't'), '60000|1800030000|180000', 'and goes on as it was');
crash($node);
my $from = -s $node->logfile;
$node->start;
like(log_since($node, $from), qr/flash tier adopted/, 'it is recovered there');
is(whole($node, 't'), '60000|1800030000|180000', 'with all rows');
$node->stop;
unlink "$small/filler", "$small/flash";

# The database on a full file system: what PostgreSQL says as ever, and the tier with it.
mkdir "$small/space", 0700 or die $!;
$node = tier_node('space', mode => 'durable', flash => 64);
$node->start;
$node->safe_psql('postgres', "CREATE TABLESPACE s LOCATION '$small/space'");
$node->safe_psql('postgres', 'CREATE TABLE t WITH (fillfactor = 50) TABLESPACE s AS SELECT g AS id, 0 AS ver FROM generate_series(1, 20000) g');
$node->safe_psql('postgres', 'VACUUM t');
$node->safe_psql('postgres', 'CREATE TABLE u (f text) TABLESPACE s');
($status, $out, $error) = $node->psql('postgres', "INSERT INTO u SELECT repeat('x', 1000) FROM generate_series(1, 100000)");
like($error, qr/ERROR:  could not extend file ".*": (wrote only .*|No space left on device)/, 'a table grows until its file system is full');
$node->safe_psql('postgres', 'UPDATE t SET ver = 1 WHERE id % 100 = 0');
evict($node);
fill("$small/filler");
$node->safe_psql('postgres', 'CHECKPOINT');
is(whole($node, 't'), '20000|200010000|200', 'its neighbour stays readable and writable');
crash($node);
$node->start;
is(whole($node, 't'), '20000|200010000|200', 'also after a crash');
$node->stop;
ok($node->start(fail_ok => 1), 'what the tier had is in the files, for which there was room');
is(whole($node, 't'), '20000|200010000|200', 'and all of it');
unlink "$small/filler";
$node->safe_psql('postgres', 'DROP TABLE t, u');
$node->safe_psql('postgres', 'DROP TABLESPACE s');
$node->stop;

# Read-only: a tier cannot be made there, and one that is there cannot be used.
$node = node_on('read_only', "$read_only/flash", conf => "mezzanine.drain_on_shutdown = off\n");
my @reasons = (qr/FATAL:  the flash device ".*flash" cannot be opened/, qr/DETAIL:  .*read-only/i,
	qr/HINT:  Choose a path in mezzanine\.flash_path on a file system that can be written to/);
refused($node, 'a read-only file system without a tier', @reasons);
ok(!-e "$writable/flash", 'nothing was made');
$node->append_conf('postgresql.conf', "mezzanine.flash_path = '$writable/flash'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 20000) g');
evict($node, 't');
$node->stop;
$node->append_conf('postgresql.conf', "mezzanine.flash_path = '$read_only/flash'\n");
refused($node, 'a read-only file system with a tier that is needed', @reasons);
$node->append_conf('postgresql.conf', "mezzanine.flash_path = '$writable/flash'\n");
$from = -s $node->logfile;
$node->start;
like(log_since($node, $from), qr/flash tier adopted/, 'it is used where it can be written');
is(whole($node, 't'), '20000|200010000|20000', 'with all rows');
$node->stop;
done_testing();
