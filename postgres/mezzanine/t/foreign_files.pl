# A path that leads to something of others costs nothing: formatted is only what holds nothing, what was this
# cluster's own and nobody needs, and what was drained.
#
# Kept by crates/ffi (foreign.rs; startup.rs, judge()).
use strict;
use warnings FATAL => 'all';

use Digest::MD5;
use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# The contents of a file, by a number that is quick to compare, and when it was changed.
sub state_of
{
	my ($path) = @_;
	open my $file, '<:raw', $path or die "$path: $!";
	return join ' ', Digest::MD5->new->addfile($file)->hexdigest, (stat $path)[ 7, 9 ];
}

sub point_to
{
	my ($node, $path) = @_;
	$node->append_conf('postgresql.conf', "mezzanine.flash_path = '$path'");
	return;
}

sub refused
{
	my ($node, $path, $what, @patterns) = @_;
	my $before = state_of($path);

	point_to($node, $path);
	my $log = start_fails($node, "$what: refused");
	like($log, qr/FATAL:  .*\Q$path\E/, "$what: it says which file");
	like($log, $_, "$what: it says why") for @patterns;
	like($log, qr/HINT:  .*mezzanine\.flash_path.*(remove|server makes)/, "$what: and what to do");
	is(state_of($path), $before, "$what: the file is as it was");
	return;
}

sub formatted
{
	my ($node, $path, $what) = @_;
	my $from = -s $node->logfile // 0;

	point_to($node, $path);
	ok($node->start(fail_ok => 1), "$what: accepted");
	like(log_since($node, $from), qr/new flash tier on "\Q$path\E"/, "$what: a tier is made there");
	$node->stop;
	return;
}

sub file_of
{
	my ($path, $bytes) = @_;
	open my $file, '>:raw', $path or die "$path: $!";
	print $file $bytes;
	close $file;
	chmod 0600, $path;
	return $path;
}

# A server with a marker in its data directory, which nobody asks for any more.
my $node = tier_node('ours', mode => 'drained');
$node->start;
$node->stop;
ok(-s $node->data_dir . '/mezzanine.tier', 'the data directory has a marker');
my $base = $node->basedir;

refused($node, file_of("$base/letter", "Dear reader,\n" x 10000), 'a letter', qr/holds something that is no flash tier/,
	qr/DETAIL:  It was left as it is/);
refused($node, file_of("$base/note", 'x'), 'a note of one byte', qr/holds something that is no flash tier/);
my $directory = "$base/documents";
mkdir $directory, 0700 or die;
refused($node, file_of("$directory/image", "\0" x (1 << 20) . 'content'), 'an image in a directory that begins with zeros',
	qr/holds something that is no flash tier/);
# A relation's file of another server of the same user.
my $other = PostgreSQL::Test::Cluster->new('relations');
$other->init;
my ($relation) = grep { -s $_ } glob($other->data_dir . '/base/5/1259');
refused($node, $relation, "another server's table", qr/holds something that is no flash tier/);

formatted($node, file_of("$base/empty", ''), 'an empty file');
formatted($node, file_of("$base/zeros", "\0" x (40 << 20)), 'a file of zeros');
truncate file_of("$base/sparse", ''), 1 << 40 or die $!;
formatted($node, "$base/sparse", 'a sparse file');
unlink "$base/sparse";
SKIP:
{
	skip 'no fallocate', 2 if system('fallocate', '-l', '1200M', file_of("$base/taken", '')) != 0;
	formatted($node, "$base/taken", 'a file whose space was taken');
	unlink "$base/taken";
}

# Other servers' tiers (copies of one cluster: even the system identifier is the same), in each sync mode,
# after a crash, a shutdown without a drain, and one with.
for my $mode (qw(through drained durable))
{
	for my $how (qw(crashed closed drained))
	{
		my $theirs = tier_node("${mode}_$how", mode => $mode);
		$theirs->append_conf('postgresql.conf', 'mezzanine.drain_on_shutdown = off') if $how eq 'closed';
		$theirs->start;
		$theirs->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
		evict($theirs, 't');
		$theirs->safe_psql('postgres', 'CHECKPOINT');
		$how eq 'crashed' ? crash($theirs) : $theirs->stop;
		my $flash = flash_path($theirs);
		# In these modes the checkpoint of every shutdown is a drain.
		if ($how eq 'drained' || ($how eq 'closed' && $mode ne 'durable'))
		{
			formatted($node, $flash, "another cluster's tier, $mode and drained");
		}
		else
		{
			refused($node, $flash, "another cluster's tier, $mode and $how",
				$mode eq 'durable' ? qr/may hold the only copy of another cluster's pages/ : qr/is another server's/);
		}
		$theirs->start;
		is(whole($theirs, 't'), '5000|12502500|5000', "$mode, $how: its own server is whole");
		$theirs->stop('immediate');
	}
}

# Our own: where it was left open in a mode in which nobody needs it, another size makes it anew or it goes
# on; it is never refused.
point_to($node, "$base/own");
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
evict($node, 't');
crash($node);
my $from = -s $node->logfile;
$node->start;
like(log_since($node, $from), qr/flash tier adopted/, 'our own tier is used');
crash($node);
# Rotten behind its name, it is known; without its name it is not.
my $image = slurp_file("$base/own");
substr($image, $_ + 600, 8) = 'rotten!!' for (0, 4096);
file_of("$base/own", $image);
formatted($node, "$base/own", 'our own tier, whose superblocks have rotted');
$node->start;
crash($node);
$image = slurp_file("$base/own");
substr($image, $_, 32) = 'rot' x 10 . '!!' for (0, 4096);
file_of("$base/own", $image);
refused($node, "$base/own", 'our own tier, which does not say so', qr/holds something that is no flash tier/);
unlink "$base/own";
formatted($node, "$base/own", 'the same path without it');
$node->start;
is(whole($node, 't'), '5000|12502500|5000', 'and nothing is lost');
$node->stop;
done_testing();
