# Stage-out cannot sync a file: as everywhere in PostgreSQL that is a PANIC, and redo writes the pages again.
# Their frames were not given to others before.
#
# Rules: disk_sync
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = only_for('MEZZ_FAULTS_LIBRARY', 'the library that has calls fail');

for my $mode (qw(durable drained))
{
	my $node = tier_node("disk_$mode", mode => $mode, flash => 4, conf => "fsync = on\n");
	my $faults = $node->basedir . '/faults';
	append_to_file($faults, '');
	{
		local $ENV{LD_PRELOAD} = $library;
		local $ENV{MEZZ_FAULTS} = $faults;
		$node->start;
	}
	# Larger than the tier, so that pages go on to disk.
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 100000) g');
	$node->safe_psql('postgres', 'CHECKPOINT');
	append_to_file($faults, 'sync ' . relation_path($node, 't') . "\n");
	my $acknowledged = 0;
	for my $ver (1 .. 4)
	{
		my ($code) = eval { $node->psql('postgres', "UPDATE t SET ver = $ver") };
		$code //= 2;
		$acknowledged = $ver if $code == 0;
		last if $code;
	}
	# No checkpoint has been asked for: it was stage-out that had to sync the file.
	like(log_since($node, 0), qr/PANIC:  could not fsync file/, "$mode: a failed sync is a PANIC");
	unlink $faults;
	append_to_file($faults, '');
	$node->stop('immediate', fail_ok => 1);
	$node->_update_pid(0);
	$node->start;
	my $found = $node->safe_psql('postgres', 'SELECT sum(ver) / 100000 FROM t');
	cmp_ok($found, '>=', $acknowledged, "$mode: what was acknowledged is there");
	is(whole($node, 't'), '100000|5000050000|' . 100000 * $found, "$mode: no row is lost");
	$node->stop;
}
done_testing();
