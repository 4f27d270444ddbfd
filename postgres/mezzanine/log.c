/*
 * log.c
 *	  How far the log reaches: what the tier may depend on, and, before redo,
 *	  whether the tier and this log are of one moment.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/rmgr.h"
#include "access/timeline.h"
#include "access/visibilitymapdefs.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogreader.h"
#include "access/xlogrecovery.h"
#include "access/xlogutils.h"
#include "catalog/pg_control.h"
#include "catalog/storage_xlog.h"
#include "commands/dbcommands_xlog.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "postmaster/startup.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "mezzanine.h"

/* Whether the redo that is about to come goes beyond what pg_wal has. */
static bool archive_recovery;

/* The timelines of the log that is read, newest first */
static List *timelines;

/* How far redo goes whatever it is told, as the control file has it; 0 where that does not say. */
static XLogRecPtr
min_recovery_point(void)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(".", &crc_ok);
	XLogRecPtr	redone = control->minRecoveryPoint;

	if (!crc_ok)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("calculated CRC checksum does not match value stored in file \"%s\"", XLOG_CONTROL_FILE)));
	pfree(control);
	return redone;
}

/*
 * Up to where what pg_wal has is certain to be redone.  After a crash that is all
 * of it.  Recovery from an archive or from a primary may wait, end or be promoted
 * behind minRecoveryPoint; up to there are all records that have changed files.
 * A server that crashed by itself and is now to follow an archive redoes its pg_wal
 * first, unless it is told to stop somewhere.
 */
static XLogRecPtr
certain_redo(const BufferTierStartup *info)
{
	XLogRecPtr	redone;

	if (!info->archive_recovery || mezz_without("drops_redone"))
		return PG_UINT64_MAX;
	redone = min_recovery_point();
	if (XLogRecPtrIsInvalid(redone) && info->state == DB_IN_PRODUCTION &&
		recoveryTarget == RECOVERY_TARGET_UNSET)
		return PG_UINT64_MAX;
	return redone;
}

/*
 * Notes what the log that is about to be redone is, for mezz_log_reaches(), and
 * for whoever writes pages while it is redone.
 */
void
mezz_log_found(const BufferTierStartup *info)
{
	mezz_shared->redo_begins = info->start_redo;
	mezz_shared->redo_timeline = recoveryTargetTLI;
	mezz_shared->redo_certain = certain_redo(info);
	archive_recovery = info->archive_recovery;
}

/*
 * Opens the file of a segment as recovery would: of the newest timeline that
 * has it.  -1 if there is none.
 */
static int
open_segment(XLogSegNo segno, TimeLineID *tli)
{
	ListCell   *cell;

	foreach(cell, timelines)
	{
		TimeLineHistoryEntry *entry = (TimeLineHistoryEntry *) lfirst(cell);
		char		path[MAXPGPATH];
		int			fd;

		if (!XLogRecPtrIsInvalid(entry->begin))
		{
			XLogSegNo	first;

			XLByteToSeg(entry->begin, first, wal_segment_size);
			if (segno < first)
				continue;
		}
		XLogFilePath(path, entry->tli, segno, wal_segment_size);
		fd = BasicOpenFile(path, O_RDONLY | PG_BINARY);
		if (fd >= 0)
		{
			*tli = entry->tli;
			return fd;
		}
		if (errno != ENOENT)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not open file \"%s\": %m", path)));
	}
	return -1;
}

static void
close_segment(XLogReaderState *state)
{
	if (state->seg.ws_file >= 0)
		close(state->seg.ws_file);
	state->seg.ws_file = -1;
}

