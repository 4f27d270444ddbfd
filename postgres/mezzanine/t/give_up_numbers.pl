# Pages of catalogs are lost: of one database, in which no names can be looked up any more, and of a shared
# catalog. They are given up by the numbers that the error names, from another database. Numbers of nothing
# are refused, and so are pages that are not lost and databases that others use.
#
# Rules: give_up_buffers, give_up_lock
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('give_up_numbers', mode => 'durable', flash => 32);
my $rows = '3000|4501500|3000';

sub fails
{
	my ($query, $pattern, $name, $database) = @_;
	my ($status, $out, $error) = $node->psql($database // 'postgres', $query);

	isnt($status, 0, "$name: fails");
	like($error, $pattern, "$name: says why");
	return $error;
}

# The call that the error of a read names.
sub named_by
{
	my ($query, $name, $database) = @_;
	my $error = fails($query, qr/cannot be read from the flash tier.*HINT/s, $name, $database);
	my ($call) = $error =~ /(SELECT mezzanine_give_up\([^)]*\)), also in another database,/;
	isnt($call, undef, "$name: names the call") or diag($error);
	return $call;
}

$node->start;
create_extension($node);
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 3000) g; CREATE ROLE ordinary');
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('postgres', "COMMENT ON DATABASE other IS 'the victim that is shared'");
$node->safe_psql('other', "CREATE TABLE v AS SELECT 'the victim' || ' of another database' AS a");
# An index has no row type, so its name is in pg_class and the index of that by name alone.
$node->safe_psql('other', 'CREATE TABLE w (a int); CREATE TABLE x (a int)');
# The page that names it is to have no catalogs, without which nobody gets into the database any more.
$node->safe_psql('other', 'DO $$ BEGIN FOR i IN 1 .. 200 LOOP EXECUTE format(\'CREATE TABLE f%s (a int)\', i); END LOOP; END $$');
$node->safe_psql('other', 'DO $$ BEGIN EXECUTE format(\'CREATE INDEX %s ON x (a)\', \'the_victim\' || \'_in_a_catalog\'); END $$');
my $database = $node->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = 'other'");
my $v = $node->safe_psql('other', "SELECT pg_relation_filenode('v')");
my ($class, $index) = map { $node->safe_psql('other', "SELECT pg_relation_filenode('$_')") } qw(pg_class pg_class_relname_nsp_index);
my $block = $node->safe_psql('other', "SELECT (ctid::text::point)[0] FROM pg_class WHERE relname = 'the_victim' || '_in_a_catalog'");
my $shared = $node->safe_psql('postgres', "SELECT pg_relation_filenode('pg_shdescription')");
evict($node);
$node->safe_psql('postgres', 'CHECKPOINT');

# What is no page of a relation's.
my $numbers = qr/pg_mezzanine_frames or the error of a read/;
fails("SELECT mezzanine_give_up(1663, $database, 999999, 0)",
	qr/there is no file "base\/$database\/999999"\nDETAIL:  .*\nHINT:.*$numbers/, 'another file');
