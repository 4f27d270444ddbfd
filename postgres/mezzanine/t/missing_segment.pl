# A relation of more than 1 GB loses its second file behind the server's back. At the end of redo it is made
# anew, as long as the tier's pages reach, and these are written where they belong; what the tier does not
# have is missed as it would be without a tier.
#
# Rules: lengths, short_file
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

# Blocks of one file.
my $segment = 131_072;

my $node = tier_node('segment', mode => 'durable', flash => 64,
	conf => "mezzanine.admission = 'dirty'\nmezzanine.drain_on_shutdown = off\n");
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE t (id integer, ver integer)');
$node->safe_psql('postgres', 'INSERT INTO t SELECT g, 1 FROM generate_series(1, 226) g');
my $path = relation_path($node, 't');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop;

# The rest of the first file is a hole: empty pages.
truncate $path, $segment * 8192 or die "$path: $!";
$node->start;
$node->safe_psql('postgres', 'INSERT INTO t SELECT g, 2 FROM generate_series(1001, 21000) g');
my $rows = "SELECT count(*), sum(id), sum(ver) FROM t WHERE ctid >= '($segment,0)'";
my $before = $node->safe_psql('postgres', $rows);
my ($count) = split /\|/, $before;
cmp_ok($count, '>', 10_000, 'rows are in the second file');
evict($node, 't');
$node->safe_psql('postgres', 'CHECKPOINT');
ok(-s "$path.1", 'which exists');
crash($node);
unlink "$path.1" or die "$path.1: $!";

# Redo notices nothing; at its end the file is made again, and the drain of the stop fills it.
$node->start;
my $from = -s $node->logfile;
$node->append_conf('postgresql.conf', "mezzanine.drain_on_shutdown = on\n");
$node->reload;
ok($node->poll_query_until('postgres', "SELECT current_setting('mezzanine.drain_on_shutdown') = 'on'"), 'to be drained');
$node->stop;
unlike(log_since($node, $from), qr/PANIC|TRAP|could not open file/, 'pages of a missing file are written without an error');
ok(-s "$path.1", 'to a file that is made for them');
$node->start;
is($node->safe_psql('postgres', $rows), $before, 'which has all rows that the tier had');
is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE ctid < '(100,0)' AND ver = 1"), '226', 'and the first file what it had');

# The same while redo runs: the changes since the checkpoint are on pages of the missing file.
$node->safe_psql('postgres', "UPDATE t SET ver = 3 WHERE ctid >= '($segment,0)'");
$before = $node->safe_psql('postgres', $rows);
crash($node);
unlink "$path.1" or die "$path.1: $!";
$node->start;
is($node->safe_psql('postgres', $rows), $before, 'redo makes the file again, and has all rows');

# A first file that is cut short is filled up, and its successor kept.
evict($node, 't');
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);
truncate $path, ($segment - 10) * 8192 or die "$path: $!";
unlink "$path.1" or die "$path.1: $!";
$node->start;
$node->stop;
is(-s $path, $segment * 8192, 'a first file that was cut short has its length again');
$node->start;
is($node->safe_psql('postgres', $rows), $before, 'and the second file all rows');
$node->stop;
done_testing();
