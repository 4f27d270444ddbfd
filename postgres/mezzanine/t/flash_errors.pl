# The flash device reports errors while the server runs, and is still broken when the server starts again. In
# no sync mode is a commit lost or an old page served, and only where the tier cannot be done without does the
# server stop.
#
# Rules: failure, failed_write
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $library = only_for('MEZZ_FAULTS_LIBRARY', 'the library that has calls fail');

# As psql(), but does not die when the server goes away under it.
sub try
{
	my ($node, $statement) = @_;
	my ($code, $out) = eval { $node->psql('postgres', $statement) };
	return ($code // 2, $out // '');
}

# Starts a server whose flash fails in the ways that its file of faults names.
sub start_faulty
{
	my ($node, %given) = @_;
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{MEZZ_FAULTS} = $node->basedir . '/faults';
	return $node->start(%given);
}

sub break_flash
{
	my ($node, @calls) = @_;
	append_to_file($node->basedir . '/faults', join '', map { "$_ " . flash_path($node) . "\n" } @calls);
	return;
}

sub repair_flash
{
	my ($node) = @_;
	unlink $node->basedir . '/faults';
	append_to_file($node->basedir . '/faults', '');
	return;
}

# A server with a table whose newest version is in the tier alone: nothing but an immediate checkpoint would
# change that.
sub server
{
	my ($name, $mode) = @_;
	my $node = tier_node($name, mode => $mode, flash => 8);
	append_to_file($node->basedir . '/faults', '');
	start_faulty($node);
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
	create_extension($node);
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
	evict($node, 't');
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
	evict($node, 't');
	return $node;
}

# What is acknowledged from now on, whatever the server has to do about its device.
sub live
{
	my ($node) = @_;
	my $acknowledged = 1;
	for my $ver (2 .. 5)
	{
		my ($code) = try($node, "UPDATE t SET ver = $ver");
		$acknowledged = $ver if $code == 0;
		try($node, 'SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache');
		try($node, 'CHECKPOINT');
	}
	return $acknowledged;
}

# Waits for a server that ends by itself.
sub await_end
{
	my ($node) = @_;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		last unless -e $node->data_dir . '/postmaster.pid';
		usleep(100_000);
	}
	$node->_update_pid(0);
	return;
}

sub is_whole
{
	my ($node, $acknowledged, $what) = @_;
	my $sum = $node->safe_psql('postgres', 'SELECT sum(ver) / 5000 FROM t');
	cmp_ok($sum, '>=', $acknowledged, "$what: what was acknowledged is there");
	is($node->safe_psql('postgres', 'SELECT count(*), sum(id), count(DISTINCT ver) FROM t'),
		'5000|12502500|1', "$what: no row is lost or older than the others");
	return;
}

