/*
 * disk.c
 *	  What the tier has done by the server: pages written to relations, synced
 *	  and read, and waiting.
 *
 * These functions are called by the library.  No error may leave them: it would
 * jump over frames that are not C's.  There are two ways to keep that:
 *
 * 1. What may fail for reasons of its own (files, memory) is carried out by
 *	  mezz_without_errors(), which catches the error and leaves everything as it was
 *	  before: the counts that an error resets, and the lightweight locks.
 * 2. What fails only if the server is broken (a 201st lightweight lock, an
 *	  epoll_wait() that the kernel refuses, a message that cannot be put together)
 *	  stands between MEZZ_NO_ERROR_BEGIN() and MEZZ_NO_ERROR_END(): there an error
 *	  is a PANIC, which returns to nobody.
 *
 * What is left sets latches, takes spinlocks and counts, and has no errors.
 */
#include "postgres.h"

#include <limits.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "access/xlogutils.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "postmaster/postmaster.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/md.h"
#include "storage/proc.h"
#include "storage/smgr.h"
#include "utils/elog.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "mezzanine.h"

/* Longest that anyone waits without looking again, in ms */
#define WAIT_MS_MAX 10

/* How long files wait at least until it is tried again to give them their length, in ns */
#define RETRY_NS INT64CONST(500000000)

/* Blocks written by one call of the storage manager */
#define RUN_BLOCKS_MAX 32

/* Lightweight locks that an error may leave to us: what is called here takes one at a time */
#define MEZZ_LOCKS_MAX 8

/* Runs that a modelled disk is handed together: a job has at most 16 groups of 256 pages. */
#define RUNS_MAX 4096

/* What the last error said that was caught here and is none yet */
static char caught[MEZZ_TEXT_BYTES];

static RelFileLocator
page_locator(const MezzPage *page)
{
	return (RelFileLocator)
	{
		.spcOid = page->tablespace,
		.dbOid = page->database,
		.relNumber = page->relation,
	};
}

/*
 * Where a block lies on a modelled disk: relations apart from one another,
 * blocks of one relation side by side.
 */
uint64
mezz_disk_address(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blocknum)
{
	uint64		relation = hash_bytes_extended((const unsigned char *) &rlocator, sizeof(rlocator), forknum);

	/* Each relation begins at one of 2^20 places, 64 MB apart. */
	return ((relation & 0xFFFFF) << 26) + (uint64) blocknum * BLCKSZ;
}

/* Remembers that a segment has to be synced; false if there is no room. */
static bool
remember_segment(const FileTag *tag)
{
	uint32		at = hash_bytes((const unsigned char *) tag, sizeof(FileTag));
	bool		known = false;

	SpinLockAcquire(&mezz_shared->mutex);
	for (;; at++)
	{
		MezzSegment *segment = &mezz_shared->segments[at % MEZZ_SEGMENTS_MAX];

		if (!segment->used)
		{
			if (mezz_shared->nsegments < MEZZ_SEGMENTS_MAX / 4 * 3)
			{
				segment->tag = *tag;
				segment->used = true;
				mezz_shared->nsegments++;
				known = true;
			}
			break;
		}
		if (memcmp(&segment->tag, tag, sizeof(FileTag)) == 0)
		{
			known = true;
			break;
		}
	}
	SpinLockRelease(&mezz_shared->mutex);
	return known;
}

/*
 * Syncs one segment.  A failure is treated as everywhere in PostgreSQL: PANIC,
 * unless data_sync_retry says otherwise; then the tier latches it.
 */
static bool
sync_segment(const FileTag *tag)
{
	char		path[MAXPGPATH];

	if (mezz_without("disk_sync") || mdsyncfiletag(tag, path) == 0)
		return true;
	/* A relation that was dropped after its pages were written. */
	if (FILE_POSSIBLY_DELETED(errno))
		return true;
	ereport(data_sync_elevel(LOG),
			(errcode_for_file_access(),
			 errmsg("could not fsync file \"%s\": %m", path)));
	return false;
}

