# A clean page that leaves shared buffers comes to the tier when it has left. What others do with the block in
# between counts: a page that they have changed, written past the tier or dropped is not taken.
#
# Each time a session gives up pages one by one, and waits between the two.
#
# Rules: evict_token
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# In shared buffers that hold everything, so that no page leaves them by itself.
my $buffers = "shared_buffers = 32MB\n";

# Tables of one page each, in files that are complete, of which the tier knows nothing.
my @tables = qw(untouched changed past dropped cut);

sub node_with_files
{
	my ($name, $conf) = @_;
	my %given = (mode => 'drained', flash => 4, conf => $buffers . $conf);
	my $node = tier_node($name, %given);
	without_tier($node);
	$node->start;
	for my $table (@tables)
	{
		$node->safe_psql('postgres', "CREATE TABLE $table AS SELECT g AS id, 1 AS ver FROM generate_series(1, 100) g");
		# Hint bits are set, so that a page that is read later stays clean.
		$node->safe_psql('postgres', "VACUUM (FREEZE) $table");
	}
	# What VACUUM will cut; a session that waits keeps what is deleted later.  Hint bits again.
	$node->safe_psql('postgres', 'DELETE FROM cut');
	$node->safe_psql('postgres', 'SELECT count(*) FROM cut');
	$node->safe_psql('postgres', "CREATE TABLE filler AS SELECT repeat('x', 900) FROM generate_series(1, 8000)");
	$node->safe_psql('postgres', 'VACUUM (FREEZE) filler');
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
	$node->stop;
	add_tier($node, %given);
	$node->start;
	create_extension($node);
	return $node;
}

# Begins to give up the first page of a table; the session waits until let_go().
sub give_up
{
	my ($node, $table) = @_;
	my $file = $node->basedir . "/pause.$table";
	my $session = $node->background_psql('postgres');

	$node->safe_psql('postgres', "SELECT count(*) FROM $table");
	my $buffer = $node->safe_psql('postgres', "SELECT bufferid FROM pg_buffercache
		WHERE relfilenode = pg_relation_filenode('$table') AND relforknumber = 0 AND relblocknumber = 0 AND NOT isdirty");
	like($buffer, qr/^\d+$/, "$table: a clean page is in shared buffers");
	$session->query_safe("SET mezzanine.pause = 'evict $file'");
	$session->query_until(qr/gives up/, "\\echo gives up\nSELECT pg_buffercache_evict($buffer);\n");
	for (1 .. 3000)
	{
		last if -e $file;
		select undef, undef, undef, 0.01;
	}
	ok(-e $file, "$table: it has left shared buffers");
	return [ $session, $file ];
}

sub let_go
{
	my ($given_up) = @_;
	my ($session, $file) = @$given_up;
	unlink $file or die "$file: $!";
	$session->quit;
	return;
}

# The pages of a table's main fork that the tier has, by its number.
sub held
{
	my ($node, $filenode) = @_;
	return $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_mezzanine_frames WHERE relfilenode = $filenode AND relforknumber = 0");
}

sub filenode
{
	my ($node, $table) = @_;
	return $node->safe_psql('postgres', "SELECT pg_relation_filenode('$table')");
}

my $node = node_with_files('overtaken', '');

my $given_up = give_up($node, 'untouched');
my $filenode = filenode($node, 'untouched');
is(held($node, $filenode), 0, 'untouched: the tier has not got it');
let_go($given_up);
is(held($node, $filenode), 1, 'untouched: it takes it when the session goes on');

# Read, changed, written to the tier, drained, and out of it again: nothing there says that there was another.
$given_up = give_up($node, 'changed');
$filenode = filenode($node, 'changed');
$node->safe_psql('postgres', 'UPDATE changed SET ver = 2 WHERE id = 1');
evict($node, 'changed');
cmp_ok(held($node, $filenode), '>', 0, 'changed: the tier has the newer version');
$node->safe_psql('postgres', 'CHECKPOINT');
for (1 .. 20)
{
	last if held($node, $filenode) == 0;
	$node->safe_psql('postgres', 'SELECT count(*) FROM filler');
	evict($node, 'filler');
}
is(held($node, $filenode), 0, 'changed: it has left the tier');
evict($node, 'changed');
let_go($given_up);
evict($node, 'changed');
is(whole($node, 'changed'), '100|5050|101', 'changed: the newer version is read');

# Dropped: nothing of it may be found under its number.
$given_up = give_up($node, 'dropped');
$filenode = filenode($node, 'dropped');
$node->safe_psql('postgres', 'DROP TABLE dropped');
let_go($given_up);
is(held($node, $filenode), 0, 'dropped: the tier has nothing of it');

# Cut: the block is no more.
$given_up = give_up($node, 'cut');
$filenode = filenode($node, 'cut');
$node->safe_psql('postgres', 'VACUUM cut');
is($node->safe_psql('postgres', "SELECT pg_relation_size('cut')"), 0, 'cut: it is empty');
let_go($given_up);
is(held($node, $filenode), 0, 'cut: the tier has nothing of it');
$node->stop;

# Where changed pages do not enter they are written past the tier.
$node = node_with_files('past', "mezzanine.admission = clean\n");
$given_up = give_up($node, 'past');
$filenode = filenode($node, 'past');
$node->safe_psql('postgres', 'UPDATE past SET ver = 2 WHERE id = 1');
$node->safe_psql('postgres', 'CHECKPOINT');
let_go($given_up);
is(held($node, $filenode), 0, 'past: the tier has not taken the older version');
evict($node, 'past');
is(whole($node, 'past'), '100|5050|101', 'past: the newer version is read');
$node->stop;
done_testing();
