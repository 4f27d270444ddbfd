# A copy of a running server's directory is put back beside flash in which pages have become clean since: they
# were written to files that are the older ones now. Nothing was logged in between, so the log reaches as far
# as the tier, which is used; redo finds these pages as new as it would make them, and does not touch them.
# All the same the files have them in the end.
#
# Kept by the engine (log.rs, redoes()), whose rule no setting takes out. Without it, which was tried by hand,
# rows of before stand beside those of after; crates/ffi/tests/log_end.rs takes it out: RedoneBelievedClean.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = clean_pages_node('clean');
my $data = $node->data_dir;
my $copy = $node->basedir . '/copy';
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 3000) g');
# Hint bits are set, and logged, before the checkpoint.
whole($node, 't');
evict($node);
$node->safe_psql('postgres', 'SELECT mezzanine_drain()');
$node->safe_psql('postgres', 'CHECKPOINT');
my $path = relation_path($node, 't');
my $before = file_lsn($path, 0);

# The pages go to disk; those of others take their frames; and then they come in again, as clean ones. Clean
# pages enter as far as the tier has room for them just then, so it takes some attempts.
sub become_clean
{
	my $look = 0;
	$node->safe_psql('postgres',
		q{SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t')}) for 1 .. 2;
	$node->safe_psql('postgres', 'SELECT mezzanine_drain()');
	look_at($node, 'filler') until frames_of($node, 't', 0) eq '0|0' or ++$look > 50;
	die 'the pages stay in the tier' if $look > 50;
	for (1 .. 100)
	{
		look_at($node, 't');
		look_at($node, 'filler', 200);
		last if frames_of($node, 't', 0) =~ /^\d\d+\|0$/;
	}
	return $node->lsn('flush');
}

# Once before, for whatever is logged when catalogs are read first.
become_clean();

$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
my $end = $node->lsn('flush');
system_or_bail('cp', '-a', $data, $copy);
is(file_lsn("$copy/" . substr($path, length($data) + 1), 0), $before, 'the copy has the file of before, and the log');
is(become_clean(), $end, 'nothing was logged since');
isnt(file_lsn($path, 0), $before, 'the newest version of the pages was written to the file since');
like(frames_of($node, 't', 0), qr/^\d\d+\|0$/, 'and the tier has it as a clean one');
crash($node);

exchange($node, $copy);
my $from = -s $node->logfile;
$node->start;
like(log_since($node, $from), qr/flash tier adopted/, 'the tier is used');
# Nobody reads them, for that may change hint bits.
$node->stop;
isnt(file_lsn($path, 0), $before, 'which the files have when the server stops');
without_tier($node);
$node->start;
is(whole($node, 't'), '3000|4501500|3000', 'also without the tier');
$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $data ], 'and every checksum is right');
done_testing();