/* A page of the log; a negative number where there is none, which is the end. */
static int
read_log_page(XLogReaderState *state, XLogRecPtr page, int wanted, XLogRecPtr record, char *bytes)
{
	XLogSegNo	segno;
	ssize_t		got;

	XLByteToSeg(page, segno, wal_segment_size);
	if (state->seg.ws_file >= 0 && state->seg.ws_segno != segno)
		close_segment(state);
	if (state->seg.ws_file < 0)
	{
		state->seg.ws_file = open_segment(segno, &state->seg.ws_tli);
		state->seg.ws_segno = segno;
		if (state->seg.ws_file < 0)
			return -1;
	}
	got = pg_pread(state->seg.ws_file, bytes, XLOG_BLCKSZ, (off_t) XLogSegmentOffset(page, wal_segment_size));
	if (got < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read segment " UINT64_FORMAT " of the log: %m", segno)));
	return got == XLOG_BLCKSZ ? XLOG_BLCKSZ : -1;
}

/* Reads what pg_wal has from where redo begins. */
static XLogReaderState *
begin_reading(void)
{
	XLogReaderState *reader = XLogReaderAllocate(wal_segment_size, NULL,
												 XL_ROUTINE(.page_read = read_log_page, .segment_close = close_segment), NULL);

	if (reader == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("Failed while allocating a WAL reading processor.")));
	XLogBeginRead(reader, mezz_shared->redo_begins);
	return reader;
}

/* Whether pg_wal has valid records from where redo begins up to a position. */
static bool
pg_wal_reaches(XLogRecPtr lsn)
{
	XLogReaderState *reader;
	XLogRecPtr	end = mezz_shared->redo_begins;
	char	   *error;

	if (lsn <= end)
		return true;
	reader = begin_reading();
	/* What cannot be read as a record is the end, here as in redo. */
	while (end < lsn && XLogReadRecord(reader, &error) != NULL)
	{
		if (AmStartupProcess())
			HandleStartupProcInterrupts();
		end = reader->EndRecPtr;
	}
	/*
	 * The log is flushed up to ends of records, and up to ends of pages within
	 * them: what was taken at such a moment knows the log up to a page of which
	 * the next one is missing.
	 */
	if (reader->missingContrecPtr > end && !mezz_without("log_page"))
		end = reader->missingContrecPtr;
	XLogReaderFree(reader);
	return end >= lsn;
}

/* Whether the log's history has a timeline, and that reaches a position before it ends. */
static bool
history_reaches(const MezzLogPosition *log)
{
	if (!tliInHistory(log->timeline, timelines))
		return false;
	return log->timeline == recoveryTargetTLI ||
		log->lsn <= tliSwitchPoint(log->timeline, timelines, NULL);
}

static bool
log_reaches(const MezzLogPosition *log)
{
	if (mezz_without("log_end"))
		return true;
	timelines = readTimeLineHistory(recoveryTargetTLI);
	if (log->timeline != 0 && !history_reaches(log))
		return false;
	if (archive_recovery)
	{
		XLogRecPtr	redone = min_recovery_point();

		/*
		 * Redo goes as far as this whatever it is told; pages and drops were taken
		 * no earlier than the control file said so (XLogFlush()).  Behind it queries
		 * begin, though pg_wal may have more, and redo may wait or end.
		 */
		if (log->lsn <= redone)
			return true;
		if (!XLogRecPtrIsInvalid(redone) &&
			(recoveryTarget != RECOVERY_TARGET_UNSET || !mezz_without("log_redone")))
			return false;
		/* It has not come to the end of what pg_wal has: that is redone first. */
	}
	return pg_wal_reaches(log->lsn);
}

/* What is asked of the log, and the answer */
typedef struct LogQuestion
{
	MezzLogPosition log;
	bool	   *reaches;
} LogQuestion;

static bool
ask_log(const void *what)
{
	const LogQuestion *question = what;
	MemoryContext context = CurrentMemoryContext;
	MemoryContext own = AllocSetContextCreate(context, "end of the log", ALLOCSET_DEFAULT_SIZES);

	MemoryContextSwitchTo(own);
	*question->reaches = log_reaches(&question->log);
	MemoryContextSwitchTo(context);
	MemoryContextDelete(own);
	timelines = NIL;
	return true;
}

