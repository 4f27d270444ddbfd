# Recording: begun, ended, refused; what a server leaves that is stopped or killed meanwhile.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('trace');
$node->start;
create_extension($node);
$node->safe_psql('postgres', q(CREATE TABLE t AS SELECT g AS id, repeat('x', 500) AS f FROM generate_series(1, 5000) g));

my $base = $node->basedir;

# fails(QUERY, PATTERN, NAME): the error's message, detail and hint together match.
sub fails
{
	my ($query, $pattern, $name) = @_;
	my ($status, $out, $error) = $node->psql('postgres', $query);

	isnt($status, 0, "$name: fails");
	like($error, $pattern, "$name: says why");
	return;
}

sub magic
{
	my ($path) = @_;
	open my $file, '<', $path or return 'no file';
	read $file, my $head, 8;
	return $head;
}

fails('SELECT mezzanine_trace_stop()', qr/no trace is being recorded\nHINT:  Begin one with mezzanine_trace_start/, 'nothing to stop');
fails("SELECT mezzanine_trace_start('here')", qr/must be absolute/, 'a relative path');
fails("SELECT mezzanine_trace_start('$base/a', -1)", qr/cannot take -1 seconds/, 'a negative time');
fails("SELECT mezzanine_trace_start('$base/a', 'NaN')", qr/cannot take NaN seconds/, 'no time');
fails("SELECT mezzanine_trace_start('$base/no/such/place')", qr/cannot be written.*\n.*No such file or directory/, 'no such directory');
append_to_file("$base/taken", 'something');
fails("SELECT mezzanine_trace_start('$base/taken')", qr/cannot be written\nDETAIL:  There is a file of that name/, 'a file that exists');
is(slurp_file("$base/taken"), 'something', 'which stays as it is');

$node->safe_psql('postgres', "SELECT mezzanine_trace_start('$base/one')");
fails("SELECT mezzanine_trace_start('$base/two')", qr/is being recorded already\nDETAIL:  It is written to "\Q$base\E\/one"/, 'a second trace');
$node->safe_psql('postgres', 'SELECT count(*) FROM t; UPDATE t SET id = 0 WHERE id = 1; CHECKPOINT');
my ($events, $lost, $bytes) = split /\|/, $node->safe_psql('postgres', 'SELECT * FROM mezzanine_trace_stop()');
cmp_ok($events, '>', 300, 'events');
is($lost, 0, 'none is lost');
is(-s "$base/one", $bytes, 'the file is as long as it says');
is(magic("$base/one"), 'MEZZTRC1', 'and is a trace');
fails('SELECT mezzanine_trace_stop()', qr/no trace is being recorded/, 'stopped twice');

# What finds no place while the worker cannot go on is lost and counted; what had one is not.
my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
$node->safe_psql('postgres', "SELECT mezzanine_trace_start('$base/full')");
my ($worker) = split /\n/, `pgrep -P $postmaster -f 'mezzanine trace'`;
ok($worker, 'there is a worker');
kill 'STOP', $worker;
$node->safe_psql('postgres', q(DO $$ BEGIN FOR i IN 1 .. 300 LOOP PERFORM count(*) FROM t; END LOOP; END $$));
kill 'CONT', $worker;
($events, $lost) = split /\|/, $node->safe_psql('postgres', 'SELECT * FROM mezzanine_trace_stop()');
cmp_ok($lost, '>', 10_000, 'events are lost');
cmp_ok($events, '>=', 65_536, 'and those that found a place are there');

# It ends by itself, and says so to whoever asks then.
$node->safe_psql('postgres', "SELECT mezzanine_trace_start('$base/timed', 0.2); SELECT count(*) FROM t");
for (1 .. 100)
{
	last if -e "$base/timed";
	select undef, undef, undef, 0.1;
}
is(magic("$base/timed"), 'MEZZTRC1', 'by itself');
like($node->safe_psql('postgres', 'SELECT events > 0, lost FROM mezzanine_trace_stop()'), qr/^t\|0$/, 'with its events');

# Only for those who may.
$node->safe_psql('postgres', 'CREATE ROLE ordinary');
fails("SET ROLE ordinary; SELECT mezzanine_trace_start('$base/nobody')", qr/permission denied for function mezzanine_trace_start/, 'an ordinary user');

# A server that is stopped completes it; one that is killed leaves it under another name.
$node->safe_psql('postgres', "SELECT mezzanine_trace_start('$base/stopped'); SELECT count(*) FROM t");
$node->stop;
is(magic("$base/stopped"), 'MEZZTRC1', 'a server that is stopped completes its trace');
$node->start;
$node->safe_psql('postgres', "SELECT mezzanine_trace_start('$base/killed'); SELECT count(*) FROM t; SELECT pg_sleep(1.5)");
crash($node);
ok(!-e "$base/killed", 'a killed server does not');
my @left = glob("$base/killed.*.unfinished");
is(scalar(@left), 1, 'but leaves one');
is(magic($left[0]), 'MEZZTRC1', 'that can be read');
cmp_ok(-s $left[0], '>', 300, 'with what it has done');
$node->start;
fails('SELECT mezzanine_trace_stop()', qr/no trace is being recorded/, 'nothing is recorded after a crash');
$node->safe_psql('postgres', "SELECT mezzanine_trace_start('$base/again'); SELECT count(*) FROM t; SELECT * FROM mezzanine_trace_stop()");
is(magic("$base/again"), 'MEZZTRC1', 'and it begins again');

# No worker left to write it.
$node->append_conf('postgresql.conf', "max_worker_processes = 0\nmax_logical_replication_workers = 0");
$node->restart;
fails("SELECT mezzanine_trace_start('$base/workers')", qr/there is no background worker left.*\nHINT:  Raise max_worker_processes/, 'no worker');
fails('SELECT mezzanine_trace_stop()', qr/no trace is being recorded/, 'and nothing began');
$node->stop;

done_testing();
