# pg_upgrade takes the files of a server that was shut down with a drain, and refuses others. The new server
# gets a tier of its own.
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
# The postmaster looks at a shutdown first, if both are asked for at once.
ok($old->poll_query_until('postgres', "SELECT current_setting('mezzanine.drain_on_shutdown') = 'off'"), 'there will be no drain');
$old->stop;

my $new = tier_node('new', mode => 'durable');
my $bin = $new->config_data('--bindir');
my @upgrade = (
	'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $bin, '-B', $bin,
	'-s', $new->host, '-p', $old->port, '-P', $new->port, '--copy');
chdir $new->basedir or die;

# What it says is not the reason: it has pg_resetwal read pg_control, which guesses what it cannot read, and
# guesses that there are no checksums. Where there are none it gets as far as the old server, whose log has
# the reason.
sub check
{
	my ($target) = @_;
	my ($said, $complained);
	my $passed = IPC::Run::run([ (map { $_ eq $new->data_dir ? $target->data_dir : $_ } @upgrade), '--check' ],
		'>', \$said, '2>', \$complained);
	return ($passed, $said . $complained);
}
my ($passed, $said) = check($new);
ok(!$passed, 'a data directory that lacks pages is refused');
like($said, qr/pg_control exists but is broken or wrong version/, 'it says that it cannot read pg_control');
like($said, qr/old cluster does not use data checksums but the new one does/, 'and what follows from that');
my $plain = tier_node('plain', mode => 'durable', init => { extra => ['--no-sync'] });
($passed, $said) = check($plain);
ok(!$passed, 'by a new cluster without checksums as well');
like($said, qr/could not connect to source postmaster/, 'it says that the old server does not start');
my ($log) = $said =~ /Consult the last few lines of "(.*?)"/;
like(slurp_file($log), qr/FATAL:  cannot upgrade while the newest pages of this database cluster are in a buffer tier/, 'whose log says why');

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
