# The tier's workers take nothing from the server's own: with two worker processes it has its three, parallel
# queries and logical replication have theirs, and a standby with the same settings and no tier follows.
#
# Kept by the core (bgworker.c): BGWORKER_BUFFER_TIER.
#
# Rules: worker_slots
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('primary', mode => 'drained', init => { allows_streaming => 'logical' }, conf => <<'END');
max_worker_processes = 2
max_parallel_workers = 8
max_parallel_workers_per_gather = 8
min_parallel_table_scan_size = 0
parallel_setup_cost = 0
parallel_tuple_cost = 0
END
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 50000) g');
$node->safe_psql('postgres', 'ALTER TABLE t SET (parallel_workers = 4)');
evict($node, 't');

sub running
{
	my ($type) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = '$type'");
}

# How many workers a query got: it asks for four.
sub launched
{
	my ($launched) = $node->safe_psql('postgres', 'EXPLAIN (ANALYZE, COSTS OFF) SELECT sum(id) FROM t') =~ /Workers Launched: (\d+)/;
	return $launched;
}

sub has_workers
{
	my ($when, $replication, $parallel) = @_;
	ok($node->poll_query_until('postgres', "SELECT count(*) = 3 FROM pg_stat_activity WHERE backend_type = 'mezzanine'"),
		"$when: the tier has its workers");
	is(running('logical replication launcher'), $replication, "$when: logical replication has its launcher, if it is on");
	is(launched(), $parallel, "$when: parallel queries have the rest");
	return;
}

unlike(slurp_file($node->logfile), qr/too many background workers/, 'none is too many');
has_workers('started', 1, 1);
is($node->safe_psql('postgres', 'SELECT sum(id) FROM t'), '1250025000', 'the workers of a query read through the tier');

# What standbys are told.
my $control = (run_command([ 'pg_controldata', $node->data_dir ]))[0];
like($control, qr/max_worker_processes setting: +2$/m, 'pg_control knows of the two alone');
$node->backup('base');
for my $tier (0, 1)
{
	my $standby = PostgreSQL::Test::Cluster->new("standby_$tier");
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	without_tier($standby);
	add_tier($standby, mode => 'drained') if $tier;
	$standby->start;
	$node->safe_psql('postgres', 'UPDATE t SET ver = ver + 1 WHERE id = 1');
	$node->wait_for_replay_catchup($standby);
	is($standby->safe_psql('postgres', 'SELECT ver FROM t WHERE id = 1'), 2 + $tier,
		'a standby with two worker processes follows, ' . ($tier ? 'with a tier' : 'without one'));
	$standby->stop;
}

# A change of the setting is logged as before, without the tier's.
$node->append_conf('postgresql.conf', "max_worker_processes = 3");
$node->restart;
has_workers('three worker processes', 1, 2);
like((run_command([ 'pg_controldata', $node->data_dir ]))[0], qr/max_worker_processes setting: +3$/m, 'pg_control knows of the three');

# The postmaster makes shared memory and its slots anew.
my $from = -s $node->logfile;
kill 'KILL', $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'mezzanine' LIMIT 1");
$node->wait_for_log(qr/database system is ready to accept connections/, $from);
ok($node->poll_query_until('postgres', 'SELECT true'), 'the server is back after the death of a worker');
has_workers('after that', 1, 2);

# One that dies comes back in a slot of its own.
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'mezzanine'");
has_workers('after their end', 1, 2);

$node->append_conf('postgresql.conf', "max_worker_processes = 2\nmax_logical_replication_workers = 0");
$node->restart;
has_workers('without logical replication', 0, 2);
$node->append_conf('postgresql.conf', 'max_worker_processes = 0');
$node->restart;
has_workers('no worker processes at all', 0, 0);
is(whole($node, 't'), '50000|1250025000|50002', 'nothing is lost');
$node->stop;
done_testing();
