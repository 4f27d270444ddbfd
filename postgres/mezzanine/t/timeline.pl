# Two histories of one cluster with a checkpoint at the very same position of their logs: the tier of one is
# not that of the other.
#
# Rules: timeline
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# A checkpoint whose redo point follows the switch to a segment of the log, with the same few records before
# it in every history.
sub checkpoint_at
{
	my ($node, $segment) = @_;
	my $current = q{SELECT floor((pg_current_wal_insert_lsn() - '0/0') / (SELECT setting::int FROM pg_settings WHERE name = 'wal_segment_size'))};

	for (1 .. 50)
	{
		last if $node->safe_psql('postgres', $current) >= $segment - 1;
		$node->safe_psql('postgres', q{SELECT pg_logical_emit_message(false, '', ''); SELECT pg_switch_wal()});
	}
	$node->safe_psql('postgres', "SELECT pg_logical_emit_message(false, '', ''); SELECT pg_switch_wal();\nCHECKPOINT;");
	return split /\|/, $node->safe_psql('postgres', 'SELECT redo_lsn, timeline_id FROM pg_control_checkpoint()');
}

# Has a history of its own from here on, which its tier alone has.
sub live
{
	my ($node, $version) = @_;
	$node->safe_psql('postgres', "UPDATE t SET ver = $version");
	evict($node, 't');
	return checkpoint_at($node, 8);
}

my $first = tier_node('first', mode => 'durable', init => { allows_streaming => 1 });
$first->start;
$first->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 3000) g');
$first->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
$first->stop;
$first->backup_fs_cold('copy');
my $second = PostgreSQL::Test::Cluster->new('second');
$second->init_from_backup($first, 'copy');
$second->append_conf('postgresql.conf', "mezzanine.flash_path = '" . flash_path($second) . "'");
$second->set_standby_mode;
system_or_bail('cp', flash_path($first), flash_path($second));

$first->start;
my ($redo, $timeline) = live($first, 1);
crash($first);
$second->start;
$second->promote;
$second->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
my ($second_redo, $second_timeline) = live($second, 2);
crash($second);
is($second_redo, $redo, 'two checkpoints at the same position of the log');
is("$timeline $second_timeline", '1 2', 'on two timelines');

my $flash = flash_path($second);
rename $flash, "$flash.own" or die;
system_or_bail('cp', flash_path($first), $flash);
my $log = start_fails($second, 'the tier of the other history is not used');
like($log, qr/are not of the same moment/, 'it says why');
like($log, qr/redo begins at \Q$redo\E on timeline 2, and the tier was last used at \Q$redo\E on timeline 1/, 'and what differs');
rename "$flash.own", $flash or die;

$first->start;
is(whole($first, 't'), '3000|4501500|3000', 'with its own tier the first history is whole');
$first->stop;
$second->start;
is(whole($second, 't'), '3000|4501500|6000', 'and so is the second');
$second->stop;
done_testing();
