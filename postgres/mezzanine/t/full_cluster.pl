# The file system of the data directory is full, and its log lies elsewhere: what makes no file longer goes on
# as without a tier, for the marker of the tier keeps its space. The server is stopped in order, and after the
# death of a process it recovers.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Mounted by `run`, which has to be root for that: 96 MB.
my $cluster = only_for('MEZZ_CLUSTER_FS', 'a file system that a cluster fits on');

# No slots: a checkpoint writes a file of them, and a server that cannot is at its end, with a tier or
# without.
my $conf = "max_wal_size = 4GB\nmax_replication_slots = 0\nmax_wal_senders = 0\n";

for my $mode (qw(durable drained through))
{
	my $node = tier_node($mode, mode => $mode, flash => 4, conf => $conf);
	my $data = "$cluster/$mode";
	my $log = $node->basedir . '/wal';
	system_or_bail('mv', $node->data_dir, $data);
	system_or_bail('mv', "$data/pg_wal", $log);
	symlink $log, "$data/pg_wal" or die $!;
	symlink $data, $node->data_dir or die $!;
	$node->start;
	$node->safe_psql('postgres', 'CREATE TABLE t WITH (fillfactor = 40) AS SELECT g AS id, 0 AS ver FROM generate_series(1, 30000) g');
	# Its file does not become longer any more, nor do those of its maps.
	$node->safe_psql('postgres', $_) for ('UPDATE t SET ver = -1', 'VACUUM t', 'UPDATE t SET ver = 0', 'VACUUM t', 'CHECKPOINT');
	system('sh', '-c', "dd if=/dev/zero of=$data/filler bs=64k 2>/dev/null; dd if=/dev/zero of=$data/filler2 bs=4k 2>/dev/null");
	my $from = -s $node->logfile;
	for my $ver (1 .. 3)
	{
		is(eval { $node->psql('postgres', "UPDATE t SET ver = $ver") } // 2, 0, "$mode: rows are changed") or last;
		is(eval { $node->psql('postgres', $_) } // 2, 0, "$mode: $_") for 'VACUUM t', 'CHECKPOINT';
	}
	is(eval { whole($node, 't') } // '', '30000|450015000|90000', "$mode: and all are there");

	last unless eval { $node->psql('postgres', 'SELECT 1') == 0 };
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $victim = $session->query('SELECT pg_backend_pid()');
	is(kill('KILL', $victim), 1, "$mode: a process is killed");
	$session->{run}->finish;
	ok(eval { $node->wait_for_log(qr/database system is ready to accept connections/, $from) }, "$mode: the server recovers");
	is(eval { whole($node, 't') } // '', '30000|450015000|90000', "$mode: with all rows");
	is(eval { $node->psql('postgres', 'UPDATE t SET ver = ver + 1') } // 2, 0, "$mode: which are changed again");

	ok($node->stop('fast', fail_ok => 1), "$mode: the server is stopped");
	unlike(log_since($node, $from), qr/PANIC|TRAP|FATAL:  the marker/, "$mode: in order");
	my ($state) = run_command(['pg_controldata', $node->data_dir]);
	like($state, qr/cluster state: +shut down\n/, "$mode: as pg_control says");
	unlink "$data/filler", "$data/filler2";
	$node->_update_pid(0);
	$from = -s $node->logfile;
	$node->start;
	like(log_since($node, $from), qr/flash tier adopted/, "$mode: it starts with its tier");
	is(whole($node, 't'), '30000|450015000|120000', "$mode: and all rows");
	$node->stop;
	system_or_bail('rm', '-r', $data);
}
done_testing();
