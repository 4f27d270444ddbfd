# The flash device reports errors while the server runs. In no sync mode is a commit lost or an old page served.
#
# Rules: failure
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = only_for('MEZZ_FAULTS_LIBRARY', 'the library that has calls fail');

# As psql(), but does not die when the server goes away under it.
sub try
{
	my ($node, $statement) = @_;
	my ($code, $out) = eval { $node->psql('postgres', $statement) };
	return ($code // 2, $out // '');
}

for my $mode (qw(durable drained through))
{
	for my $call (qw(write sync))
	{
		my $what = "$mode, failing ${call}s";
		my $node = tier_node("fail_${mode}_$call", mode => $mode, flash => 8);
		my $faults = $node->basedir . '/faults';
		append_to_file($faults, '');
		{
			local $ENV{LD_PRELOAD} = $library;
			local $ENV{MEZZ_FAULTS} = $faults;
			$node->start;
		}
		$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache');
		$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
		$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
		evict($node, 't');
		$node->safe_psql('postgres', 'CHECKPOINT');
		append_to_file($faults, "$call " . flash_path($node) . "\n");

		# What was acknowledged stays, whatever the server has to do about it.
		my $acknowledged = 1;
		for my $ver (2 .. 5)
		{
			my ($code) = try($node, "UPDATE t SET ver = $ver");
			$acknowledged = $ver if $code == 0;
			try($node, 'SELECT count(pg_buffercache_evict(bufferid)) FROM pg_buffercache');
			try($node, 'CHECKPOINT');
		}
		my $log = log_since($node, 0);
		my $stopped = $log =~ /PANIC/;
		note("$what: " . ($stopped ? 'the server has stopped' : 'the server goes on') . ", version $acknowledged");
		ok(!$stopped, "$what: the server does not need the tier") if $mode eq 'through';
		my ($code, $out) = try($node, 'SELECT count(*), sum(id), sum(ver) FROM t');
		is($out, '5000|12502500|' . 5000 * $acknowledged, "$what: read as acknowledged") if $code == 0;
		$node->stop('immediate', fail_ok => 1);

		# The device works again.
		unlink $faults;
		append_to_file($faults, '');
		$node->_update_pid(0);
		$node->start;
		my $sum = $node->safe_psql('postgres', 'SELECT sum(ver) / 5000 FROM t');
		cmp_ok($sum, '>=', $acknowledged, "$what: what was acknowledged is there after a restart");
		is($node->safe_psql('postgres', 'SELECT count(*), sum(id), count(DISTINCT ver) FROM t'),
			'5000|12502500|1', "$what: no row is lost or older than the others");
		$node->stop;
	}
}
done_testing();
