# The tier grows and shrinks under load, over a crash, and keeps its pages when the new size is configured.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('resize', mode => 'durable', flash => 16, conf => 'mezzanine.flash_size_max = 64MB');
$node->start;
create_extension($node);
$node->safe_psql('postgres', "CREATE TABLE t AS SELECT g AS id, 0 AS ver, repeat('x', 300) AS f FROM generate_series(1, 20000) g");

# What cannot be had is refused in words.
sub refused
{
	my ($bytes, $pattern, $name) = @_;
	my ($status, $out, $error) = $node->psql('postgres', "SELECT mezzanine_resize($bytes)");
	like($error, $pattern, $name);
	return;
}
refused("pg_size_bytes('65MB')",
	qr/ERROR:  the flash tier cannot grow to 65MB\nDETAIL:  It was laid out for at most 6\dMB\.\nHINT:  Raise mezzanine\.flash_size_max/,
	'more than there is room for');
refused("pg_size_bytes('2MB')", qr/ERROR:  the flash tier cannot shrink to 2MB\nDETAIL:.*frames.*\nHINT:  Choose a larger size/,
	'less than it needs');
refused('-1', qr/ERROR:  a flash tier cannot have -1 bytes\nHINT:  Give the size in bytes/, 'less than nothing');

sub frames { return $node->safe_psql('postgres', 'SELECT frames FROM pg_stat_mezzanine'); }
my $version = 0;

# Writes from several sessions, until the queue has come to the cut.
sub load_until_resized
{
	my ($name) = @_;
	for (1 .. 40)
	{
		$node->pgbench('-n -c 4 -t 4', 0, [qr/processed: 16\/16/], [qr/^$/], $name,
			{ "resize_$name" => "\\set low 5000 * :client_id\nUPDATE t SET ver = ver + 1 WHERE id > :low AND id <= :low + 5000;\n" });
		$version += 4;
		$node->safe_psql('postgres', 'VACUUM t; CHECKPOINT');
		return 1 if $node->safe_psql('postgres', 'SELECT frames_wanted IS NULL FROM pg_stat_mezzanine') eq 't';
	}
	return 0;
}

my $small = frames();
$node->safe_psql('postgres', "SELECT mezzanine_resize(pg_size_bytes('64MB'))");
is($node->safe_psql('postgres', 'SELECT frames_wanted = frames_max AND frames_to_go >= 0 FROM pg_stat_mezzanine'), 't',
	'what is wanted is seen');
ok(load_until_resized('grow'), 'it grows under load');
my $large = frames();
cmp_ok($large, '>', 3 * $small, 'the tier has grown');
my $expected = sub { return '20000|200010000|' . 20000 * $version; };
is(whole($node, 't'), $expected->(), 'nothing is lost');

crash($node);
$node->start;
is(frames(), $large, 'as large after a crash');
is(whole($node, 't'), $expected->(), 'and whole');

$node->safe_psql('postgres', "SELECT mezzanine_resize(pg_size_bytes('32MB'))");
crash($node);
$node->start;
is(frames(), $large, 'a resize that had not taken effect is forgotten in a crash');
$node->safe_psql('postgres', "SELECT mezzanine_resize(pg_size_bytes('32MB'))");
ok(load_until_resized('shrink'), 'it shrinks under load');
my $middle = frames();
cmp_ok($middle, '<', $large, 'the tier has shrunk');
is(whole($node, 't'), $expected->(), 'nothing is lost');
is($node->safe_psql('postgres', 'SELECT damaged FROM mezzanine_verify()'), '0', 'nothing is damaged');

$node->append_conf('postgresql.conf', 'mezzanine.flash_size = 32MB');
my $from = -s $node->logfile;
$node->restart;
like(log_since($node, $from), qr/flash tier adopted/, 'with the new size configured the tier stays as it is');
is(frames(), $middle, 'and as large');
is(whole($node, 't'), $expected->(), 'and whole');
$node->append_conf('postgresql.conf', 'mezzanine.flash_size_max = 128MB');
$from = -s $node->logfile;
$node->restart;
like(log_since($node, $from), qr/new flash tier/, 'with other room the tier is made anew');
is(whole($node, 't'), $expected->(), 'and the disk has everything');
$node->stop;

# Sizes in the wrong order.
$node->append_conf('postgresql.conf', 'mezzanine.flash_size_max = 16MB');
my $log = start_fails($node, 'less room than size: refused');
like($log, qr/FATAL:  mezzanine\.flash_size_max is less than mezzanine\.flash_size: 16MB and 32MB/, 'less room than size: the reason');
like($log, qr/HINT:  Raise mezzanine\.flash_size_max, or set it to 0/, 'less room than size: the next step');

done_testing();
