# The log of a crashed server ends within a record, at the end of a page, which the walwriter had flushed: a
# drop had noted that position.
#
# Rules: log_page
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = tier_node('log_page', conf => "wal_writer_delay = 50ms\n");
$node->start;
$node->safe_psql('postgres', q{CREATE TABLE r AS SELECT g AS id, repeat('x', 900) AS pad FROM generate_series(1, 12000) g});
$node->safe_psql('postgres', 'VACUUM (FREEZE) r');
$node->stop;
unlink flash_path($node) or die;
$node->start;
my ($dropping, $logging, $reading) = map { $node->background_psql('postgres') } 1 .. 3;
$reading->query_safe('SELECT count(*) FROM pg_class');
my $ends = q{SELECT pg_current_wal_flush_lsn() - '0/0', pg_current_wal_insert_lsn() - '0/0'};
$logging->query_safe($ends);
$dropping->query_safe('BEGIN; CREATE TABLE x (a int)');
$node->safe_psql('postgres', 'CHECKPOINT');
my $walwriter = $logging->query_safe("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
# Longer than a page, and nobody waits for its end.
my ($flushed, $inserted, $is_within);
for (1 .. 5)
{
	$logging->query_safe("SELECT pg_logical_emit_message(false, 'x', repeat('x', 100000))");
	for (1 .. 100)
	{
		($flushed, $inserted) = split /\|/, $logging->query_safe($ends);
		last if $inserted - $flushed < 8192 && $flushed % 8192 == 0;
		usleep 50_000;
	}
	kill 'STOP', $walwriter;
	($flushed, $inserted) = split /\|/, $logging->query_safe($ends);
	$is_within = $flushed < $inserted && $flushed % 8192 == 0;
	last if $is_within;
	kill 'CONT', $walwriter;
}
ok($is_within, 'the log is flushed to the end of a page within a record');
# An abort forces no log, and drops the table.
$dropping->query_safe('ABORT');
# Clean pages fill groups, which become durable.
$reading->query_safe('SELECT count(*) FROM r') for 1 .. 2;
sleep 1;
crash($node);
eval { $_->quit } for $dropping, $logging, $reading;
ok($node->start(fail_ok => 1), 'a server whose log ends there starts');
$node->stop;
done_testing();