# After a failed write the server goes on without its tier, in every sync mode, and starts without it while
# the device is broken.
for my $mode (qw(durable drained through))
{
	my $what = "$mode, failing writes";
	my $node = server("write_$mode", $mode);
	break_flash($node, 'write');
	my $acknowledged = live($node);
	my $log = log_since($node, 0);
	is($acknowledged, 5, "$what: every statement succeeds");
	unlike($log, qr/PANIC/, "$what: the server stays up");
	like($log, qr/LOG:  the flash tier on ".*" has failed: a write to the flash device failed/, "$what: it is logged");
	like($log, qr/LOG:  cannot write .*: the operation failed \(Input\/output error/, "$what: and what the device said");
	like($log, qr/DETAIL:  The server goes on without the tier\. \d+ pages that it alone had were written to disk/, "$what: and what became of it");
	like($log, qr/HINT:  Check the flash device/, "$what: and what to do");
	is($node->safe_psql('postgres', 'SELECT state, failure FROM pg_stat_mezzanine') =~ s/".*"/""/r,
		'failed|the flash tier on "" has failed: a write to the flash device failed', "$what: the view says so");
	is_whole($node, $acknowledged, $what);
	$node->safe_psql('postgres', 'CREATE TABLE u AS SELECT g AS id, 1 AS ver FROM generate_series(1, 1000) g; DROP TABLE u; TRUNCATE t; VACUUM FULL t');
	$node->safe_psql('postgres', 'INSERT INTO t SELECT g, 5 FROM generate_series(1, 5000) g');
	crash($node);

	my $from = -s $node->logfile;
	start_faulty($node);
	like(log_since($node, $from), qr/WARNING:  the server starts without its flash tier/, "$what: a restart does without the tier as well");
	is($node->safe_psql('postgres', 'SELECT state, adoption, pages IS NULL FROM pg_stat_mezzanine'), 'failed|unusable|t',
		"$what: the view says so");
	is(($node->psql('postgres', 'SELECT mezzanine_drain()'))[2] =~ /(the server has started without its flash tier)/ ? $1 : '',
		'the server has started without its flash tier', "$what: and the functions");
	$node->safe_psql('postgres', 'UPDATE t SET ver = 6');
	evict($node, 't');
	is_whole($node, 6, "$what, after a restart");
	crash($node);

	repair_flash($node);
	$from = -s $node->logfile;
	start_faulty($node);
	like(log_since($node, $from), qr/new flash tier.*\n.*DETAIL:  its device failed, and the server has gone on without it/,
		"$what: with the device repaired there is a new tier");
	is_whole($node, 6, "$what, with a new tier");
	$node->stop;
}

# After a failed sync nothing more is built on the device: the database restarts if the tier had anything
# alone.
for my $mode (qw(durable drained through))
{
	my $what = "$mode, failing syncs";
	my $node = server("sync_$mode", $mode);
	break_flash($node, 'sync');
	my $acknowledged = live($node);
	my $log = log_since($node, 0);
	if ($mode eq 'through')
	{
		unlike($log, qr/PANIC/, "$what: the server stays up");
		is_whole($node, $acknowledged, $what);
		crash($node);
	}
	else
	{
		like($log, qr/PANIC:  the flash tier on ".*" has failed: a flush of the flash device failed/, "$what: the server restarts");
	}
	if ($mode eq 'durable')
	{
		await_end($node);
		$log = log_since($node, 0);
		like($log, qr/DETAIL:  The flash tier is part of the database/, "$what: it says what from");
		like($log, qr/FATAL:  the flash device ".*" has failed/, "$what: it does not start on the broken device");
		like($log, qr/HINT:  .*start the server again\. If it fails again: copy what can be read of it to another one/, "$what: and says what to do");
	}
	else
	{
		start_faulty($node) if $mode eq 'through';
		$node->poll_query_until('postgres', 'SELECT true') or die;
		like(log_since($node, 0), qr/the server starts without its flash tier/, "$what: it starts without the tier");
		is_whole($node, $acknowledged, "$what, after a restart");
		$acknowledged = $node->safe_psql('postgres', 'SELECT max(ver) FROM t');
		crash($node);
	}
	repair_flash($node);
	start_faulty($node);
	is_whole($node, $acknowledged, "$what, with the device repaired");
	$node->stop;
}

# A device that was written to and cannot be read: what the files have comes from there. The rest is an error,
# and never old.
for my $mode (qw(durable drained through))
{
	my $what = "$mode, failing reads";
	my $node = server("read_$mode", $mode);
	$node->safe_psql('postgres', 'CREATE TABLE copies AS SELECT g AS id, 1 AS ver FROM generate_series(1, 2000) g');
	evict($node, 'copies');
	# It knows the catalogues, which cannot be read later either.
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query('SELECT count(*), sum(id) FROM copies; SELECT count(*), sum(ver) FROM t');
	evict($node, 'copies');
	$node->safe_psql('postgres', 'SELECT mezzanine_drain()');
	$node->safe_psql('postgres', 'UPDATE t SET ver = 2');
	evict($node, 't');
	# Makes it durable, so that it leaves memory.
	$node->safe_psql('postgres', 'CHECKPOINT');
	break_flash($node, 'read');
	is($session->query('SELECT count(*), sum(id) FROM copies'), '2000|2001000', "$what: copies come from the files");
	my $out = $session->query('SELECT count(*), sum(ver) FROM t');
	if ($mode eq 'durable')
	{
		like($session->{stderr}, qr/the newest version of block \d+ in file ".*" cannot be read from the flash tier/,
			"$what: a page that only flash has is an error");
	}
	else
	{
		is($out, '5000|10000', "$what: after a checkpoint all are copies");
	}
	$session->quit;
	crash($node);

	if ($mode eq 'durable')
	{
		my $from = -s $node->logfile;
		ok(!start_faulty($node, fail_ok => 1), "$what: the server does not start without what only the tier has");
		like(log_since($node, $from), qr/FATAL:  the flash device ".*" answers no read just now.*\n.*DETAIL:  Nothing is known to be lost\.\n.*HINT:  .*start the server again.*copy what can be read/,
			"$what: it says why, and what to do");
		await_end($node);
	}
	else
	{
		start_faulty($node);
		is($node->safe_psql('postgres', 'SELECT count(*), sum(ver) FROM t'), '5000|10000', "$what: the server starts without the tier");
		crash($node);
	}
	repair_flash($node);
	start_faulty($node);
	is($node->safe_psql('postgres', 'SELECT count(*), sum(ver) FROM t'), '5000|10000', "$what: with the device repaired it is whole");
	$node->stop;
}
done_testing();
