# A backend that is killed takes the server down to a crash restart: shared memory is made anew, and the tier
# recovered from flash.
#
# Kept by the core, which makes shared memory anew and calls startup again, and by the engine:
# crates/engine/tests/processes.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

for my $mode (qw(durable drained through))
{
	my $node = tier_node("killed_$mode", mode => $mode, flash => 8);
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION amcheck');
	command_ok([ 'pgbench', '-i', '-q', '-s', '1', '-h', $node->host, '-p', $node->port, 'postgres' ], 'pgbench has its tables');
	for my $round (1 .. 3)
	{
		my $clients = IPC::Run::start([ 'pgbench', '-n', '-c', '3', '-T', '60', '-h', $node->host, '-p', $node->port, 'postgres' ],
			'>', '/dev/null', '2>', '/dev/null');
		$node->poll_query_until('postgres', "SELECT count(*) > 2 FROM pg_stat_activity WHERE backend_type = 'client backend'");
		sleep 1;
		$node->safe_psql('postgres', 'CHECKPOINT') if $round == 2;
		my $victim = $node->safe_psql('postgres',
			"SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 1");
		# Processes without a session are not listed there.
		($victim) = split /\n/, `pgrep -P $node->{_pid} -f ': mezzanine'` if $round == 3;
		my $from = -s $node->logfile;
		is(kill('KILL', $victim), 1, "$mode, round $round: a process is killed");
		$node->wait_for_log(qr/database system is ready to accept connections/, $from);
		$clients->finish;
		like(log_since($node, $from), $mode eq 'through' ? qr/flash tier (adopted|emptied)/ : qr/flash tier adopted/,
			"$mode, round $round: the tier is recovered");
		is($node->safe_psql('postgres', <<'END'), 't|100000', "$mode, round $round: the ledger balances");
SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)
   AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)
   AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history),
       (SELECT count(*) FROM pgbench_accounts)
END
		is($node->safe_psql('postgres', "SELECT count(*) FROM verify_heapam('pgbench_accounts')"), '0', "$mode, round $round: the heap is in order");
		is($node->safe_psql('postgres', "SELECT bt_index_check('pgbench_accounts_pkey', true)"), '', "$mode, round $round: the index agrees");
	}
	$node->stop;
}
done_testing();
