# The worker lets go of files when somebody waits for that: DROP TABLESPACE and DROP DATABASE end.
#
# Rules: worker_barrier
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('barrier', mode => 'durable', flash => 4, conf => "statement_timeout = 30s\n");
my $space = PostgreSQL::Test::Utils::tempdir_short();
$node->start;
$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION '$space'");
for my $round (1 .. 2)
{
	# The tier is smaller than that: the worker writes the table's files.
	$node->safe_psql('postgres', <<'END');
CREATE TABLE t TABLESPACE elsewhere AS SELECT g AS id, repeat('x', 500) AS pad FROM generate_series(1, 20000) g;
END
	evict($node);
	$node->safe_psql('postgres', 'DROP TABLE t');
	my ($code, $out, $err) =
	  $node->psql('postgres', 'CREATE DATABASE d TABLESPACE elsewhere');
	is($err, '', "round $round: a database is created");
	($code, $out, $err) = $node->psql('postgres', 'DROP DATABASE d');
	is($err, '', "round $round: and dropped");
}
my ($code, $out, $err) = $node->psql('postgres', 'DROP TABLESPACE elsewhere');
is($err, '', 'a tablespace is dropped');
$node->stop;
done_testing();
