/*
 * hooks.c
 *	  What the core calls: pages that leave shared buffers, reads, drops,
 *	  flushes, checkpoints.
 *
 * Without a tier, but with a modelled disk, relations only take its time.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "access/xlogutils.h"
#include "catalog/pg_tablespace_d.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "storage/md.h"
#include "storage/smgr.h"
#include "utils/relmapper.h"

#include "mezzanine.h"

static inline MezzPage
page_name(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blocknum)
{
	return (MezzPage)
	{
		.database = rlocator.dbOid,
		.tablespace = rlocator.spcOid,
		.relation = rlocator.relNumber,
		.fork = forknum,
		.block = blocknum,
	};
}

/* Whether pages may come from the tier. */
static bool
tier_is_read(void)
{
	if (!mezz_tier_exists())
		return false;
	mezz_ensure_attached();
	return true;
}

/*
 * Whether pages go to the tier, and are written past it only with its
 * knowledge.  When its device has failed it is given up first.
 */
static bool
tier_in_use(void)
{
	if (!tier_is_read())
		return false;
	if (!mezz_tier_failed())
		return true;
	mezz_give_up_tier();
	return false;
}

/*
 * A call that must not fail did.  If it did because the device has failed, what
 * it was to bring about holds when the tier was given up: the files have
 * everything, and the tier is not asked for anything any more.
 *
 * If it was refused because of lost pages, or because files do not take pages,
 * nothing has failed: the caller gets an error as if the files could not be
 * written, and the others go on.  A call that must not raise one is never refused
 * for that.
 */
static void
must(bool done, const MezzMessage *message)
{
	if (done || mezz_without("failure"))
		return;
	if (!mezz_tier_failed())
	{
		if (message->lost && !mezz_without("lost_error"))
			mezz_report(ERROR, ERRCODE_DATA_CORRUPTED, message);
		if (message->disk_refuses && !mezz_without("refused_error"))
			mezz_report(ERROR, ERRCODE_IO_ERROR, message);
		mezz_report(PANIC, ERRCODE_IO_ERROR, message);
	}
	mezz_give_up_tier();
}

/*
 * A page was taken: the worker that writes to flash is woken if it has left work
 * behind, as the tier's number since before says.
 */
static void
page_taken(uint64 work)
{
	if (mezz_work_number(mezz_host) != work)
		mezz_wake_writer();
}

static void
disk_write(SMgrRelation reln, ForkNumber forknum, BlockNumber blocknum, BlockNumber nblocks)
{
	if (mezz_disk)
		mezz_disk_write(mezz_disk, mezz_disk_address(reln->smgr_rlocator.locator, forknum, blocknum),
						(size_t) nblocks * BLCKSZ);
}

/* What this process has written last: if it gives that page up next, it has written it to be able to. */
static BufferTag written_last;

static bool
tier_write(SMgrRelation reln, BufferDesc *buf, const char *page, IOContext io_context)
{
	const BufferTag *tag = &buf->tag;
	MezzMessage message = {0};
	uint64		mark;
	uint64		since;
	uint64		work;
	PGIOAlignedBlock copy;

	if (mezz_trace_is_on())
	{
		mezz_trace_put(MEZZ_TRACE_KIND_WRITE,
					   page_name(BufTagGetRelFileLocator(tag), BufTagGetForkNum(tag), tag->blockNum));
		written_last = *tag;
	}
	if (!tier_in_use())
		return false;
	/* The core writes it past the tier, which notes and forgets what is to be. */
	if (mezz_skips_log(BufTagGetRelFileLocator(tag)))
		return false;
	mezz_follow_redo();
	mezz_follow_log();

	/*
	 * In this order: if the buffer is marked for a checkpoint after we looked,
	 * the tier's mark is made after that, and the page counts as older than it.
	 */
	mark = mezz_mark(mezz_host);
	pg_memory_barrier();
	since = (pg_atomic_read_u32(&buf->state) & BM_CHECKPOINT_NEEDED) && !mezz_without("before_mark") ? 0 : mark;

	/*
	 * Without data checksums the core hands over the shared buffer itself, in
	 * which others set hint bits meanwhile.  The tier computes a checksum of its
	 * own, and copies the page afterwards.
	 */
	if (!DataChecksumsEnabled() && !mezz_without("write_copy"))
	{
		memcpy(copy.data, page, BLCKSZ);
		page = copy.data;
	}
	mezz_pause_in("write");

	work = mezz_work_number(mezz_host);
	switch (mezz_write(mezz_host,
					   page_name(BufTagGetRelFileLocator(tag), BufTagGetForkNum(tag), tag->blockNum),
					   (const uint8_t *) page, mezz_known_position(PageGetLSN((Page) page)), since, &message))
	{
		case MEZZ_WRITTEN_TAKEN:
			if (mezz_tier_failed())
			{
				mezz_give_up_tier();
				return false;
			}
			page_taken(work);
			return true;
		case MEZZ_WRITTEN_ALSO_DISK:
			page_taken(work);
			if (mezz_without("through"))
				return true;
			smgrwritev_direct(reln, BufTagGetForkNum(tag), tag->blockNum,
							  (const void **) &page, 1, false);
			disk_write(reln, BufTagGetForkNum(tag), tag->blockNum, 1);
			return true;
		case MEZZ_WRITTEN_REFUSED:
			return false;
		case MEZZ_WRITTEN_FAILED:
			must(false, &message);
			return false;
	}
	return false;
}