/* Has the next sync cover the segment that a block lies in. */
static void
sync_later(SMgrRelation reln, ForkNumber forknum, BlockNumber block)
{
	FileTag		tag = {0};

	tag.handler = SYNC_HANDLER_MD;
	tag.rlocator = reln->smgr_rlocator.locator;
	tag.forknum = forknum;
	tag.segno = block / RELSEG_SIZE;
	if (!remember_segment(&tag) && !sync_segment(&tag))
		ereport(ERROR, (errmsg("pages of the flash tier could not be synced")));
}

/* Blocks of one fork side by side, within one segment */
typedef struct BlockRun
{
	MezzDiskPage *pages;
	size_t		count;
} BlockRun;

/*
 * Whether the files of relations may still be made as long as the tier's pages
 * need them.
 *
 * From mezz_restore_lengths() on a file that is missing or short is an error, as
 * it is without a tier: it may lie on a file system that is not mounted.  That is
 * when redo has come past all that the tier had before the crash: a standby goes
 * on with recovery for the rest of its life, but has by then redone where the
 * files of its pages are made, and has a file before it has pages of it.  Only the
 * process that redoes can see that, with its next page; that queries have begun,
 * which comes after it, all can.
 */
static bool
files_are_repaired(void)
{
	if (mezz_without("missing_strict"))
		return true;
	if (!RecoveryInProgress())
		return false;
	return mezz_without("missing_standby") ||
		(pg_atomic_read_u32(&mezz_shared->lengths_restored) == 0 && !HotStandbyActive());
}

/*
 * Whether a page, whose place in its file is missing, is taken without being written:
 * the log that is redone drops it.
 *
 * Written, it would make the file longer behind the back of the process that redoes,
 * which has noted the file's length (smgrnblocks_cached()).  When that comes to the
 * record that cuts the file it finds nothing to cut, and rows come back that were
 * deleted.  Nor does it need the page: it treats a place that is missing as one that
 * is dropped later, and forgets it there.
 */
static bool
is_dropped(SMgrRelation reln, const MezzDiskPage *page)
{
	return !mezz_without("dropped_skipped") &&
		mezz_log_drops(reln->smgr_rlocator.locator, page->page.fork, page->page.block,
					   PageGetLSN((Page) page->bytes));
}

/*
 * Whether a block can have been in its file before redo began and still may be
 * missing there.  What a page from behind the redo point needs was made since: redo
 * may not have come there yet, or a power cut has taken it back.  A page from
 * before it had its place when that checkpoint was made, durably.  If it has none
 * now, and the log does not drop it, either somebody has taken the file away, or
 * what it lies on is not mounted.  In its place nothing must be made: redo may have
 * nothing for it, so all that the tier does not have would be holes, from which rows
 * are read as missing without an error, and the tier would forget the rest.
 *
 * Pages that were not logged say nothing of when they were made: maps of free
 * space, and pages that were formatted and not used yet.  They wait as well,
 * because they are few, and have their place at the end of recovery.
 */
static bool
may_be_made(SMgrRelation reln, const MezzDiskPage *page)
{
	XLogRecPtr	lsn = PageGetLSN((Page) page->bytes);

	/* A position is the end of a record: one that ends at the redo point is not redone. */
	return lsn > mezz_shared->redo_begins || mezz_without("missing_old") ||
		(lsn == mezz_shared->redo_begins && mezz_without("missing_at_redo")) ||
		(mezz_without("dropped_skipped") &&
		 mezz_log_drops(reln->smgr_rlocator.locator, page->page.fork, page->page.block, InvalidXLogRecPtr));
}

/*
 * Writes blocks of a file that has "there" blocks.
 *
 * In recovery a file may be missing, because redo has not come to where it is
 * created, or be shorter than the tier's pages reach: the storage manager makes up
 * for that then.
 */
