# A database's pages are gone with it: neither a new database with its number nor a crash brings them back.
#
# Rules: drop_db, checkpoint_sync
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use Test::More;

for my $mode (qw(durable drained))
{
	my $node = tier_node("drop_$mode", mode => $mode);
	$node->start;

	$node->safe_psql('postgres', 'CREATE DATABASE gone OID = 100000');
	$node->safe_psql('gone',
		'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 20000) g');
	evict($node, undef, 'gone');
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->safe_psql('postgres', 'DROP DATABASE gone');
	$node->safe_psql('postgres', 'CHECKPOINT');

	# The same number, hence the same file numbers, and other contents.
	$node->safe_psql('postgres', 'CREATE DATABASE gone OID = 100000');
	is($node->safe_psql('gone', "SELECT count(*) FROM pg_class WHERE relname = 't'"),
		'0', "$mode: a new database has none of the old one's catalogs");
	$node->safe_psql('postgres', 'DROP DATABASE gone');
	$node->safe_psql('postgres', 'CHECKPOINT');
	crash($node);
	$node->start;
	$node->safe_psql('postgres', 'CREATE DATABASE gone OID = 100000 STRATEGY file_copy');
	is($node->safe_psql('gone', "SELECT count(*) FROM pg_class WHERE relname = 't'"),
		'0', "$mode: nor after a crash");
	$node->stop;
}
done_testing();
