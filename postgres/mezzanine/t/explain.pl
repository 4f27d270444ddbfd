# EXPLAIN (ANALYZE, BUFFERS) tells how many of the blocks that a query read came from the tier: in all
# formats, with what functions and parallel workers read, and with its time if I/O is timed.
use strict;
use warnings FATAL => 'all';

use JSON::PP;
use Mezzanine;
use Test::More;

my $node = tier_node('explain', mode => 'durable', conf => 'max_parallel_workers = 4');
$node->start;
$node->safe_psql('postgres', <<'END');
CREATE TABLE t AS SELECT g AS id, repeat('x', 500) AS f FROM generate_series(1, 5000) g;
CREATE TABLE other AS SELECT g AS id, repeat('x', 500) AS f FROM generate_series(1, 2000) g;
CREATE FUNCTION rows_of_other() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM other); END';
CREATE EXTENSION pg_buffercache;
VACUUM (FREEZE, ANALYZE) t, other;
CHECKPOINT;
END
my $serial = 'SET max_parallel_workers_per_gather = 0';

# output_of(QUERY, OPTIONS, SETTINGS): what EXPLAIN prints, after everything has left shared buffers.
sub output_of
{
	my ($query, $options, $settings) = @_;
	evict($node);
	return $node->safe_psql('postgres', ($settings // $serial) . "; EXPLAIN (ANALYZE, BUFFERS, COSTS OFF$options) $query");
}

# The one query's object in JSON, and what it says of the tier.
sub explained
{
	my ($query, $settings) = @_;
	my $plans = decode_json(output_of($query, ', FORMAT JSON', $settings));
	is(scalar @$plans, 1, 'one object for one query');
	return $plans->[0];
}

sub from_tier
{
	my ($plan) = @_;
	return $plan->{'Flash Tier Hit Blocks'} + $plan->{'Flash Tier Memory Hit Blocks'};
}

# Every block that shared buffers lacked came from somewhere.
sub adds_up
{
	my ($plan, $name) = @_;
	is(from_tier($plan) + $plan->{'Flash Tier Missed Blocks'}, $plan->{Plan}{'Shared Read Blocks'},
		"$name: hits and misses are the blocks that were read");
	return;
}

my $plan = explained('SELECT count(*) FROM t');
cmp_ok(from_tier($plan), '>', 300, 'a table comes from the tier');
adds_up($plan, 'a table');
ok(!exists $plan->{'Flash Tier I/O Read Time'}, 'time is not shown unless I/O is timed');

# On flash, and not in the memory on the way there: a restart leaves nothing else.
$node->restart;
$plan = explained('SELECT count(*) FROM t', "$serial; SET track_io_timing = on");
cmp_ok($plan->{'Flash Tier Hit Blocks'}, '>', 300, 'after a restart it comes from flash');
cmp_ok($plan->{'Flash Tier I/O Read Time'}, '>', 0, 'and took its time');
cmp_ok($plan->{'Flash Tier I/O Read Time'}, '<=', $plan->{Plan}{'Shared I/O Read Time'}, 'which is part of the time of reading');

# What is in shared buffers is not asked for.
$node->safe_psql('postgres', 'SELECT count(*) FROM pg_class');
my $json = $node->safe_psql('postgres',
	"$serial; SELECT count(*) FROM pg_am; EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT count(*) FROM pg_am");
$json =~ s/^\d+\n//;
is(from_tier(decode_json($json)->[0]), 0, 'nothing is shown where shared buffers have all');

# Functions, other queries of the same command, and workers.
$plan = explained('SELECT rows_of_other(), count(*) FROM t');
adds_up($plan, 'a function\'s query');
my $parallel = 'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; '
  . 'SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off; SET debug_parallel_query = on';
$plan = explained('SELECT count(*) FROM t', $parallel);
like(encode_json($plan), qr/"Workers Launched":[12]/, 'workers read the table');
cmp_ok(from_tier($plan), '>', 300, 'which comes from the tier');
adds_up($plan, 'parallel workers');
$plan = explained('SELECT count(*) FROM t');
adds_up($plan, 'the next query in another session');

# The other formats.
my $text = output_of('SELECT count(*) FROM t', '');
like($text, qr/^Planning Time: .* ms\n(?:.*\n)*Flash Tier Hit Blocks: \d+\nFlash Tier Memory Hit Blocks: \d+\nFlash Tier Missed Blocks: \d+\nExecution Time: .* ms$/m,
	'text: between planning time and execution time');
like(output_of('SELECT count(*) FROM t', ', FORMAT XML'), qr/<Flash-Tier-Hit-Blocks>\d+<\/Flash-Tier-Hit-Blocks>\s(?:.*\n)*\s*<\/Query>/, 'XML: in the query');
like(output_of('SELECT count(*) FROM t', ', FORMAT YAML'), qr/^  Flash Tier Hit Blocks: \d+$/m, 'YAML: in the query');
like($node->safe_psql('postgres', "$serial; SELECT count(*) FROM t; EXPLAIN (ANALYZE, BUFFERS) SELECT 1"), qr/Execution Time/,
	'a query without reads is explained');
unlike($node->safe_psql('postgres', 'EXPLAIN (ANALYZE, BUFFERS) SELECT 1'), qr/Flash Tier/, 'text: nothing where nothing was read');
unlike(output_of('SELECT count(*) FROM t', '', 'SET mezzanine.explain = off'), qr/Flash Tier/, 'not if it is turned off');
evict($node);
unlike($node->safe_psql('postgres', "EXPLAIN ($_) SELECT count(*) FROM t"), qr/Flash Tier/, "not with $_")
  for ('ANALYZE', 'BUFFERS', 'ANALYZE, BUFFERS OFF');

# A query that fails leaves nothing behind for the next one.
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query('EXPLAIN (ANALYZE, BUFFERS) SELECT 1 / (count(*) - 5000) FROM t');
like($session->{stderr}, qr/division by zero/, 'a query fails');
unlike($session->query('EXPLAIN (ANALYZE) SELECT count(*) FROM other'), qr/Flash Tier/, 'the next one is explained as it was asked');
like($session->query('EXPLAIN (ANALYZE, BUFFERS) SELECT 1'), qr/Execution Time/, 'and the one after that');
$session->quit;

# EXPLAIN inside of what is explained, and a rule that makes two queries of one.
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION explains() RETURNS text LANGUAGE plpgsql AS
$$ DECLARE line text; BEGIN EXECUTE 'EXPLAIN (ANALYZE, BUFFERS) SELECT count(*) FROM other' INTO line; RETURN line; END $$;
CREATE TABLE noted (id integer);
CREATE RULE note AS ON INSERT TO noted DO ALSO SELECT count(*) FROM other;
END
adds_up(explained('SELECT explains(), count(*) FROM t'), 'EXPLAIN in a function');
my $plans = decode_json(output_of('INSERT INTO noted VALUES (1)', ', FORMAT JSON'));
is(scalar @$plans, 2, 'a rule has made two queries');
adds_up($plans->[1], 'the rule\'s query');
$node->stop;
done_testing();
