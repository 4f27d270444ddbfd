# As clean_since.pl, with a page of a visibility map: the file that was put back has bits set which redo finds
# cleared on the tier's page, and so does not touch. All the same the file has them cleared in the end, and no
# index-only scan brings a deleted row.
#
# Kept by the core, in which a record that clears bits of a map sets the position of the map's page
# (heapam.c), and by the engine, for which what came from behind the redo point is dirty.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('map', mode => 'drained', flash => 4,
	conf => "wal_level = minimal\nmax_wal_senders = 0\nfull_page_writes = off\n");
my $data = $node->data_dir;
my $copy = $node->basedir . '/copy';
$node->start;
create_extension($node);
$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache; CREATE EXTENSION pageinspect; CREATE EXTENSION pg_visibility');
# More pages than the tier has frames.
$node->safe_psql('postgres', q{CREATE TABLE filler AS SELECT repeat('x', 900) FROM generate_series(1, 8000)});
$node->safe_psql('postgres', 'SELECT count(*) FROM filler');
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

# Looks at pages as a whole, which sets no hint bits: they would be logged.
sub look
{
	my ($fork, $table, $pages) = @_;
	$node->safe_psql('postgres', "SELECT count(get_raw_page('$table', '$fork', b::int)), count(CASE WHEN b % 16 = 0 THEN pg_sleep(0.005)::text END)
		FROM generate_series(0, $pages - 1) b");
	return;
}

# How many frames hold the map's page as a clean one on flash, and how many besides.
sub frames
{
	return $node->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE NOT isdirty AND NOT isstaged), count(*) FILTER (WHERE isdirty OR isstaged)
		FROM pg_mezzanine_frames WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 2});
}

# The page goes to disk; those of others take its frame; and then it comes in again, as a clean one.
sub become_clean
{
	my $look = 0;
	$node->safe_psql('postgres',
		q{SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t')}) for 1 .. 2;
	$node->safe_psql('postgres', 'SELECT mezzanine_drain()');
	look('main', 'filler', 1000) until frames() eq '0|0' or ++$look > 50;
	die 'the page stays in the tier' if $look > 50;
	for (1 .. 50)
	{
		# Frames that are free, and a group that is complete, are made by others.
		look('main', 'filler', 200);
		look('vm', 't', 1);
		$node->safe_psql('postgres',
			q{SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t')});
		last if frames() ne '0|0';
	}
	for (1 .. 50)
	{
		last if frames() eq '1|0';
		look('main', 'filler', 100);
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
is(frames(), '1|0', 'and the tier has the page as a clean one');
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
