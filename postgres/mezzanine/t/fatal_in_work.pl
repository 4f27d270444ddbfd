# An error that is FATAL wherever it is met ends a process that works for the tier: a file is longer than a
# segment can be. Its job would be nobody's, and stage-out would stand still. So it counts as a crash: the
# postmaster makes shared memory anew, and with the file of its right length the pages go there.
#
# Rules: fatal_in_work
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('fatal', mode => 'durable', flash => 8);
my $rows = '3000|4501500|3000';
$node->start;
create_extension($node);
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 3000) g');
evict($node, 't');
$node->safe_psql('postgres', 'CHECKPOINT');
my $path = relation_path($node, 't');
my $length = -s $path;
my $segment = $node->safe_psql('postgres', "SELECT setting::bigint * 8192 FROM pg_settings WHERE name = 'segment_size'");

# The workers stand still, so that a session works itself. It has the file open: a server with assertions ends
# where one that is too long is opened.
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query('SELECT count(*) FROM t');
my @workers = split /\n/, $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'mezzanine'");
kill 'STOP', @workers;
truncate $path, $segment + 8192 or die "$path: $!";
my $from = -s $node->logfile;
eval { $session->query('SELECT mezzanine_drain()') };
eval { $session->quit };
truncate $path, $length or die "$path: $!";
like(log_since($node, $from), qr/FATAL:  segment too big/, 'a session met a file that is too long');
kill 'CONT', @workers;
$node->wait_for_log(qr/database system is ready to accept connections/, $from);
ok($node->poll_query_until('postgres', 'SELECT true'), 'the server goes on as after a crash');
unlike(log_since($node, $from), qr/PANIC|TRAP/, 'and nothing else has ended');
is($node->safe_psql('postgres', "SET statement_timeout = '20s'; SELECT mezzanine_drain() >= 0"), 't', 'its pages go to their file');
is(whole($node, 't'), $rows, 'all rows are there');
$node->stop;
without_tier($node);
$node->start;
is(whole($node, 't'), $rows, 'in the files alone, too');
$node->stop;
done_testing();
