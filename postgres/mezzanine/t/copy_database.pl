# Databases are copied as files: CREATE DATABASE, and ALTER DATABASE SET TABLESPACE. The files have to be current by then.
#
# Rules: checkpoint_all
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
$node->safe_psql('original', 'ALTER TABLE t SET TABLESPACE elsewhere');
is(whole($node, 't', 'original'), "5000|12502500|$ver", 'a table in another tablespace');
change();
$node->safe_psql('original', 'ALTER TABLE t SET TABLESPACE pg_default');
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);
$node->start;
is(whole($node, 't', 'original'), "5000|12502500|$ver", 'and back, after a crash');
$node->stop;
done_testing();