static void
write_blocks(SMgrRelation reln, const BlockRun *blocks, BlockNumber there, bool repairs)
{
	const MezzPage *first = &blocks->pages[0].page;
	bool		is_short = first->block + blocks->count > there;
	const void *bytes[RUN_BLOCKS_MAX];
	bool		was_in_recovery = InRecovery;

	for (size_t i = 0; i < blocks->count && is_short && repairs; i++)
		repairs = may_be_made(reln, &blocks->pages[i]);
	if (is_short && repairs && !mezz_without("missing_file"))
		smgrcreate(reln, first->fork, true);
	if (is_short && !repairs)
	{
		/* An error that names the file if that is missing. */
		there = smgrnblocks(reln, first->fork);
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not write blocks %u..%u of file \"%s\" from the flash tier: it has only %u blocks",
						first->block, first->block + (BlockNumber) blocks->count - 1,
						relpath(reln->smgr_rlocator, first->fork), there)));
	}
	if (is_short)
		InRecovery = !mezz_without("short_file");
	for (size_t i = 0; i < blocks->count; i++)
		bytes[i] = blocks->pages[i].bytes;
	smgrwritev_direct(reln, first->fork, first->block, bytes, blocks->count, true);
	InRecovery = was_in_recovery;
	/* Where it is redo that writes here, the length that it has noted. */
	if (is_short && !mezz_without("dropped_skipped"))
		reln->smgr_cached_nblocks[first->fork] = InvalidBlockNumber;
	sync_later(reln, first->fork, first->block);
}

/* Writes a run of blocks, but for what the log drops. */
static bool
write_run(const void *what)
{
	const BlockRun *run = what;
	const MezzPage *first = &run->pages[0].page;
	SMgrRelation reln = smgropen(page_locator(first), INVALID_PROC_NUMBER);
	bool		repairs = files_are_repaired();
	BlockNumber there;
	BlockRun	blocks = {.pages = run->pages, .count = 0};

	there = repairs && !smgrexists(reln, first->fork) ? 0 : smgrnblocks(reln, first->fork);
	for (size_t i = 0; i < run->count; i++)
	{
		if (!repairs || first->block + i < there || !is_dropped(reln, &run->pages[i]))
		{
			blocks.count++;
			continue;
		}
		if (blocks.count > 0)
			write_blocks(reln, &blocks, there, repairs);
		blocks = (BlockRun)
		{
			.pages = &run->pages[i + 1],
			.count = 0,
		};
	}
	if (blocks.count > 0)
		write_blocks(reln, &blocks, there, repairs);
	return true;
}

/* How many of these pages, from the first on, are a run. */
static size_t
run_length(const MezzDiskPage *pages, size_t count)
{
	const MezzPage *first = &pages[0].page;
	size_t		n = 1;

	while (n < count && n < RUN_BLOCKS_MAX &&
		   pages[n].page.relation == first->relation &&
		   pages[n].page.tablespace == first->tablespace &&
		   pages[n].page.database == first->database &&
		   pages[n].page.fork == first->fork &&
		   pages[n].page.block == first->block + n &&
		   pages[n].page.block % RELSEG_SIZE != 0)
		n++;
	return n;
}

/*
 * Why a file took no pages was logged by whoever carried out the job.  Who finds
 * no room, or needs files that are current, is told the last reason, with the
 * file's name.
 */
static void
note_refusal(void)
{
	SpinLockAcquire(&mezz_shared->mutex);
	strlcpy(mezz_shared->refused, caught, sizeof(mezz_shared->refused));
	SpinLockRelease(&mezz_shared->mutex);
}

/* Adds the last reason to what is said of pages that files do not take. */
void
mezz_tell_refusal(char *detail, size_t size)
{
	char		reason[MEZZ_TEXT_BYTES];
	size_t		length = strlen(detail);

	SpinLockAcquire(&mezz_shared->mutex);
	strlcpy(reason, mezz_shared->refused, sizeof(reason));
	SpinLockRelease(&mezz_shared->mutex);
	if (reason[0] != '\0' && !mezz_without("refused_named"))
		snprintf(detail + length, size - length, " The last attempt: %s.", reason);
}