/* A page that leaves is not for the tier: one that has no token, whose numbers have 32 bits. */
#define NO_TOKEN PG_UINT64_MAX

static bool
tier_evict_begin(const BufferTag *tag, uint64 *token)
{
	RelFileLocator rlocator = BufTagGetRelFileLocator(tag);
	uint32		number;

	*token = NO_TOKEN;
	/*
	 * What skips the log is asked here, while the page is in shared buffers: a
	 * relation does from its first page on or not at all, and when its
	 * transaction has ended later, whoever had changed the page until then has
	 * written it past the tier.
	 */
	if (tier_is_read() && !mezz_tier_failed() && !mezz_skips_log(rlocator) &&
		mezz_before_offer(mezz_host, page_name(rlocator, BufTagGetForkNum(tag), tag->blockNum), &number))
		*token = number;
	/* A trace has all that leave. */
	return *token != NO_TOKEN || mezz_trace_is_on();
}

/*
 * No lock is held, and whatever others have done with the block meanwhile has
 * made the token worthless (mezz_offer).
 */
static void
tier_evict(const BufferTag *tag, char *page, uint64 token, uint32 buf_state, IOContext io_context)
{
	MezzPage	name = page_name(BufTagGetRelFileLocator(tag), BufTagGetForkNum(tag), tag->blockNum);
	uint32		now = (uint32) token;
	uint64		work;

	if (mezz_trace_is_on())
	{
		mezz_trace_put(BufferTagsEqual(tag, &written_last) ? MEZZ_TRACE_KIND_EVICT_DIRTY : MEZZ_TRACE_KIND_EVICT_CLEAN,
					   name);
		ClearBufferTag(&written_last);
	}
	mezz_pause_in("evict");
	if (token == NO_TOKEN || mezz_tier_failed())
		return;
	if (mezz_without("evict_token") && !mezz_before_offer(mezz_host, name, &now))
		return;

	/*
	 * The log of a clean page was forced before the page was written.  One from
	 * behind the end of the log is damaged, and would pass for a newer history.
	 */
	if (!mezz_log_has(PageGetLSN((Page) page)))
		return;
	mezz_follow_log();
	/* Hint bits may have been set without a new checksum.  Nobody else has the buffer. */
	if (!mezz_without("evict_checksum"))
		PageSetChecksumInplace((Page) page, tag->blockNum);
	work = mezz_work_number(mezz_host);
	if (mezz_offer(mezz_host, name, (const uint8_t *) page, PageGetLSN((Page) page), now))
		page_taken(work);
}

static void
disk_read(SMgrRelation reln, ForkNumber forknum, BlockNumber blocknum,
		  void **buffers, BlockNumber nblocks)
{
	instr_time	begin,
				duration;

	INSTR_TIME_SET_CURRENT(begin);
	if (mezz_disk)
		mezz_disk_read(mezz_disk, mezz_disk_address(reln->smgr_rlocator.locator, forknum, blocknum),
					   (size_t) nblocks * BLCKSZ);
	smgrreadv_direct(reln, forknum, blocknum, buffers, nblocks);
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, begin);
	mezz_count(MEZZ_COUNT_DISK_WAIT_NS, INSTR_TIME_GET_NANOSEC(duration));
	mezz_count(MEZZ_COUNT_DISK_READS, nblocks);
}

