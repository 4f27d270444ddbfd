/*
 * lengths.c
 *	  Files that a crash has left shorter than the tier's pages reach.
 *
 * They get their length when redo is done, and those that could not be given it
 * then, later.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "access/xlogutils.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/smgr.h"

#include "mezzanine.h"

/* How long files wait at least until it is tried again to give them their length, in ns */
#define RETRY_NS INT64CONST(500000000)

/* Whether the pass under way has left a file without the length that it should have */
static bool lengths_left;

/* Whether this is not the first pass: what it meets was said before. */
static bool lengths_again;

/*
 * A fork has the block "last" at least: the tier's pages reach so far.  The
 * system crashed before the length of its file, or the file of a fork that is
 * not logged, was durable.
 *
 * A relation whose main fork is missing after redo is left alone: redo would
 * have made it, so it is somewhere else, or somebody has taken it away.  False
 * then: it may come back.
 */
static bool
restore_length(const void *what)
{
	const MezzPage *last = what;
	SMgrRelation reln = smgropen(mezz_page_locator(last), INVALID_PROC_NUMBER);
	PGIOAlignedBlock zeros = {0};
	const void *bytes = zeros.data;
	bool		was_in_recovery = InRecovery;

	if (!smgrexists(reln, MAIN_FORKNUM))
	{
		if (!lengths_again)
			ereport(WARNING,
					(errcode(ERRCODE_UNDEFINED_FILE),
					 errmsg("the flash tier has pages of file \"%s\", which does not exist",
							relpath(reln->smgr_rlocator, MAIN_FORKNUM)),
					 errhint("Put the file back, or mount what it lies on. The tier keeps its pages until then.")));
		return false;
	}
	if (!smgrexists(reln, last->fork))
		smgrcreate(reln, last->fork, true);
	if (last->block < smgrnblocks(reln, last->fork))
		return true;
	InRecovery = true;
	smgrwritev_direct(reln, last->fork, last->block, &bytes, 1, true);
	InRecovery = was_in_recovery;
	/* Where it is redo that writes here, the length that it has noted. */
	reln->smgr_cached_nblocks[last->fork] = InvalidBlockNumber;
	mezz_sync_later(reln, last->fork, last->block);
	return true;
}

static void
restore_length_of(MezzPage last)
{
	if (!mezz_without_errors(restore_length, &last, lengths_again))
		lengths_left = true;
}

/* Gives files the length that the tier's pages reach; notes whether some are left without it. */
static void
restore_all_lengths(bool again)
{
	lengths_left = false;
	lengths_again = again;
	mezz_dirty_forks(mezz_host, restore_length_of);
	pg_atomic_write_u32(&mezz_shared->lengths_left, lengths_left && !mezz_without("lengths_again"));
}

/*
 * Redo is done, or consistent: files get the length that the tier's pages reach.
 * From then on one that is shorter, or missing, has lost something.
 */
void
mezz_restore_lengths(void)
{
	if (pg_atomic_exchange_u32(&mezz_shared->lengths_restored, 1) == 0 && !mezz_without("lengths"))
		restore_all_lengths(false);
}

/*
 * Files that could not be given their length, because the disk was full or the file
 * was not there, get it when the reason has passed.
 *
 * Others change files now.  That a fork has the block that is written here to make it
 * longer is known from the tier, which has a page of it that is newer than disk: while
 * it does nobody else writes that block, for a page that goes past the tier has its
 * older version written first, and that is refused as long as its place is missing.
 * So what counts is that the tier has it still, and has it until the block is written:
 * whoever drops pages waits until nobody is at this (mezz_await_lengths()), and whoever
 * writes past the tier, which may be over a page that is lost, does so before it or
 * after it (mezz_hold_lengths()).
 *
 * Nobody is waited for here, so that those may wait for this process's work.
 */
static void
restore_lengths_again(void)
{
	if (!mezz_enter_gate())
		return;
	if (LWLockConditionalAcquire(&mezz_shared->lengths, LW_EXCLUSIVE))
	{
		restore_all_lengths(true);
		LWLockRelease(&mezz_shared->lengths);
	}
	mezz_leave_gate();
}

/*
 * Tries once more, in the process that redoes, or after recovery in a worker: while
 * there is redo it has noted how long files are, and no other process changes that.
 */
void
mezz_retry_lengths(void)
{
	static int64 next = 0;
	instr_time	now;
	int64		begin;

	if (pg_atomic_read_u32(&mezz_shared->lengths_left) == 0 || AmStartupProcess() != RecoveryInProgress())
		return;
	INSTR_TIME_SET_CURRENT(now);
	begin = INSTR_TIME_GET_NANOSEC(now);
	if (begin < next)
		return;
	restore_lengths_again();
	INSTR_TIME_SET_CURRENT(now);
	/* A pass over the directory of a large tier takes long, and is to be a small part of the time. */
	next = INSTR_TIME_GET_NANOSEC(now) + Max(RETRY_NS, (INSTR_TIME_GET_NANOSEC(now) - begin) * 50);
}

/* Pages were dropped: returns when nobody makes their file longer for them. */
void
mezz_await_lengths(void)
{
	/* What was dropped is seen by whoever looks from now on; a barrier for the look at who does. */
	pg_memory_barrier();
	if (pg_atomic_read_u32(&mezz_shared->lengths_left) == 0)
		return;
	LWLockAcquire(&mezz_shared->lengths, LW_SHARED);
	LWLockRelease(&mezz_shared->lengths);
}

/* Blocks are about to be written past the tier.  An error gives back what is held. */
void
mezz_hold_lengths(void)
{
	if (pg_atomic_read_u32(&mezz_shared->lengths_left) != 0)
		LWLockAcquire(&mezz_shared->lengths, LW_SHARED);
}

void
mezz_let_lengths(void)
{
	if (LWLockHeldByMe(&mezz_shared->lengths))
		LWLockRelease(&mezz_shared->lengths);
}

/*
 * The process that redoes is about to read a page, or to give one up.  Recovery
 * from an archive or from a primary is consistent when it has come to
 * minRecoveryPoint, which no page in the tier was ahead of.  One from the log that
 * is there never says so before its end (tier_recovery_end()).
 */
void
mezz_follow_redo(void)
{
	/* Never true in another process. */
	if (!reachedConsistency)
		return;
	if (pg_atomic_read_u32(&mezz_shared->lengths_restored) == 0)
		mezz_restore_lengths();
	mezz_retry_lengths();
}
