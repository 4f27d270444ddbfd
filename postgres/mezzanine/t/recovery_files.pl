# Redo evicts pages of relations whose files are missing or shorter than the pages reach: stage-out makes up
# for that where redo makes the file later, and what redo drops later is gone.
#
# Rules: missing_file
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

# The tier is smaller than what redo goes through. Before the crash everything stays in shared buffers.
my $node = tier_node('files', mode => 'durable', flash => 4, conf => "max_wal_size = 4GB\nshared_buffers = 64MB\n");
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE s AS SELECT g AS id, 1 AS ver FROM generate_series(1, 20000) g');
my $short = relation_path($node, 's');
$node->safe_psql('postgres', 'CREATE TABLE m AS SELECT g AS id, 1 AS ver FROM generate_series(1, 2000) g');
my $missing = relation_path($node, 'm');
$node->stop;
$node->start;
# Dirty in the tier, but for its own part not in the files.
$node->safe_psql('postgres', 'UPDATE s SET ver = 2');
$node->safe_psql('postgres', 'UPDATE m SET ver = 2');
evict($node, 's');
evict($node, 'm');
$node->safe_psql('postgres', 'CHECKPOINT');
# Both end after the checkpoint that redo begins at.
$node->safe_psql('postgres', 'CREATE TABLE big (id int, ver int); INSERT INTO big SELECT g, 1 FROM generate_series(1, 300000) g');
$node->safe_psql('postgres', 'DROP TABLE m');
$node->safe_psql('postgres', 'TRUNCATE s');
$node->safe_psql('postgres', 'DROP TABLE s');
crash($node);
# The files went before the crash, as far as the disk knows.
ok(!-s $missing, 'a dropped file is empty');
unlink $missing;
unlink $short;
$node->append_conf('postgresql.conf', 'shared_buffers = 1MB');
$node->start;
is(whole($node, 'big'), '300000|45000150000|300000', 'redo has gone on');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop;
ok(!-e $missing, 'a dropped file has not come back');
ok(!-e $short, 'nor has another');
$node->start;
is(whole($node, 'big'), '300000|45000150000|300000', 'and the rest is there');
$node->stop;

# A table that was made after the checkpoint, and fills nearly all of the tier; a power cut takes its file
# away. Redo comes to it last.
$node = tier_node('made', mode => 'durable', flash => 4, conf => "max_wal_size = 4GB\nshared_buffers = 64MB\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', 'CREATE TABLE big (id int, ver int); INSERT INTO big SELECT g, 1 FROM generate_series(1, 300000) g');
$node->safe_psql('postgres', 'CREATE TABLE made (id int, ver int); INSERT INTO made SELECT g, 1 FROM generate_series(1, 95000) g');
my $made = relation_path($node, 'made');
evict($node, 'made');
crash($node);
unlink $made or die "$made: $!";
$node->append_conf('postgresql.conf', 'shared_buffers = 1MB');
my $from = -s $node->logfile;
ok($node->start(fail_ok => 1), 'a server starts whose newest file is missing');
unlike(log_since($node, $from), qr/could not open file "base/, 'it was made when the tier had to move on');
is(whole($node, 'made'), '95000|4512547500|95000', 'and has all of it');
is(whole($node, 'big'), '300000|45000150000|300000', 'and the rest');
$node->stop;
done_testing();
