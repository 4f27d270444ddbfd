# A server restored to a moment of the past begins with a tier of its own; one that has run on cannot be mixed
# with it.
#
# Rules: backup_drain
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

for my $mode (qw(durable drained))
{
	my $node = tier_node("archive_$mode", mode => $mode, init => { has_archiving => 1, allows_streaming => 1 });
	$node->start;
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
	$node->safe_psql('postgres', 'CREATE TABLE quiet AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
	evict($node);
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->backup('base');
	$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
	evict($node);
	my $target = $node->safe_psql('postgres', "SELECT pg_create_restore_point('here')");
	$node->safe_psql('postgres', 'UPDATE t SET ver = 2');
	evict($node);
	$node->safe_psql('postgres', 'CHECKPOINT; SELECT pg_switch_wal()');
	$node->poll_query_until('postgres', "SELECT last_archived_wal IS NOT NULL FROM pg_stat_archiver");
	$node->safe_psql('postgres', 'SELECT pg_switch_wal()');

	my $past = PostgreSQL::Test::Cluster->new("past_$mode");
	$past->init_from_backup($node, 'base', has_restoring => 1, standby => 0);
	without_tier($past);
	add_tier($past, mode => $mode);
	$past->append_conf('postgresql.conf', "recovery_target_name = 'here'\nrecovery_target_action = promote\n");
	$past->start;
	$past->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
	is(whole($past, 't'), '5000|12502500|5000', "$mode: as of the restore point");
	is(whole($past, 'quiet'), '5000|12502500|5000', "$mode: what was not changed since is there");
	$past->safe_psql('postgres', 'UPDATE t SET ver = 9 WHERE id <= 1000');
	evict($past);
	$past->safe_psql('postgres', 'CHECKPOINT');
	crash($past);
	$past->start;
	is(whole($past, 't'), '5000|12502500|13000', "$mode: the new history survives a crash");
	$past->safe_psql('postgres', 'CREATE EXTENSION amcheck');
	is($past->safe_psql('postgres', "SELECT count(*) FROM verify_heapam('t')"), '0', "$mode: the heap is in order");

	# The tier of the old history under the new data directory, and the other way round.
	crash($past);
	crash($node);
	system_or_bail('cp', flash_path($past), flash_path($past) . '.kept');
	system_or_bail('cp', flash_path($node), flash_path($past));
	like(start_fails($past, "$mode: the tier of the other history is refused"),
		$mode eq 'durable' ? qr/is not the one of this cluster/ : qr/is another server's/, 'it says so');
	system_or_bail('cp', flash_path($past) . '.kept', flash_path($past));
	$past->start;
	is(whole($past, 't'), '5000|12502500|13000', "$mode: and the rows are those of this one");
	$past->stop;
	$node->start;
	is(whole($node, 't'), '5000|12502500|10000', "$mode: the old server is as it was");
	$node->stop;
}
done_testing();
