# A sector goes bad under a page that only flash has. What needs that page is an error, and nothing else is:
# the server lives, makes its checkpoints, can be stopped in order and started again, and everything else is
# right. Base backups, forced checkpoints and ordinary stops were each a PANIC of the whole server, again
# after each restart.
#
# A page that disk has in this very version is none of these, whatever its record on flash says after a crash.
#
# Rules: disk_copy, lost_error, lost_page, lost_shutdown
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('lost', mode => 'durable', flash => 16, init => { allows_streaming => 1 });
my $refused = qr/pages that only the flash tier on ".*" has cannot be read/;
my $rows = '3000|4501500|3000';

sub is_lost
{
	my ($when) = @_;
	my ($status, $out, $error) = $node->psql('postgres', 'SELECT * FROM v');

	like($error, qr/the newest version of block 0 in file ".*" cannot be read from the flash tier/, "$when: the page is an error");
	is(whole($node, 't'), $rows, "$when: all others are right");
	return;
}

# Files are to be current, and cannot be.
sub is_refused
{
	my ($when) = @_;
	my $backup = $node->basedir . "/refused_$when";

	$node->command_fails_like([ 'pg_basebackup', '-D', $backup, '--no-sync', '-c', 'fast', '-d', $node->connstr('postgres') ],
		$refused, "$when: a base backup is an error");
	my ($status, $out, $error) = $node->psql('postgres', 'CREATE DATABASE copy STRATEGY file_copy');
	like($error, qr/ERROR:  checkpoint request failed/, "$when: a copy of files is an error");
	is($node->safe_psql('postgres', 'CHECKPOINT; SELECT 1'), '1', "$when: a checkpoint completes");
	return;
}

$node->start;
my $from = -s $node->logfile;
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $session->query('SELECT pg_backend_pid()');
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 3000) g');
$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
$node->safe_psql('postgres', "CREATE TABLE v AS SELECT 'the first' || ' victim' AS a");
evict($node);
$node->safe_psql('postgres', 'CHECKPOINT');
spoil($node, 'the first victim');
is_lost('at first');
is_refused('at_first');

# Shared buffers still have another one, and it is written again.
$node->safe_psql('postgres', "CREATE TABLE w AS SELECT 'the second' || ' victim' AS a");
$session->query('BEGIN; DECLARE pins CURSOR FOR SELECT * FROM w; FETCH pins');
$node->safe_psql('postgres', 'CHECKPOINT');
spoil($node, 'the second victim');
is_refused('with_two');
$node->safe_psql('postgres', "UPDATE w SET a = 'healed'");
$node->safe_psql('postgres', 'CHECKPOINT');
is($session->query('COMMIT; SELECT pg_backend_pid()'), $pid, 'no session has ended');
$session->quit;
evict($node, 'w');
is($node->safe_psql('postgres', 'SELECT a FROM w'), 'healed', 'a page that is written anew is healed');
unlike(log_since($node, $from), qr/PANIC/, 'the server has lived on');

for my $when ('stopped', 'stopped again')
{
	$from = -s $node->logfile;
	$node->stop;
	my $log = log_since($node, $from);
	like($log, qr/WARNING:  1 $refused/, "$when: it was said why the files are not current");
	like($log, qr/flash tier closed; it holds the newest version of some pages/, "$when: in order");
	unlike($log, qr/PANIC|FATAL:  (?!terminating)/, "$when: without a failure");
	$node->start;
	like(log_since($node, $from), qr/flash tier adopted/, "$when: the tier is used again");
	is_lost($when);
	is($node->safe_psql('postgres', 'SELECT a FROM w'), 'healed', "$when: what was healed is");
}
crash($node);
$node->start;
is_lost('after a crash');
is_refused('after_a_crash');

# Disk has this one: a drain wrote it there, which its record on flash does not know after a crash.
$node->safe_psql('postgres', "CREATE TABLE x AS SELECT 'the third' || ' victim' AS a; CHECKPOINT");
evict($node, 'x');
is_refused('before_a_drain_is_forgotten');
$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
evict($node, 't');
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);
$node->start;
spoil($node, 'the third victim');
is($node->psql('postgres', 'SELECT a FROM x'), 0, 'disk answers for a page that it has');
is_refused('with_a_copy_on_disk');

# Whoever owns it does without.
$node->safe_psql('postgres', 'DROP TABLE v');
$node->backup('complete');
$node->safe_psql('postgres', 'CREATE DATABASE copy STRATEGY file_copy');
$from = -s $node->logfile;
$node->stop;
like(log_since($node, $from), qr/flash tier closed; the files are up to date/, 'without it, the files are current again');
done_testing();
