# The log goes on on another timeline while a server is in recovery, or at its promotion, and the next start
# compares its end with that of the tier's newest page: pages that came from behind the switch are of the new
# timeline.
#
# Rules: follow_timeline
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
$primary->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
$primary->backup('base');
my %standby;
for my $name (qw(promoted follower crashed))
{
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($primary, 'base', has_streaming => 1);
	add_tier($node, mode => 'durable') if $name ne 'promoted';
	$node->start;
	$standby{$name} = $node;
}
$primary->safe_psql('postgres', 'UPDATE t SET ver = 1');
$primary->wait_for_catchup($_) for values %standby;
$primary->stop('immediate');

# A standby with a tier follows the switch of another one's promotion, and crashes.
my ($promoted, $follower) = @standby{qw(promoted follower)};
$promoted->promote;
$follower->append_conf('postgresql.conf', "primary_conninfo = '" . $promoted->connstr . " application_name=follower'");
$follower->reload;
$promoted->safe_psql('postgres', 'UPDATE t SET ver = 2');
$promoted->wait_for_catchup($follower);
for (1 .. 2)
{
	$follower->safe_psql('postgres', 'SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache');
	is(whole($follower, 't'), '5000|12502500|10000', 'redone past the switch');
}
crash($follower);
ok($follower->start(fail_ok => 1), 'a standby that has followed a switch starts after a crash');
is(whole($follower, 't'), '5000|12502500|10000', 'with every row');
$follower->stop;
$promoted->stop;

# One that is promoted itself crashes before the checkpoint of that, and once more after its recovery.
my $crashed = $standby{crashed};
$crashed->promote;
$crashed->safe_psql('postgres', 'UPDATE t SET ver = 3 WHERE id <= 1000');
for my $time (qw(first second third))
{
	crash($crashed);
	ok($crashed->start(fail_ok => 1), "a promoted server starts after its $time crash");
	is(whole($crashed, 't'), '5000|12502500|7000', 'with every row');
}
$crashed->stop;
done_testing();
