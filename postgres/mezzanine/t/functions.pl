# The views and functions where they cannot do what they are asked: without a tier, with damaged pages,
# cancelled, on a standby.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# fails(NODE, QUERY, PATTERN, NAME): the error's message, detail and hint together match.
sub fails
{
	my ($node, $query, $pattern, $name) = @_;
	my ($status, $out, $error) = $node->psql('postgres', $query);

	isnt($status, 0, "$name: fails");
	like($error, $pattern, "$name: says why");
	return;
}

sub stat_of
{
	my ($node, $column) = @_;
	return $node->safe_psql('postgres', "SELECT $column FROM pg_stat_mezzanine");
}

my @all = (
	'pg_stat_mezzanine', 'pg_mezzanine_relations', 'pg_mezzanine_frames', 'mezzanine_reset_stats()',
	'mezzanine_drain()', "mezzanine_flush('pg_class')", "mezzanine_give_up('pg_class', 0)",
	'mezzanine_give_up(1664, 0, 1262, 0)', 'mezzanine_disable()', 'mezzanine_enable()', 'mezzanine_verify()');

# Without the library, and without a tier.
my $node = PostgreSQL::Test::Cluster->new('bare');
$node->init;
$node->append_conf('postgresql.conf', "dynamic_library_path = '$ENV{MEZZ_LIBRARY}:\$libdir'");
$node->start;
create_extension($node);
fails($node, "SELECT * FROM $_",
	qr/ERROR:  mezzanine is not loaded\nHINT:  Add mezzanine to shared_preload_libraries and restart the server/, "not loaded: $_")
  for @all;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'mezzanine'");
$node->restart;
fails($node, "SELECT * FROM $_",
	qr/ERROR:  there is no flash tier\nHINT:  Set mezzanine\.flash_path and restart the server/, "no tier: $_")
  for @all;
$node->stop;

# Damaged pages are found, and named.
for my $mode (qw(through durable))
{
	$node = tier_node("damaged_$mode", mode => $mode);
	$node->start;
	create_extension($node);
	# In a transaction of its own: the tier takes nothing of a relation that skips the log.
	$node->safe_psql('postgres', 'CREATE TABLE t (id integer, f text)');
	$node->safe_psql('postgres', "INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 20000) g");
	$node->safe_psql('postgres', 'CHECKPOINT; SELECT count(*) FROM t');
	is($node->safe_psql('postgres', 'SELECT damaged FROM mezzanine_verify()'), '0', "$mode: no page is damaged");

	# Where the newest versions of the table's pages are: the queue has come that far.
	open my $flash, '+<:raw', flash_path($node) or die $!;
	seek $flash, 12 << 20, 0;
	print $flash 'x' x (12 << 20);
	close $flash;
	system('sync', flash_path($node));
	my ($status, $out, $error) = $node->psql('postgres', 'SELECT checked > 500, damaged > 50 FROM mezzanine_verify()');
	is($out, 't|t', "$mode: damaged pages are counted");
	like($error, qr/WARNING:  block \d+ of file "base\/\d+\/\d+" is damaged in the flash tier/, "$mode: and named");
	if ($mode eq 'through')
	{
		like($error, qr/DETAIL:  The copy on disk is as new and is read instead/, 'through: with what follows');
		is($node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM t'), '20000|200010000', 'through: nothing is lost');
		fails($node, "SELECT mezzanine_give_up('t', 0)", qr/cannot be given up: only a flash tier in sync mode "durable" has .*\nHINT/,
			'through: and given up');
		$node->stop;
	}
	else
	{
		like($error, qr/DETAIL:  The copy on disk is older\. Reading the block raises an error/, 'durable: with what follows');
		fails($node, 'SELECT count(*) FROM t',
			qr/ERROR:  the newest version of block \d+ .* cannot be read from the flash tier/, 'durable: a damaged block');
		$node->stop('immediate');
	}
}

# Waits that are cancelled. After the restart the disk is so slow that a drain takes minutes.
$node = tier_node('slow', mode => 'durable', conf => "mezzanine.drain_on_shutdown = off\nmax_wal_size = 1GB");
$node->start;
create_extension($node);
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 50000) g');
$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
evict($node, 't');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->append_conf('postgresql.conf', "mezzanine.disk_model = 'cheetah-15k'\nmezzanine.model_time_scale = 100");
$node->restart;
cmp_ok(stat_of($node, 'dirty_pages'), '>', 200, 'there is something to write');
for my $call ('mezzanine_drain()', "mezzanine_flush('t')", 'mezzanine_disable()')
{
	my $began = time;
	fails($node, "SET statement_timeout = '300ms'; SELECT $call", qr/ERROR:  canceling statement due to statement timeout/, $call);
	cmp_ok(time - $began, '<', 60, "$call: ends soon after it was cancelled");
}
is(stat_of($node, 'state'), 'active', 'a cancelled mezzanine_disable() changes nothing');
$node->stop('immediate');

