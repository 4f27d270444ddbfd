# The last record before a checkpoint changes a page, so redo begins at that page's position: the end of that
# record. The server crashes, and the file system of the table is not mounted when it starts again. The page
# is from before the redo point like any other: no file is made for it, and once the file system is mounted
# the newest version is there.
#
# Rules: missing_old, missing_at_redo
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('at_redo', mode => 'durable', flash => 4, conf => "max_wal_size = 4GB\nshared_buffers = 64MB\n");
my $space = $node->basedir . '/space';
mkdir $space or die "$space: $!";
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache; CREATE EXTENSION pageinspect');
$node->safe_psql('postgres', "CREATE TABLESPACE s LOCATION '$space'");
$node->safe_psql('postgres', 'CREATE TABLE t (id int, ver int) TABLESPACE s; INSERT INTO t SELECT 1, 0');
# The file is of this moment from now on.
$node->stop;
$node->start;
my $path = relation_path($node, 't');

# Reading the first time what was changed before a checkpoint sets hint bits, and logs the page: the last
# record before the next checkpoint, unless somebody else logs something, or it ends with a page of the log.
my ($redo, $lsn);
for (1 .. 10)
{
	$node->safe_psql('postgres', 'UPDATE t SET ver = ver + 1');
	$node->safe_psql('postgres', 'CHECKPOINT');
	whole($node, 't');
	evict($node, 't');
	$node->safe_psql('postgres', 'CHECKPOINT');
	$redo = $node->safe_psql('postgres', 'SELECT redo_lsn FROM pg_control_checkpoint()');
	$lsn = page_lsn($node, 't', 0);
	last if $redo eq $lsn;
}
is($lsn, $redo, 'redo begins at the position of the page');
ok(is_stale($node, 't', 0), 'the tier alone has it');
my $all = whole($node, 't');

# More than the tier holds.
$node->safe_psql('postgres', 'CREATE TABLE big (id int, ver int); INSERT INTO big SELECT g, 1 FROM generate_series(1, 300000) g');
crash($node);
rename $space, "$space.device" or die "$space: $!";
mkdir $space or die "$space: $!";
$node->append_conf('postgresql.conf', 'shared_buffers = 1MB');
my $from = -s $node->logfile;
$node->start;
my ($status, $out, $error) = $node->psql('postgres', 'SELECT ver FROM t');
isnt($status, 0, "the table cannot be read; got '$out'");
like($error, qr/could not open file/, 'as without a tier');
like(log_since($node, $from), qr/LOG:  could not open file "pg_tblspc.*": No such file or directory/, 'redo had the tier write the page');
ok(!-e $path, 'no file was made in its place');
is(whole($node, 'big'), '300000|45000150000|300000', 'redo has gone on');
$node->stop;

rmdir $space or system_or_bail('rm', '-r', $space);
rename "$space.device", $space or die "$space: $!";
$node->start;
is(whole($node, 't'), $all, 'mounted again, the newest version is there');
$node->stop;
done_testing();
