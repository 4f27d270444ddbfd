# pg_createsubscriber ends with pg_resetwal, which refuses files that lack pages. It looks before it changes
# anything.
#
# Rules: shutdown_drain
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $publisher = tier_node('publisher', init => { allows_streaming => 'logical' }, conf => "wal_keep_size = 256MB\n");
$publisher->start;
$publisher->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, ver int); INSERT INTO t SELECT g, 0 FROM generate_series(1, 5000) g');
$publisher->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
$publisher->backup('base', backup_options => [ '--checkpoint=fast' ]);
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($publisher, 'base', has_streaming => 1);
without_tier($standby);
add_tier($standby, conf => "mezzanine.drain_on_shutdown = off\n");
$standby->start;
$publisher->safe_psql('postgres', 'UPDATE t SET ver = 1');
$publisher->wait_for_catchup($standby);
$standby->safe_psql('postgres', 'SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache') for 1 .. 2;
$standby->stop;

my @create = ('pg_createsubscriber', '--verbose', '--pgdata', $standby->data_dir, '--publisher-server', $publisher->connstr('postgres'),
	'--socketdir', $standby->host, '--subscriber-port', $standby->port, '--database', 'postgres');
my $refused = qr/the newest pages of the subscriber are in a buffer tier.*start and stop it once/s;
my $from = -s $standby->logfile;
command_fails_like(\@create, $refused, 'a standby whose files lack pages is refused');
is(log_since($standby, $from), '', 'at once');
untouched('it');

# One that was drained, but would not be the next time.
$standby->append_conf('postgresql.conf', "mezzanine.drain_on_shutdown = on\n");
$standby->start;
$standby->stop;
$standby->append_conf('postgresql.conf', "mezzanine.drain_on_shutdown = off\n");
$publisher->safe_psql('postgres', 'UPDATE t SET ver = 2');
command_fails_like(\@create, $refused, 'so is one that leaves pages in the tier when it is stopped');
untouched('that');

$standby->append_conf('postgresql.conf', "mezzanine.drain_on_shutdown = on\n");
$standby->start;
$standby->stop;
command_ok(\@create, 'a drained one becomes a subscriber');
$standby->start;
$publisher->safe_psql('postgres', 'UPDATE t SET ver = 3');
$standby->wait_for_subscription_sync($publisher, $standby->safe_psql('postgres', 'SELECT subname FROM pg_subscription'));
$publisher->wait_for_catchup($standby->safe_psql('postgres', 'SELECT subname FROM pg_subscription'));
evict($standby);
is(whole($standby, 't'), '5000|12502500|15000', 'it has every row, and follows');
$standby->stop;
$publisher->stop;
done_testing();

sub untouched
{
	my ($what) = @_;

	is($publisher->safe_psql('postgres', 'SELECT (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_replication_slots)'),
		'0|0', "$what has changed nothing at the publisher");
	unlike(slurp_file($standby->data_dir . '/postgresql.auto.conf'), qr/recovery_target/, 'nor at the standby');
	return;
}
