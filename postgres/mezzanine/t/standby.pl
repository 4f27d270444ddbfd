# A standby has a tier of its own. Its restartpoints, a crash, a shutdown, a promotion.
#
# Rules: checkpoint_sync, evict_checksum, flush_db, shutdown_drain
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

for my $mode (qw(durable drained))
{
	my $primary = tier_node("primary_$mode", mode => $mode, init => { allows_streaming => 1 });
	$primary->start;
	$primary->safe_psql('postgres', 'CREATE EXTENSION amcheck; CREATE EXTENSION pg_buffercache');
	$primary->backup('base');

	my $standby = PostgreSQL::Test::Cluster->new("standby_$mode");
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	without_tier($standby);
	add_tier($standby, mode => $mode);
	$standby->start;
	like(slurp_log($standby), qr/new flash tier/, "$mode: the standby has a tier of its own");

	# Rows whose hint bits are set on the standby alone, in pages that then leave as clean.
	$primary->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
	$primary->safe_psql('postgres', 'CREATE INDEX t_id ON t (id)');
	$primary->wait_for_catchup($standby);
	evict_there($standby);
	is(whole($standby, 't'), '5000|12502500|0', "$mode: replayed");
	evict_there($standby);
	is(whole($standby, 't'), '5000|12502500|0', "$mode: a page with new hint bits comes back");

	# Redo copies a database as files.
	$primary->safe_psql('postgres', 'UPDATE t SET ver = 1');
	$primary->safe_psql('postgres', 'CREATE DATABASE twin TEMPLATE postgres STRATEGY file_copy');
	$primary->wait_for_catchup($standby);
	is(whole($standby, 't', 'twin'), '5000|12502500|5000', "$mode: redo of a copied database");

	# A restartpoint, then a crash.
	$primary->safe_psql('postgres', 'UPDATE t SET ver = 2');
	restartpoint($primary, $standby);
	crash($standby);
	$standby->start;
	$primary->wait_for_catchup($standby);
	is(whole($standby, 't'), '5000|12502500|10000', "$mode: a restartpoint and a crash");

	# The same with one page, which fills no group: nothing but the restartpoint sends it to flash.
	restartpoint($primary, $standby);
	$primary->safe_psql('postgres', 'UPDATE t SET ver = 3 WHERE id = 1');
	restartpoint($primary, $standby);
	crash($standby);
	$standby->start;
	$primary->wait_for_catchup($standby);
	is(whole($standby, 't'), '5000|12502500|10001', "$mode: a restartpoint of one page and a crash");

	# Stopped with changes since the last restartpoint, which is then skipped.
	$primary->safe_psql('postgres', 'UPDATE t SET ver = 3');
	$primary->wait_for_catchup($standby);
	evict_there($standby);
	$standby->stop;
	command_ok([ 'pg_checksums', '--check', '-D', $standby->data_dir ], "$mode: a stopped standby's files are current");
	$standby->start;
	$primary->wait_for_catchup($standby);
	is(whole($standby, 't'), '5000|12502500|15000', "$mode: stopped and started");

	$primary->safe_psql('postgres', 'UPDATE t SET ver = 4');
	$primary->wait_for_catchup($standby);
	$primary->stop('immediate');
	$standby->promote;
	$standby->safe_psql('postgres', 'UPDATE t SET ver = 5 WHERE id <= 1000');
	$standby->safe_psql('postgres', 'CHECKPOINT');
	crash($standby);
	$standby->start;
	is(whole($standby, 't'), '5000|12502500|21000', "$mode: promoted, written to, crashed");
	is($standby->safe_psql('postgres', "SELECT bt_index_check('t_id', true)"), '', "$mode: the index agrees");
	is($standby->safe_psql('postgres', "SELECT count(*) FROM verify_heapam('t')"), '0', "$mode: the heap is in order");
	$standby->stop;
}

# The standby's restartpoint is at the checkpoint that the primary makes now.
sub restartpoint
{
	my ($primary, $standby) = @_;
	$primary->safe_psql('postgres', 'CHECKPOINT');
	$primary->wait_for_catchup($standby);
	$standby->safe_psql('postgres', 'CHECKPOINT');
	return;
}

sub slurp_log { return log_since($_[0], 0); }

sub evict_there
{
	my ($standby) = @_;
	$standby->safe_psql('postgres', 'SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache') for 1 .. 2;
	return;
}
done_testing();
