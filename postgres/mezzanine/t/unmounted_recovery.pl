# A machine starts again after a crash, and the file system of a tablespace is not mounted: redo has nothing for it. Stage-out while redo
# runs makes none of its files anew, with holes in place of what the tier does not have; reads are errors, as without a tier, and once it
# is mounted everything is there.
#
# Rules: missing_old
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

# The tier is smaller than what redo goes through. Before the crash everything stays in shared buffers.
my $node = tier_node('unmounted', mode => 'durable', flash => 4, conf => "max_wal_size = 4GB\nshared_buffers = 64MB\n");
my $space = $node->basedir . '/space';
mkdir $space or die "$space: $!";
$node->start;
$node->safe_psql('postgres', "CREATE TABLESPACE s LOCATION '$space'");
$node->safe_psql('postgres', 'CREATE TABLE t (id int, ver int, filler text) WITH (fillfactor = 50) TABLESPACE s');
$node->safe_psql('postgres', "INSERT INTO t SELECT g, 0, repeat('x', 900) FROM generate_series(1, 300) g");
$node->stop;
$node->start;
# Newer in the tier than in the files, from before the redo point; reading them all sets hint bits, which are logged before it, too.
$node->safe_psql('postgres', 'UPDATE t SET ver = 1 WHERE id % 10 = 0');
my $all = whole($node, 't');
my $path = relation_path($node, 't');
evict($node, 't');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', 'CREATE TABLE big (id int, ver int); INSERT INTO big SELECT g, 1 FROM generate_series(1, 300000) g');
crash($node);

rename $space, "$space.device" or die "$space: $!";
mkdir $space or die "$space: $!";
$node->append_conf('postgresql.conf', 'shared_buffers = 1MB');
my $from = -s $node->logfile;
$node->start;
like(log_since($node, $from), qr/LOG:  could not open file "pg_tblspc.*": No such file or directory/, 'redo had the tier write its pages');
my ($status, $out, $error) = $node->psql('postgres', 'SELECT count(*), sum(id), sum(ver) FROM t');
isnt($status, 0, "a table whose files are not there cannot be read; got '$out'");
like($error, qr/could not open file/, 'as without a tier');
ok(!-e $path, 'no file was made in its place');
is(whole($node, 'big'), '300000|45000150000|300000', 'redo has gone on');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop;
rmdir $space or system_or_bail('rm', '-r', $space);
rename "$space.device", $space or die "$space: $!";
$node->start;
is(whole($node, 't'), $all, 'mounted again, it has all rows in their newest version');
$node->stop;
done_testing();
