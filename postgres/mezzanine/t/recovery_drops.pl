# What the log drops has no file any more when redo begins, and may be more than the tier can carry for files
# that are lost: stage-out does not wait for it, and redo goes on.
#
# Rules: log_drops
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

for my $what ('relation', 'part of a relation', 'database')
{
	my $name = $what =~ s/\W/_/gr;
	my $database = $what eq 'database' ? 'other' : 'postgres';
	# More than half of the tier's 448 frames. Before the crash everything else stays in shared buffers.
	my $node = tier_node($name, mode => 'durable', flash => 4, conf => "max_wal_size = 4GB\nshared_buffers = 64MB\n");
	$node->start;
	$node->safe_psql('postgres', 'CREATE DATABASE other STRATEGY wal_log') if $what eq 'database';
	$node->safe_psql($database, 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 36000) g');
	my $path = relation_path($node, 't', $database);
	$node->stop;
	$node->start;
	$node->safe_psql($database, 'UPDATE t SET ver = 2 WHERE id > 10');
	evict($node, undef, $database);
	$node->safe_psql('postgres', 'CHECKPOINT');
	if ($what eq 'relation')
	{
		$node->safe_psql('postgres', 'DROP TABLE t');
	}
	elsif ($what eq 'database')
	{
		$node->safe_psql('postgres', 'DROP DATABASE other');
	}
	else
	{
		$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 10; VACUUM t');
		cmp_ok(-s $path, '<=', 8192, "$what: it was cut");
	}
	$node->safe_psql('postgres', 'CREATE TABLE big (id int, ver int); INSERT INTO big SELECT g, 1 FROM generate_series(1, 300000) g');
	crash($node);
	ok(!-s $path, "$what: the file is empty or gone") unless $what eq 'part of a relation';
	$node->append_conf('postgresql.conf', 'shared_buffers = 1MB');
	ok($node->start(fail_ok => 1), "$what: the server starts") or next;
	is(whole($node, 'big'), '300000|45000150000|300000', "$what: redo has gone on");
	is(whole($node, 't'), '10|55|10', "$what: with what is left") if $what eq 'part of a relation';
	$node->safe_psql('postgres', 'CHECKPOINT');
	ok(!-s $path, "$what: the file has not come back") unless $what eq 'part of a relation';
	$node->stop;
}
done_testing();
