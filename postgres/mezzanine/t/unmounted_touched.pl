# A file is gone after a crash, not mounted or lost, and the log since the redo point has something for it.
# Redo makes the file, empty, and extends it over blocks whose newest versions wait in the tier: these have no
# place in it, and what neither has would be holes, from which rows are read as missing without an error. So
# the start is refused, each time, and the empty file that is left behind changes nothing. Mounted again,
# everything is there. What is lost for good gets files of the old length from its owner; then the server
# starts, and every other table is whole.
#
# Rules: missing_old, overwrite, refused_error, refused_named
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = '3000|4501500|3000';
my $refused = qr/FATAL:  the files are not current: pages in the flash tier on ".*" cannot be written to their files/;
my $hint = qr/HINT:  Mount what is not mounted, put files back that are missing, or make room .* start the server again\. A file that is lost for good .*truncate -s/;

my $node = tier_node('touched', mode => 'durable', flash => 16);
my $space = $node->basedir . '/space';
mkdir $space or die "$space: $!";
$node->start;
$node->safe_psql('postgres', "CREATE TABLESPACE s LOCATION '$space'");
$node->safe_psql('postgres', 'CREATE TABLE t (id int, ver int, filler text) WITH (fillfactor = 70) TABLESPACE s');
$node->safe_psql('postgres', "INSERT INTO t SELECT g, 1, repeat('x', 300) FROM generate_series(1, 3000) g");
$node->safe_psql('postgres', 'CREATE TABLE other AS SELECT g AS id, 1 AS ver FROM generate_series(1, 3000) g');
# With a map of visibility, which redo of the update below clears.
$node->safe_psql('postgres', 'VACUUM t');
evict($node, $_) for 't', 'other';
$node->safe_psql('postgres', 'CHECKPOINT');
my $path = relation_path($node, 't');
my $length = -s $path;
my $in_50 = $node->safe_psql('postgres', "SELECT min(id) FROM t WHERE (ctid::text::point)[0] = 50");
$node->safe_psql('postgres', "UPDATE t SET filler = 'y' WHERE id = $in_50");
crash($node);

# What is below a mount point shows.
rename $space, "$space.device" or die "$space: $!";
mkdir $space or die "$space: $!";

sub is_refused
{
	my ($name, $file) = @_;
	my $log = start_fails($node, $name);

	like($log, $refused, "$name: by the reason");
	like($log, qr/DETAIL:  .* The last attempt: could not .*"pg_tblspc[^"]*$file"/, "$name: with the file");
	like($log, $hint, "$name: with the next step");
	unlike($log, qr/PANIC|TRAP/, "$name: and nothing else ends");
	return;
}

is_refused('not mounted', '');
my @made = glob "$space/PG_*/*/*";
is(scalar(grep { -s } @made), 0, 'nothing was written below the mount point');
cmp_ok(scalar(@made), '>', 0, 'but redo has made an empty file there');
is_refused('not mounted, a second time', '');

# Mounted.
rename $space, "$space.below" or die "$space: $!";
rename "$space.device", $space or die "$space: $!";
system_or_bail('cp', '-a', $node->data_dir, $node->basedir . '/before');
system_or_bail('cp', '-a', $space, "$space.before");
system_or_bail('cp', '-a', flash_path($node), flash_path($node) . '.before');
$node->start;
is(whole($node, 't'), $rows, 'mounted again: all rows are there in their newest version');
is($node->safe_psql('postgres', "SELECT filler FROM t WHERE id = $in_50"), 'y', 'mounted again: and what was redone');
is(whole($node, 'other'), $rows, 'mounted again: and those of others');
$node->stop;

# All as it was after the crash, and the files of the table are lost for good.
exchange($node, $node->basedir . '/before');
rename $space, "$space.after" or die "$space: $!";
rename "$space.before", $space or die "$space: $!";
rename flash_path($node) . '.before', flash_path($node) or die $!;
unlink $path, "${path}_vm", "${path}_fsm";
is_refused('lost', '');
is_refused('lost, a second time', '');

# Its owner makes each file that the message names, with the length that it had.
my $starts = 0;
until ($node->start(fail_ok => 1))
{
	last if ++$starts > 3;
	my ($named) = slurp_file($node->logfile) =~ /.*The last attempt: could not .*"(pg_tblspc[^"]*)"/s;
	note("made: $named");
	system_or_bail('truncate', '-s', $named =~ /_vm$/ ? 8192 : $length, $node->data_dir . "/$named");
}
cmp_ok($starts, '<=', 2, 'with files in place the server starts');
is(whole($node, 'other'), $rows, 'other tables are whole');
$node->safe_psql('postgres', 'DROP TABLE t');
my $from = -s $node->logfile;
$node->stop;
like(log_since($node, $from), qr/flash tier closed; the files are up to date/, 'without the table, the files are current');
$node->start;
is(whole($node, 'other'), $rows, 'after a restart, other tables are whole');
$node->stop;
done_testing();