MezzLogReach
mezz_log_reaches(MezzLogPosition log)
{
	bool		reaches = false;

	if (!mezz_without_errors(ask_log, &(LogQuestion) {.log = log, .reaches = &reaches}, false))
		return MEZZ_LOG_REACH_UNREAD;
	return reaches ? MEZZ_LOG_REACH_REACHES : MEZZ_LOG_REACH_ENDS_BEFORE;
}

/* What the log that is redone drops: a fork, a relation, or what a tablespace has of a database */
typedef struct DroppedKey
{
	Oid			database;
	Oid			tablespace;
	RelFileNumber relation;		/* 0: all of it */
	ForkNumber	fork;			/* InvalidForkNumber: all of them */
} DroppedKey;

/* By which record, and from which block on; 0 is all of it */
typedef struct Cut
{
	XLogRecPtr	lsn;
	BlockNumber first;
} Cut;

/*
 * The records that drop it, as far as they say anything: in the order of the log,
 * each cuts less off than those after it would let stand.  A block that was changed
 * after one of them may be one of the next, or of none.
 */
typedef struct Dropped
{
	DroppedKey	key;
	int			ncuts;
	int			room;
	Cut		   *cuts;
} Dropped;

/* Blocks of the main fork that a block of the visibility map is of: see visibilitymap.c */
#define HEAP_BLOCKS_PER_MAP_BLOCK \
	((BLCKSZ - MAXALIGN(SizeOfPageHeaderData)) * (BITS_PER_BYTE / BITS_PER_HEAPBLOCK))

/* NULL until this process has read the log for it */
static HTAB *dropped = NULL;

/* Records come in the order of the log, within the memory of the table. */
static void
note_dropped(HTAB *table, DroppedKey key, BlockNumber first, XLogRecPtr lsn)
{
	bool		known;
	Dropped    *entry = hash_search(table, &key, HASH_ENTER, &known);

	if (!known)
	{
		entry->ncuts = 0;
		entry->room = 1;
		entry->cuts = palloc(sizeof(Cut));
	}
	/* What this one drops of them, too, it drops of more pages. */
	while (entry->ncuts > 0 && entry->cuts[entry->ncuts - 1].first >= first)
		entry->ncuts--;
	if (entry->ncuts == entry->room)
	{
		entry->room *= 2;
		entry->cuts = repalloc_array(entry->cuts, Cut, entry->room);
	}
	entry->cuts[entry->ncuts++] = (Cut)
	{
		.lsn = lsn,
		.first = first,
	};
}

static void
note_dropped_relations(HTAB *table, const RelFileLocator *rlocators, int count, XLogRecPtr lsn)
{
	for (int i = 0; i < count; i++)
		note_dropped(table, (DroppedKey)
					 {
						 rlocators[i].dbOid, rlocators[i].spcOid, rlocators[i].relNumber, InvalidForkNumber
					 }, 0, lsn);
}

/*
 * A relation is cut: its main fork, and whole blocks of its visibility map.  Those
 * of its free space map are left out: what that says is a hint.
 */
static void
note_cut(HTAB *table, const xl_smgr_truncate *cut, XLogRecPtr lsn)
{
	DroppedKey	key = {cut->rlocator.dbOid, cut->rlocator.spcOid, cut->rlocator.relNumber, MAIN_FORKNUM};

	if (cut->flags & SMGR_TRUNCATE_HEAP)
		note_dropped(table, key, cut->blkno, lsn);
	key.fork = VISIBILITYMAP_FORKNUM;
	if (cut->flags & SMGR_TRUNCATE_VM)
		note_dropped(table, key, cut->blkno / HEAP_BLOCKS_PER_MAP_BLOCK +
					 (cut->blkno % HEAP_BLOCKS_PER_MAP_BLOCK != 0), lsn);
}