# A standby has a tier of its own.
$node = tier_node('primary', mode => 'durable', init => { allows_streaming => 1 });
$node->start;
create_extension($node);
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
my $path = flash_path($standby);
$standby->append_conf('postgresql.conf', "mezzanine.flash_path = '$path'\n");
$standby->start;
$node->safe_psql('postgres', "CREATE TABLE t AS SELECT g AS id, repeat('x', 500) AS f FROM generate_series(1, 20000) g");
$node->wait_for_replay_catchup($standby);
is($standby->safe_psql('postgres', 'SELECT count(*), sum(id) FROM t'), '20000|200010000', 'the standby has the table');
cmp_ok(stat_of($standby, 'dirty_pages'), '>', 500, 'in its tier');
is($standby->safe_psql('postgres', "SELECT pages > 500 FROM pg_mezzanine_relations WHERE relation = 't'::regclass"), 't',
	'which is seen there');
cmp_ok($standby->safe_psql('postgres', "SELECT mezzanine_flush('t')"), '>', 500, 'flushed there');
is($standby->safe_psql('postgres', "SELECT dirty_pages FROM pg_mezzanine_relations WHERE relation = 't'::regclass"), '0',
	'down to nothing');
is($standby->safe_psql('postgres', 'SELECT mezzanine_drain() >= 0, mezzanine_disable()'), 't|', 'drained and disabled there');
is(stat_of($standby, 'state'), 'disabled', 'the standby\'s is disabled');
is(stat_of($node, 'state'), 'active', 'the primary\'s is not');
$standby->safe_psql('postgres', 'SELECT mezzanine_enable(), mezzanine_reset_stats()');
is($standby->safe_psql('postgres', 'SELECT damaged FROM mezzanine_verify()'), '0', 'verified there');
fails($standby, "SELECT mezzanine_give_up('t', 0)", qr/ERROR:  no page can be given up during recovery\nHINT/, 'on a standby');
$standby->stop;

# The workers come back when somebody ends them.
my $workers = "SELECT application_name AS name, pid FROM pg_stat_activity WHERE backend_type = 'mezzanine'";
is($node->safe_psql('postgres', "SELECT string_agg(name, ', ' ORDER BY name) FROM ($workers) w"),
	'mezzanine worker 1, mezzanine worker 2, mezzanine worker 3', 'three workers');
my $pids = $node->safe_psql('postgres', "SELECT string_agg(pid::text, ', ') FROM ($workers) w");
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM ($workers) w");
ok($node->poll_query_until('postgres', "SELECT count(*) = 3 FROM ($workers) w WHERE pid NOT IN ($pids)"), 'others have started');

# One worker is enough.
$node->append_conf('postgresql.conf', "mezzanine.workers = 1");
$node->restart;
is($node->safe_psql('postgres', "SELECT string_agg(name, ', ') FROM ($workers) w"), 'mezzanine worker 1', 'one worker');
$node->safe_psql('postgres', 'UPDATE t SET f = f');
evict($node, 't');
$node->safe_psql('postgres', 'CHECKPOINT');
cmp_ok($node->safe_psql('postgres', 'SELECT mezzanine_drain()'), '>', 100, 'drained by one worker');
is(stat_of($node, 'dirty_pages'), '0', 'down to nothing');

# And a disabled tier takes pages again after a restart.
$node->safe_psql('postgres', 'SELECT mezzanine_disable()');
$node->restart;
is(stat_of($node, 'state'), 'active', 'active after a restart');
my $log = slurp_file($node->logfile);
like($log, qr/LOG:  flash tier disabled/, 'it was logged');
$node->safe_psql('postgres', 'CHECKPOINT');
like(slurp_file($node->logfile), qr/LOG:  flash tier at checkpoint: \d+ of \d+ pages newer than on disk; wrote \d+ kB to flash/,
	'so is what a checkpoint does in the tier');
$node->stop;

done_testing();
