# A relation's file is damaged, restored or removed while the server is down: the server sees it, though the
# tier has the block. Files that nobody has touched keep their pages in the tier.
#
# Rules: files_at_rest
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = 5000;

# How many pages of the main fork of a table the tier has.
sub held
{
	my ($node, $table) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) FROM pg_mezzanine_frames WHERE relfilenode = pg_relation_filenode('$table') AND relforknumber = 0");
}

# Overwrites some bytes of a file, from the middle of a block on.
sub damage
{
	my ($path, $block) = @_;
	open my $file, '+<:raw', $path or die "$path: $!";
	seek $file, $block * 8192 + 4096, 0;
	print $file 'damage' x 100;
	close $file or die;
	return;
}

# Every page of these tables is in the tier, and on disk, and in no buffer; then the server is stopped.
sub rest
{
	my ($node, @tables) = @_;
	for my $table (@tables)
	{
		$node->safe_psql('postgres', "SELECT count(*) FROM $table");
		evict($node, $table);
	}
	$node->stop;
	return;
}

for my $mode (qw(durable drained through))
{
	my $node = tier_node("rest_$mode", mode => $mode);
	my $space = $node->basedir . '/space';
	mkdir $space or die;
	$node->start;
	create_extension($node);
	$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION '$space'");
	$node->safe_psql('postgres', "CREATE TABLE $_ AS SELECT g AS id, 1 AS ver FROM generate_series(1, $rows) g") for qw(hurt old kept);
	$node->safe_psql('postgres', "CREATE TABLE far TABLESPACE elsewhere AS SELECT * FROM kept");
	my @tables = qw(hurt old kept far);
	my %path = map { $_ => relation_path($node, $_) } @tables;
	$node->safe_psql('postgres', "VACUUM (FREEZE) $_") for @tables;
	my $pages = $node->safe_psql('postgres', "SELECT pg_relation_size('kept') / 8192");

	# A copy of each, for later.
	rest($node, @tables);
	system_or_bail('cp', '-a', $path{old}, $node->basedir . '/old');
	my $from = -s $node->logfile;
	$node->start;
	is(held($node, $_), $pages, "$mode: pages of $_ are there after a start") for @tables;
	unlike(log_since($node, $from), qr/were dropped/, "$mode: and nothing was dropped");

	# What nobody changes is not asked for by its times: only by others' changes.
	$node->safe_psql('postgres', 'UPDATE old SET ver = 2');
	rest($node, @tables);
	damage($path{hurt}, 3);
	damage($path{far}, 5);
	$from = -s $node->logfile;
	$node->start;
	like(log_since($node, $from), qr/flash tier: \d+ pages of 2 files were dropped, because the files were changed while the server was down/, "$mode: the log tells of it");
	is(held($node, 'kept'), $pages, "$mode: pages of other files are there");
	for my $table (qw(hurt far))
	{
		my ($result, $out, $error) = $node->psql('postgres', "SELECT count(*) FROM $table");
		isnt($result, 0, "$mode: damage of $table is seen");
		like($error, qr/invalid page in block/, "$mode: as on any server");
	}
	is(whole($node, $_), $_ eq 'old' ? '5000|12502500|10000' : '5000|12502500|5000', "$mode: others are well") for qw(old kept);

	# Also after a crash: the pages do not come back.
	crash($node);
	$node->start;
	isnt($node->psql('postgres', 'SELECT count(*) FROM hurt'), 0, "$mode: damage is seen after a crash");
	$node->safe_psql('postgres', 'DROP TABLE hurt; DROP TABLE far');

	# The rows of an earlier day, with the times of that day.
	$node->safe_psql('postgres', 'VACUUM (FREEZE) old');
	rest($node, qw(old kept));
	system_or_bail('cp', '-a', $node->basedir . '/old', $path{old});
	$node->start;
	is(whole($node, 'old'), '5000|12502500|5000', "$mode: the rows of a restored file are seen");
	is(held($node, 'kept'), $pages, "$mode: pages of another file are there");
	$node->stop;
}

# Without a drain the tier's pages that are newer than the file stay, and so does the file's share of the
# tier.
my $node = tier_node('undrained', conf => "mezzanine.drain_on_shutdown = off\n");
$node->start;
create_extension($node);
$node->safe_psql('postgres', "CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, $rows) g");
$node->safe_psql('postgres', 'VACUUM (FREEZE) t');
my $path = relation_path($node, 't');
evict($node, 't');
ok(is_stale($node, 't', 3), 'the tier has a newer page than the file');
rest($node, 't');
damage($path, 3);
$node->start;
is(whole($node, 't'), '5000|12502500|5000', 'a page that is newer than a damaged file is read');
$node->stop;
done_testing();