/*
 * Whether a relation is a catalog, by its file: catalogs cannot be read for that.
 * One that was rewritten and is not mapped is not known.
 */
static bool
is_catalog(RelFileLocator rlocator)
{
	return rlocator.spcOid == GLOBALTABLESPACE_OID || rlocator.relNumber < FirstNormalObjectId ||
		(rlocator.dbOid == MyDatabaseId && OidIsValid(RelationMapFilenumberToOid(rlocator.relNumber, false)));
}

/* Names the next step.  Without a catalog names may mean nothing, so there it is the call by numbers. */
static void
report_lost(SMgrRelation reln, ForkNumber forknum, BlockNumber block)
{
	RelFileLocator rlocator = reln->smgr_rlocator.locator;
	char	   *call = is_catalog(rlocator) ?
		psprintf("SELECT mezzanine_give_up(%u, %u, %u, %u, '%s'), also in another database,",
				 rlocator.spcOid, rlocator.dbOid, rlocator.relNumber, block, forkNames[forknum]) :
		"mezzanine_give_up()";

	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("the newest version of block %u in file \"%s\" cannot be read from the flash tier",
					block, relpath(reln->smgr_rlocator, forknum)),
			 errdetail("It is damaged there, and the one on disk is older."),
			 ControlFileTierDirty()
			 ? errhint("Check the flash device and the kernel's log. Only a backup, or whatever made the page, has it now; dropping or rewriting the relation ends this error, and %s goes on without the block.", call)
			 : errhint("Check the flash device and the kernel's log. The log of the server has the page: it restarts without this tier, or is to be started again.")));
}

static bool
tier_readv(SMgrRelation reln, ForkNumber forknum, BlockNumber blocknum,
		   void **buffers, BlockNumber nblocks)
{
	BlockNumber missing = 0;	/* blocks before the current one that the disk has */
	MezzAtOnce	found[MAX_IO_COMBINE_LIMIT];
	BlockNumber together = 0;	/* blocks that were read at once */

	if (mezz_trace_is_on())
		for (BlockNumber i = 0; i < nblocks; i++)
			mezz_trace_put(MEZZ_TRACE_KIND_READ, page_name(reln->smgr_rlocator.locator, forknum, blocknum + i));
	if (!tier_is_read())
	{
		disk_read(reln, forknum, blocknum, buffers, nblocks);
		return true;
	}
	if (nblocks > 1)
	{
		MezzFlashReads flash = mezz_flash_reads;

		together = Min(nblocks, lengthof(found));
		mezz_read_at_once(mezz_host, page_name(reln->smgr_rlocator.locator, forknum, blocknum),
						  (uint8_t *const *) buffers, together, found);
		mezz_reads.flash_ns += mezz_flash_reads.ns - flash.ns;
	}
	for (BlockNumber i = 0; i < nblocks; i++)
	{
		MezzFlashReads flash = mezz_flash_reads;

		if (i < together && found[i] != MEZZ_AT_ONCE_UNDECIDED)
		{
			if (found[i] == MEZZ_AT_ONCE_ON_DISK)
			{
				missing++;
				mezz_reads.missed++;
				continue;
			}
			if (found[i] == MEZZ_AT_ONCE_FROM_FLASH)
				mezz_reads.flash++;
			else
				mezz_reads.memory++;
			if (missing > 0)
				disk_read(reln, forknum, blocknum + i - missing, buffers + i - missing, missing);
			missing = 0;
			continue;
		}
		switch (mezz_read_page(page_name(reln->smgr_rlocator.locator, forknum, blocknum + i), buffers[i]))
		{
			case MEZZ_FOUND_ON_DISK:
				missing++;
				mezz_reads.missed++;
				continue;
			case MEZZ_FOUND_HERE:
					if (mezz_flash_reads.reads == flash.reads)
					mezz_reads.memory++;
				else
					mezz_reads.flash++;
				mezz_reads.flash_ns += mezz_flash_reads.ns - flash.ns;
				break;
			case MEZZ_FOUND_LOST:
				if (mezz_without("lost_page"))
				{
					missing++;
					continue;
				}
				if (mezz_map_is_empty(reln, forknum, blocknum + i, buffers[i]))
					break;
				report_lost(reln, forknum, blocknum + i);
				break;
			case MEZZ_FOUND_SILENT:
				ereport(ERROR,
						(errcode(ERRCODE_IO_ERROR),
						 errmsg("the newest version of block %u in file \"%s\" cannot be read from the flash tier just now",
								blocknum + i, relpath(reln->smgr_rlocator, forknum)),
						 errdetail("The flash device answers no read."),
						 errhint("See to the flash device and try again; nothing is known to be lost.")));
				break;
			case MEZZ_FOUND_UNKNOWN:
				ereport(ERROR,
						(errcode(ERRCODE_IO_ERROR),
						 errmsg("the newest version of block %u in file \"%s\" cannot be read just now",
								blocknum + i, relpath(reln->smgr_rlocator, forknum)),
						 errdetail("The flash tier does not give it back, and disk, which may have it, cannot be read."),
						 errhint("See the messages before this one and to the disk, and try again; nothing is known to be lost.")));
				break;
		}
		if (missing > 0)
			disk_read(reln, forknum, blocknum + i - missing, buffers + i - missing, missing);
		missing = 0;
	}
	if (missing > 0)
		disk_read(reln, forknum, blocknum + nblocks - missing, buffers + nblocks - missing, missing);
	mezz_count_ahead();
	return true;
}

