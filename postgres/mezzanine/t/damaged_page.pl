# Damage that is let pass for one reader does not become the truth for all: zero_damaged_pages and
# ignore_checksum_failure.
#
# Kept by the core (BufferDesc.may_differ).
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use Test::More;

my $node = tier_node('damaged', mode => 'durable');
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS id, 1 AS ver FROM generate_series(1, 5000) g');
$node->safe_psql('postgres', 'VACUUM (FREEZE) t');
my $path = relation_path($node, 't');
# The pages go to disk and no copy of them stays in the tier: its device is made anew.
$node->stop;
unlink flash_path($node) or die;
open my $file, '+<:raw', $path or die "$path: $!";
seek $file, 8192 + 4000, 0;
print $file 'damage';
close $file;
$node->start;

sub refused
{
	my ($when) = @_;
	my ($code, $out, $err) = $node->psql('postgres', 'SELECT count(*) FROM t');
	like($err, qr/invalid page in block 1 of relation/, "$when: a damaged page is refused");
	return;
}

refused('at first');
for my $setting (qw(zero_damaged_pages ignore_checksum_failure))
{
	my $counted = $setting eq 'zero_damaged_pages' ? qr/^4[0-9]{3}$/ : qr/^5000$/;
	like($node->safe_psql('postgres', "SET $setting = on; SELECT count(*) FROM t"), $counted, "$setting lets it pass");
	evict($node, 't');
	refused("after $setting");
	# Without a change of the page, a checkpoint has nothing to make durable.
	$node->safe_psql('postgres', "SET $setting = on; SELECT count(*) FROM t");
	evict($node, 't');
	$node->safe_psql('postgres', 'CHECKPOINT');
	crash($node);
	$node->start;
	refused("after $setting and a crash");
}
$node->stop('immediate');
done_testing();
