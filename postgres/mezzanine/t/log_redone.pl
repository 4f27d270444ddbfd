# A standby takes queries when it has redone as much as its control file says, and its log may go on from
# there. An older copy of its directory, whose log has all that was redone later, is put back beside flash
# that has pages from there: no query sees any of them.
#
# Rules: log_redone
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = tier_node('primary', init => { allows_streaming => 1 });
without_tier($primary);
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
$primary->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 20000) g');
$primary->safe_psql('postgres', 'VACUUM t');
$primary->backup('base');

# A standby that ends in a crash, or in order: then its redo point stays what it was as well, for no
# checkpoint was replayed meanwhile. Where the standby's flash may have the only copies it is refused.
for my $given (['drained', 'immediate'], ['drained', 'fast'], ['through', 'fast'], ['durable', 'immediate'], ['durable', 'fast'])
{
	my ($mode, $stop) = @$given;
	my $name = "$mode, $stop";
	$primary->safe_psql('postgres', 'UPDATE t SET ver = 1');
	$primary->safe_psql('postgres', 'VACUUM t');
	my $standby = tier_standby($primary, "standby_${mode}_$stop", mode => $mode);
	$primary->wait_for_catchup($standby);
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
	$standby->poll_query_until('postgres', "SELECT pg_get_wal_replay_pause_state() = 'paused'");
	$primary->safe_psql('postgres', 'UPDATE t SET ver = 2');
	$primary->safe_psql('postgres', 'VACUUM t');
	$primary->wait_for_catchup($standby, 'flush');

	# Nothing changes meanwhile but how far the log reaches.
	my $data = $standby->data_dir;
	my $copy = $standby->basedir . '/copy';
	system_or_bail('cp', '-a', $data, $copy);
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
	$primary->wait_for_catchup($standby);
	is(whole($standby, 't'), '20000|200010000|40000', "$name: the newest rows");
	$standby->safe_psql('postgres', 'SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache') for 1 .. 2;
	$standby->stop($stop);

	exchange($standby, $copy);
	# It goes on for an hour without what was committed after the copy was made.
	$standby->append_conf('postgresql.conf', "recovery_min_apply_delay = '1h'\n");
	my $from = -s $standby->logfile;
	if ($standby->start(fail_ok => 1))
	{
		is(whole($standby, 't'), '20000|200010000|20000', "$name: the rows of the moment that the older copy is at");
		isnt($mode, 'durable', "$name: it starts");
		# In through no tier is used that the directory does not know to be closed.
		my $why = $mode eq 'through' ? 'it was not left in order' : 'the data directory is the older one';
		like(log_since($standby, $from), qr/flash tier emptied\n.*DETAIL:  $why/, "$name: the tier is emptied");
		crash($standby);
	}
	else
	{
		is($mode, 'durable', "$name: it is refused");
		like(log_since($standby, $from), qr/are not of the same moment.*the data directory is the older one/s, "$name: by the reason");
		exchange($standby, $copy);
	}
	$standby->append_conf('postgresql.conf', "recovery_min_apply_delay = 0\n");
	$from = -s $standby->logfile;
	$standby->start;
	$primary->wait_for_catchup($standby);
	is(whole($standby, 't'), '20000|200010000|40000', "$name: it catches up");
	like(log_since($standby, $from), qr/flash tier adopted/, "$name: with the tier that it has since") if $mode ne 'through';
	$standby->stop;
}
$primary->stop;
done_testing();
