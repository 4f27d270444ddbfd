# pg_rewind reads and replaces files. It works between servers whose files are current, and is refused where
# they are not.
#
# Rules: control_mark, backup_label, rewind_label
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

for my $mode (qw(durable drained))
{
	my $old = tier_node("old_$mode", mode => $mode, init => { allows_streaming => 1 }, conf => "wal_log_hints = on\nwal_keep_size = 256MB\n");
	$old->start;
	$old->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
	$old->backup('base');
	my $new = PostgreSQL::Test::Cluster->new("new_$mode");
	$new->init_from_backup($old, 'base', has_streaming => 1);
	without_tier($new);
	add_tier($new, mode => $mode);
	$new->start;
	$old->safe_psql('postgres', 'UPDATE t SET ver = 1');
	$old->wait_for_catchup($new);
	$new->promote;
	$new->safe_psql('postgres', 'CHECKPOINT');

	# Both go on, each its own way, with pages in their tiers.
	$old->safe_psql('postgres', 'UPDATE t SET ver = 2');
	evict($old);
	$new->safe_psql('postgres', 'UPDATE t SET ver = 3 WHERE id % 2 = 0');
	evict($new);
	$new->safe_psql('postgres', 'CHECKPOINT');

	my @rewind = ('pg_rewind', '--target-pgdata', $old->data_dir, '--source-pgdata', $new->data_dir, '--no-sync');
	if ($mode eq 'durable')
	{
		crash($new);
		$old->stop;
		command_fails_like(\@rewind, qr/the newest pages of the source server are in a buffer tier/, 'durable: a source that lacks pages is refused');
		$new->start;
		$new->stop;
		$old->start;
		evict($old);
		crash($old);
		$old->start;
		$old->append_conf('postgresql.conf', 'mezzanine.drain_on_shutdown = off');
		$old->reload;
		$old->safe_psql('postgres', 'UPDATE t SET ver = 2');
		evict($old);
		$old->stop;
		like(log_since($old, 0), qr/flash tier closed; it holds the newest version of some pages/, 'durable: stopped without a drain');
		command_fails_like([ @rewind, '--no-ensure-shutdown' ], qr/the newest pages of the target server are in a buffer tier/,
			'durable: nor may the target lack pages');
		$old->append_conf('postgresql.conf', 'mezzanine.drain_on_shutdown = on');
		$old->start;
		crash($old);
		command_fails_like([ @rewind, '--no-ensure-shutdown' ], qr/the newest pages of the target server are/, 'durable: so is a target that was not shut down');
		$old->start;
	}
	$old->stop;
	$new->stop if $mode ne 'durable';

	# The target keeps its own settings.
	system_or_bail('cp', $old->data_dir . '/postgresql.conf', $old->basedir . '/conf');
	command_ok(\@rewind, "$mode: rewound");
	system_or_bail('cp', $old->basedir . '/conf', $old->data_dir . '/postgresql.conf');
	$new->start;
	$old->append_conf('postgresql.conf', "primary_conninfo = '" . $new->connstr . "'\n");
	$old->set_standby_mode;
	my $from = -s $old->logfile;
	$old->start;
	like(log_since($old, $from), qr/(new flash tier|flash tier emptied)/, "$mode: the tier from before is not believed");
	$new->wait_for_catchup($old);
	is(whole($old, 't'), whole($new, 't'), "$mode: the rewound server is like the other");
	is(whole($old, 't'), '5000|12502500|10000', "$mode: and that is right");
	$new->safe_psql('postgres', 'UPDATE t SET ver = 4');
	$new->wait_for_catchup($old);
	evict_there($old);
	is(whole($old, 't'), '5000|12502500|20000', "$mode: it follows");
	$old->stop;
	$new->stop;
}

# The label that pg_rewind leaves lifts nothing, in a directory whose newest pages are in a tier that is gone.
# pg_rewind would have refused this one by its control file; the marker has to hold without that, too.
my $marked = tier_node('marked', mode => 'durable', conf => "mezzanine.drain_on_shutdown = off\n");
$marked->start;
$marked->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
$marked->safe_psql('postgres', 'CHECKPOINT');
$marked->safe_psql('postgres', 'UPDATE t SET ver = 1');
evict($marked);
$marked->stop;
my ($controldata) = run_command([ 'pg_controldata', $marked->data_dir ]);
my ($checkpoint) = $controldata =~ /^Latest checkpoint location: +(\S+)/m;
my ($redo) = $controldata =~ /^Latest checkpoint's REDO location: +(\S+)/m;
my ($wal) = $controldata =~ /^Latest checkpoint's REDO WAL file: +(\S+)/m;
append_to_file($marked->data_dir . '/backup_label', <<"END");
START WAL LOCATION: $redo (file $wal)
CHECKPOINT LOCATION: $checkpoint
BACKUP METHOD: pg_rewind
BACKUP FROM: primary
START TIME: 2026-11-24 00:00:00 GMT
END
my $settings = slurp_file($marked->data_dir . '/postgresql.conf');
without_tier($marked);
like(start_fails($marked, 'nor does it lift the mark, where no tier is loaded'), qr/are in a buffer tier, and none is loaded/, 'that is said');
open my $file, '>', $marked->data_dir . '/postgresql.conf' or die;
print $file $settings;
close $file;
rename flash_path($marked), flash_path($marked) . '.away' or die;
like(start_fails($marked, 'the label of pg_rewind does not lift the marker'), qr/may hold the only copy of pages/, 'it says why');
unlink flash_path($marked);
rename flash_path($marked) . '.away', flash_path($marked) or die;
$marked->start;
is(whole($marked, 't'), '5000|12502500|5000', 'with its tier it starts, label or not');
$marked->stop;

sub evict_there
{
	my ($standby) = @_;
	$standby->safe_psql('postgres', 'SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache') for 1 .. 2;
	return;
}
done_testing();
