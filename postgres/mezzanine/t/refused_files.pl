# A relation's file is missing, or takes no pages because its disk is full or reports an error: stage-out
# leaves its pages in the tier and goes on with those of others. Nothing is made in its place; who needs files
# that are current is told; and when the reason has passed everything is there. Nor is it said that this
# happened to the page that somebody was about to write.
#
# Rules: error_context, exit_on_error, missing_strict, refused_error
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = only_for('MEZZ_FAULTS_LIBRARY', 'the library that has calls fail');

for my $mode (qw(durable drained))
{
	my $node = tier_node("refused_$mode", mode => $mode, flash => 4);
	my $faults = $node->basedir . '/faults';
	my $version = 0;
	my $path;

	# Has the tier alone have the newest version of every page of the victim.
	my $change = sub {
		$version++;
		$node->safe_psql('postgres', "UPDATE victim SET ver = $version");
		evict($node, 'victim');
		return;
	};
	# More than fits into the tier: whatever was in it comes to its front.
	my $others_go_on = sub {
		my ($name) = @_;
		my $from = -s $node->logfile;

		$node->safe_psql('postgres', "UPDATE other SET ver = $version");
		$node->safe_psql('postgres', "UPDATE other SET ver = $version");
		evict($node, 'other');
		is(whole($node, 'other'), '60000|1800030000|' . 60000 * $version, "$mode, $name: other files go on");
		cmp_ok($node->safe_psql('postgres', 'SELECT disk_writes_refused FROM pg_stat_mezzanine'), '>', 0, "$mode, $name: counted");
		return log_since($node, $from);
	};
	# Whoever needs files that are current.
	my $is_told = sub {
		my ($name, $checkpoint) = @_;

		for my $query ('SELECT mezzanine_drain()', $mode eq 'drained' || $checkpoint ? 'CHECKPOINT' : ())
		{
			my ($status, $out, $error) = $node->psql('postgres', $query);
			isnt($status, 0, "$mode, $name: $query fails");
			like($error, qr/cannot be written to their files\n|checkpoint request failed/, "$mode, $name: and says why");
		}
		return if $mode eq 'drained' || $checkpoint;
		$node->safe_psql('postgres', 'CHECKPOINT');
		return;
	};
	my $is_whole = sub {
		my ($name) = @_;

		$node->safe_psql('postgres', 'SELECT mezzanine_drain()');
		$node->safe_psql('postgres', 'CHECKPOINT');
		is(whole($node, 'victim'), '2000|2001000|' . 2000 * $version, "$mode, $name: all rows");
		crash($node);
		$node->start;
		is(whole($node, 'victim'), '2000|2001000|' . 2000 * $version, "$mode, $name: all rows after a crash");
		return;
	};

	append_to_file($faults, '');
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{MEZZ_FAULTS} = $faults;
	$node->start;
	create_extension($node);
	$node->safe_psql('postgres', 'CREATE TABLE victim AS SELECT g AS id, 0 AS ver FROM generate_series(1, 2000) g');
	$node->safe_psql('postgres', 'CREATE TABLE other AS SELECT g AS id, 0 AS ver FROM generate_series(1, 60000) g');
	# Its file does not become longer any more.
	$change->() for 1 .. 3;
	$node->safe_psql('postgres', 'VACUUM victim, other');
	$node->safe_psql('postgres', 'SELECT mezzanine_drain()');
	$path = relation_path($node, 'victim');

	# A missing file.
	$change->();
	rename $path, "$path.away" or die "$path: $!";
	my $log = $others_go_on->('missing');
	like($log, qr/LOG:  could not open file "base.*": No such file or directory/, "$mode, missing: the log names it");
	unlike($log, qr/PANIC|TRAP/, "$mode, missing: nobody ends");
	ok(!-e $path, "$mode, missing: no file is made in its place");
	$is_told->('missing', 0);
	rename "$path.away", $path or die "$path: $!";
	$is_whole->('missing');

	# A full disk, and one that reports an error.
	for my $fault (['thin', 'No space left on device'], ['write', 'Input/output error'])
	{
		my ($call, $reason) = @$fault;

		$change->();
		append_to_file($faults, "$call $path\n");
		$log = $others_go_on->($call);
		like($log, qr/LOG:  could not write block.* "base.*": $reason/, "$mode, $call: the log says why");
		unlike($log, qr/PANIC|TRAP/, "$mode, $call: nobody ends");
		$is_told->($call, 0);
		# A server stops with them in the tier; where disk must have them after a checkpoint, it stops as without a
		# tier.
		$node->stop('fast', fail_ok => 1);
		my ($state) = run_command(['pg_controldata', $node->data_dir]);
		like($state, $mode eq 'durable' ? qr/cluster state: +shut down\n/ : qr/cluster state: +shutting down\n/, "$mode, $call: a stop");
		$node->_update_pid(0);
		unlink $faults;
		append_to_file($faults, '');
		$node->start;
		$is_whole->($call);
	}

	# Nothing takes pages any more: who writes is told, sooner or later, and nothing is lost.
	append_to_file($faults, "thin base/\n");
	my ($status, $out, $error) = (0, '', '');
	for (1 .. 8)
	{
		($status, $out, $error) = $node->psql('postgres', "UPDATE other SET ver = ver + 1");
		last if $status;
	}
	isnt($status, 0, "$mode, nothing: who writes is told");
	like($error, qr/there is no room for a page: pages in the flash tier|No space left on device/, "$mode, nothing: by the reason");
	unlink $faults;
	append_to_file($faults, '');
	$is_whole->('nothing');
	unlike(slurp_file($node->logfile), qr/LOG:  could not (?:open|write|extend)[^\n]*\n(?:[^\n]*(?:DETAIL|HINT):[^\n]*\n)*[^\n]*CONTEXT:  writing block/,
		"$mode: it has nothing to do with the page that its process writes");
	$node->stop;
	unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, "$mode: nobody has ended");
}
done_testing();