static void
note_what_it_drops(HTAB *table, XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;
	XLogRecPtr	lsn = record->EndRecPtr;

	switch (XLogRecGetRmid(record))
	{
		case RM_XACT_ID:
			{
				xl_xact_parsed_commit commit;
				xl_xact_parsed_abort abort;

				info &= XLOG_XACT_OPMASK;
				if (info == XLOG_XACT_COMMIT || info == XLOG_XACT_COMMIT_PREPARED)
				{
					ParseCommitRecord(XLogRecGetInfo(record), (xl_xact_commit *) XLogRecGetData(record), &commit);
					note_dropped_relations(table, commit.xlocators, commit.nrels, lsn);
				}
				else if (info == XLOG_XACT_ABORT || info == XLOG_XACT_ABORT_PREPARED)
				{
					ParseAbortRecord(XLogRecGetInfo(record), (xl_xact_abort *) XLogRecGetData(record), &abort);
					note_dropped_relations(table, abort.xlocators, abort.nrels, lsn);
				}
				break;
			}
		case RM_SMGR_ID:
			if (info == XLOG_SMGR_TRUNCATE)
				note_cut(table, (xl_smgr_truncate *) XLogRecGetData(record), lsn);
			break;
		case RM_DBASE_ID:
			if (info == XLOG_DBASE_DROP)
			{
				xl_dbase_drop_rec *drop = (xl_dbase_drop_rec *) XLogRecGetData(record);

				for (int i = 0; i < drop->ntablespaces; i++)
					note_dropped(table, (DroppedKey)
								 {
									 drop->db_id, drop->tablespace_ids[i], 0, InvalidForkNumber
								 }, 0, lsn);
			}
			break;
		default:
			break;
	}
}

/* Reads the log that is certain to be redone, as far as pg_wal has it, for what it drops. */
static HTAB *
read_what_is_dropped(void)
{
	static MemoryContext context = NULL;
	HASHCTL		control = {.keysize = sizeof(DroppedKey), .entrysize = sizeof(Dropped)};
	MemoryContext before;
	XLogReaderState *reader;
	HTAB	   *table;
	char	   *error;

	/* An error may have cut off an earlier attempt. */
	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "what the log drops", ALLOCSET_DEFAULT_SIZES);
	else
		MemoryContextReset(context);
	control.hcxt = context;
	table = hash_create("what the log drops", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	before = MemoryContextSwitchTo(context);
	timelines = readTimeLineHistory(mezz_shared->redo_timeline);
	reader = begin_reading();
	while (XLogReadRecord(reader, &error) != NULL && reader->EndRecPtr <= mezz_shared->redo_certain)
	{
		if (AmStartupProcess())
			HandleStartupProcInterrupts();
		note_what_it_drops(table, reader);
	}
	XLogReaderFree(reader);
	list_free_deep(timelines);
	timelines = NIL;
	MemoryContextSwitchTo(before);
	return table;
}

/*
 * Whether the log that is redone is certain to drop this version of a block, which
 * is from "lsn": redo has no use for it, as far as its place is missing.  A standby's
 * pg_wal has what it has redone since its last restartpoint, also where that came
 * from an archive; so it has whatever may have changed the files already.
 *
 * A version from behind a record that drops the block is of a later life of it, and
 * only the records after it count.  Versions that say nothing of when they were made
 * count as old: what is in them, but for maps of free space, was made by the
 * transaction that made the file, or all of them are empty.
 *
 * The log is read when this is first asked, which only happens where files are
 * missing or short.
 */
bool
mezz_log_drops(RelFileLocator rlocator, ForkNumber forknum, BlockNumber block, XLogRecPtr lsn)
{
	const DroppedKey keys[] = {
		{rlocator.dbOid, rlocator.spcOid, rlocator.relNumber, forknum},
		{rlocator.dbOid, rlocator.spcOid, rlocator.relNumber, InvalidForkNumber},
		{rlocator.dbOid, rlocator.spcOid, 0, InvalidForkNumber},
	};

	if (mezz_without("log_drops"))
		return false;
	if (dropped == NULL)
		dropped = read_what_is_dropped();
	for (int i = 0; i < lengthof(keys); i++)
	{
		const Dropped *entry = hash_search(dropped, &keys[i], HASH_FIND, NULL);

		for (int n = 0; entry && n < entry->ncuts; n++)
			if (block >= entry->cuts[n].first && lsn < entry->cuts[n].lsn)
				return true;
	}
	return false;
}

