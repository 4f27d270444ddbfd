# What cannot be used is refused when the server starts, with the setting, the reason and the next step.
#
# Rules: unknown_settings, unusable_settings
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# A server without settings of a tier: they are set one after the other.
my $node = PostgreSQL::Test::Cluster->new('settings');
$node->init;
$node->append_conf('postgresql.conf', <<"END");
dynamic_library_path = '$ENV{MEZZ_LIBRARY}:\$libdir'
shared_preload_libraries = 'mezzanine'
shared_buffers = 1MB
autovacuum = off
END
$node->append_conf('postgresql.conf', "mezzanine.planted = '$ENV{MEZZ_RULE}'") if $ENV{MEZZ_RULE};
my $base = $node->basedir;
my $data = $node->data_dir;
my $plain = slurp_file("$data/postgresql.conf");

sub configure
{
	my (%settings) = @_;
	my %all = ('flash_path' => "$base/flash", 'flash_size' => '32MB', %settings);

	open my $file, '>', "$data/postgresql.conf" or die $!;
	print $file $plain;
	print $file "mezzanine.$_ = '$all{$_}'\n" for sort keys %all;
	close $file;
	return;
}

# refused(NAME, {SETTINGS}, MESSAGE...): each of the patterns is in the log of a server that does not start.
sub refused
{
	my ($name, $settings, @patterns) = @_;

	configure(%$settings);
	my $log = start_fails($node, "$name: refused");
	like($log, $_, "$name: " . ($_ =~ /HINT/ ? 'the next step' : 'the reason')) for @patterns;
	return;
}

sub accepted
{
	my ($name, $settings) = @_;

	configure(%$settings);
	ok($node->start(fail_ok => 1), "$name: accepted");
	$node->stop;
	return;
}

# The path of the flash device.
refused('a relative path', { flash_path => 'flash' },
	qr/invalid value for parameter "mezzanine\.flash_path": "flash"/, qr/DETAIL:  The path is not absolute/,
	qr/HINT:  Name the file or block device by its path from the root directory/);
refused('a path in the data directory', { flash_path => "$data/flash" },
	qr/FATAL:  the flash device ".*" lies in the data directory/, qr/DETAIL:  A backup would contain it/,
	qr/HINT:  Choose a path outside of the data directory and of all tablespaces for mezzanine\.flash_path/);
mkdir "$data/sub";
symlink "$data/sub", "$base/elsewhere" or die $!;
refused('a path that leads into the data directory', { flash_path => "$base/elsewhere/flash" },
	qr/FATAL:  the flash device ".*elsewhere\/flash" lies in the data directory/);
rmdir "$data/sub" or die "something was created in it: $!";

my $space = PostgreSQL::Test::Utils::tempdir;
configure(flash_path => '');
$node->start;
$node->safe_psql('postgres', "CREATE TABLESPACE s LOCATION '$space'");
is($node->safe_psql('postgres', 'SHOW mezzanine.flash_path'), '', 'no path, no tier');
$node->stop;
refused('a path in a tablespace', { flash_path => "$space/flash" },
	qr/FATAL:  the flash device ".*" lies in the tablespace "\Q$space\E"/, qr/HINT:  Choose a path outside/);
ok(!-e "$space/flash", 'nothing was created there');
configure(flash_path => '');
$node->start;
$node->safe_psql('postgres', 'DROP TABLESPACE s');
$node->stop;

