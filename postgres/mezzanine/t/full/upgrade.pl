# pg_upgrade takes the files of a server that was shut down with a drain, and refuses others. The new server gets a tier of its own.
#
# Rules: control_mark
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $old = tier_node('old', mode => 'durable');
$old->start;
$old->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
$old->safe_psql('postgres', 'UPDATE t SET ver = 1');
evict($old);
$old->append_conf('postgresql.conf', 'mezzanine.drain_on_shutdown = off');
$old->reload;
$old->stop;

my $new = tier_node('new', mode => 'durable');
my $bin = $new->config_data('--bindir');
my @upgrade = (
	'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $bin, '-B', $bin,
	'-s', $new->host, '-p', $old->port, '-P', $new->port, '--copy');
chdir $new->basedir or die;

command_fails([ @upgrade, '--check' ], 'a data directory that lacks pages is refused');

$old->append_conf('postgresql.conf', 'mezzanine.drain_on_shutdown = on');
$old->start;
is(whole($old, 't'), '5000|12502500|5000', 'it is whole with its tier');
$old->stop;
command_ok(\@upgrade, 'after a drain it is upgraded');
$new->start;
is(whole($new, 't'), '5000|12502500|5000', 'the new server has everything');
evict($new);
$new->safe_psql('postgres', 'UPDATE t SET ver = 2');
$new->safe_psql('postgres', 'CHECKPOINT');
crash($new);
$new->start;
is(whole($new, 't'), '5000|12502500|10000', 'and uses its own tier');
$new->stop;
done_testing();
