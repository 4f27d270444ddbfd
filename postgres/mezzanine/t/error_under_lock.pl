# A directory of a tablespace that is gone, and cannot be made, while redo runs and afterwards: stage-out does
# not try to make it for what the log drops, nor for what the tier had before the redo point, and from the end
# of redo on it is missed like a file.
#
# That was how stage-out met an error under a lightweight lock, which mezz_without_errors() in disk.c gives
# back. What is left where it still can, a file made since the checkpoint, this does not draw.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'root may write everywhere' if $> == 0;

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
done_testing();
