# Redo cuts files in a critical section, and after the death of a process no worker runs before redo is done: redo carries out the
# tier's jobs itself.
#
# Rules: alone
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use Test::More;
use Time::HiRes qw(sleep);

# Fewer buffers and frames than each round has pages: every cut finds pages of the file in the tier.
for my $mode (qw(durable drained through))
{
	for my $admission (qw(both clean dirty))
	{
		my $name = "$mode, $admission";
		my $node = tier_node("cut_${mode}_$admission", mode => $mode, flash => 4, conf => "mezzanine.admission = $admission\n");
		$node->start;
		$node->safe_psql('postgres', 'CREATE TABLE t (id int, ver int, pad text)');
		$node->safe_psql('postgres', 'CHECKPOINT');
		my $round = <<'END';
INSERT INTO t SELECT g, 1, repeat('x', 500) FROM generate_series(1, 3000) g;
DELETE FROM t WHERE id > 10;
VACUUM t;
END
		$node->safe_psql('postgres', $round x 40);
		my $expected = whole($node, 't');

		my $session = $node->background_psql('postgres');
		my $victim = $session->query_safe('SELECT pg_backend_pid()');
		my $from = -s $node->logfile;
		is(kill('KILL', $victim), 1, "$name: a process is killed");
		my $ready = 0;
		for (1 .. 600)
		{
			last if $ready = log_since($node, $from) =~ /database system is ready to accept connections/;
			sleep 0.1;
		}
		ok($ready, "$name: the server recovers") or do { $node->stop('immediate'); $session->{run}->kill_kill; last };
		$session->{run}->finish;
		is(whole($node, 't'), $expected, "$name: the rows are right");
		$node->stop;
	}
}
done_testing();
