/*
 * disk.c
 *	  Pages on disk as the tier has them written, synced and read.
 *
 * The library calls it (callbacks.c).  What may fail is carried out by
 * mezz_without_errors().
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "access/xlogutils.h"
#include "common/hashfn.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "storage/md.h"
#include "storage/smgr.h"

#include "mezzanine.h"

/* Blocks written by one call of the storage manager */
#define RUN_BLOCKS_MAX 32

/* Runs that a modelled disk is handed together: a job has at most 16 groups of 256 pages. */
#define RUNS_MAX 4096

RelFileLocator
mezz_page_locator(const MezzPage *page)
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
void
mezz_sync_later(SMgrRelation reln, ForkNumber forknum, BlockNumber block)
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
	mezz_sync_later(reln, first->fork, first->block);
}

/* Writes a run of blocks, but for what the log drops. */
static bool
write_run(const void *what)
{
	const BlockRun *run = what;
	const MezzPage *first = &run->pages[0].page;
	SMgrRelation reln = smgropen(mezz_page_locator(first), INVALID_PROC_NUMBER);
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
	strlcpy(mezz_shared->refused, mezz_caught_error(), sizeof(mezz_shared->refused));
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
			.address = mezz_disk_address(mezz_page_locator(first), first->fork, first->block),
			.bytes = blocks.count * BLCKSZ,
		};
	}
	if (mezz_disk)
		mezz_disk_write_together(mezz_disk, runs, nruns);
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
	SMgrRelation reln = smgropen(mezz_page_locator(page), INVALID_PROC_NUMBER);

	if (!smgrexists(reln, page->fork) || page->block >= smgrnblocks(reln, page->fork))
		return false;
	if (mezz_disk)
		mezz_disk_read(mezz_disk, mezz_disk_address(reln->smgr_rlocator.locator, page->fork, page->block), BLCKSZ);
	smgrreadv_direct(reln, page->fork, page->block, &bytes, 1);
	mezz_sync_later(reln, page->fork, page->block);
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

/* What cannot be read is no error yet. */
static bool
carry_out(const DiskWork *work)
{
	return mezz_without_errors(do_work, work, work->page != NULL);
}

/* The same for jobs, which change files: none of them does when the tier was given up. */
void
mezz_write_pages(MezzDiskPage *pages, size_t count)
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
MezzDiskRead
mezz_read_block(MezzPage page, uint8_t *bytes)
{
	bool		there = false;

	if (mezz_without("disk_copy"))
		return MEZZ_DISK_READ_NOTHING;
	if (!carry_out(&(DiskWork) {.page = &page, .bytes = bytes, .there = &there}))
		return MEZZ_DISK_READ_FAILED;
	return there ? MEZZ_DISK_READ_THERE : MEZZ_DISK_READ_NOTHING;
}

bool
mezz_sync_pages(void)
{
	bool		synced;

	if (!mezz_enter_gate())
		return false;
	synced = carry_out(&(DiskWork) {0});
	mezz_leave_gate();
	return synced;
}
