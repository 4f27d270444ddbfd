# A copy of the data directory and its log, made while the server ran, is put back beside flash that has gone
# on: no checkpoint lies in between, and no sync of the disk. Redo point and timeline are those of the tier;
# the log ends before the tier's newest page.
#
# Rules: log_end
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

for my $mode (qw(durable drained through))
{
	my $node = tier_node("log_end_$mode", mode => $mode);
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 3000) g');
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->safe_psql('postgres', 'UPDATE t SET ver = 2');
	evict($node, 't');

	# Nothing changes meanwhile, so this is as good as an atomic snapshot.
	my $copy = $node->basedir . '/copy';
	system_or_bail('cp', '-a', $node->data_dir, $copy);
	$node->safe_psql('postgres', 'UPDATE t SET ver = 3');
	$node->safe_psql('postgres', 'VACUUM t');
	evict($node, 't');
	crash($node);

	exchange($node, $copy);
	if ($mode eq 'durable')
	{
		my $log = start_fails($node, 'an older directory does not start with newer flash');
		like($log, qr/are not of the same moment/, 'it says why');
		like($log, qr/the data directory is the older one, for the tier has pages from behind the end of its log/, 'and how that is known');
		like($log, qr/HINT:  Put both back from the same moment/, 'and what to do');
		exchange($node, $copy);
		$node->start;
		is(whole($node, 't'), '3000|4501500|9000', 'the newest directory goes on with it: nothing was changed');
		$node->stop;
		next;
	}
	my $from = -s $node->logfile;
	$node->start;
	# In through no tier is used after a crash.
	my $why = $mode eq 'through' ? 'it was not left in order' : 'the data directory is the older one, for the tier has pages from behind the end of its log';
	like(log_since($node, $from), qr/flash tier emptied\n.*DETAIL:  $why/, 'the tier is emptied');
	is(whole($node, 't'), '3000|4501500|6000', 'all rows are as they were at the moment of the copy');
	$node->safe_psql('postgres', 'UPDATE t SET ver = 4');
	evict($node, 't');
	crash($node);
	$from = -s $node->logfile;
	$node->start;
	like(log_since($node, $from), qr/flash tier adopted/, 'the history that goes on has its tier') if $mode ne 'through';
	is(whole($node, 't'), '3000|4501500|12000', 'with all rows');
	$node->stop;
}
done_testing();
