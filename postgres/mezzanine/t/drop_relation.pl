# What the tier has of a dropped relation never goes to disk: the file stays away, and stage-out does not
# stumble over it.
#
# Rules: drop_rels
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('drop', mode => 'durable', flash => 8);
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE keep AS SELECT g AS id, 1 AS ver FROM generate_series(1, 1000) g');
my @paths;
for my $i (1 .. 5)
{
	$node->safe_psql('postgres', "CREATE TABLE t AS SELECT g AS id, repeat('x', 500) AS pad FROM generate_series(1, 3000) g");
	evict($node, 't');
	push @paths, relation_path($node, 't');
	$node->safe_psql('postgres', 'DROP TABLE t');
}
# Files of dropped tables stay, empty, until the next checkpoint.
is((grep { -s $_ } @paths), 0, 'dropped files are empty');
$node->safe_psql('postgres', 'CHECKPOINT');
is((grep { -e $_ } @paths), 0, 'and gone after a checkpoint');

# Everything that is still dirty in the tier goes to disk.
$node->stop;
is((grep { -e $_ } @paths), 0, 'none has come back after the tier was drained');
$node->start;
is(whole($node, 'keep'), '1000|500500|1000', 'a table that stays is whole');

# The same with a crash between.
$node->safe_psql('postgres', "CREATE TABLE t AS SELECT g AS id, repeat('x', 500) AS pad FROM generate_series(1, 3000) g");
evict($node, 't');
my $path = relation_path($node, 't');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', 'DROP TABLE t');
crash($node);
$node->start;
$node->safe_psql('postgres', 'CHECKPOINT');
ok(!-e $path, 'redo of a drop reaches the tier');
$node->stop;
ok(!-e $path, 'and nothing is left to be drained');
unlike(slurp_file($node->logfile), qr/could not (?:open|write)/, 'stage-out has met no file that is gone');
done_testing();
