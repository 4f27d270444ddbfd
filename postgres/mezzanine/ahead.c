/*
 * ahead.c
 *	  Pages on flash that are read before they are needed.
 *
 * The core says which blocks a scan is going to read, one by one
 * (effective_io_concurrency, maintenance_io_concurrency), and reads them a
 * little later, in the same process.  The library reads them meanwhile, each to
 * memory of this process, and what is newer then is read anew (read_ahead.rs).
 *
 * The memory is a page for each read that may be under way: as many as the larger
 * of the two settings has in this session, whatever their values for single
 * tablespaces.  A process that never prefetches has none.
 *
 * Workers of one parallel query share a scan: one prefetches what another reads.
 * So nothing is read ahead in parallel mode, where most of it would be read twice.
 */
#include "postgres.h"

#include "access/xact.h"
#include "port/atomics.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/ipc.h"

#include "mezzanine.h"

/* What was counted of this process */
static MezzAhead told = {0};
static bool used = false;

static void
tell(void)
{
	MezzAhead	now;

	mezz_ahead(mezz_host, &now);
	mezz_count(MEZZ_COUNT_AHEAD + MEZZ_AHEAD_BEGUN, now.begun - told.begun);
	mezz_count(MEZZ_COUNT_AHEAD + MEZZ_AHEAD_USED, now.used - told.used);
	mezz_count(MEZZ_COUNT_AHEAD + MEZZ_AHEAD_STALE, now.stale - told.stale);
	mezz_count(MEZZ_COUNT_AHEAD + MEZZ_AHEAD_UNUSED, now.unused - told.unused);
	mezz_count(MEZZ_COUNT_AHEAD_BYTES, now.bytes - told.bytes);
	told = now;
}

/* The process ends: what it reads ends with it. */
static void
at_exit(int code, Datum arg)
{
	mezz_forget_ahead(mezz_host);
	tell();
	mezz_count(MEZZ_COUNT_AHEAD_BYTES, -told.bytes);
}

/* Once for the server: what is not the ring that was meant costs what the settings were to bring. */
static void
say_way(void)
{
	char		text[MEZZ_TEXT_BYTES];
	MezzAheadWay way = mezz_ahead_way(mezz_host, &text);

	if (way == MEZZ_AHEAD_WAY_NONE || pg_atomic_exchange_u32(&mezz_shared->ahead_said, 1) != 0)
		return;
	if (way == MEZZ_AHEAD_WAY_SOME)
		ereport(LOG,
				(errmsg("pages on flash are read ahead by %s", text)));
	else
		ereport(LOG,
				(errmsg("pages on flash are not read ahead: effective_io_concurrency and maintenance_io_concurrency have no effect on them"),
				 errdetail("%s.", text),
				 errhint("Allow the server io_uring (kernel.io_uring_disabled, and the profile of its container).")));
}

/* Begins to read what of some blocks is on flash; whether the tier has all of them. */
bool
mezz_prefetch(MezzPage first, int nblocks)
{
	int			depth = Max(effective_io_concurrency, maintenance_io_concurrency);
	bool		has_all;

	if (IsInParallelMode() || mezz_tier_failed())
		depth = 0;
	if (depth > 0 && !used)
	{
		/* The ring has a descriptor that the core does not count. */
		ReserveExternalFD();
		on_shmem_exit(at_exit, (Datum) 0);
		used = true;
	}
	has_all = mezz_read_ahead(mezz_host, first, nblocks, depth);
	if (depth > 0)
	{
		say_way();
		tell();
	}
	return has_all;
}

/* A read may have taken pages that were read ahead. */
void
mezz_count_ahead(void)
{
	if (used)
		tell();
}

/* Whoever began to read pages in a transaction that has ended does not come for them. */
void
mezz_end_ahead(void)
{
	if (!used)
		return;
	mezz_forget_ahead(mezz_host);
	tell();
}
