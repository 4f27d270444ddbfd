# What the flash device lies on is not mounted, or its node has gone, when the server starts: where nobody
# needs what it holds, the server starts without the tier, with a warning, as where the device has failed.
# When it is back the tier is made anew.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

for my $mode (qw(drained through durable))
{
	for my $stop ('a crash', 'a shutdown')
	{
		my $what = "$mode, after $stop";
		my $needed = $mode eq 'durable' && $stop eq 'a crash';
		my $node = tier_node("absent_${mode}_" . ($stop =~ s/\W/_/gr), mode => $mode);
		my $mount = $node->basedir . '/nvme';
		mkdir $mount or die "$mount: $!";
		$node->append_conf('postgresql.conf', "mezzanine.flash_path = '$mount/flash'");
		$node->start;
		$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 5000) g');
		evict($node, 't');
		$node->safe_psql('postgres', 'CHECKPOINT');
		$node->safe_psql('postgres', 'UPDATE t SET ver = 1');
		$stop eq 'a crash' ? crash($node) : $node->stop;

		rename $mount, "$mount.away" or die "$mount: $!";
		if ($needed)
		{
			my $log = start_fails($node, "$what: refused");
			like($log, qr/FATAL:  the directory ".*nvme" of the flash device cannot be used: No such file/, "$what: the reason");
			like($log, qr/DETAIL:  .*may hold the only copy of pages/, "$what: and why that matters");
			rename "$mount.away", $mount or die "$mount: $!";
			$node->start;
			is(whole($node, 't'), '5000|12502500|5000', "$what: back, nothing is lost");
			$node->stop;
			next;
		}
		my $from = -s $node->logfile;
		ok($node->start(fail_ok => 1), "$what: the server starts") or next;
		my $log = log_since($node, $from);
		like($log, qr/WARNING:  the server starts without its flash tier/, "$what: and warns");
		like($log, qr/DETAIL:  the directory ".*nvme" of the flash device cannot be used: No such file/, "$what: of the reason");
		is(whole($node, 't'), '5000|12502500|5000', "$what: nothing is lost");
		$node->safe_psql('postgres', 'UPDATE t SET ver = 2');
		crash($node);
		ok($node->start(fail_ok => 1), "$what: it starts once more");
		$node->stop;

		# There again, with the pages of then: nobody believes them.
		rename "$mount.away", $mount or die "$mount: $!";
		$from = -s $node->logfile;
		$node->start;
		like(log_since($node, $from), qr/new flash tier/, "$what: when the device is back the tier is made anew");
		is(whole($node, 't'), '5000|12502500|10000', "$what: and all rows are the newest");

		# A path at which it never was is a slip of the pen.
		$node->stop;
		$node->append_conf('postgresql.conf', "mezzanine.flash_path = '$mount.nowhere/flash'");
		like(start_fails($node, "$what: a wrong path is refused"), qr/FATAL:  the directory ".*nowhere" of the flash device cannot be used/, "$what: by its name");

		# Nothing is mounted where it was to be, and the server may not make a file there.
		$node->append_conf('postgresql.conf', "mezzanine.flash_path = '$mount/flash'");
		rename $mount, "$mount.away" or die "$mount: $!";
		mkdir $mount, 0500 or die "$mount: $!";
		$from = -s $node->logfile;
		ok($node->start(fail_ok => 1), "$what: the server starts beside an empty mount point") or next;
		like(log_since($node, $from), qr/WARNING:  the server starts without its flash tier\n.*DETAIL:  the flash device ".*flash" cannot be opened: .*Permission denied/, "$what: and says so");
		$node->stop;
	}
}
done_testing();
