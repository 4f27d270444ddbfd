/*
 * failure.c
 *	  The tier's flash device fails while the server runs: the tier is given up.
 *
 * The library says what is saved, and what a restart is needed for
 * (crates/ffi/src/failure.rs).  Here it is made sure that nobody is in the way:
 *
 * 1. Who notices a failure and is about to write a page past the tier, or to
 *	  delete one, gives the tier up first, or waits until somebody has.  He holds
 *	  "gate" exclusively.
 * 2. Jobs write and sync relations only while they hold it shared, and not when
 *	  the tier was given up: no older version follows one that was written past
 *	  the tier.
 * 3. A page that the tier has taken counts only if its device has not failed by
 *	  then: it may have come after the look at what has to be saved.
 * 4. When the tier was given up, nobody asks it any more.  Until then it may
 *	  be read: what it has is the newest.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "mezzanine.h"

/* Whether there is a tier that was not given up. */
bool
mezz_tier_exists(void)
{
	return mezz_host != NULL && pg_atomic_read_u32(&mezz_shared->given_up) == 0;
}

bool
mezz_tier_failed(void)
{
	MezzMessage message;

	/* What we have done before, such as linking a page, must be seen by whoever latches a failure later. */
	pg_memory_barrier();
	return mezz_has_failed(mezz_host, &message) && !mezz_without("failure");
}

static void
give_up(void)
{
	MezzMessage failure = {0};
	MezzMessage message = {0};
	uint64		written = 0;

	(void) mezz_has_failed(mezz_host, &failure);
	if (!mezz_without("failed_write") && !mezz_give_up(mezz_host, &written, &message))
		mezz_report(PANIC, ERRCODE_IO_ERROR, &message);
	pg_atomic_write_u32(&mezz_shared->given_up, 1);
	ereport(LOG,
			(errcode(ERRCODE_IO_ERROR),
			 errmsg("%s", failure.message),
			 errdetail("The server goes on without the tier. " UINT64_FORMAT " pages that it alone had were written to disk.",
					   written),
			 errhint("Check the flash device and the kernel's log. Restart the server when the device works again, or with another one in mezzanine.flash_path: the tier is then made anew.")));
}

/*
 * Gives the tier up, unless somebody has.  PANIC if the server must restart.
 *
 * Whoever is in a critical section waits for a worker to do it, if one runs.
 */
void
mezz_give_up_tier(void)
{
	while (mezz_tier_exists() && !mezz_callbacks.may_work())
		mezz_callbacks.wait(mezz_progress(mezz_host));
	if (!mezz_tier_exists())
		return;
	LWLockAcquire(&mezz_shared->gate, LW_EXCLUSIVE);
	if (mezz_tier_exists())
		give_up();
	LWLockRelease(&mezz_shared->gate);
	mezz_callbacks.progressed();
}

/*
 * For jobs, before they write or sync relations: false if they must not any
 * more.  Whoever gives the tier up does so himself.  The library's frames are
 * below us.
 */
bool
mezz_enter_gate(void)
{
	bool		exists;

	if (LWLockHeldByMe(&mezz_shared->gate))
		return true;
	MEZZ_NO_ERROR_BEGIN();
	LWLockAcquire(&mezz_shared->gate, LW_SHARED);
	exists = mezz_tier_exists();
	if (!exists)
		LWLockRelease(&mezz_shared->gate);
	MEZZ_NO_ERROR_END();
	return exists;
}

void
mezz_leave_gate(void)
{
	if (!LWLockHeldByMeInMode(&mezz_shared->gate, LW_EXCLUSIVE))
		LWLockRelease(&mezz_shared->gate);
}
