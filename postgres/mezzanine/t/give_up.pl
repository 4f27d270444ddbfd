# A page is lost, and its owner goes on without it, by name: its place on disk gets a page that no server
# accepts, and everything that needs files that are current goes on again. What is not lost is not given up,
# least of all what shared buffers still have.
#
# Rules: give_up_buffers, give_up_lock
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('give_up', mode => 'durable', flash => 16, init => { allows_streaming => 1 });
my $lost = qr/the newest version of block 0 in file ".*" cannot be read from the flash tier/;
my $invalid = qr/ERROR:  invalid page in block 0 of relation base/;
my $rows = '3000|4501500|3000';

sub fails
{
	my ($query, $pattern, $name) = @_;
	my ($status, $out, $error) = $node->psql('postgres', $query);

	isnt($status, 0, "$name: fails");
	like($error, $pattern, "$name: says why");
	return;
}

$node->start;
create_extension($node);
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 3000) g');
$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
$node->safe_psql('postgres', "CREATE TABLE v AS SELECT 'the first' || ' victim' AS a");
$node->safe_psql('postgres', "CREATE TABLE w AS SELECT 'the second' || ' victim' AS a");
$node->safe_psql('postgres', 'CREATE UNLOGGED TABLE u AS SELECT 1 AS a');
$node->safe_psql('postgres', 'CREATE TABLE p (a int) PARTITION BY RANGE (a); CREATE ROLE ordinary');
evict($node);
$node->safe_psql('postgres', 'CHECKPOINT');

# What cannot be given up, and why.
fails("SELECT mezzanine_give_up('v', 0)",
	qr/block 0 in file "base.*" cannot be given up: it is not lost: a read brings it from the flash tier\nHINT/, 'a page on flash');
fails("SELECT mezzanine_give_up('v', 1)",
	qr/there is no block 1 in file "base.*"\nDETAIL:  It has 1 blocks.*\nHINT/, 'past the end');
fails("SELECT mezzanine_give_up('v', -1)", qr/there is no block -1 in file/, 'before the beginning');
fails("SELECT mezzanine_give_up('v', 0, 'init')",
	qr/there is no block 0 in file ".*_init"\nDETAIL:  It has 0 blocks/, 'a fork that is not there');
fails("SELECT mezzanine_give_up('v', 0, 'none')", qr/invalid fork name\nHINT/, 'no fork');
fails("SELECT mezzanine_give_up('u', 0)", qr/relation "u" is temporary or unlogged.*\nHINT/, 'an unlogged table');
fails("SELECT mezzanine_give_up('p', 0)", qr/relation "p" has no pages\n.*\nHINT/, 'a partitioned table');
fails("SELECT mezzanine_give_up(1::regclass, 0)", qr/could not open relation with OID 1/, 'an unknown relation');
fails("SET ROLE ordinary; SELECT mezzanine_give_up('v', 0)", qr/permission denied for function mezzanine_give_up/, 'somebody else');
is($node->safe_psql('postgres', 'SELECT a FROM v'), 'the first victim', 'nothing was changed');

# What shared buffers have is not lost: it is changed there, and written anew.
$node->safe_psql('postgres', 'SELECT * FROM w');
spoil($node, 'the second victim');
fails("SELECT mezzanine_give_up('w', 0)",
	qr/cannot be given up: it is not lost: shared buffers have it\nHINT/, 'a page in shared buffers');
$node->safe_psql('postgres', "UPDATE w SET a = 'healed'");
$node->safe_psql('postgres', 'CHECKPOINT');
evict($node, 'w');
is($node->safe_psql('postgres', 'SELECT a FROM w'), 'healed', 'it is healed from there');

# One that is lost.
evict($node, 'v');
spoil($node, 'the first victim');
fails('SELECT * FROM v', qr/$lost.*mezzanine_give_up/s, 'a lost page');
fails('SELECT mezzanine_drain()', qr/cannot be read\n.*mezzanine_give_up/s, 'a drain');
# Its frame is needed for others.
$node->safe_psql('postgres', "CREATE TABLE filler AS SELECT repeat('x', 500) AS f FROM generate_series(1, 40000)");
evict($node, 'filler');
is($node->safe_psql('postgres',
		"SELECT relfilenode = pg_relation_filenode('v'), relblocknumber FROM pg_mezzanine_frames WHERE islost"), 't|0',
	'it is named');

# Nobody else has it meanwhile.
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; LOCK TABLE v IN ACCESS SHARE MODE');
fails("SET lock_timeout = '200ms'; SELECT mezzanine_give_up('v', 0)",
	qr/canceling statement due to lock timeout/, 'while others use the table');
$session->query_safe('COMMIT');
$session->quit;

my $from = -s $node->logfile;
is($node->safe_psql('postgres', "SELECT mezzanine_give_up('v', 0)"), '', 'it is given up');
like(log_since($node, $from), qr/LOG:  block 0 in file "base.*" was lost in the flash tier and is given up/, 'which is logged');
fails('SELECT * FROM v', $invalid, 'given up');
fails("SELECT mezzanine_give_up('v', 0)",
	qr/it is not lost: the flash tier does not have it, and disk answers for it\nHINT/, 'a second time');
is($node->safe_psql('postgres',
		'SELECT lost_pages, (SELECT count(*) FROM pg_mezzanine_frames WHERE islost) FROM pg_stat_mezzanine'), '0|0', 'none is lost');
is($node->safe_psql('postgres', 'SELECT mezzanine_drain() >= 0'), 't', 'the tier is drained');

$node->backup('complete');

# Over a crash, and an ordinary stop.
crash($node);
$node->start;
fails('SELECT * FROM v', $invalid, 'after a crash');
is(whole($node, 't'), $rows, 'after a crash: all others are right');
$from = -s $node->logfile;
$node->stop;
like(log_since($node, $from), qr/flash tier closed; the files are up to date/, 'the files are current');

# And a server without a tier says the same.
without_tier($node);
$node->start;
fails('SELECT * FROM v', $invalid, 'without a tier');
is(whole($node, 't'), $rows, 'without a tier: all others are right');
$node->stop;

# What a stock server has for such pages.
add_tier($node, flash => 16);
$node->start;
$node->safe_psql('postgres', 'SET zero_damaged_pages = on; VACUUM FULL v');
evict($node, 'v');
is($node->safe_psql('postgres', 'SELECT count(*) FROM v'), '0', 'rewritten, the table is whole, and its rows are gone');
$node->stop;
done_testing();
