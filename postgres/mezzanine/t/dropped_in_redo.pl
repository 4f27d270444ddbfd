# The log cuts a relation off whose pages the tier still has when redo begins, and whose file was cut before
# the crash: stage-out while redo runs does not write them. Redo has noted by then how long the file is, and
# would find nothing to cut: deleted rows would come back.
#
# Rules: dropped_skipped
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

for my $mode (qw(durable drained))
{
	# The pages of before the redo point, which are newer on flash than on disk in durable alone, or those of
	# behind it.
	for my $when ($mode eq 'durable' ? ('before', 'behind') : ('behind'))
	{
		my $name = "$mode, $when";
		# The tier is smaller than what redo goes through. Before the crash everything else stays in shared buffers.
		my $node = tier_node("${mode}_$when", mode => $mode, flash => 4,
			conf => "max_wal_size = 4GB\nshared_buffers = 64MB\nfull_page_writes = off\n");
		$node->start;
		$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
		$node->safe_psql('postgres', 'CREATE TABLE t (id int, ver int, filler text) WITH (fillfactor = 50)');
		$node->safe_psql('postgres', "INSERT INTO t SELECT g, 0, repeat('x', 900) FROM generate_series(1, 640) g");
		my $path = relation_path($node, 't');
		is(-s $path, 160 * 8192, "$name: 160 pages");
		$node->stop;
		$node->start;
		$node->safe_psql('postgres', 'CHECKPOINT') if $when eq 'behind';
		# Of every page, in place: as many as it has room for.
		$node->safe_psql('postgres', 'UPDATE t SET ver = 1 WHERE id % 4 = 1');
		whole($node, 't');
		evict($node, 't');
		# What is in a group that is not complete is not on flash, and what drops pages later must not be either.
		$node->safe_psql('postgres', 'CHECKPOINT') if $when eq 'before';
		# Redo comes to the relation, and notes its length, and then to so much else that the tier moves on.
		$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 640');
		$node->safe_psql('postgres', 'CREATE TABLE big (id int, ver int); INSERT INTO big SELECT g, 1 FROM generate_series(1, 300000) g');
		$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 2');
		$node->safe_psql('postgres', 'VACUUM t');
		is(-s $path, 8192, "$name: it was cut");
		$node->stop('immediate');
		$node->append_conf('postgresql.conf', 'shared_buffers = 1MB');
		$node->start;
		is($node->safe_psql('postgres', 'SET enable_indexscan = off; SELECT count(*), sum(id), sum(ver) FROM t'),
			'2|3|1', "$name: deleted rows have not come back");
		is(-s $path, 8192, "$name: nor have their pages");
		is(whole($node, 'big'), '300000|45000150000|300000', "$name: redo has gone on");
		$node->stop;
		is(-s $path, 8192, "$name: the file has one page");
	}
}
done_testing();
