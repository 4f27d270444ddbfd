# Redo cuts files in a critical section, and after the death of a process no worker runs before redo is done:
# redo carries out the tier's jobs itself.
#
# Rules: alone, errors_end_here
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

# A server that does not come back is not waited for longer than this, in seconds.
$PostgreSQL::Test::Utils::timeout_default = 60;

# Each round has more pages than shared buffers: every cut finds pages of the file in the tier.
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
		$session->{run}->finish;
		$node->wait_for_log(qr/database system is ready to accept connections/, $from);
		is(whole($node, 't'), $expected, "$name: the rows are right");
		$node->stop;
	}
}
done_testing();
