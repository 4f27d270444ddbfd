# What stage-out meets under a lightweight lock (the directory of a tablespace that is gone and cannot be made) ends in the extension: no
# error jumps over the library, and the lock is given back. A server with assertions checks that it is.
#
# Kept by disk.c (without_errors()).
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'root may write everywhere' if $> == 0;

my $node = tier_node('lock', mode => 'durable', flash => 4);
my $space = PostgreSQL::Test::Utils::tempdir;
$node->start;
$node->safe_psql('postgres', "CREATE TABLESPACE s LOCATION '$space'");
$node->safe_psql('postgres', 'CREATE TABLE t TABLESPACE s AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', 'UPDATE t SET ver = 2');
evict($node, 't');
# A server that has not opened the files: redo from here is short, and what it needs is on flash.
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);
$node->start;
my ($directory) = glob "$space/PG_*/*";
my ($parent) = $directory =~ m{^(.*)/};
rename $directory, "$space/away" or die $!;
chmod 0500, $parent or die $!;
# Larger than the tier, so that the pages that are on flash have to go to disk. A table that is new in its transaction stays out of it.
$node->psql('postgres', 'CREATE TABLE u (id int, ver int)');
eval { $node->psql('postgres', 'INSERT INTO u SELECT g, g FROM generate_series(1, 200000) g') };
my $log = slurp_file($node->logfile);
like($log, qr/ERROR:  could not create directory "pg_tblspc\/.*": Permission denied/, 'stage-out cannot make the directory, and says so');
unlike($log, qr/TRAP:|lock .* is not held/, 'no lock is left');
like($log, qr/PANIC:  /, 'what cannot be written to disk ends the server');
$node->stop('immediate', fail_ok => 1);
$node->_update_pid(0);
chmod 0700, $parent or die $!;
rename "$space/away", $directory or die $!;
$node->start;
is(whole($node, 't'), '5000|12502500|10000', 'and with the directory everything is there');
$node->stop;
done_testing();
