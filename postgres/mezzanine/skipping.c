/*
 * skipping.c
 *	  Relations that skip the log stay out of the tier until their transaction
 *	  has ended.
 *
 * With wal_level=minimal what a transaction does to storage that it has made
 * itself is not logged: the files are synced, or logged as a whole, when it
 * commits.  Redo cannot make a newer version of such a page from an older one.
 * So if flash of a moment within the transaction is put back beside the newest
 * files, what it holds of these pages would hide the right ones, and nothing
 * would bring it up to date.  What is not in the tier before the commit is not in
 * such flash; what comes in later is on disk or in the log in the version of the
 * commit, and changes only by the log.
 *
 * Only processes of the transaction know that a relation skips the log, but every
 * process may write its pages or give them up.  So each that writes one past the
 * tier notes the relation in shared memory first.  Pages of new storage cannot
 * leave shared buffers before that: the block that they are in is extended past
 * the tier.  The note is taken back when the transaction ends, by whatever of
 * this process was part of it.
 *
 * A note counts in one of many places, found by hash: where relations share one,
 * a few pages go to disk that could have gone to the tier.  It takes no lock,
 * cannot be full, and a process has one for each place however many relations it
 * makes.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/storage.h"
#include "common/hashfn.h"

#include "mezzanine.h"

/* The places in which this process counts */
static uint64 noted[MEZZ_SKIP_PLACES / 64];
static bool any_noted = false;

static uint32
place_of(RelFileLocator rlocator)
{
	return hash_bytes((const unsigned char *) &rlocator, sizeof(rlocator)) % MEZZ_SKIP_PLACES;
}

/* A page of this relation is about to be written past the tier by this process. */
void
mezz_note_skipping(RelFileLocator rlocator)
{
	uint32		place;

	if (XLogIsNeeded() || !RelFileLocatorSkippingWAL(rlocator))
		return;
	place = place_of(rlocator);
	if (noted[place / 64] & (UINT64CONST(1) << place % 64))
		return;
	noted[place / 64] |= UINT64CONST(1) << place % 64;
	any_noted = true;
	/* A barrier: whoever finds a page that is written after this finds the count. */
	pg_atomic_fetch_add_u32(&mezz_shared->skipping[place], 1);
}

/* Whether pages of this relation must not go to the tier now. */
bool
mezz_skips_log(RelFileLocator rlocator)
{
	if (XLogIsNeeded() || mezz_without("skips_log"))
		return false;
	return pg_atomic_read_u32(&mezz_shared->skipping[place_of(rlocator)]) > 0;
}

/*
 * When a commit or PREPARE TRANSACTION comes here the files have been synced or
 * logged (smgrDoPendingSyncs()).  When an abort does, its relations are about to
 * be deleted, and nobody else has ever seen them.  A parallel worker counts beside
 * its leader, which made the pages: workers extend no relations.
 */
void
mezz_end_skipping(void)
{
	if (!any_noted)
		return;
	for (uint32 place = 0; place < MEZZ_SKIP_PLACES; place++)
		if (noted[place / 64] & (UINT64CONST(1) << place % 64))
			pg_atomic_fetch_sub_u32(&mezz_shared->skipping[place], 1);
	memset(noted, 0, sizeof(noted));
	any_noted = false;
}
