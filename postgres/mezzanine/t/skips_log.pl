# With wal_level=minimal relations that are new in their transaction are not logged. Flash from within the
# transaction is put back beside the newest directory, with no checkpoint in between: redo has nothing for
# what it holds of their pages.
#
# Rules: skips_log
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = "'seq 1 20000 | sed \"s/\$/\\t1/\"'";

# More than fits into shared buffers; and each page that is left there leaves it.
sub pages_leave
{
	my ($node, $session) = @_;
	evict($node);
	$session->query_safe("SELECT sum(ver) FROM $_") for qw(made filled moved);
	evict($node);
	return;
}

for my $mode (qw(durable drained))
{
	my $node = tier_node("skips_$mode", mode => $mode, conf => <<'END');
wal_level = minimal
max_wal_senders = 0
wal_skip_threshold = 0
max_prepared_transactions = 2
END
	$node->start;
	mkdir $node->basedir . '/space' or die;
	$node->safe_psql('postgres', "CREATE TABLESPACE space LOCATION '" . $node->basedir . "/space'");
	$node->safe_psql('postgres', <<"END");
CREATE EXTENSION pg_buffercache;
CREATE TABLE filled (id int, ver int);
CREATE TABLE moved (id int, ver int);
CREATE TABLE other (id int, ver int);
COPY moved FROM PROGRAM $rows;
COPY other FROM PROGRAM $rows;
END
	my $session = $node->background_psql('postgres');
	# By every way on which storage is made: a new table, one that is emptied, in a transaction within, one that
	# is copied as it is.
	$session->query_safe($_) for (
		'BEGIN', 'CREATE TABLE made (id int, ver int)', "COPY made FROM PROGRAM $rows",
		'SAVEPOINT within', 'TRUNCATE filled', "COPY filled FROM PROGRAM $rows", 'RELEASE within',
		'SAVEPOINT undone', 'CREATE TABLE gone AS SELECT generate_series(1, 20000)', 'ROLLBACK TO undone',
		'ALTER TABLE moved SET TABLESPACE space');
	pages_leave($node, $session);
	# What the tier has taken is durable there, and in mode drained on disk.
	$node->safe_psql('postgres', 'CHECKPOINT');
	# Nobody uses it now.
	my ($flash, $older) = (flash_path($node), $node->basedir . '/older');
	system_or_bail('cp', '-a', $flash, $older);
	$session->query_safe("UPDATE $_ SET ver = 2") for qw(made filled moved);
	pages_leave($node, $session);
	$node->safe_psql('postgres', 'UPDATE other SET ver = 2');
	evict($node, 'other');
	# The rule is for these relations alone, while it lasts.
	ok(is_stale($node, 'other', 0), "$mode: another relation's page is newer in the tier") if $mode eq 'durable';
	$session->query_safe('COMMIT');
	$session->quit;
	crash($node);
	rename $older, $flash or die;
	my $from = -s $node->logfile;
	$node->start;
	like(log_since($node, $from), qr/flash tier adopted/, "$mode: the older flash is adopted");
	is(whole($node, $_), '20000|200010000|40000', "$mode: $_ has every row") for qw(made filled moved other);

	# All are as good as others afterwards, however their transaction ended.
	$node->safe_psql('postgres', <<"END");
BEGIN;
CREATE TABLE prepared (id int, ver int);
COPY prepared FROM PROGRAM $rows;
PREPARE TRANSACTION 'p';
COMMIT PREPARED 'p';
BEGIN;
TRUNCATE filled;
COPY filled FROM PROGRAM $rows;
ABORT;
END
	$node->safe_psql('postgres', "UPDATE $_ SET ver = 3") for qw(made filled moved prepared);
	evict($node);
	if ($mode eq 'durable')
	{
		ok(is_stale($node, $_, 0), "$mode: pages of $_ are taken afterwards") for qw(made filled moved prepared);
	}
	crash($node);
	$node->start;
	is(whole($node, $_), '20000|200010000|60000', "$mode: $_ has every row") for qw(made filled moved prepared);
	$node->stop;
}
done_testing();