/*
 * How far the log is durable.  In recovery: up to the end of the record that is
 * redone, and a server that starts again redoes that much, whatever else it is
 * told.  It may be called in critical sections.
 */
MezzLogPosition
mezz_log_position(void)
{
	MezzLogPosition log = {0};
	TimeLineID	tli = 0;

	if (mezz_without("log_end"))
		return log;
	if (RecoveryInProgress())
	{
		log.lsn = GetCurrentReplayRecPtr(&tli);
		/* As redo does before it deletes files: minRecoveryPoint comes first. */
		MEZZ_NO_ERROR_BEGIN();
		XLogFlush(log.lsn);
		MEZZ_NO_ERROR_END();
	}
	else
		log.lsn = GetFlushRecPtr(&tli);
	log.timeline = tli;
	return log;
}

/*
 * The position of a page that comes in, as far as the log is known to reach.  A
 * page that redo finds changed already has a later one, of which the tier was
 * told before the crash; and one that is damaged may have any, which would pass
 * for a newer history.  Elsewhere the log was forced up to it, or that failed.
 */
XLogRecPtr
mezz_known_position(XLogRecPtr lsn)
{
	return RecoveryInProgress() ? Min(lsn, GetCurrentReplayRecPtr(NULL)) : lsn;
}

/*
 * Whether a clean page can be from this position of the log: else it is damaged,
 * or redo has not come there yet.
 */
bool
mezz_log_has(XLogRecPtr lsn)
{
	return RecoveryInProgress() ? lsn <= GetCurrentReplayRecPtr(NULL) : !XLogNeedsFlush(lsn);
}

/*
 * Tells the tier which timeline pages come in from: that of what is redone, and
 * after a promotion the one that has begun.
 */
static void
follow_timeline(bool recovered)
{
	static TimeLineID told = 0;
	static bool recovered_before = false;
	TimeLineID	tli = 0;

	if (recovered_before || mezz_without("follow_timeline"))
		return;
	recovered_before = recovered;
	if (recovered)
		tli = GetWALInsertionTimeLine();
	else
		(void) GetCurrentReplayRecPtr(&tli);
	if (tli != 0 && tli != told)
		mezz_follows_timeline(mezz_host, tli);
	told = tli;
}

/*
 * Before a page comes in: tells the tier what it may depend on.
 *
 * That is more than the page's own position.  A hint bit, or an index tuple that
 * is marked dead, says what became of a transaction, and is there only when the
 * log is durable up to the record that says so (SetHintBits()); the page's
 * position does not change with it.  A log that ends before that record makes
 * another thing of the transaction.
 *
 * Not in recovery: there the page's position has to do.  What is redone is another
 * server's, who ends such a transaction in the same way wherever this one begins
 * again.  The record must lie before minRecoveryPoint, and that goes forward with a
 * page from behind it, which tells the tier how far, as a rule.  But it also does
 * with commits that are forced (ForceSyncCommit()) and with pages of init forks,
 * of which the tier has none.  So a standby's directory of an earlier moment that
 * is put back beside its newest flash, and promoted in another history, may not be
 * noticed by hint bits alone.  The core tells nobody what minRecoveryPoint is, and
 * a position from behind it must not be noted: the standby's next start would take
 * its own directory for the older one.
 */
void
mezz_follow_log(void)
{
	bool		recovered = !RecoveryInProgress();

	follow_timeline(recovered);
	if (recovered && !mezz_without("log_flushed"))
		mezz_log_flushed(mezz_host, GetFlushRecPtr(NULL));
}
