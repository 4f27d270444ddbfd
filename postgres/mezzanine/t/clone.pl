# Two data directories and one flash device: they cannot be used at the same time, nor in turns.
#
# Kept by crates/ffi (startup.rs, judge()) and the device's lock.
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = tier_node('first', mode => 'durable');
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
evict($node, 't');
$node->safe_psql('postgres', 'CHECKPOINT');
crash($node);
$node->backup_fs_cold('copy');
my $clone = PostgreSQL::Test::Cluster->new('clone');
$clone->init_from_backup($node, 'copy');

$node->start;
like(start_fails($clone, 'a copy does not start beside the server'), qr/Another server uses it/, 'it says why');
crash($node);

# In turns: whoever comes second has an older data directory than the tier.
like(start_fails($clone, 'nor after the server has used the tier again'), qr/are not of the same moment/, 'it says why');

# A copy with a device of its own needs the pages that it does not have.
$clone->append_conf('postgresql.conf', "mezzanine.flash_path = '" . $clone->basedir . "/flash'");
like(start_fails($clone, 'nor does a copy start with an empty device'), qr/may hold the only copy of pages/, 'it says why');

$node->start;
is(whole($node, 't'), '5000|12502500|5000', 'the server itself is whole');
$node->stop;
done_testing();