/*
 * Writes all pages but for those that their files do not take.  On a modelled
 * disk they are under way together, as the kernel's writes would be, and all of
 * them are waited for.
 */
static void
write_all(MezzDiskPage *pages, size_t count)
{
	static MezzRun runs[RUNS_MAX];
	size_t		nruns = 0;

	for (size_t i = 0; i < count;)
	{
		BlockRun	blocks = {.pages = &pages[i], .count = run_length(&pages[i], count - i)};
		const MezzPage *first = &pages[i].page;

		i += blocks.count;
		/* Whoever carries out the job has not asked for these pages: his client is not told. */
		if (!mezz_without_errors(write_run, &blocks, true))
		{
			note_refusal();
			for (size_t n = 0; n < blocks.count; n++)
				blocks.pages[n].refused = true;
			continue;
		}
		if (nruns == RUNS_MAX)
		{
			if (mezz_disk)
				mezz_disk_write_together(mezz_disk, runs, nruns);
			nruns = 0;
		}
		runs[nruns++] = (MezzRun)
		{
			.address = mezz_disk_address(page_locator(first), first->fork, first->block),
			.bytes = blocks.count * BLCKSZ,
		};
	}
	if (mezz_disk)
		mezz_disk_write_together(mezz_disk, runs, nruns);
}

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
	SMgrRelation reln = smgropen(page_locator(last), INVALID_PROC_NUMBER);
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
	sync_later(reln, last->fork, last->block);
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

/*
 * Syncs what was written until now.  Segments that are written meanwhile are
 * remembered anew and wait for the next call.
 */
static bool
sync_all(void)
{
	static FileTag tags[MEZZ_SEGMENTS_MAX];
	uint32		ntags = 0;
	bool		synced = true;

	SpinLockAcquire(&mezz_shared->mutex);
	if (mezz_shared->nsegments > 0)
	{
		for (int i = 0; i < MEZZ_SEGMENTS_MAX; i++)
			if (mezz_shared->segments[i].used)
			{
				tags[ntags++] = mezz_shared->segments[i].tag;
				mezz_shared->segments[i].used = false;
			}
		mezz_shared->nsegments = 0;
	}
	SpinLockRelease(&mezz_shared->mutex);

	for (uint32 i = 0; i < ntags && synced; i++)
		synced = sync_segment(&tags[i]);
	if (mezz_disk && ntags > 0)
		mezz_disk_flush(mezz_disk);
	return synced;
}

/*
 * Reads a block as the relation's file has it; false if that does not reach so
 * far.  Whoever finds that it is the newest version wants it to be durable.
 */
static bool
read_block(const MezzPage *page, void *bytes)
{
	SMgrRelation reln = smgropen(page_locator(page), INVALID_PROC_NUMBER);

	if (!smgrexists(reln, page->fork) || page->block >= smgrnblocks(reln, page->fork))
		return false;
	if (mezz_disk)
		mezz_disk_read(mezz_disk, mezz_disk_address(reln->smgr_rlocator.locator, page->fork, page->block), BLCKSZ);
	smgrreadv_direct(reln, page->fork, page->block, &bytes, 1);
	sync_later(reln, page->fork, page->block);
	return true;
}

/* What is to be done on disk: a page read, or, without one, what was written synced. */
typedef struct DiskWork
{
	const MezzPage *page;
	void	   *bytes;
	bool	   *there;			/* whether there is such a page */
} DiskWork;

static bool
do_work(const void *what)
{
	const DiskWork *work = what;

	if (work->page != NULL)
	{
		*work->there = read_block(work->page, work->bytes);
		return true;
	}
	return sync_all();
}

/* The lightweight locks of this process, in the order in which it took them */
typedef struct HeldLocks
{
	int			before;			/* those that are not looked at */
	int			count;
	LWLock	   *locks[MEZZ_LOCKS_MAX];
} HeldLocks;

