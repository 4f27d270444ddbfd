# Base backups are complete without the tier: taken while clients write, restored without a tier and with a
# new one.
#
# Rules: backup_drain, backup_label
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# What pgbench keeps true at every moment: all balances are sums of the history's entries.
my $balanced = <<'END';
SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)
   AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)
   AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)
   AND (SELECT count(*) = 100000 FROM pgbench_accounts)
   AND (SELECT count(*) = 5000 AND sum(ver) = 5000 FROM t)
END

sub verified
{
	my ($node, $what) = @_;

	is($node->safe_psql('postgres', $balanced), 't', "$what: the ledger balances");
	like($node->safe_psql('postgres', <<'END'), qr/^\s*$/, "$what: the indexes agree with the heap");
SELECT bt_index_check(oid, true) FROM pg_class WHERE relkind = 'i' AND relname LIKE 'pgbench%'
END
	is($node->safe_psql('postgres', "SELECT count(*) FROM verify_heapam('pgbench_accounts')"), '0', "$what: the heap is in order");
	return;
}

for my $mode (qw(durable drained through))
{
	my $node = tier_node("backup_$mode", mode => $mode, init => { allows_streaming => 1 }, conf => "summarize_wal = on\n");
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION amcheck');
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
	$node->command_ok([ 'pgbench', '-i', '-q', '-s', '1', 'postgres' ], "$mode: pgbench has its tables");
	$node->safe_psql('postgres', 'CHECKPOINT');
	# Not touched any more: no full-page image of these is in the backup's log.
	$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
	evict($node, 't');
	my $clients = IPC::Run::start([ 'pgbench', '-n', '-c', '2', '-T', '60', '-h', $node->host, '-p', $node->port, 'postgres' ],
		'>', '/dev/null', '2>', '/dev/null');
	sleep 1;
	$node->backup('base', backup_options => [ '--checkpoint=fast' ]);
	command_ok([ 'pg_verifybackup', $node->backup_dir . '/base' ], "$mode: the manifest holds");

	if ($mode eq 'durable')
	{
		$node->backup('increment',
			backup_options => [ '--checkpoint=fast', '--incremental', $node->backup_dir . '/base/backup_manifest' ]);
	}

	# The low-level way: a copy of the files between two calls.
	my $copied = $node->backup_dir . '/copied';
	my $session = $node->background_psql('postgres');
	$session->query_safe('SET client_min_messages = error');
	$session->query_safe("SELECT pg_backup_start('copy', true)");
	mkdir $copied or die;
	# Files may go while they are copied.
	system("cp -a " . $node->data_dir . "/. $copied/ 2>/dev/null");
	my $label = $session->query_safe('SELECT labelfile FROM pg_backup_stop(true)');
	$session->quit;
	$clients->kill_kill;
	unlink "$copied/postmaster.pid", "$copied/postmaster.opts";
	append_to_file("$copied/backup_label", "$label\n");

	for my $way ($mode eq 'durable' ? qw(base increment copied) : qw(base))
	{
		if ($way eq 'copied')
		{
			# The log that was written until the backup ended.
			system('cp', '-a', '-u', glob($node->data_dir . '/pg_wal/0*'), "$copied/pg_wal/");
		}
		my $without = PostgreSQL::Test::Cluster->new("without_${mode}_$way");
		$without->init_from_backup($node, $way, $way eq 'increment' ? (combine_with_prior => ['base']) : ());
		without_tier($without);
		$without->start;
		verified($without, "$mode, $way, restored without a tier");
		$without->stop;
		command_ok([ 'pg_checksums', '--check', '-D', $without->data_dir ], "$mode, $way: every checksum is right");
		next if $way eq 'increment' || $mode ne 'durable' && !$ENV{MEZZ_FULL};

		my $new = PostgreSQL::Test::Cluster->new("new_${mode}_$way");
		$new->init_from_backup($node, $way);
		without_tier($new);
		add_tier($new, mode => $mode);
		$new->start;
		verified($new, "$mode, $way, restored with a new tier");
		$new->stop;
	}

	# Restored over the lost data directory: what the tier has is of another history.
	if ($mode ne 'durable')
	{
		crash($node);
		my $conf = slurp_file($node->data_dir . '/postgresql.conf');
		system_or_bail('rm', '-rf', $node->data_dir);
		system_or_bail('cp', '-a', $node->backup_dir . '/base', $node->data_dir);
		chmod 0700, $node->data_dir;
		my $from = -s $node->logfile;
		$node->start;
		like(log_since($node, $from), qr/(new flash tier|flash tier emptied)/, "$mode: restored in place, the tier is not believed");
		verified($node, "$mode, restored in place");
	}
	else
	{
		crash($node);
		system_or_bail('rm', '-rf', $node->data_dir);
		system_or_bail('cp', '-a', $node->backup_dir . '/base', $node->data_dir);
		chmod 0700, $node->data_dir;
		like(start_fails($node, 'durable: restored in place, the old tier is not overwritten'),
			qr/may hold the only copy of another cluster's pages/, 'it says why');
		unlink flash_path($node);
		$node->start;
		verified($node, 'durable, restored in place after the old tier was removed');
	}
	$node->stop('immediate');
}
done_testing();