refused('a directory that does not exist', { flash_path => "$base/nowhere/flash" },
	qr/FATAL:  the directory ".*nowhere" of the flash device cannot be used: No such file/,
	qr/HINT:  Create it, readable and writable by the server's user/);
refused('a directory', { flash_path => $base }, qr/FATAL:  the flash device ".*" is neither a file nor a block device/,
	qr/HINT:  Name a file or block device in mezzanine\.flash_path/);
refused('a character device', { flash_path => '/dev/full' },
	qr/FATAL:  the flash device "\/dev\/full" is neither a file nor a block device/, qr/HINT:/);
symlink "$base/flash", "$base/link" or die $!;
refused('a symbolic link', { flash_path => "$base/link" }, qr/FATAL:  the flash device ".*link" is a symbolic link/,
	qr/HINT:  Name the file or block device itself in mezzanine\.flash_path/);
unlink "$base/link";
ok(!-e "$base/flash", 'what it points to was not created');

SKIP:
{
	skip 'runs as root', 7 if $> == 0;
	refused('another user\'s file', { flash_path => '/etc/passwd' },
		qr/FATAL:  the flash device "\/etc\/passwd" belongs to another user/, qr/HINT:  Make the server's user its owner/);
	mkdir "$base/closed", 0500;
	refused('a directory without permission', { flash_path => "$base/closed/flash" },
		qr/FATAL:  the flash device ".*" cannot be opened/, qr/DETAIL:.*Permission denied/,
		qr/HINT:  Make it readable and writable by the server's user, and by nobody else/);
	rmdir "$base/closed";
}
append_to_file("$base/open", '');
chmod 0640, "$base/open";
refused('a file that others can read', { flash_path => "$base/open" },
	qr/FATAL:  the flash device ".*open" can be used by group or others/, qr/DETAIL:  Its mode is 0640/,
	qr/HINT:  Run chmod 600 ".*open"/);
append_to_file("$base/letter", 'x' x 10000);
chmod 0600, "$base/letter";
refused('a file that is no tier', { flash_path => "$base/letter" },
	qr/FATAL:  ".*letter" holds something that is no flash tier/, qr/HINT:  Name another path in mezzanine\.flash_path/);
is(slurp_file("$base/letter"), 'x' x 10000, 'it is as it was');

# Sizes.
accepted('one megabyte', { flash_size => '1MB' });
unlink "$base/flash" or die;
refused('too little flash', { flash_size => '4MB', group_pages => 256 },
	qr/FATAL:  mezzanine\.flash_size is too small for a flash tier: 4MB/, qr/DETAIL:  Groups of 256 pages need \d+MB/,
	qr/HINT:  Raise mezzanine\.flash_size, or lower mezzanine\.group_pages/);
my ($least) = slurp_file($node->logfile) =~ /.*Groups of 256 pages need (\d+)MB/s;
refused('one megabyte less than the least', { flash_size => ($least - 1) . 'MB', group_pages => 256 },
	qr/too small for a flash tier/);
accepted('the least', { flash_size => "${least}MB", group_pages => 256 });
unlink "$base/flash" or die;
accepted('large groups', { flash_size => '128MB', group_pages => 256 });
unlink "$base/flash" or die;
accepted('groups of one page', { group_pages => 1 });
unlink "$base/flash" or die;
refused('more flash than a tier can have', { flash_size => '2000TB' },
	qr/FATAL:  mezzanine\.flash_size is larger than a flash tier can be/, qr/HINT:  Set it to at most \d+MB/);
refused('more than the machine has memory for', { flash_size => '30TB' },
	qr/FATAL:  the flash tier needs \d+ MB of shared memory, and this machine has \d+ MB/, qr/HINT:  Lower mezzanine\.flash_size/);
ok(!-s "$base/flash", 'no space was taken for it');
# What this process may have: the kernel refuses, and PostgreSQL says what to do.
configure(flash_size => '64GB', flash_path => "$base/sparse");
my $from = -s $node->logfile;
my $command = "ulimit -v 300000; exec pg_ctl -D '$data' -l '" . $node->logfile . "' -w start";
isnt(system('bash', '-c', "$command >/dev/null 2>&1"), 0, 'less memory than the tier needs: refused');
like(log_since($node, $from), qr/FATAL:  could not map anonymous shared memory: Cannot allocate memory\n.*HINT:  This error usually means that PostgreSQL's request .*currently [3-9]\d{8} bytes/s,
	'less memory than the tier needs: the reason and the next step');
ok(!-s "$base/sparse", 'and no space was taken for it');
unlink "$base/sparse";
refused('no size at all', { flash_size => '0' }, qr/0 MB is outside the valid range for parameter "mezzanine\.flash_size"/);
refused('no workers', { workers => 0 }, qr/0 is outside the valid range for parameter "mezzanine\.workers" \(1 \.\. 8\)/);
refused('groups that are too large', { group_pages => 257 },
	qr/257 is outside the valid range for parameter "mezzanine\.group_pages" \(0 \.\. 256\)/);

# A file system that is full, as far as this server may use it.
configure(flash_size => '64MB');
$from = -s $node->logfile;
$command = "ulimit -f 40960; exec pg_ctl -D '$data' -l '" . $node->logfile . "' -w start";
isnt(system('bash', '-c', "$command >/dev/null 2>&1"), 0, 'a full file system: refused');
my $log = log_since($node, $from);
like($log, qr/FATAL:  the flash device ".*flash" cannot hold the tier: /, 'a full file system: the reason');
like($log, qr/DETAIL:  It needs 6[34] MB there/, 'a full file system: the size');
like($log, qr/HINT:  Free space on its file system, lower mezzanine\.flash_size/, 'a full file system: the next step');
is(-s "$base/flash", 0, 'it was left as it was');
accepted('the same with space', { flash_size => '64MB' });
my ($blocks) = (stat "$base/flash")[12];
cmp_ok($blocks * 512, '>', 60 << 20, 'all of the space is taken at the start');

# Names.
for (
	[ sync_mode => 'sometimes', qr/Available values: drained, durable, through/ ],
	[ design => 'lru', qr/Available values: face-gsc, face-gr, face-basic/ ],
	[ admission => 'none', qr/Available values: both, clean, dirty/ ])
{
	my ($setting, $value, $hint) = @$_;
	refused("an unknown $setting", { $setting => $value },
		qr/invalid value for parameter "mezzanine\.$setting": "$value"/, $hint);
}
refused('an unknown model of a disk', { disk_model => 'drum' }, qr/FATAL:  there is no device model "drum"/,
	qr/HINT:  Name the file of a model, or one of: .*\.$/m);
refused('an unknown model of a drive', { flash_model => '/no/such/file' },
	qr/FATAL:  there is no device model "\/no\/such\/file"/, qr/HINT:/);
# What is no number, no truth, or out of its range; and sizes that contradict each other.
for (
	[ flash_size => 'much', qr/invalid value for parameter "mezzanine\.flash_size": "much"/ ],
	[ flash_size => '32mb', qr/HINT:  Valid units for this parameter are/ ],
	[ flash_size => '3000000000', qr/HINT:  Value exceeds integer range/ ],
	[ flash_size => -1, qr/-1 MB is outside the valid range for parameter "mezzanine\.flash_size"/ ],
	[ flash_size_max => -1, qr/-1 MB is outside the valid range for parameter "mezzanine\.flash_size_max"/ ],
	[ flash_size_max => '16MB', qr/FATAL:  mezzanine\.flash_size_max is less than mezzanine\.flash_size: 16MB and 32MB/, qr/HINT:  Raise mezzanine\.flash_size_max, or set it to 0/ ],
	[ group_pages => -1, qr/-1 is outside the valid range for parameter "mezzanine\.group_pages"/ ],
	[ drain_on_shutdown => 'perhaps', qr/parameter "mezzanine\.drain_on_shutdown" requires a Boolean value/ ],
	[ returning_only => 'perhaps', qr/parameter "mezzanine\.returning_only" requires a Boolean value/ ],
	[ explain => 'perhaps', qr/parameter "mezzanine\.explain" requires a Boolean value/ ],
	[ disk_spread => 0.5, qr/0\.5 is outside the valid range for parameter "mezzanine\.disk_spread" \(1 \.\. 1e\+09\)/ ],
	[ disk_span => 0, qr/0 is outside the valid range for parameter "mezzanine\.disk_span" \(1e-06 \.\. 1\)/ ],
	[ disk_span => 2, qr/2 is outside the valid range for parameter "mezzanine\.disk_span"/ ],
	[ model_time_scale => 1001, qr/1001 is outside the valid range for parameter "mezzanine\.model_time_scale" \(0 \.\. 1000\)/ ])
{
	my ($setting, $value, @patterns) = @$_;
	refused("$setting = $value", { $setting => $value }, @patterns);
}
refused('a time scale below nothing', { model_time_scale => -1 },
	qr/-1 is outside the valid range for parameter "mezzanine\.model_time_scale"/);
# A name that is misspelt: in the file, where the server would run without what was meant, after a reload, and
# in a session.
refused('a setting that does not exist', { flash_pth => '/tmp' },
	qr/FATAL:  there is no setting "mezzanine\.flash_pth"/, qr/DETAIL:  It is set in ".*postgresql\.conf", line \d+/,
	qr/HINT:  Correct its name or remove it\. The settings of "mezzanine" are: flash_path, flash_size, /);
configure();
$node->start;
$from = -s $node->logfile;
$node->append_conf('postgresql.conf', 'mezzanine.drain_at_shutdown = off');
$node->reload;
ok($node->wait_for_log(qr/"mezzanine\.drain_at_shutdown"/, $from), 'a setting that does not exist, after a reload: told');
like(($node->psql('postgres', 'SET mezzanine.explian = off'))[2],
	qr/ERROR:  invalid configuration parameter name "mezzanine\.explian"\nDETAIL:  "mezzanine" is a reserved prefix/, 'and in a session');
$node->stop;
unlink "$base/flash" or die;

# Every combination that can be chosen can be used, one after the other on one device.
for my $mode (qw(drained durable through))
{
	for my $admission (qw(both clean dirty))
	{
		for my $design (qw(face-gsc face-gr face-basic))
		{
			configure(sync_mode => $mode, admission => $admission, design => $design);
			$node->start;
			$node->safe_psql('postgres',
				'CREATE TABLE t AS SELECT g FROM generate_series(1, 60000) g; CHECKPOINT; UPDATE t SET g = g + 1');
			is($node->safe_psql('postgres', 'SELECT count(*), sum(g) FROM t'), '60000|1800090000',
				"$mode, $admission, $design");
			$node->safe_psql('postgres', 'DROP TABLE t');
			$node->stop;
		}
	}
}

# A tier that is full takes a clean page when it comes for the second time; the setting follows every start.
for my $returning_only (qw(off on))
{
	configure(sync_mode => 'through', flash_size => '16MB', returning_only => $returning_only);
	$node->start;
	create_extension($node) if $returning_only eq 'off';
	$node->safe_psql('postgres', <<'END');
DROP TABLE IF EXISTS once;
CREATE TABLE once (g int, filler text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO once SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, 30000) g;
VACUUM once;
CHECKPOINT;
SELECT mezzanine_reset_stats();
END
	is($node->safe_psql('postgres', 'SET synchronize_seqscans = off; SELECT count(*), sum(length(filler)) FROM once'),
		'30000|28800000', "returning_only = $returning_only: all is there")
	  for 1 .. 2;
	is($node->safe_psql('postgres', 'SELECT pages_in_clean > 1000, pages_refused > 1000 FROM pg_stat_mezzanine'),
		$returning_only eq 'on' ? 'f|t' : 't|f', 'clean pages that come once, taken and refused');
	$node->stop;
}
configure(flash_size => '32MB');

# Two servers, one device.
configure(sync_mode => 'durable');
$node->start;
my $other = PostgreSQL::Test::Cluster->new('other');
$other->init;
$other->append_conf('postgresql.conf', slurp_file("$data/postgresql.conf"));
$other->append_conf('postgresql.conf', 'port = ' . $other->port);
$log = start_fails($other, 'a device in use: refused');
like($log, qr/FATAL:  the flash device ".*flash" cannot be opened/, 'a device in use: the reason');
like($log, qr/HINT:  Another server uses it\. Stop that one, or give each its own device in mezzanine\.flash_path/,
	'a device in use: the next step');

# What can be reloaded, and what cannot.
is($node->safe_psql('postgres', 'SHOW mezzanine.drain_on_shutdown'), 'on', 'drained at shutdown by default');
$node->append_conf('postgresql.conf', "mezzanine.drain_on_shutdown = off\nmezzanine.flash_size = 48MB\n");
$from = -s $node->logfile;
$node->reload;
ok($node->poll_query_until('postgres', "SELECT current_setting('mezzanine.drain_on_shutdown') = 'off'"),
	'mezzanine.drain_on_shutdown is reloaded');
like(log_since($node, $from), qr/parameter "mezzanine\.flash_size" cannot be changed without restarting the server/,
	'mezzanine.flash_size is not');
$node->safe_psql('postgres', 'CREATE TABLE kept AS SELECT g FROM generate_series(1, 60000) g');
$from = -s $node->logfile;
$node->stop;
like(log_since($node, $from), qr/flash tier closed; it holds the newest version of some pages/, 'not drained at shutdown');

# A device that is needed is not given up for other settings.
configure(flash_path => '');
$log = start_fails($node, 'a tier that is needed and not configured: refused');
like($log, qr/FATAL:  the newest pages of this database cluster are in a buffer tier/, 'a tier that is not configured: the reason');
configure(flash_path => '', disk_model => 'cheetah-15k');
$log = start_fails($node, 'a tier that is needed, and a modelled disk alone: refused');
like($log, qr/FATAL:  the newest pages of this database cluster are in a flash tier, and none is configured/, 'the reason');
like($log, qr/HINT:  Set mezzanine\.flash_path to the device that the server was last used with/, 'the next step');
configure(sync_mode => 'drained', flash_size => '48MB');
$from = -s $node->logfile;
$node->start;
$log = log_since($node, $from);
like($log, qr/WARNING:  the flash tier keeps the sync mode and admission that it was used with/, 'the sync mode is kept');
like($log, qr/WARNING:  the flash tier keeps the size that it was made with\n.*DETAIL:  It has 32MB, at most 32MB in groups of \d+ pages; configured are 48MB, at most 48MB\./,
	'the size is kept, and both are named');
like($log, qr/HINT:  Shut the server down with mezzanine\.drain_on_shutdown turned on, and start it again/, 'with the next step');
like($log, qr/flash tier adopted/, 'and so is the tier');
is($node->safe_psql('postgres', 'SELECT count(*) FROM kept'), '60000', 'nothing is lost');
$node->stop;
$from = -s $node->logfile;
$node->start;
like(log_since($node, $from), qr/new flash tier on/, 'the new size and mode are taken after a drained shutdown');
is($node->safe_psql('postgres', 'SELECT count(*) FROM kept'), '60000', 'nothing is lost then either');
$node->stop;

done_testing();
