# Whatever a server with a tier puts into its data directory has the modes of PostgreSQL's own files: with
# group access a member of the group can back all of it up.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

for my $group (0, 1)
{
	my $what = $group ? 'group access' : 'the owner alone';
	my ($directories, $files) = $group ? (oct '0750', oct '0640') : (oct '0700', oct '0600');
	my $node = tier_node("access_$group", mode => 'durable', init => { extra => [ $group ? '--allow-group-access' : () ] });

	$node->start;
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g FROM generate_series(1, 2000) g');
	evict($node, 't');
	$node->safe_psql('postgres', 'CHECKPOINT');
	crash($node);
	ok(-e $node->data_dir . '/mezzanine.tier', "$what: there is a marker");
	ok(check_mode_recursive($node->data_dir, $directories, $files, ['postmaster.pid']), "$what: after a crash");
	# The marker is written anew.
	$node->start;
	$node->stop;
	ok(check_mode_recursive($node->data_dir, $directories, $files), "$what: after a stop");
}

done_testing();
