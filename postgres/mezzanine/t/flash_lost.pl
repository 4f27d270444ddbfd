# The flash device is lost: an ordinary crash in sync modes drained and through, and refused in durable, in
# words.
#
# Rules: before_mark, through, control_mark
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

for my $mode (qw(drained through))
{
	my $node = tier_node("lost_$mode", mode => $mode);
	$node->start;
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
	evict($node, 't');
	$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
	evict($node, 't');
	# These are dirty in shared buffers when the checkpoint begins.
	$node->safe_psql('postgres', 'UPDATE t SET ver = 2 WHERE id > 4000');
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->safe_psql('postgres', 'UPDATE t SET ver = 3 WHERE id = 1');
	crash($node);
	unlink flash_path($node) or die;
	my $from = -s $node->logfile;
	$node->start;
	like(log_since($node, $from), qr/new flash tier/, "$mode: starts with a new tier");
	is(whole($node, 't'), '5000|12502500|6002', "$mode: nothing is lost");
	crash($node);
	without_tier($node);
	$node->start;
	is(whole($node, 't'), '5000|12502500|6002', "$mode: nor without any tier");
	$node->stop;
}

my $node = tier_node('lost_durable', mode => 'durable');
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
evict($node, 't');
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);

my $flash = flash_path($node);
rename $flash, "$flash.away" or die;
my $log = start_fails($node, 'durable: a server whose flash is missing does not start');
like($log, qr/FATAL:  the flash tier of this cluster is not on ".*flash"/, 'it says what is missing');
like($log, qr/may hold the only copy of pages/, 'and why that matters');
like($log, qr/HINT:  Name the device that holds it in mezzanine\.flash_path/, 'and what to do');

# The marker that says so may be gone as well: pg_control knows too.
my $marker = $node->data_dir . '/mezzanine.tier';
unlink $flash;
rename $marker, "$flash.marker" or die;
like(start_fails($node, 'durable: nor without the marker'), qr/does not have the pages that the files of this cluster lack/, 'it says so');
rename "$flash.marker", $marker or die;
ok(-s "$flash.away", 'the device is where it was put');

# Another server's device in its place.
my $other = tier_node('other', mode => 'durable');
$other->start;
$other->safe_psql('postgres', 'CREATE TABLE u AS SELECT 1');
evict($other, 'u');
crash($other);
unlink $flash;
system_or_bail('cp', flash_path($other), $flash);
like(start_fails($node, 'durable: nor with the tier of another'), qr/is not the one of this cluster/, 'it says so');
unlink $flash;
rename "$flash.away", $flash or die;

# A server without the tier.
system_or_bail('cp', $node->data_dir . '/postgresql.conf', $node->basedir . '/conf');
without_tier($node);
like(start_fails($node, 'durable: nor without a tier'), qr/newest pages of this database cluster are in a buffer tier/,
	'it says so');
system_or_bail('cp', $node->basedir . '/conf', $node->data_dir . '/postgresql.conf');

# Another path, where there is no tier.
$node->append_conf('postgresql.conf', "mezzanine.flash_path = '$flash.new'");
like(start_fails($node, 'durable: nor with another path'), qr/is not on ".*flash\.new"/, 'it says so');
$node->append_conf('postgresql.conf', "mezzanine.flash_path = '$flash'");
$node->start;
is(whole($node, 't'), '5000|12502500|5000', 'durable: with its own device it is whole');
$node->stop;

# Stopped in order, it does not need the device.
rename $flash, "$flash.away" or die;
$node->start;
is(whole($node, 't'), '5000|12502500|5000', 'durable: after a shutdown nothing depends on the device');
$node->stop;
done_testing();