static void
note_lock(LWLock *lock, LWLockMode mode, void *held)
{
	HeldLocks  *locks = held;

	if (locks->count >= locks->before && locks->count - locks->before < MEZZ_LOCKS_MAX)
		locks->locks[locks->count - locks->before] = lock;
	locks->count++;
}

static int
count_locks(void)
{
	HeldLocks	held = {.before = INT_MAX};

	ForEachLWLockHeldByMe(note_lock, &held);
	return held.count;
}

/*
 * Gives back what was taken since there were "before" locks.  A transaction that
 * fails gives all of them back; but those that our callers hold are theirs, and
 * nobody below us gives back a lock that he has not taken, so the first ones are
 * still the same.  Creating a tablespace's directory is what fails under a lock.
 */
static void
release_locks_since(int before)
{
	HeldLocks	held = {.before = before};

	ForEachLWLockHeldByMe(note_lock, &held);
	Assert(held.count >= before && held.count - before <= MEZZ_LOCKS_MAX);
	for (int i = Min(held.count - before, MEZZ_LOCKS_MAX); --i >= 0;)
	{
		/* Giving it back lets interrupts in by one; the error has let them in already. */
		HOLD_INTERRUPTS();
		LWLockRelease(held.locks[i]);
	}
}

/* Reports the error that was caught; what is no error yet goes to the log alone. */
static void
report_caught(bool log_only)
{
	PG_TRY();
	{
		caught[0] = '\0';
		if (log_only)
		{
			ErrorData  *error = CopyErrorData();

			FlushErrorState();
			strlcpy(caught, error->message, sizeof(caught));
			error->elevel = LOG;
			ThrowErrorData(error);
			FreeErrorData(error);
		}
		else
			EmitErrorReport();
	}
	PG_CATCH();
	{
		/* There is no memory even for that. */
	}
	PG_END_TRY();
	FlushErrorState();
}

/* Whether this process is within work of the tier, with frames of the library above that */
static bool in_work = false;

/*
 * The process ends within work: by an error that is FATAL wherever it is met, as
 * that of a file which is longer than a segment.  Those are not caught.
 *
 * Its job is nobody's then: others wait for it, and stage-out stands still.  What
 * a dead process had in hand is known once shared memory is made anew, so that has
 * to happen: to the postmaster this is a crash.
 */
static void
crash_within_work(int code, Datum arg)
{
	if (in_work && !mezz_without("fatal_in_work"))
		_exit(2);
}

/*
 * For a process that will carry out work.  Not before_shmem_exit(): whoever takes
 * his callback out of that list again must find it as the latest one.
 */
void
mezz_watch_exit(void)
{
	on_shmem_exit(crash_within_work, (Datum) 0);
}

/*
 * The end of a transaction comes before that, and may ask the tier: it must not
 * wait for its own process's job.
 */
void
mezz_refuse_exit_within_work(void)
{
	if (proc_exit_inprogress)
		crash_within_work(0, (Datum) 0);
}

/*
 * Carries out "work" and ends its errors: false if there was one, which was
 * reported then; else what it says.
 *
 * The work is no part of the critical section that this process may be in: it
 * allocates memory, and its errors end here.  Nor is it part of what this process
 * does for itself, which messages would name as their context: a write of another
 * relation's page, mostly.
 */
