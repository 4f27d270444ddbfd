# Pages on flash are read before they are needed (effective_io_concurrency): as many at a time as the setting
# says, each once, and none that was changed since.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

# A modelled drive, a hundred times slower than it is: its time passes for all reads that are under way, on
# any machine.
my $node = tier_node('prefetch', mode => 'drained', flash => 64,
	conf => "mezzanine.flash_model = 'nvme-local'\nmezzanine.model_time_scale = 0\ntrack_io_timing = on\n"
	  . "maintenance_io_concurrency = 0\neffective_io_concurrency = 0\n");
$node->start;
create_extension($node);
# Two pages for each value of k, in no order, in about 700 pages.
$node->safe_psql('postgres', <<'END');
CREATE TABLE t AS SELECT g AS id, g * 7919 % 10007 AS k, 0 AS ver, repeat('x', 1000) AS filler FROM generate_series(1, 5000) g;
CREATE INDEX t_k ON t (k);
VACUUM (FREEZE, ANALYZE) t;
END

my $bitmap = 'SET enable_seqscan = off; SET enable_indexscan = off; SET max_parallel_workers_per_gather = 0;';
my $query = 'SELECT count(*), sum(id), sum(ver) FROM t WHERE k < 1500';
my $expected = $node->safe_psql('postgres', "$bitmap $query");
like($node->safe_psql('postgres', "$bitmap EXPLAIN $query"), qr/Bitmap Heap Scan on t/, 'the query is a bitmap scan');

# All of it on flash, none in shared buffers or on its way.
sub cold
{
	$node->safe_psql('postgres', 'CHECKPOINT');
	evict($node);
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->restart;
	$node->safe_psql('postgres', 'SELECT count(*) FROM pg_class; SELECT mezzanine_reset_stats()');
	return;
}

my @columns = qw(prefetches prefetches_used prefetches_stale prefetches_unused prefetch_bytes flash_read_time);

sub counts
{
	my %counts;
	@counts{@columns} = split /\|/, $node->safe_psql('postgres', "SELECT @{[join ', ', @columns]} FROM pg_stat_mezzanine");
	return \%counts;
}

# What reads of the drive have taken, in ms: a sum over all that were under way.
sub response
{
	return $node->safe_psql('postgres', 'SELECT read_response_ns / 1e6 FROM mezzanine_model_use() WHERE device = \'flash\'');
}

sub scan
{
	my ($concurrency, $settings) = @_;
	cold();
	$node->safe_psql('postgres', 'SELECT mezzanine_model_time_scale(100)');
	my $before = response();
	my $found = $node->safe_psql('postgres', "$bitmap SET effective_io_concurrency = $concurrency; " . ($settings // '') . $query);
	is($found, $expected, "with $concurrency the query finds what it found");
	$node->safe_psql('postgres', 'SELECT mezzanine_model_time_scale(0)');
	return (counts(), 100 * (response() - $before));
}

my ($counts, $response) = scan(0);
is($counts->{prefetches}, 0, 'nothing is read ahead without the setting');
cmp_ok($counts->{flash_read_time}, '>', 0.9 * $response, 'every read is waited for');

($counts, $response) = scan(32);
cmp_ok($counts->{prefetches}, '>', 200, 'pages are read ahead');
is($counts->{prefetches_used}, $counts->{prefetches}, 'and each is used');
is($counts->{prefetches_stale} + $counts->{prefetches_unused}, 0, 'none in vain');
cmp_ok($counts->{flash_read_time}, '<', $response / 4, 'reads overlap: they take four times as long as anybody waits for them');
like(slurp_file($node->logfile), qr/pages on flash are read ahead by the clock of a modelled/, 'the log says how, once');

($counts) = scan(32, 'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; '
	  . 'SET min_parallel_table_scan_size = 0; SET debug_parallel_query = on; ');
is($counts->{prefetches}, 0, 'nothing where workers share a scan');

# A scan that has stopped on its way, with pages ahead of it.
sub stopped
{
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query("$bitmap SET effective_io_concurrency = 16; SELECT 1");
	$session->query("BEGIN; DECLARE c CURSOR FOR SELECT id, ver FROM t WHERE k < 1500; MOVE 100 FROM c");
	return $session;
}

cold();
my $session = stopped();
$counts = counts();
cmp_ok($counts->{prefetches} - $counts->{prefetches_used}, '>', 8, 'pages are ahead of a scan that has stopped');
is($counts->{prefetch_bytes}, 16 * 8192, 'its process has a page of memory for each');

# Somebody changes them, and the tier gets the new versions.
$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
evict($node, 't');
$node->safe_psql('postgres', 'CHECKPOINT');
my $old = $session->query('MOVE ALL FROM c; FETCH BACKWARD 0 FROM c; COMMIT');
$counts = counts();
cmp_ok($counts->{prefetches_stale}, '>', 8, 'what was changed since is not used');
is($counts->{prefetches}, $counts->{prefetches_used} + $counts->{prefetches_stale} + $counts->{prefetches_unused},
	'every page that was read ahead is accounted for');
my ($rows, $ids) = split /\|/, $expected;
is($session->query($query), "$rows|$ids|$rows", 'the session reads the new versions');
$session->quit;
is($node->safe_psql('postgres', "$bitmap SET effective_io_concurrency = 32; $query"), "$rows|$ids|$rows", 'and so does another one');
ok($node->poll_query_until('postgres', 'SELECT prefetch_bytes = 0 FROM pg_stat_mezzanine'), 'the memory goes with the processes');

# Scans that end before they come to what is ahead: by a rollback, a terminated session, a killed one.
cold();
$session = stopped();
$session->query('ROLLBACK');
$counts = counts();
cmp_ok($counts->{prefetches_unused}, '>', 8, 'a rollback gives up what is ahead');
is($counts->{prefetches}, $counts->{prefetches_used} + $counts->{prefetches_unused}, 'all of it');
my $process = $session->query('SELECT pg_backend_pid()');
$session->query("BEGIN; DECLARE c CURSOR FOR SELECT id, ver FROM t WHERE k < 1500; MOVE 150 FROM c");
$node->safe_psql('postgres', "SELECT pg_terminate_backend($process, 60000)");
$session->quit;
$counts = counts();
is($counts->{prefetches}, $counts->{prefetches_used} + $counts->{prefetches_unused}, 'so does a session that is terminated');
is($counts->{prefetch_bytes}, 0, 'with its memory');
$session = stopped();
$process = $session->query('SELECT pg_backend_pid()');
my $killed_at = -s $node->logfile;
kill 'KILL', $process;
eval { $session->quit };
$node->wait_for_log(qr/database system is ready to accept connections/, $killed_at);
is($node->safe_psql('postgres', "$bitmap SET effective_io_concurrency = 32; $query"), "$rows|$ids|$rows",
	'after a killed session the server recovers');

# What comes damaged is judged as any read of it: disk has these.
cold();
$session = $node->background_psql('postgres');
$session->query('SELECT count(*) FROM pg_class');
rot_everywhere($node);
is($session->query("$bitmap SET effective_io_concurrency = 32; $query"), "$rows|$ids|$rows",
	'the files answer for damaged flash');
$session->quit;
$node->stop;
done_testing();
