# Flash cannot be read, or gives what nobody wrote: copies come from the files, and a page whose only copy
# that was is an error, never the older version in the file.
#
# Rules: lost_page
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = only_for('MEZZ_FAULTS_LIBRARY', 'the library that has calls fail');

# A server with a table in its tier: its newest version there alone in sync mode durable, on disk as well in
# the others.
sub server
{
	my ($mode, $what) = @_;
	my $node = tier_node("reads_${mode}_$what", mode => $mode);
	my $faults = $node->basedir . '/faults';
	append_to_file($faults, '');
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{MEZZ_FAULTS} = $faults;
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 3000) g');
	evict($node, 't');
	$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
	evict($node, 't');
	$node->safe_psql('postgres', 'CHECKPOINT');
	return ($node, $faults);
}

for my $mode (qw(durable drained through))
{
	my ($node, $faults) = server($mode, 'errors');
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	append_to_file($faults, 'read ' . flash_path($node) . "\n");
	my $out = $session->query('SELECT count(*), sum(id), sum(ver) FROM t');
	if ($mode eq 'durable')
	{
		like($session->{stderr}, qr/the newest version of block \d+ in file ".*" cannot be read from the flash tier/,
			'durable: a page that only flash has is an error');
	}
	else
	{
		is($out, '3000|4501500|3000', "$mode: the files answer for flash that cannot be read");
	}
	unlink $faults;
	append_to_file($faults, '');
	$session->quit;
	is(whole($node, 't'), '3000|4501500|3000', "$mode: when it can be read again, it is");
	$node->stop('immediate');
}

# Nobody reports anything, but the bytes are others.
for my $mode (qw(durable drained))
{
	my ($node) = server($mode, 'rot');
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query('SELECT 1');
	rot_everywhere($node);
	my $out = $session->query('SELECT count(*), sum(id), sum(ver) FROM t');
	if ($mode eq 'durable')
	{
		like($session->{stderr}, qr/cannot be read from the flash tier/, 'durable: a damaged page that only flash has is an error');
	}
	else
	{
		is($out, '3000|4501500|3000', "$mode: the files answer for damaged flash");
	}
	$session->quit;
	$node->stop('immediate');
}
done_testing();
