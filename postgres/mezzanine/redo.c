/*
 * redo.c
 *	  Redo needs a page that is lost; and lost maps.
 *
 * In sync mode durable only flash may have a page that redo is to change. If
 * flash does not give it back, and the log has no image of it (full_page_writes
 * is off, or the page went bad while redo ran), nobody has it any more. Changes
 * of such a page are passed over. It stays lost, and reads of it fail, until a
 * record makes it anew or its owner does without it. Other pages of the same
 * records are changed as ever.
 *
 * In drained the log since the redo point has all that flash may have alone, so
 * a read that fails ends the server, which redoes without this tier.
 *
 * Whether a page is lost shows when it is read. So what redo asks for is read
 * before the core makes room for it, and kept for the read that follows. Nobody
 * but redo changes pages meanwhile: if others bring the page into shared buffers
 * and it leaves them again, it differs by hint bits at most. What is kept ends
 * with the next announcement, also of a page in shared buffers, so a page that was
 * kept in vain is not taken for the newest later.
 */
#include "postgres.h"

#include "access/xlogutils.h"
#include "catalog/pg_control.h"
#include "common/relpath.h"
#include "storage/bufpage.h"

#include "mezzanine.h"

/* The page that was read last for redo, if it is one, and nobody has taken it since */
static PGIOAlignedBlock kept;
static MezzPage kept_name;
static bool is_kept = false;

/* The page that was last said to be passed over, if there is one */
static MezzPage said_name;
static bool is_said = false;

static inline bool
is_same(MezzPage a, MezzPage b)
{
	return a.database == b.database && a.tablespace == b.tablespace && a.relation == b.relation &&
		a.fork == b.fork && a.block == b.block;
}

/* Once for each page, as far as records of one do not alternate with those of another */
static void
say_passed_over(SMgrRelation reln, ForkNumber forknum, MezzPage page)
{
	if (is_said && is_same(page, said_name))
		return;
	said_name = page;
	is_said = true;
	ereport(LOG,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("redo passes over changes of block %u in file \"%s\", whose newest version cannot be read from the flash tier",
					page.block, relpath(reln->smgr_rlocator, forknum)),
			 errhint("Only a backup has that page now, or whatever made it; reads of it fail until all of it is written anew. mezzanine_give_up() goes on without it.")));
}

/*
 * Reads a page from the tier, if that has it.
 */
MezzFound
mezz_read_page(MezzPage page, void *buffer)
{
	if (is_kept)
	{
		is_kept = false;
		if (is_same(page, kept_name))
		{
			memcpy(buffer, kept.data, BLCKSZ);
			return MEZZ_FOUND_HERE;
		}
	}
	return mezz_read(mezz_host, page, buffer);
}

/*
 * Redo is about to read a page, to change it: whether it is lost.
 */
bool
mezz_redo_skips(SMgrRelation reln, ForkNumber forknum, MezzPage page)
{
	is_kept = false;
	if (!mezz_is_durable(mezz_host) || mezz_without("redo_lost") ||
		mezz_is_in_buffers(&reln->smgr_rlocator.locator, forknum, page.block))
		return false;
	switch (mezz_read(mezz_host, page, (uint8_t *) kept.data))
	{
		case MEZZ_FOUND_HERE:
			/* Only of the main fork is every read in redo announced here. */
			kept_name = page;
			is_kept = forknum == MAIN_FORKNUM;
			return false;
		case MEZZ_FOUND_LOST:
			say_passed_over(reln, forknum, page);
			return true;
		case MEZZ_FOUND_ON_DISK:
		case MEZZ_FOUND_SILENT:
		case MEZZ_FOUND_UNKNOWN:
			/* It is on disk, or the read that follows says why it cannot be had. */
			break;
	}
	return false;
}

/*
 * A page that is lost is read all the same: whether that goes on, with what no
 * server takes for a page.
 *
 * The core takes zeros for a damaged map of free space or of visibility, with a
 * warning, and an empty map is right: it says that nothing is known.  It reads
 * maps so everywhere (RBM_ZERO_ON_ERROR), in redo and elsewhere; who reads one in
 * another way gets an error from the core.  Zeros do not come back here: the
 * buffer may differ from its storage, so it is not handed over as a clean page,
 * and the page stays lost until the map is written anew.
 */
bool
mezz_map_is_empty(SMgrRelation reln, ForkNumber forknum, BlockNumber block, void *buffer)
{
	bool		is_map = forknum == FSM_FORKNUM || forknum == VISIBILITYMAP_FORKNUM;

	if (!is_map || !mezz_is_durable(mezz_host) || mezz_without("lost_map"))
		return false;
	memset(buffer, 0xFF, BLCKSZ);
	ereport(LOG,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("the newest version of block %u in file \"%s\" cannot be read from the flash tier",
					block, relpath(reln->smgr_rlocator, forknum)),
			 errdetail("It is a part of a map of the table, and counts as empty."),
			 errhint("VACUUM of the table writes it anew. Check the flash device and the kernel's log.")));
	return true;
}