fails("SELECT mezzanine_give_up(1663, 999999, $class, 0)", qr/there is no file "base\/999999\/$class"/, 'another database');
fails("SELECT mezzanine_give_up(999999, $database, $class, 0)", qr/there is no file "pg_tblspc\/999999\//, 'another tablespace');
fails("SELECT mezzanine_give_up(0, $database, $class, 0)", qr/there is no file/, 'the default tablespace has a number');
fails("SELECT mezzanine_give_up(1663, 0, $shared, 0)",
	qr/no relation is in tablespace 1663 and database 0\nHINT:.*shared.*1664.*$numbers/, 'a shared catalog elsewhere');
fails("SELECT mezzanine_give_up(1664, $database, $class, 0)", qr/no relation is in tablespace 1664 and database $database\nHINT/,
	'a database among the shared');
fails('SELECT mezzanine_give_up(1664, 0, 999999, 0)', qr/no shared catalog has the file number 999999\nHINT:.*$numbers/, 'none of the shared');
fails("SELECT mezzanine_give_up(1663, $database, $v, 1)", qr/there is no block 1 in file "base.*"\nDETAIL:  It has 1 blocks/, 'past the end');
fails("SELECT mezzanine_give_up(1663, $database, $v, 0, 'vm')", qr/there is no block 0 in file ".*_vm"/, 'a fork that is not there');
fails("SELECT mezzanine_give_up(1663, $database, $v, 0)",
	qr/block 0 in file "base.*" cannot be given up: it is not lost: a read brings it from the flash tier\nHINT/, 'a page on flash');
fails("SELECT mezzanine_give_up(1664, 0, $shared, 0)", qr/cannot be given up: it is not lost/, 'a shared page on flash');
fails("SET ROLE ordinary; SELECT mezzanine_give_up(1663, $database, $v, 0)", qr/permission denied for function mezzanine_give_up/,
	'somebody else');
is($node->safe_psql('other', 'SELECT a FROM v'), 'the victim of another database', 'nothing was changed');

# Flash loses them.
$node->safe_psql('other', 'SELECT * FROM v');
spoil($node, 'the victim of another database');
fails("SELECT mezzanine_give_up(1663, $database, $v, 0)", qr/it is not lost: shared buffers have it\nHINT/, 'a page in shared buffers');
# The read has set hint bits, so it is written anew.
evict($node);
$node->safe_psql('postgres', 'CHECKPOINT');
spoil($node, 'the victim of another database');
fails('SELECT * FROM v', qr/cannot be read from the flash tier.* mezzanine_give_up\(\) goes on/s, 'a table is called by its name', 'other');
spoil($node, 'the victim that is shared');
spoil($node, 'the_victim_in_a_catalog');
evict($node);
my $shared_call = named_by('SELECT description FROM pg_shdescription', 'a shared catalog');
is($shared_call, "SELECT mezzanine_give_up(1664, 0, $shared, 0, 'main')", 'a shared catalog: with its numbers');
my $class_call = named_by('SET enable_indexscan = off; SELECT count(relname) FROM pg_class', 'pg_class', 'other');
is($class_call, "SELECT mezzanine_give_up(1663, $database, $class, $block, 'main')", 'pg_class: with its numbers');
fails('SELECT mezzanine_drain()', qr/cannot be read\n/, 'a drain');

# Not while others may be in the way.
my $session = $node->background_psql('other');
fails($class_call, qr/no page of database $database can be given up by its numbers while others are connected.*DETAIL:  There is 1 other.*HINT/s,
	'while others use the database');
$session->quit;
$session = $node->background_psql('postgres');
$session->query_safe('BEGIN; LOCK TABLE pg_shdescription IN ACCESS SHARE MODE');
fails("SET lock_timeout = '200ms'; $shared_call", qr/canceling statement due to lock timeout/, 'while others use the shared catalog');
$session->query_safe('COMMIT');
$session->quit;

my $from = -s $node->logfile;
is($node->safe_psql('postgres', $class_call), '', 'a page of pg_class is given up from another database');
like(log_since($node, $from), qr/LOG:  block $block in file "base\/$database\/$class" was lost in the flash tier and is given up/, 'which is logged');
is($node->safe_psql('postgres', $shared_call), '', 'one of a shared catalog is given up');
is($node->safe_psql('postgres', "SELECT mezzanine_give_up(1663, $database, $v, 0)"), '', 'one of a table of another database is given up');
fails($class_call, qr/it is not lost: the flash tier does not have it, and disk answers for it\nHINT/, 'a second time');
# The index on the names.
$node->safe_psql('postgres', 'CHECKPOINT');
my ($status, $out, $error) = $node->psql('postgres', 'SELECT mezzanine_verify()');
my $damaged = join "\n", map { /block (\d+) of file "base\/$database\/$index"/ ? $1 : () } split /\n/, $error;
isnt($damaged, '', 'an index of pg_class has lost a page as well');
is($node->safe_psql('postgres', "SELECT mezzanine_give_up(1663, $database, $index, $_)"), '', 'it is given up as well') for split /\n/, $damaged;

is($node->safe_psql('postgres', 'SELECT mezzanine_drain() >= 0'), 't', 'the tier is drained');
crash($node);
$node->start;
fails('SELECT description FROM pg_shdescription', qr/invalid page in block 0 of relation global\/$shared/, 'after a crash: the shared catalog');
fails('SET enable_indexscan = off; SELECT count(relname) FROM pg_class', qr/invalid page in block $block of relation base\/$database\/$class/,
	'after a crash: pg_class', 'other');
is(whole($node, 't'), $rows, 'after a crash: all others are right');

# What a stock server has for such pages; a connection reads pg_class before it knows its options.
for my $setting ('on', 'off')
{
	$node->append_conf('postgresql.conf', "zero_damaged_pages = $setting\nignore_system_indexes = $setting");
	$node->reload;
	$node->safe_psql('other', 'VACUUM FULL pg_class') if $setting eq 'on';
}
is($node->safe_psql('other', "SELECT count(*) FROM w"), '0', 'then names are found again');
is($node->safe_psql('other', "SELECT count(*) FROM pg_class WHERE relname = 'the_victim_in_a_catalog'"), '0', 'but those that were lost');
$node->safe_psql('postgres', 'SET zero_damaged_pages = on; SET allow_system_table_mods = on; VACUUM FULL pg_shdescription');
is($node->psql('postgres', 'SELECT description FROM pg_shdescription'), 0, 'rewritten, the shared catalog is whole, and its rows are gone');
$node->safe_psql('postgres', 'DROP DATABASE other');
$from = -s $node->logfile;
$node->stop;
like(log_since($node, $from), qr/flash tier closed; the files are up to date/, 'the files are current');

# A server for one session does it as well. Set before the start: a worker that has not heard of it yet
# drains.
$node->append_conf('postgresql.conf', 'mezzanine.drain_on_shutdown = off');
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE third');
$node->safe_psql('third', "CREATE TABLE v AS SELECT 'the victim' || ' of a single user' AS a");
my ($third, $file) = split /\|/, $node->safe_psql('third',
	"SELECT oid, pg_relation_filenode('v') FROM pg_database WHERE datname = 'third'");
evict($node);
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop;
spoil($node, 'the victim of a single user');
my ($said, $statement) = ('', "SELECT mezzanine_give_up(1663, $third, $file, 0);\n");
ok(IPC::Run::run([ 'postgres', '--single', '-D', $node->data_dir, 'postgres' ],
		'<', \$statement, '>', \$out, '2>', \$said, IPC::Run::timeout(120)), 'a single-user server');
like($said, qr/LOG:  block 0 in file "base\/$third\/$file" was lost in the flash tier and is given up/, 'a single-user server: gives it up') or diag($said);
$node->start;
fails('SELECT a FROM v', qr/invalid page in block 0/, 'given up by a single user', 'third');
$node->stop;
done_testing();