bool
mezz_without_errors(bool (*work) (const void *), const void *what, bool log_only)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorContextCallback *error_context = error_context_stack;
	bool		was_in_work = in_work;
	bool		was_in_recovery = InRecovery;
	volatile bool done = false;
	uint32		holdoff;
	uint32		cancel_holdoff;
	uint32		crit_sections = CritSectionCount;
	bool		exit_on_any = ExitOnAnyError;
	bool		exits = proc_exit_inprogress;
	int			locks = count_locks();

	HOLD_INTERRUPTS();
	holdoff = InterruptHoldoffCount;
	cancel_holdoff = QueryCancelHoldoffCount;
	if (!mezz_without("errors_end_here"))
		CritSectionCount = 0;
	/* A checkpointer that shuts the server down would exit, and so would a single-user server that does. */
	ExitOnAnyError = mezz_without("exit_on_error") && exit_on_any;
	proc_exit_inprogress = mezz_without("exit_on_error") && exits;
	if (!mezz_without("error_context"))
		error_context_stack = NULL;
	in_work = true;
	PG_TRY();
	{
		done = work(what);
	}
	PG_CATCH();
	{
		/* An error resets these, and locks that we hold count in them. */
		InterruptHoldoffCount = holdoff;
		QueryCancelHoldoffCount = cancel_holdoff;
		InRecovery = was_in_recovery;
		MemoryContextSwitchTo(context);
		if (!mezz_without("locks_given_back"))
			release_locks_since(locks);
		report_caught(log_only);
	}
	PG_END_TRY();
	Assert(count_locks() == locks && InterruptHoldoffCount == holdoff);
	CritSectionCount = crit_sections;
	ExitOnAnyError = exit_on_any;
	proc_exit_inprogress = exits;
	error_context_stack = error_context;
	in_work = was_in_work;
	RESUME_INTERRUPTS();
	return done;
}

/* What cannot be read is no error yet. */
static bool
carry_out(const DiskWork *work)
{
	return mezz_without_errors(do_work, work, work->page != NULL);
}

/* The same for jobs, which change files: none of them does when the tier was given up. */
static void
write_pages(MezzDiskPage *pages, size_t count)
{
	if (mezz_enter_gate())
	{
		write_all(pages, count);
		mezz_leave_gate();
		return;
	}
	for (size_t i = 0; i < count; i++)
		pages[i].refused = true;
}

/* An error says nothing of what is there: whoever took it for nothing would overwrite that. */
static MezzDiskRead
read_page(MezzPage page, uint8_t *bytes)
{
	bool		there = false;

	if (mezz_without("disk_copy"))
		return MEZZ_DISK_READ_NOTHING;
	if (!carry_out(&(DiskWork) {.page = &page, .bytes = bytes, .there = &there}))
		return MEZZ_DISK_READ_FAILED;
	return there ? MEZZ_DISK_READ_THERE : MEZZ_DISK_READ_NOTHING;
}

static bool
sync_pages(void)
{
	bool		synced;

	if (!mezz_enter_gate())
		return false;
	synced = carry_out(&(DiskWork) {0});
	mezz_leave_gate();
	return synced;
}

/*
 * Whoever is in a critical section leaves the jobs to the workers, unless there
 * are none: in a single-user server, in a fast shutdown, which ends workers and
 * backends alike, and after the death of a process, when the postmaster starts
 * no workers before redo is done.  Files are cut in critical sections.
 */
static bool
may_work(void)
{
	return CritSectionCount == 0 || (!mezz_worker_runs(-1) && !mezz_without("alone"));
}

/*
 * Errors of redo, and of the checkpoint at its end, end the server, and so do
 * those in a critical section.  In the checkpoint of a shutdown they make the stop
 * one as after a crash.  A restartpoint that fails ends nothing: the next one tries
 * again.
 */
static bool
error_ends_server(void)
{
	bool		ends_alone = proc_exit_inprogress && !IsUnderPostmaster;

	if (mezz_without("redo_room"))
		return false;
	if (InRecovery || CritSectionCount > 0)
		return true;
	if (ExitOnAnyError || ends_alone)
		return !mezz_without("shutdown_room");
	/* A single-user server makes it itself. */
	return RecoveryInProgress() && mezz_checkpoint_ends_recovery() &&
		(AmCheckpointerProcess() || !IsUnderPostmaster);
}

