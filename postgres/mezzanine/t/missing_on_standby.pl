# A standby that runs loses a relation's file, as if what it lies on were not mounted any more: stage-out
# makes none in its place, as on a primary, though recovery goes on for ever. A restartpoint that needs the
# file fails, as it does without a tier; files that redo makes later are there, and when the file is back
# everything is.
#
# Rules: missing_standby
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

for my $mode (qw(durable drained))
{
	my $primary = tier_node("primary_$mode", mode => $mode, flash => 32, init => { allows_streaming => 1 });
	$primary->start;
	$primary->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
	# Fewer pages than half of the standby's tier, so that also clients find room while their file is away.
	$primary->safe_psql('postgres', "CREATE TABLE t WITH (fillfactor = 50) AS SELECT g AS id, 0 AS ver, repeat('x', 900) AS filler FROM generate_series(1, 800) g");
	$primary->safe_psql('postgres', 'CREATE TABLE other AS SELECT g AS id, 0 AS ver FROM generate_series(1, 30000) g');
	$primary->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new("standby_$mode");
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	without_tier($standby);
	add_tier($standby, mode => $mode, flash => 4);
	$standby->start;
	my $evict = sub { $standby->safe_psql('postgres', 'SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache') for 1 .. 2; };

	$primary->safe_psql('postgres', 'UPDATE t SET ver = 1 WHERE id % 40 = 0');
	$primary->wait_for_catchup($standby);
	my $all = whole($standby, 't');
	$evict->();
	# Has every process of the standby close its files: one with a descriptor would go on to write where the file
	# was moved to.
	$primary->safe_psql('postgres', "SET allow_in_place_tablespaces = on; CREATE TABLESPACE gone LOCATION ''");
	$primary->safe_psql('postgres', 'DROP TABLESPACE gone');
	$primary->wait_for_catchup($standby);
	my $path = $standby->data_dir . '/' . $standby->safe_psql('postgres', "SELECT pg_relation_filepath('t')");
	rename $path, "$path.away" or die "$path: $!";
	my $from = -s $standby->logfile;
	# More than the tier holds; a table that redo makes meanwhile is among it.
	$primary->safe_psql('postgres', "UPDATE other SET ver = $_") for 1 .. 3;
	$primary->safe_psql('postgres', 'CREATE TABLE later AS SELECT g AS id, 1 AS ver FROM generate_series(1, 20000) g');
	$primary->wait_for_catchup($standby);
	$evict->();
	$primary->safe_psql('postgres', 'CHECKPOINT');
	$primary->wait_for_catchup($standby);
	my ($status, $out, $error) = $standby->psql('postgres', 'CHECKPOINT');
	# In durable it needs no file.
	$mode eq 'durable' ? is($status, 0, "$mode: a restartpoint") : isnt($status, 0, "$mode: a restartpoint fails");
	like(log_since($standby, $from), qr/could not open file "base.*": No such file or directory/, "$mode: the log names the file");
	ok(!-e $path, "$mode: none is made in its place");
	($status, $out, $error) = $standby->psql('postgres', 'SELECT count(*), sum(id), sum(ver) FROM t');
	isnt($status, 0, "$mode: a table whose file is away cannot be read; got '$out', and all is '$all'");
	is(whole($standby, 'later'), '20000|200010000|20000', "$mode: one that was made meanwhile");
	is(whole($standby, 'other'), '30000|450015000|90000', "$mode: others");

	crash($standby);
	rename "$path.away", $path or die "$path: $!";
	$standby->start;
	$primary->wait_for_catchup($standby);
	is(whole($standby, 't'), $all, "$mode: put back, it has all rows in their newest version");
	$standby->promote;
	$standby->safe_psql('postgres', 'UPDATE t SET ver = ver + 1');
	is($standby->safe_psql('postgres', 'SELECT sum(ver) FROM t'), '820', "$mode: also after a promotion");
	$standby->stop;
	$primary->stop;
}
done_testing();
