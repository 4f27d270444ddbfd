# A machine starts again after a crash, and the file system of a tablespace is not mounted: redo has nothing
# for it. Stage-out while redo runs makes none of its files anew, with holes in place of what the tier does
# not have; reads are errors, as without a tier, and once it is mounted everything is there. That goes for as
# many pages as the tier can hold beside those of others. With more of them the start ends and names a file;
# nothing is lost, and once that is there the server starts. A stop finds as much room.
#
# Rules: missing_old, redo_room, refused_named, exit_on_error, shutdown_room
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

# A server crashes with as many pages newer in the tier than in the files as the table has, four rows each,
# from before the redo point; and what its tablespace lies on is not mounted.
sub unmounted
{
	my ($name, $rows) = @_;
	# The tier is smaller than what redo goes through. Before the crash everything stays in shared buffers.
	my $node = tier_node($name, mode => 'durable', flash => 4, conf => "max_wal_size = 4GB\nshared_buffers = 64MB\n");
	my $space = $node->basedir . '/space';
	mkdir $space or die "$space: $!";
	$node->start;
	$node->safe_psql('postgres', "CREATE TABLESPACE s LOCATION '$space'");
	$node->safe_psql('postgres', 'CREATE TABLE t (id int, ver int, filler text) WITH (fillfactor = 50) TABLESPACE s');
	$node->safe_psql('postgres', "INSERT INTO t SELECT g, 0, repeat('x', 900) FROM generate_series(1, $rows) g");
	$node->stop;
	$node->start;
	# Reading them all sets hint bits, which are logged before the redo point, too.
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
	return ($node, $space, $path, $all);
}

sub mounted
{
	my ($space) = @_;
	rmdir $space or system_or_bail('rm', '-r', $space);
	rename "$space.device", $space or die "$space: $!";
	return;
}

my ($node, $space, $path, $all) = unmounted('unmounted', 300);
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
mounted($space);
$node->start;
is(whole($node, 't'), $all, 'mounted again, it has all rows in their newest version');
$node->stop;

# More than half of the tier: queries that need room are told, but redo is not.
($node, $space, $path, $all) = unmounted('unmounted_more', 1100);
$node->start;
ok(!-e $path, 'more than half of the tier: the server starts, and no file was made');
mounted($space);
ok($node->poll_query_until('postgres', 'SELECT count(*), sum(id), sum(ver) FROM big', '300000|45000150000|300000'),
	'more than half of the tier: mounted again, there is room');
is(whole($node, 't'), $all, 'more than half of the tier: all rows in their newest version');
$node->stop;

# The same by a single-user server, which makes the checkpoint at the end itself; that writes most of what was
# redone.
($node, $space, $path, $all) = unmounted('unmounted_single', 1220);
my ($said, $statement) = ('', "SELECT sum(ver) FROM big;\n");
ok(IPC::Run::run([ 'postgres', '--single', '-D', $node->data_dir, '-c', 'shared_buffers=64MB', 'postgres' ],
		'<', \$statement, '>', \$out, '2>', \$said, IPC::Run::timeout(120)), 'more than half of the tier: a single-user server starts, and ends')
	or diag($said);
like($out, qr/sum = "300000"/, 'more than half of the tier: it has redone everything');
unlike($said, qr/there is no room|FATAL/, 'more than half of the tier: there was room for that');
mounted($space);
$node->start;
is(whole($node, 't'), $all, 'more than half of the tier: all rows in their newest version, and none is lost to it');
$node->stop;

# A tablespace goes away under a server that runs. Its stop writes all that is in shared buffers, and finds
# room in the tier, too.
($node, $space, $path, $all) = unmounted('unmounted_stop', 1100);
mounted($space);
$node->append_conf('postgresql.conf', 'shared_buffers = 64MB');
$node->start;
create_extension($node);
$node->safe_psql('postgres', 'SELECT mezzanine_drain()');
$node->safe_psql('postgres', 'UPDATE t SET ver = ver + 1');
$all = whole($node, 't');
evict($node, 't');
rename $space, "$space.device" or die "$space: $!";
mkdir $space or die "$space: $!";
$node->safe_psql('postgres', 'UPDATE big SET ver = 2 WHERE id <= 100000');
$from = -s $node->logfile;
$node->stop('fast', fail_ok => 1);
my ($state) = run_command(['pg_controldata', $node->data_dir]);
like($state, qr/cluster state: +shut down\n/, 'a stop is in order');
unlike(log_since($node, $from), qr/FATAL:  there is no room|PANIC|TRAP/, 'a stop finds room');
$node->_update_pid(0);
mounted($space);
$node->start;
is(whole($node, 't'), $all, 'after the stop: all rows in their newest version');
is(whole($node, 'big'), '300000|45000150000|400000', 'after the stop: and those of others');
$node->stop;

SKIP:
{
	skip 'no library that has calls fail', 12 unless $ENV{MEZZ_FAULTS_LIBRARY};

	# As many as the tier holds, and other files take none either.
	($node, $space, $path, $all) = unmounted('unmounted_all', 1480);
	my $faults = $node->basedir . '/faults';
	append_to_file($faults, "thin base/\n");
	{
		local $ENV{LD_PRELOAD} = $ENV{MEZZ_FAULTS_LIBRARY};
		local $ENV{MEZZ_FAULTS} = $faults;
		for my $name ('no room at all: the start ends', 'nor does the next one succeed')
		{
			my $log = start_fails($node, $name);
			like($log, qr/FATAL:  there is no room for a page/, "$name, by the reason");
			like($log, qr/DETAIL:  .* The last attempt: could not .*"(pg_tblspc|base)[^"]*": No (such file or directory|space left on device)/,
				"$name, with the file");
			like($log, qr/HINT:  Mount what is not mounted.* start the server again/, "$name, with the next step");
			unlike($log, qr/PANIC|TRAP/, "$name, and nobody else does");
		}
	}
	mounted($space);
	$node->start;
	is(whole($node, 't'), $all, 'no room at all: mounted again, the start succeeds, with all rows in their newest version');
	is(whole($node, 'big'), '300000|45000150000|300000', 'no room at all: and those of others');
	$node->stop;
}
done_testing();
