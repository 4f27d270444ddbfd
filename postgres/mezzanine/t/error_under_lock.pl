# The directory of a tablespace cannot be made when stage-out writes pages. What makes directories holds a
# lightweight lock, and an error there leaves it to mezz_without_errors() in errors.c, which gives it back.
#
# Rules: locks_given_back
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'root may write everywhere' if $> == 0;

# A directory of a tablespace that is gone: stage-out does not try to make it for what the log drops, nor for
# what the tier had before the redo point, and from the end of redo on it is missed like a file.
#
# The first server keeps its pages in memory, so that it is redo that fills the tier.
my $node = tier_node('lock', mode => 'durable', flash => 4, conf => "shared_buffers = 32MB\n");
my $space = PostgreSQL::Test::Utils::tempdir;
$node->start;
$node->safe_psql('postgres', "CREATE TABLESPACE s LOCATION '$space'");
$node->safe_psql('postgres', 'CREATE TABLE t TABLESPACE s AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
$node->safe_psql('postgres', 'CREATE TABLE dropped TABLESPACE s AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', "UPDATE $_ SET ver = 2") for 't', 'dropped';
evict($node, $_) for 't', 'dropped';
# A server that has not opened the files: redo from here is short, and what it needs is on flash.
$node->safe_psql('postgres', 'CHECKPOINT');
# Larger than the tier, so that redo has the pages that are on flash go to disk.
$node->safe_psql('postgres', 'CREATE TABLE u (id integer, ver integer)');
$node->safe_psql('postgres', 'INSERT INTO u SELECT g, g FROM generate_series(1, 200000) g');
$node->safe_psql('postgres', 'DROP TABLE dropped');
crash($node);
my ($directory) = glob "$space/PG_*/*";
my ($parent) = $directory =~ m{^(.*)/};
rename $directory, "$space/away" or die $!;
chmod 0500, $parent or die $!;
$node->append_conf('postgresql.conf', "shared_buffers = 1MB\n");
$node->start;
my $log = slurp_file($node->logfile);
unlike($log, qr/could not create directory "pg_tblspc\/.*": Permission denied/, 'stage-out does not try to make the directory');
like($log, qr/WARNING:  the flash tier has pages of file "pg_tblspc.*", which does not exist\n.*HINT/, 'after redo the file is missed');
unlike($log, qr/TRAP:|lock .* is not held|PANIC:/, 'no lock is left, and nobody ends');
is(whole($node, 'u'), '200000|20000100000|20000100000', 'other files are as they should be');
chmod 0700, $parent or die $!;
rename "$space/away", $directory or die $!;
crash($node);
$node->start;
is(whole($node, 't'), '5000|12502500|10000', 'and with the directory everything is there');
$node->stop;

# A tablespace that was made since the checkpoint, and of which a power cut has left nothing but its symbolic
# link. Its directory cannot be written until redo makes the tablespace, which gives it its mode. Stage-out
# comes to its table before that, has to make the directories, and fails under the lock for it. Redo takes
# that lock when it makes them itself.
$node = tier_node('made', mode => 'durable', flash => 4,
	conf => "max_wal_size = 4GB\nshared_buffers = 64MB\n");
$space = PostgreSQL::Test::Utils::tempdir;
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', 'CREATE TABLE u (id integer, ver integer)');
$node->safe_psql('postgres', 'INSERT INTO u SELECT g, g FROM generate_series(1, 200000) g');
$node->safe_psql('postgres', "CREATE TABLESPACE s LOCATION '$space'");
$node->safe_psql('postgres', 'CREATE TABLE t (id integer, ver integer) TABLESPACE s');
$node->safe_psql('postgres', 'INSERT INTO t SELECT g, 1 FROM generate_series(1, 40000) g');
evict($node, 't');
crash($node);
system_or_bail('rm', '-r', glob "$space/PG_*");
chmod 0500, $space or die $!;
$node->append_conf('postgresql.conf', "shared_buffers = 1MB\n");
my $from = -s $node->logfile;
ok($node->start(fail_ok => 1), 'a tablespace that is made again: the server starts');
$log = log_since($node, $from);
like($log, qr/could not create directory "pg_tblspc\/.*": Permission denied/,
	'stage-out failed to make its directory');
unlike($log, qr/TRAP:|lock .* is not held|PANIC:/, 'no lock is left, and nobody ends');
is(whole($node, 't'), '40000|800020000|40000', 'its table has all rows');
is(whole($node, 'u'), '200000|20000100000|20000100000', 'and the other');
$node->stop;
done_testing();
