# As clean_since.pl, with a page of a visibility map: the file that was put back has bits set which redo finds
# cleared on the tier's page, and so does not touch. All the same the file has them cleared in the end, and no
# index-only scan brings a deleted row.
#
# Kept by the core, in which a record that clears bits of a map sets the position of the map's page
# (heapam.c), and by the engine, for which what came from behind the redo point is dirty (log.rs, redoes()).
# The extension has no rule of its own here, so no setting takes one out. Without the engine's, which was
# tried by hand, all deleted rows come back.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = clean_pages_node('map');
my $data = $node->data_dir;
my $copy = $node->basedir . '/copy';
$node->safe_psql('postgres', 'CREATE EXTENSION pg_visibility');
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 3000) g; CREATE INDEX ON t (id)');
$node->safe_psql('postgres', 'VACUUM t');
evict($node);
$node->safe_psql('postgres', 'SELECT mezzanine_drain()');
$node->safe_psql('postgres', 'CHECKPOINT');
my $map = relation_path($node, 't') . '_vm';
my $before = map_bits($map);
isnt($before, '', 'the file of the map has bits set');

# The first bytes of a map as its file has it.
sub map_bits
{
	my ($path) = @_;
	my $bytes = slurp_file($path);
	my $bits = unpack 'H*', substr $bytes, 24, 16;
	return $bits =~ s/^0+$//r;
}

# The page goes to disk; those of others take its frame; and then it comes in again, as a clean one.
sub become_clean
{
	my $look = 0;
	$node->safe_psql('postgres',
		q{SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t')}) for 1 .. 2;
	$node->safe_psql('postgres', 'SELECT mezzanine_drain()');
	look_at($node, 'filler', 1000) until frames_of($node, 't', 2) eq '0|0' or ++$look > 50;
	die 'the page stays in the tier' if $look > 50;
	# It leaves again if others take its frame before its group is complete.
	for (1 .. 100)
	{
		# Frames that are free, and a group that is complete, are made by others.
		look_at($node, 'filler', 200);
		look_at($node, 't', 1, 'vm');
		$node->safe_psql('postgres',
			q{SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t')});
		for (1 .. 10)
		{
			last if frames_of($node, 't', 2) ne '0|1';
			look_at($node, 'filler', 100);
		}
		last if frames_of($node, 't', 2) eq '1|0';
	}
	return $node->lsn('flush');
}

# Once before, for whatever is logged when catalogs are read first.
become_clean();

$node->safe_psql('postgres', 'DELETE FROM t WHERE id <= 100');
my $end = $node->lsn('flush');
system_or_bail('cp', '-a', $data, $copy);
is(map_bits("$copy/" . substr($map, length($data) + 1)), $before, 'the copy has the file of before, and the log');
is(become_clean(), $end, 'nothing was logged since');
isnt(map_bits($map), $before, 'bits were cleared in the file since');
is(frames_of($node, 't', 2), '1|0', 'and the tier has the page as a clean one');
crash($node);

exchange($node, $copy);
my $from = -s $node->logfile;
$node->start;
like(log_since($node, $from), qr/flash tier adopted/, 'the tier is used');
# Nobody reads them, for that may change more.
$node->stop;
isnt(map_bits($map), $before, 'the file has them cleared when the server stops');
without_tier($node);
$node->start;
my $deleted = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM t WHERE id <= 100';
like($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN SELECT count(*) FROM t WHERE id <= 100"),
	qr/Index Only Scan/, 'an index-only scan');
is($node->safe_psql('postgres', $deleted), '0', 'brings no deleted row');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_check_visible('t')"), '0', 'and the map is right');
$node->stop;
done_testing();
