# A power cut takes back the length of files that were not synced. What a checkpoint has covered is there all
# the same, though the pages were taken by the tier and nobody has written them to the files.
#
# Kept by the core, whose mdcreate() queues a sync of every new file, and by hooks.c (relation_sync) for files
# that grow later. Either is enough here, so neither is seen missing while the other stands.
use strict;
use warnings FATAL => 'all';

use File::Find;
use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = only_for('MEZZ_FAULTS_LIBRARY', 'the library that remembers syncs');

my $node = tier_node('length', mode => 'durable', flash => 128, conf => "fsync = on\nfull_page_writes = off\n");
my $synced = $node->basedir . '/synced';
{
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{MEZZ_SYNCED} = $synced;
	$node->start;
}
$node->safe_psql('postgres', 'CREATE DATABASE original');
$node->safe_psql('original', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
$node->safe_psql('original', 'CREATE INDEX t_id ON t (id)');
$node->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE original STRATEGY wal_log');
$node->safe_psql('copied', 'CREATE TABLE u AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
evict($node, undef, 'copied');
$node->safe_psql('postgres', 'CHECKPOINT');
# What no checkpoint has covered is cut, and comes back by redo.
$node->safe_psql('copied', 'CREATE TABLE v AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
my $base = $node->data_dir . '/base/' . $node->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = 'copied'");
crash($node);

# What was synced last, for each file of the new database.
my %length;
for (split /^/m, slurp_file($synced))
{
	my ($length, $path) = /^(\d+) (.*)$/ or next;
	$length{$path} = $length;
}
my $cut = 0;
find(
	{
		no_chdir => 1,
		wanted => sub {
			my $path = $File::Find::name;
			return unless -f $path && $path =~ m{/\d+(_(fsm|vm))?$};
			my $length = $length{$path} // 0;
			return if -s $path <= $length;
			$cut++;
			truncate $path, $length or die "$path: $!";
		}
	},
	$base);
cmp_ok(scalar(keys %length), '>', 0, 'syncs were remembered');
cmp_ok($cut, '>', 0, 'files are shorter after the power cut');
$node->start;
is(whole($node, 't', 'copied'), '5000|12502500|5000', 'a copied table');
is(whole($node, 'u', 'copied'), '5000|12502500|5000', 'a new table');
is(whole($node, 'v', 'copied'), '5000|12502500|5000', 'one that was made after the checkpoint');
$node->safe_psql('copied', 'CREATE EXTENSION amcheck');
is($node->safe_psql('copied', "SELECT bt_index_check('t_id', true)"), '', 'a copied index');
$node->stop;
done_testing();