static bool
tier_redo_skips(SMgrRelation reln, ForkNumber forknum, BlockNumber blocknum)
{
	if (!tier_is_read())
		return false;
	mezz_follow_redo();
	return mezz_redo_skips(reln, forknum, page_name(reln->smgr_rlocator.locator, forknum, blocknum));
}

static bool
tier_prefetch(SMgrRelation reln, ForkNumber forknum, BlockNumber blocknum, int nblocks)
{
	return tier_is_read() &&
		mezz_prefetch(page_name(reln->smgr_rlocator.locator, forknum, blocknum), nblocks);
}

/*
 * Files that grow are synced at the next checkpoint, whoever extends them and
 * whatever he does about it.  Some count on the pages being written later,
 * which would queue the sync; if the tier takes them instead, nothing does, and
 * a file that is shorter after a power cut hides pages that the tier has.
 */
static void
queue_syncs(SMgrRelation reln, ForkNumber forknum, BlockNumber blocknum, BlockNumber nblocks)
{
	FileTag		tag = {
		.handler = SYNC_HANDLER_MD,
		.forknum = forknum,
		.rlocator = reln->smgr_rlocator.locator,
	};

	for (BlockNumber segno = blocknum / RELSEG_SIZE; segno <= (blocknum + nblocks - 1) / RELSEG_SIZE; segno++)
	{
		char		path[MAXPGPATH];

		tag.segno = segno;
		if (!RegisterSyncRequest(&tag, SYNC_REQUEST, false) && mdsyncfiletag(&tag, path) < 0 &&
			!FILE_POSSIBLY_DELETED(errno))
			ereport(data_sync_elevel(ERROR),
					(errcode_for_file_access(),
					 errmsg("could not fsync file \"%s\": %m", path)));
	}
}

/*
 * Blocks are written past the tier.  What it has of them that is newer than
 * the disk goes there now, and is then forgotten: if we crash before the write
 * is durable, the disk has the version before it.
 */
static void
tier_overwrite_begin(SMgrRelation reln, ForkNumber forknum, BlockNumber blocknum, BlockNumber nblocks)
{
	MezzMessage message = {0};

	if (!tier_in_use())
		return;
	mezz_note_skipping(reln->smgr_rlocator.locator);
	if (mezz_without("overwrite"))
		return;
	mezz_hold_lengths();
	for (BlockNumber i = 0; i < nblocks; i++)
		must(mezz_overwrite(mezz_host, page_name(reln->smgr_rlocator.locator, forknum, blocknum + i), &message),
			 &message);
}

