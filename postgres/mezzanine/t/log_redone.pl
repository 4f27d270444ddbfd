# A standby takes queries when it has redone as much as its control file says, and its log may go on from there. An older copy of its directory,
# whose log has all that was redone later, is put back beside flash that has pages from there: no query sees any of them.
#
# Rules: log_redone
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = tier_node('primary', init => { allows_streaming => 1 });
without_tier($primary);
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
$primary->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 20000) g');
$primary->safe_psql('postgres', 'VACUUM t');
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
add_tier($standby, mode => 'drained');
$standby->start;
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
is(whole($standby, 't'), '20000|200010000|40000', 'the newest rows');
$standby->safe_psql('postgres', 'SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache') for 1 .. 2;
crash($standby);

rename $data, "$data.kept" or die $!;
rename $copy, $data or die $!;
unlink "$data/postmaster.pid";
# It goes on for an hour without what was committed after the copy was made.
$standby->append_conf('postgresql.conf', "recovery_min_apply_delay = '1h'\n");
my $from = -s $standby->logfile;
$standby->start;
is(whole($standby, 't'), '20000|200010000|20000', 'the rows of the moment that the older copy is at');
like(log_since($standby, $from), qr/flash tier emptied\n.*DETAIL:  the data directory is the older one/, 'the tier is emptied');
crash($standby);
$standby->append_conf('postgresql.conf', "recovery_min_apply_delay = 0\n");
$from = -s $standby->logfile;
$standby->start;
$primary->wait_for_catchup($standby);
is(whole($standby, 't'), '20000|200010000|40000', 'it catches up');
like(log_since($standby, $from), qr/flash tier adopted/, 'with the tier that it has since');
$standby->stop;
$primary->stop;
done_testing();
