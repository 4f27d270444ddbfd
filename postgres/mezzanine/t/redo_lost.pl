# Redo needs pages that are lost, and without full page images the log does not have them: changes of these
# pages are passed over, and they stay lost. Other pages of the same records are changed, and a lost map of
# visibility counts as empty. The start failed, again and again, over one page.
#
# Rules: redo_lost, lost_map
use strict;
use warnings FATAL => 'all';

use Mezzanine;
use PostgreSQL::Test::Utils;
use Test::More;

my $read_map = q(SELECT get_raw_page('m', 'vm', 0));
my $node = tier_node('redo', mode => 'durable', flash => 64, conf => "full_page_writes = off\n");

sub is_lost
{
	my ($when, $what, $sql) = @_;
	my ($status, $out, $error) = $node->psql('postgres', $sql // "SELECT count(*) FROM $what");

	like($error, qr/the newest version of block 0 in file ".*" cannot be read from the flash tier/, "$when: the page of $what is an error");
	return;
}

# What no other page begins with.
sub map_header
{
	return pack 'H*', $node->safe_psql('postgres', q(SELECT encode(substr(get_raw_page('m', 'vm', 0), 1, 24), 'hex')));
}

$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pageinspect; CREATE TABLE t AS SELECT g AS id, 0 AS ver FROM generate_series(1, 3000) g');
# The first block is full: an update goes to the second, and its record is of both.
$node->safe_psql('postgres', <<'END');
CREATE TABLE v (id int, a text);
ALTER TABLE v ALTER a SET STORAGE plain;
INSERT INTO v SELECT g, 'a row of the victim ' || repeat('x', 1900) FROM generate_series(1, 4) g;
INSERT INTO v VALUES (5, 'in the second block ' || repeat('x', 1900));
CREATE TABLE w AS SELECT 'to be emptied' AS a;
CREATE TABLE m AS SELECT g AS id FROM generate_series(1, 100) g;
END
$node->safe_psql('postgres', 'VACUUM (FREEZE) m');
is($node->safe_psql('postgres', 'SELECT max(ctid) FROM v'), '(1,1)', 'the victim has two blocks');
evict($node);
$node->safe_psql('postgres', 'CHECKPOINT');
my $map = map_header();
$node->safe_psql('postgres', <<'END');
UPDATE t SET ver = 1;
UPDATE v SET a = 'a new row there ' || repeat('y', 1000) WHERE id = 1;
DELETE FROM v WHERE id = 2;
UPDATE w SET a = 'before it is emptied';
DELETE FROM m WHERE id = 1;
UPDATE t SET ver = 2;
END
$node->safe_psql('postgres', 'VACUUM m');
is($node->safe_psql('postgres', 'SELECT ctid FROM v WHERE id = 1'), '(1,2)', 'a record is of both blocks');
evict($node);
my $newest_map = map_header();
# What comes after them has them go from memory to flash, without a checkpoint.
$node->safe_psql('postgres', 'CREATE TABLE others AS SELECT g, repeat($$o$$, 500) AS o FROM generate_series(1, 10000) g');
evict($node);
spoil($node, 'a row of the victim');
spoil($node, 'before it is emptied');
# A crash takes back what was not synced: then the versions before are the newest.
spoil($node, $map, 'a map');
spoil($node, $newest_map, 'its newest version');
is_lost('at first', 'v');
is_lost('at first', 'w');
# The core takes a map that is lost for an empty one, but for who asks for the page itself.
my ($status, $out, $error) = $node->psql('postgres', $read_map);
like($error, qr/ERROR:  invalid page in block 0 of relation/, 'at first: the page of a map is an error');
$node->safe_psql('postgres', "TRUNCATE w; INSERT INTO w VALUES ('afterwards')");

for my $when ('after a crash', 'after another')
{
	my $from = -s $node->logfile;

	$node->safe_psql('postgres', 'UPDATE t SET ver = 2');
	crash($node);
	ok($node->start(fail_ok => 1), "$when: the server starts") or last;
	like(log_since($node, $from), qr/redo passes over changes of block 0 in file/, 'it is said what redo passed over')
	  if $when eq 'after a crash';
	is_lost($when, 'v');
	like($node->safe_psql('postgres', q(SELECT a FROM v WHERE ctid = '(1,2)')), qr/^a new row there/, "$when: other pages of the record are changed");
	is($node->safe_psql('postgres', 'SELECT a FROM w'), 'afterwards', "$when: what is dropped later is dropped");
	is($node->safe_psql('postgres', 'SELECT count(*), min(id) FROM m'), '99|2', "$when: a table with a lost map is right");
	is($node->psql('postgres', $read_map), 0, "$when: redo has made the map anew");
	is(whole($node, 't'), '3000|4501500|6000', "$when: all others are right");
}
done_testing();
