# With wal_level=minimal a relation that is created and filled in one transaction is not logged: its file is
# synced when the transaction commits, so everything has to be in the file. Two rules keep that, and either is
# enough: the tier takes nothing of it before (skips_log.pl), and a file that is synced is current
# (copy_database.pl).
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use Test::More;

for my $mode (qw(durable drained))
{
	my $node = tier_node("skip_$mode", mode => $mode, conf => <<'END');
wal_level = minimal
max_wal_senders = 0
wal_skip_threshold = 0
END
	$node->start;
	$node->safe_psql('postgres', 'CREATE TABLE u (id int, ver int)');
	# More than fits into shared buffers, so that pages leave them before the commit.
	$node->safe_psql('postgres', <<'END');
BEGIN;
CREATE TABLE t (id int, ver int);
COPY t FROM PROGRAM 'seq 1 100000 | sed "s/$/\t1/"';
UPDATE t SET ver = 2 WHERE id % 100 = 0;
TRUNCATE u;
COPY u FROM PROGRAM 'seq 1 50000 | sed "s/$/\t1/"';
CREATE INDEX t_id ON t (id);
COMMIT;
END
	crash($node);
	$node->start;
	is(whole($node, 't'), '100000|5000050000|101000', "$mode: a table that was created and filled");
	is(whole($node, 'u'), '50000|1250025000|50000', "$mode: a table that was truncated and filled");
	$node->safe_psql('postgres', 'CREATE EXTENSION amcheck');
	is($node->safe_psql('postgres', "SELECT bt_index_check('t_id', true)"), '', "$mode: its index");
	$node->stop;
}
done_testing();
