# What the views show and who may use which function: the expected output in expected/mezzanine.out, on a
# server with what is installed.
use strict;
use warnings FATAL => 'all';

use FindBin;
use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# CREATE EXTENSION names the library in $libdir, which must be the one that is preloaded.
my $node = tier_node('views', mode => 'durable', flash => 64,
	conf => "dynamic_library_path = '\$libdir'\ntrack_io_timing = on");
my ($sharedir) = run_command([ 'pg_config', '--sharedir' ]);
plan skip_all => 'the extension is not installed' unless -e "$sharedir/extension/mezzanine.control";
$node->start;

my $out = PostgreSQL::Test::Utils::tempdir;
my $passed = system($ENV{PG_REGRESS}, '--bindir=', '--host=' . $node->host, '--port=' . $node->port,
	"--inputdir=$FindBin::RealBin/..", "--outputdir=$out", '--dlpath=.', 'mezzanine') == 0;
ok($passed, 'the views and functions do what is expected');
diag(slurp_file("$out/regression.diffs")) if !$passed && -e "$out/regression.diffs";
$node->stop;

done_testing();
