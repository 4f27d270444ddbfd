# pg_rewind of a crashed server from one that goes on running, with its newest pages in the tier: that server
# brings its files up to date first. Of the blocks that the target has changed on its own, the source's files
# had versions from before the last common checkpoint, which no log brings up to date.
#
# Rules: backup_drain, rewind_running
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# The base backup is made in order, whatever rule is taken out.
my $rule = delete $ENV{MEZZ_RULE} // '';
my $old = tier_node('old', init => { allows_streaming => 1 }, conf => "wal_keep_size = 1GB\n");
$old->start;
$old->safe_psql('postgres', "CREATE TABLE $_ (id int PRIMARY KEY, ver int); INSERT INTO $_ SELECT g, 0 FROM generate_series(1, 5000) g")
  for qw(untouched touched);
$old->safe_psql('postgres', 'CREATE EXTENSION amcheck; CREATE EXTENSION pageinspect; CREATE EXTENSION pg_buffercache');
$old->command_ok([ 'pgbench', '-i', '-q', '-s', '1', 'postgres' ], 'pgbench has its tables');
$old->backup('base', backup_options => [ '--checkpoint=fast' ]);
my $new = PostgreSQL::Test::Cluster->new('new');
$new->init_from_backup($old, 'base', has_streaming => 1);
without_tier($new);
$ENV{MEZZ_RULE} = $rule;
add_tier($new);
$new->start;

# Before the last common checkpoint, and in the new server's tier alone.
$old->safe_psql('postgres', 'UPDATE untouched SET ver = 1');
$old->safe_psql('postgres', 'CHECKPOINT');
$old->wait_for_catchup($new);
$new->safe_psql('postgres', 'CHECKPOINT');
leave_buffers($new);
$new->promote;
$new->safe_psql('postgres', 'CHECKPOINT');
ok(is_stale($new, 'untouched', 0), 'the file of the running server is old');

# Both go on, each its own way.
$old->safe_psql('postgres', "UPDATE $_ SET ver = 2") for qw(untouched touched);
leave_buffers($old);
crash($old);
$old->append_conf('postgresql.conf', "mezzanine.planted = '$rule'\n") if $rule ne '';
$new->safe_psql('postgres', 'UPDATE touched SET ver = 3');
leave_buffers($new);
$new->safe_psql('postgres', 'CHECKPOINT');

my $clients = IPC::Run::start([ 'pgbench', '-n', '-c', '2', '-T', '180', '-h', $new->host, '-p', $new->port, 'postgres' ],
	'>', '/dev/null', '2>', '/dev/null');

# As the manual says: a user of its own, with no more rights than it needs.
$new->safe_psql('postgres', <<'END_OF_GRANTS');
CREATE ROLE rewinder LOGIN;
GRANT EXECUTE ON FUNCTION pg_ls_dir(text, boolean, boolean), pg_stat_file(text, boolean), pg_read_binary_file(text),
	pg_read_binary_file(text, bigint, bigint, boolean) TO rewinder
END_OF_GRANTS
my @rewind = ('pg_rewind', '--target-pgdata', $old->data_dir, '--no-sync', '--source-server', $new->connstr('postgres') . ' user=rewinder');
system_or_bail('cp', $old->data_dir . '/postgresql.conf', $old->basedir . '/conf');
command_fails_like(\@rewind, qr/could not have the source server bring its data files up to date.*needs EXECUTE on the functions pg_backup_start/s,
	'a user that may not have the files brought up to date is told what it needs');
ok(!-e $old->data_dir . '/backup_label', 'and nothing was rewound');
$new->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION pg_backup_start(text, boolean), pg_backup_stop(boolean) TO rewinder');
command_ok([ @rewind, '--dry-run' ], 'it would be rewound');
ok(!-e $old->data_dir . '/backup_label', 'but was not');
command_ok(\@rewind, 'rewound, from a server that runs');
like(control_version($old), qr/1700$/, 'the files need no tier');
like(control_version($new), qr/1297745572$/, 'those of the source do, as before');
system_or_bail('cp', $old->basedir . '/conf', $old->data_dir . '/postgresql.conf');

# A copy, to be started without a tier.
system_or_bail('cp', '-a', $old->data_dir, $old->backup_dir . '/rewound');
my $plain = PostgreSQL::Test::Cluster->new('plain');
$plain->init_from_backup($old, 'rewound', has_streaming => 1);
without_tier($plain);

for my $node ($plain, $old)
{
	$node->append_conf('postgresql.conf', "primary_conninfo = '" . $new->connstr . "'\n");
	$node->set_standby_mode;
	my $from = -s $node->logfile // 0;
	$node->start;
	like(log_since($node, $from), qr/new flash tier/, 'it has a new tier') if $node == $old;
	sleep 1;
}
$clients->kill_kill;
for my $node ($plain, $old)
{
	my $name = $node->name;
	$new->wait_for_catchup($node);
	leave_buffers($node);
	is(whole($node, 'untouched'), '5000|12502500|5000', "$name: what was changed before the last common checkpoint is there");
	is(whole($node, 'touched'), '5000|12502500|15000', "$name: and what was changed after it");
	is(ledger($node), ledger($new), "$name: the ledger is the source's");
	in_order($node);
}
crash($old);
$old->start;
in_order($old);
is(whole($old, 'untouched'), '5000|12502500|5000', 'so it is after a crash');
$_->stop for $plain, $old, $new;

# The copy that was started without a tier has a marker still, of the source's: who gives it a tier later has
# to remove that.
add_tier($plain);
like(start_fails($plain, 'the marker of the source is not overlooked'), qr/the flash tier of this cluster is not on/, 'it says which');
unlink $plain->data_dir . '/mezzanine.tier' or die;
$plain->start;
in_order($plain);
$plain->stop;
done_testing();

# Has all pages leave shared buffers, in recovery as well.
sub leave_buffers
{
	my ($node) = @_;
	$node->safe_psql('postgres', 'SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache') for 1 .. 3;
	return;
}

sub control_version
{
	my ($node) = @_;
	my ($controldata) = run_command([ 'pg_controldata', $node->data_dir ]);
	my ($line) = $controldata =~ /^(pg_control version number: .*)$/m;
	return $line;
}

# Every balance, and what the history adds up to.
sub ledger
{
	my ($node) = @_;
	return $node->safe_psql('postgres', <<'END_OF_QUERY');
SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),
	(SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(delta) FROM pgbench_history), (SELECT count(*) FROM pgbench_history)
END_OF_QUERY
}

sub in_order
{
	my ($node) = @_;
	my $name = $node->name;
	my $tables = "relname ~ '^(pgbench|touched|untouched)'";

	like($node->safe_psql('postgres', "SELECT bt_index_check(oid, true) FROM pg_class WHERE relkind = 'i' AND $tables"), qr/^\s*$/,
		"$name: the indexes agree with the heap");
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class, verify_heapam(oid) WHERE relkind = 'r' AND $tables"), '0',
		"$name: the heap is in order");
	return;
}