static void
wait_for_progress(uint64 seen)
{
	MEZZ_NO_ERROR_BEGIN();
	mezz_wake_workers();
	ConditionVariablePrepareToSleep(&mezz_shared->progress);
	if (mezz_progress(mezz_host) == seen)
		ConditionVariableTimedSleep(&mezz_shared->progress, WAIT_MS_MAX, mezz_shared->event_progress);
	ConditionVariableCancelSleep();
	MEZZ_NO_ERROR_END();
}

static void
made_progress(void)
{
	ConditionVariableBroadcast(&mezz_shared->progress);
	mezz_wake_workers();
}

/* Wakes a worker if it sleeps or is about to.  What it is to see was done before. */
static bool
wake_if_idle(int number)
{
	ProcNumber	proc = (ProcNumber) pg_atomic_read_u32(&mezz_shared->workers[number].proc);

	if (proc == INVALID_PROC_NUMBER)
		return false;
	if (proc != MyProcNumber && pg_atomic_read_u32(&mezz_shared->workers[number].idle))
		SetLatch(&GetPGProcByNumber(proc)->procLatch);
	return true;
}

/* Pages have come in: wakes the worker that writes to flash. */
void
mezz_wake_writer(void)
{
	pg_memory_barrier();
	if (!wake_if_idle(0))
		mezz_wake_workers();
}

/* There may be work of any kind. */
void
mezz_wake_workers(void)
{
	pg_memory_barrier();
	for (int i = 0; i < mezz_workers; i++)
		wake_if_idle(i);
}

static bool
set_mark(const void *dirty)
{
	SetControlFileTierDirty(*(const bool *) dirty);
	return true;
}

static bool
mark_control_file(bool dirty)
{
	if (ControlFileTierDirty() == dirty || mezz_without("control_mark"))
		return true;
	return mezz_without_errors(set_mark, &dirty, false);
}

static void
lock_superblock(bool lock)
{
	MEZZ_NO_ERROR_BEGIN();
	if (lock)
		LWLockAcquire(&mezz_shared->superblock, LW_EXCLUSIVE);
	else
		LWLockRelease(&mezz_shared->superblock);
	MEZZ_NO_ERROR_END();
}

MezzFlashReads mezz_flash_reads = {0};

/* When the flash device was asked; zero if nobody wants to know */
static instr_time flash_begin;

static void
flash_begins(MezzFlashIo io)
{
	if (track_io_timing)
		INSTR_TIME_SET_CURRENT(flash_begin);
	else
		INSTR_TIME_SET_ZERO(flash_begin);
	pgstat_report_wait_start(mezz_shared->event_flash[io]);
}

static void
flash_ended(MezzFlashIo io)
{
	instr_time	duration;

	pgstat_report_wait_end();
	pg_atomic_fetch_add_u64(&mezz_shared->flash_ios[io], 1);
	if (io == MEZZ_FLASH_IO_READ)
		mezz_flash_reads.reads++;
	if (INSTR_TIME_IS_ZERO(flash_begin))
		return;
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, flash_begin);
	pg_atomic_fetch_add_u64(&mezz_shared->flash_ns[io], INSTR_TIME_GET_NANOSEC(duration));
	if (io == MEZZ_FLASH_IO_READ)
		mezz_flash_reads.ns += INSTR_TIME_GET_NANOSEC(duration);
}

static void
flash_failed(const MezzMessage *message)
{
	MEZZ_NO_ERROR_BEGIN();
	mezz_report(LOG, ERRCODE_IO_ERROR, message);
	MEZZ_NO_ERROR_END();
}

const MezzCallbacks mezz_callbacks = {
	.write_pages = write_pages,
	.read_page = read_page,
	.sync_pages = sync_pages,
	.may_work = may_work,
	.error_ends_server = error_ends_server,
	.wait = wait_for_progress,
	.progressed = made_progress,
	.mark_control_file = mark_control_file,
	.log_position = mezz_log_position,
	.log_reaches = mezz_log_reaches,
	.lock_superblock = lock_superblock,
	.flash_begins = flash_begins,
	.flash_ended = flash_ended,
	.flash_failed = flash_failed,
};
