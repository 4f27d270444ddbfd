# The flash device has gone from where it was, as one that was unplugged: who connects from then on cannot
# open it once more for flushes of its own, and needs none. Sessions begin and work as before; a flush that
# has to be made costs the tier, as one that fails does.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = only_for('MEZZ_FAULTS_LIBRARY', 'the library that has calls fail');

for my $mode (qw(through drained durable))
{
	my $node = tier_node("gone_$mode", mode => $mode, flash => 16);
	my $faults = $node->basedir . '/faults';
	append_to_file($faults, '');
	{
		local $ENV{LD_PRELOAD} = $library;
		local $ENV{MEZZ_FAULTS} = $faults;
		$node->start;
	}
	create_extension($node);
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
	evict($node, 't');
	$node->safe_psql('postgres', 'CHECKPOINT');
	append_to_file($faults, 'open ' . flash_path($node) . "\n");
	is(eval { whole($node, 't') } // '', '5000|12502500|0', "$mode: a new session reads");
	is(eval { $node->psql('postgres', 'UPDATE t SET ver = 1') } // 2, 0, "$mode: another writes");
	unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, "$mode: nobody ends") or next;
	is(whole($node, 't'), '5000|12502500|5000', "$mode: and a third reads that");
	if ($mode eq 'through')
	{
		# Workers that begin now are asked to flush.
		$node->safe_psql('postgres', q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'mezzanine'));
		for (1 .. 60)
		{
			$node->safe_psql('postgres', 'UPDATE t SET ver = 2 WHERE ver = 1; UPDATE t SET ver = 1');
			evict($node, 't');
			last if $node->safe_psql('postgres', 'SELECT state FROM pg_stat_mezzanine') eq 'failed';
			sleep 1;
		}
		is($node->safe_psql('postgres', 'SELECT state FROM pg_stat_mezzanine'), 'failed', "$mode: a flush costs the tier");
		like(slurp_file($node->logfile), qr/DETAIL:  The server goes on without the tier/, "$mode: and nothing else");
		is(whole($node, 't'), '5000|12502500|5000', "$mode: all rows are there");
	}
	unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, "$mode: nobody has ended");
	$node->stop('immediate');
}
done_testing();