static void
tier_overwrite_end(SMgrRelation reln, ForkNumber forknum, BlockNumber blocknum, BlockNumber nblocks,
				   bool written)
{
	if (!written)
		return;
	mezz_let_lengths();
	disk_write(reln, forknum, blocknum, nblocks);
	if (tier_is_read() && !mezz_is_clean(mezz_host) && !mezz_without("relation_sync"))
		queue_syncs(reln, forknum, blocknum, nblocks);
}

static void
drop(MezzPage first, MezzScope scope)
{
	MezzMessage message = {0};

	if (!tier_in_use())
		return;
	must(mezz_drop(mezz_host, first, scope, &message), &message);
	mezz_await_lengths();
	/* Whoever gives the tier up may be writing just these pages. */
	if (mezz_tier_failed())
		mezz_give_up_tier();
}

static void
tier_drop_fork(RelFileLocator rlocator, ForkNumber forknum, BlockNumber firstblock)
{
	if (!mezz_without("drop_fork"))
		drop(page_name(rlocator, forknum, firstblock), MEZZ_SCOPE_FORK_FROM);
}

static void
tier_drop_rels(const RelFileLocator *rlocators, int nrels)
{
	if (mezz_without("drop_rels"))
		return;
	for (int i = 0; i < nrels; i++)
		drop(page_name(rlocators[i], MAIN_FORKNUM, 0), MEZZ_SCOPE_RELATION);
}

static void
tier_drop_db(Oid dbid)
{
	if (!mezz_without("drop_db"))
		drop((MezzPage) {.database = dbid}, MEZZ_SCOPE_DATABASE);
}

static void
flush(MezzPage first, MezzScope scope)
{
	MezzMessage message = {0};

	if (tier_in_use())
		must(mezz_flush(mezz_host, first, scope, &message), &message);
}

static void
tier_flush_rel(RelFileLocator rlocator)
{
	if (!mezz_without("flush_rel"))
		flush(page_name(rlocator, MAIN_FORKNUM, 0), MEZZ_SCOPE_RELATION);
}

static void
tier_flush_db(Oid dbid)
{
	if (!mezz_without("flush_db"))
		flush((MezzPage) {.database = dbid}, MEZZ_SCOPE_DATABASE);
}

/* The checkpoint under way in this process, or its last one */
static struct
{
	int			flags;
	/* for the line that is logged of it */
	MezzStatistics before;		/* counters when it was marked */
	double		seconds;		/* spent in the tier */
} this_checkpoint;

/* Whether it is the one at the end of recovery.  Says so of the last one, too. */
bool
mezz_checkpoint_ends_recovery(void)
{
	return (this_checkpoint.flags & CHECKPOINT_END_OF_RECOVERY) != 0;
}

static void
log_checkpoint(void)
{
	MezzStatistics now;
	uint64		pages,
				dirty;

	mezz_statistics(mezz_host, &now);
	mezz_count_pages(mezz_host, &pages, &dirty);
	ereport(LOG,
			(errmsg("flash tier at checkpoint: " UINT64_FORMAT " of " UINT64_FORMAT " pages newer than on disk; wrote " UINT64_FORMAT " kB to flash, drained " UINT64_FORMAT " pages to disk; total=%.3f s",
					dirty, pages,
					(now.flash_bytes_written - this_checkpoint.before.flash_bytes_written) / 1024,
					now.pages_drained - this_checkpoint.before.pages_drained,
					this_checkpoint.seconds)));
}

/*
 * A checkpoint has written its buffers.  The one of a shutdown completes over
 * lost pages, which stay in the tier like all that is newer there: an error
 * would keep the server from ever being stopped.  tier_shutdown() follows, and
 * tells of them.  The same holds for pages that their files do not take, in
 * "durable": in "drained" disk and log alone must be enough after a checkpoint.
 */
static void
checkpoint_written(int flags)
{
	MezzMessage message = {0};
	bool		shutdown = (flags & CHECKPOINT_IS_SHUTDOWN) != 0;
	bool		all = ((flags & CHECKPOINT_FLUSH_ALL) != 0 && !mezz_without("checkpoint_all")) ||
		(shutdown && mezz_drain_on_shutdown);
	bool		done = mezz_checkpoint_written(mezz_host, all, &message);
	bool		stays;

	stays = message.lost || (message.disk_refuses && mezz_is_durable(mezz_host));
	if (done || !stays || !shutdown || mezz_without("lost_shutdown"))
		must(done, &message);
}

