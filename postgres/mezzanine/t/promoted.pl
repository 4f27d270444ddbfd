# A standby is promoted and used, and then its directory from before that is put back beside the flash that
# has gone on, to follow the old primary again: none of the pages of the other history is seen. Where flash
# may have the only copies the start is refused.
#
# Kept by crates/ffi (startup.rs) and log.c: redo points, and where the log ends. Either is enough.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = tier_node('primary', init => { allows_streaming => 1 }, conf => "wal_keep_size = 1GB\n");
without_tier($primary);
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
$primary->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 20000) g');

for my $mode (qw(durable drained through))
{
	for my $stop (qw(immediate fast))
	{
		my $name = "$mode, $stop";
		$primary->safe_psql('postgres', 'UPDATE t SET ver = 1');
		$primary->safe_psql('postgres', 'VACUUM t');
		my $standby = tier_standby($primary, "standby_${mode}_$stop", mode => $mode);
		$primary->safe_psql('postgres', 'UPDATE t SET ver = 2');
		$primary->wait_for_catchup($standby);
		is(whole($standby, 't'), '20000|200010000|40000', "$name: the standby follows");
		$standby->safe_psql('postgres', 'SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache') for 1 .. 2;

		# Nothing changes meanwhile.
		my $data = $standby->data_dir;
		my $copy = $standby->basedir . '/copy';
		system_or_bail('cp', '-a', $data, $copy);
		$standby->promote;
		$standby->safe_psql('postgres', 'UPDATE t SET ver = 3');
		$standby->safe_psql('postgres', 'VACUUM t');
		evict($standby, 't');
		is(whole($standby, 't'), '20000|200010000|60000', "$name: promoted, it has a history of its own");
		$standby->stop($stop);
		# The other one goes on further than that, so no position of the log tells.
		$primary->safe_psql('postgres', 'UPDATE t SET ver = ver + 1') for 1 .. 3;

		exchange($standby, $copy);
		my $from = -s $standby->logfile;
		if ($standby->start(fail_ok => 1))
		{
			isnt($mode, 'durable', "$name: the old directory starts");
			like(log_since($standby, $from), qr/flash tier emptied/, "$name: with an empty tier");
			$primary->wait_for_catchup($standby);
			is(whole($standby, 't'), '20000|200010000|100000', "$name: and has the rows of its primary");
			$standby->safe_psql('postgres', 'SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache') for 1 .. 2;
			is(whole($standby, 't'), '20000|200010000|100000', "$name: also from its tier");
			$standby->stop;
			command_ok([ 'pg_checksums', '--check', '-D', $data ], "$name: every checksum is right");
			next;
		}
		is($mode, 'durable', "$name: the old directory is refused");
		like(log_since($standby, $from), qr/are not of the same moment/, "$name: by the reason");
		exchange($standby, $copy);
		$standby->start;
		is(whole($standby, 't'), '20000|200010000|60000', "$name: nothing has happened to the other history");
		$standby->stop;
	}
}
$primary->stop;
done_testing();
