# Databases are copied as files: CREATE DATABASE, and ALTER DATABASE SET TABLESPACE. The files have to be
# current by then.
#
# So has that of a relation whose storage is copied, for whoever reads it as a file.
#
# Rules: checkpoint_all, flush_rel
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('copy', mode => 'durable');
my $space = PostgreSQL::Test::Utils::tempdir_short();
$node->start;
$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION '$space'");
$node->safe_psql('postgres', 'CREATE DATABASE original');
$node->safe_psql('original', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
my $ver = 0;
my $n = 0;

# Changes every row, and leaves the newest version in the tier.
sub change
{
	$node->safe_psql('original', 'UPDATE t SET ver = ver + 1');
	evict($node, undef, 'original');
	$ver += 5000;
	return;
}

for my $strategy (qw(file_copy wal_log))
{
	change();
	$n++;
	$node->safe_psql('postgres', "CREATE DATABASE copy$n TEMPLATE original STRATEGY $strategy");
	is(whole($node, 't', "copy$n"), "5000|12502500|$ver", "copied by $strategy");
	crash($node);
	$node->start;
	is(whole($node, 't', "copy$n"), "5000|12502500|$ver", "copied by $strategy, after a crash");
}

change();
$node->safe_psql('postgres', 'ALTER DATABASE original SET TABLESPACE elsewhere');
is(whole($node, 't', 'original'), "5000|12502500|$ver", 'a database in another tablespace');
change();
crash($node);
$node->start;
is(whole($node, 't', 'original'), "5000|12502500|$ver", 'and after a crash');
change();
$node->safe_psql('postgres', 'ALTER DATABASE original SET TABLESPACE pg_default');
is(whole($node, 't', 'original'), "5000|12502500|$ver", 'and back');

change();
is(whole($node, 't', 'original'), "5000|12502500|$ver", 'a table in another tablespace');
change();
$node->safe_psql('original', 'ALTER TABLE t SET TABLESPACE pg_default');
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);
$node->start;
is(whole($node, 't', 'original'), "5000|12502500|$ver", 'and back, after a crash');

$node->safe_psql('original', 'CREATE TABLE r AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
evict($node, 'r', 'original');
my ($file, $newest) = (relation_path($node, 'r', 'original'), page_lsn($node, 'r', 0, 'original'));
isnt(file_lsn($file, 0), $newest, 'a file is older than the tier');
my $session = $node->background_psql('original');
$session->query_safe('BEGIN; ALTER TABLE r SET TABLESPACE elsewhere');
is(file_lsn($file, 0), $newest, 'and current when its relation is copied');
$session->query_safe('COMMIT');
$session->quit;
$node->stop;
done_testing();