static void
tier_checkpoint(BufferTierCheckpointPhase phase, XLogRecPtr redo, TimeLineID tli, int flags)
{
	MezzMessage message = {0};
	instr_time	begin,
				duration;

	if (mezz_without("timeline"))
		tli = 0;
	if (phase == BUFTIER_CKPT_DONE && mezz_trace_is_on())
		mezz_trace_put(MEZZ_TRACE_KIND_CHECKPOINT, (MezzPage) {0});
	if (mezz_disk && phase == BUFTIER_CKPT_SYNCED)
		mezz_disk_flush(mezz_disk);
	if (!tier_in_use())
		return;
	INSTR_TIME_SET_CURRENT(begin);
	switch (phase)
	{
		case BUFTIER_CKPT_MARKED:
			this_checkpoint.flags = flags;
			mezz_statistics(mezz_host, &this_checkpoint.before);
			this_checkpoint.seconds = 0;
			mezz_checkpoint_marked(mezz_host);
			break;
		case BUFTIER_CKPT_BUFFERS:
			if (!mezz_without("checkpoint_sync"))
				checkpoint_written(flags);
			break;
		case BUFTIER_CKPT_SYNCED:
			must(mezz_checkpoint_synced(mezz_host, redo, tli, &message), &message);
			break;
		case BUFTIER_CKPT_DONE:
			must(mezz_checkpoint_done(mezz_host, redo, tli, &message), &message);
			break;
	}
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, begin);
	this_checkpoint.seconds += INSTR_TIME_GET_DOUBLE(duration);
	if (phase == BUFTIER_CKPT_DONE && log_checkpoints)
		log_checkpoint();
}

static void
tier_startup(const BufferTierStartup *info)
{
	if (mezz_host)
		mezz_tier_start(info);
	else if (info->tier_dirty)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the newest pages of this database cluster are in a flash tier, and none is configured"),
				 errdetail("The data files alone are out of date."),
				 errhint("Set mezzanine.flash_path to the device that the server was last used with.")));
}

static void
tier_recovery_end(XLogRecPtr end_of_wal, TimeLineID tli)
{
	/* After a shutdown in order there is nothing that a crash could have taken back. */
	if (InRecovery && tier_in_use())
		mezz_restore_lengths();
}

static void
tier_backup_start(XLogRecPtr startpoint)
{
	MezzMessage message = {0};

	if (tier_in_use() && !mezz_without("backup_drain"))
		must(mezz_drain(mezz_host, &message), &message);
}

static void
tier_shutdown(void)
{
	MezzMessage message = {0};
	bool		current = false;

	if (!tier_in_use() || mezz_without("shutdown_drain"))
		return;
	must(mezz_close(mezz_host, mezz_drain_on_shutdown, &current, &message), &message);
	if (!mezz_tier_exists())
		return;
	if (message.lost || message.disk_refuses)
		mezz_report(WARNING, message.lost ? ERRCODE_DATA_CORRUPTED : ERRCODE_IO_ERROR, &message);
	ereport(LOG,
			(errmsg(current ? "flash tier closed; the files are up to date" :
					"flash tier closed; it holds the newest version of some pages")));
}

const BufferTierRoutine mezz_routine = {
	.abi_version = BUFTIER_ABI_VERSION,
	.struct_size = sizeof(BufferTierRoutine),
	.write = tier_write,
	.evict_begin = tier_evict_begin,
	.evict = tier_evict,
	.readv = tier_readv,
	.prefetch = tier_prefetch,
	.overwrite_begin = tier_overwrite_begin,
	.overwrite_end = tier_overwrite_end,
	.drop_fork = tier_drop_fork,
	.drop_rels = tier_drop_rels,
	.drop_db = tier_drop_db,
	.flush_rel = tier_flush_rel,
	.flush_db = tier_flush_db,
	.checkpoint = tier_checkpoint,
	.startup = tier_startup,
	.redo_skips = tier_redo_skips,
	.recovery_end = tier_recovery_end,
	.backup_start = tier_backup_start,
	.shutdown = tier_shutdown,
};
