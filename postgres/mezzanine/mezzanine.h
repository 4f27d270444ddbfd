/*
 * mezzanine.h
 *	  What the files of the extension know of one another.
 *
 * mezzanine.c	settings, shared memory, start
 * hooks.c		what the core calls: PostgreSQL's side of the tier
 * failure.c	the flash device fails
 * callbacks.c	what the tier calls: jobs, waiting and waking
 * errors.c		errors beneath the library end there
 * disk.c		pages that the tier has written to relations, synced and read
 * lengths.c	files that a crash has left too short
 * worker.c		the background workers
 * log.c		how far the log reaches
 * redo.c		redo needs a page that is lost
 * counts.c		what processes count
 * skipping.c	relations that skip the log
 * ahead.c		pages on flash that are read before they are needed
 * model.c		modelled devices: their time scale, what they have done
 * stat.c		views, and what functions need
 * admin.c		functions that have the tier do something
 * give_up.c	lost pages that are given up
 * explain.c	lines of EXPLAIN
 * trace.c		recording what shared buffers do
 * planted.c	rules that tests take out
 */
#ifndef MEZZANINE_H
#define MEZZANINE_H

#include "storage/buftier.h"
#include "storage/condition_variable.h"
#include "storage/lockdefs.h"
#include "storage/lwlock.h"
#include "storage/spin.h"
#include "storage/sync.h"
#include "utils/relcache.h"
#include "utils/timestamp.h"

#include "mezz_ffi.h"
#include "planted.h"

/*
 * Segments of relations that were written by stage-out and wait for the sync
 * that lets their frames go.  A power of two.  When three quarters are in use,
 * further ones are synced at once by whoever writes them.
 */
#define MEZZ_SEGMENTS_MAX 4096

typedef struct MezzSegment
{
	FileTag		tag;
	bool		used;
} MezzSegment;

/* Most background workers */
#define MEZZ_WORKERS_MAX 8

typedef struct MezzWorker
{
	/* proc number; INVALID_PROC_NUMBER while it does not run */
	pg_atomic_uint32 proc;
	/* it has nothing to do, or looks for the last time before it sleeps */
	pg_atomic_uint32 idle;
} MezzWorker;

/* Kinds of MezzFlashIo */
#define MEZZ_FLASH_IOS 3

/* What became of pages that were read ahead; see MezzAhead */
typedef enum MezzAheadCount
{
	MEZZ_AHEAD_BEGUN,
	MEZZ_AHEAD_USED,
	MEZZ_AHEAD_STALE,
	MEZZ_AHEAD_UNUSED,
} MezzAheadCount;

#define MEZZ_AHEAD_COUNTS (MEZZ_AHEAD_UNUSED + 1)

/* What each process counts; see counts.c */
typedef enum MezzCount
{
	/* blocks read from relations, and the time that processes have waited for that, in ns */
	MEZZ_COUNT_DISK_READS,
	MEZZ_COUNT_DISK_WAIT_NS,
	/* by kind: what the flash device was asked for, and how long that took with track_io_timing */
	MEZZ_COUNT_FLASH_IOS,
	MEZZ_COUNT_FLASH_NS = MEZZ_COUNT_FLASH_IOS + MEZZ_FLASH_IOS,
	/* pages read ahead, by MezzAheadCount, and the memory that processes have for it now */
	MEZZ_COUNT_AHEAD = MEZZ_COUNT_FLASH_NS + MEZZ_FLASH_IOS,
	MEZZ_COUNT_AHEAD_BYTES = MEZZ_COUNT_AHEAD + MEZZ_AHEAD_COUNTS,
} MezzCount;

#define MEZZ_COUNTS (MEZZ_COUNT_AHEAD_BYTES + 1)

/* What is counted; all of it 64-bit words */
typedef struct MezzCounts
{
	MezzStatistics tier;
	/* blocks read from relations, and the time that took */
	uint64		disk_reads;
	uint64		disk_read_ns;
	/* by kind: what the flash device was asked for, and the time that took as far as it was measured */
	uint64		flash_ios[MEZZ_FLASH_IOS];
	uint64		flash_ns[MEZZ_FLASH_IOS];
	uint64		ahead[MEZZ_AHEAD_COUNTS];
} MezzCounts;

/* What this process has asked the flash device to read, and the time that took as far as it was measured */
typedef struct MezzFlashReads
{
	uint64		reads;
	uint64		ns;
} MezzFlashReads;

/* What a process has read past shared buffers while there is a tier; all of it 64-bit words */
typedef struct MezzReads
{
	uint64		flash;			/* blocks from flash, from memory on their way there, from disk */
	uint64		memory;
	uint64		missed;
	uint64		flash_ns;		/* with track_io_timing */
} MezzReads;

/* Places in which relations that skip the log are counted */
#define MEZZ_SKIP_PLACES 16384

/* The extension's own shared memory; the tier's lies beside it */
typedef struct MezzShared
{
	/* broadcast whenever a job was carried out */
	ConditionVariable progress;

	MezzWorker	workers[MEZZ_WORKERS_MAX];
	/* the tier was started: others may attach */
	pg_atomic_uint32 started;
	/* where the redo of this start begins, and on which timeline; written before that */
	XLogRecPtr	redo_begins;
	TimeLineID	redo_timeline;
	/* up to where what pg_wal has is certain to be redone; written with them */
	XLogRecPtr	redo_certain;
	/* redo is past all that the tier had: files are as long as its pages reach, or have lost something */
	pg_atomic_uint32 lengths_restored;
	/* but for some, for which that is tried again, by whoever holds the lock; see lengths.c */
	pg_atomic_uint32 lengths_left;
	LWLock		lengths;

	/* whether it was said how pages are read ahead */
	pg_atomic_uint32 ahead_said;

	/* processes whose transaction has made relations that skip the log, by a hash of these */
	pg_atomic_uint32 skipping[MEZZ_SKIP_PLACES];

	/* held by whoever replaces the tier's superblock */
	LWLock		superblock;

	/* the flash device has failed, and nobody uses the tier any more */
	pg_atomic_uint32 given_up;
	/* see failure.c */
	LWLock		gate;

	/* wait events */
	uint32		event_main;
	uint32		event_progress;
	uint32		event_flash[MEZZ_FLASH_IOS];

	slock_t		mutex;			/* protects what follows */
	uint32		nsegments;
	MezzSegment segments[MEZZ_SEGMENTS_MAX];
	/* why a file took no pages the last time that one did not; empty if none ever did */
	char		refused[MEZZ_TEXT_BYTES];
	MezzCounts	counts_at_reset;
	TimestampTz stats_reset;

	/* how the tier was found; written by the startup process only */
	MezzStarted found;
	int64		start_ms;
	TimestampTz started_at;
} MezzShared;

extern MezzHost *mezz_host;		/* NULL without a tier */
extern MezzDisk *mezz_disk;		/* NULL without a modelled disk */
extern MezzShared *mezz_shared;

/* settings */
extern char *mezz_flash_path;
extern int	mezz_sync_mode;
extern bool mezz_drain_on_shutdown;
extern int	mezz_workers;

/* mezzanine.c */
extern void mezz_tier_start(const BufferTierStartup *info);
extern void mezz_ensure_attached(void);
extern void mezz_report(int elevel, int sqlerrcode, const MezzMessage *message);

/* hooks.c */
extern const BufferTierRoutine mezz_routine;
extern bool mezz_checkpoint_ends_recovery(void);

/* failure.c */
extern bool mezz_tier_exists(void);
extern bool mezz_tier_failed(void);
extern void mezz_give_up_tier(void);
extern bool mezz_enter_gate(void);
extern void mezz_leave_gate(void);

/*
 * Where an error would jump over the library's frames, and only a broken server
 * has one: it is a PANIC then.  See errors.c.
 */
#define MEZZ_NO_ERROR_BEGIN() START_CRIT_SECTION()
#define MEZZ_NO_ERROR_END() END_CRIT_SECTION()

/* disk.c */
extern RelFileLocator mezz_page_locator(const MezzPage *page);
extern uint64 mezz_disk_address(RelFileLocator rlocator, ForkNumber forknum,
								BlockNumber blocknum);
extern void mezz_sync_later(SMgrRelation reln, ForkNumber forknum, BlockNumber block);
extern void mezz_tell_refusal(char *detail, size_t size);
extern void mezz_write_pages(MezzDiskPage *pages, size_t count);
extern MezzDiskRead mezz_read_block(MezzPage page, uint8_t *bytes);
extern bool mezz_sync_pages(void);

/* lengths.c */
extern void mezz_restore_lengths(void);
extern void mezz_retry_lengths(void);
extern void mezz_await_lengths(void);
extern void mezz_hold_lengths(void);
extern void mezz_let_lengths(void);
extern void mezz_follow_redo(void);

/* errors.c */
extern bool mezz_without_errors(bool (*work) (const void *), const void *what, bool log_only);
extern const char *mezz_caught_error(void);
extern void mezz_watch_exit(void);
extern void mezz_refuse_exit_within_work(void);

/* callbacks.c */
extern const MezzCallbacks mezz_callbacks;
extern void mezz_wake_writer(void);
extern void mezz_wake_workers(void);
extern MezzFlashReads mezz_flash_reads;

/* log.c */
extern void mezz_log_found(const BufferTierStartup *info);
extern MezzLogReach mezz_log_reaches(MezzLogPosition log);
extern bool mezz_log_drops(RelFileLocator rlocator, ForkNumber forknum, BlockNumber block, XLogRecPtr lsn);
extern MezzLogPosition mezz_log_position(void);
extern XLogRecPtr mezz_known_position(XLogRecPtr lsn);
extern bool mezz_log_has(XLogRecPtr lsn);
extern void mezz_follow_log(void);

/* redo.c */
extern MezzFound mezz_read_page(MezzPage page, void *buffer);
extern bool mezz_redo_skips(SMgrRelation reln, ForkNumber forknum, MezzPage page);
extern bool mezz_map_is_empty(SMgrRelation reln, ForkNumber forknum, BlockNumber block, void *buffer);

/* stat.c */
extern void mezz_require_tier(void);
extern void mezz_require_working_tier(void);
extern int64 mezz_count_dirty(const RelFileLocator *rlocator);

/* admin.c */
extern Relation mezz_open_with_pages(Oid relid, LOCKMODE lockmode);

/* give_up.c */
extern bool mezz_is_in_buffers(const RelFileLocator *rlocator, ForkNumber forknum, BlockNumber block);

/* counts.c */
extern Size mezz_count_bytes(void);
extern void mezz_count_use_memory(void);
extern void mezz_count(MezzCount what, uint64 n);
extern uint64 mezz_counted(MezzCount what);

/* skipping.c */
extern void mezz_note_skipping(RelFileLocator rlocator);
extern bool mezz_skips_log(RelFileLocator rlocator);
extern void mezz_end_skipping(void);

/* ahead.c */
extern bool mezz_prefetch(MezzPage first, int nblocks);
extern void mezz_count_ahead(void);
extern void mezz_end_ahead(void);

/* explain.c */
extern bool mezz_explain;
extern MezzReads mezz_reads;
extern Size mezz_explain_bytes(void);
extern void mezz_explain_use_memory(void);
extern void mezz_register_explain(void);

/* trace.c */
typedef struct MezzTraceShared MezzTraceShared;
extern MezzTraceShared *mezz_trace; /* NULL without a tier */
extern Size mezz_trace_bytes(void);
extern void mezz_trace_use_memory(void);
extern void mezz_register_trace(void);
extern bool mezz_trace_is_on(void);
extern void mezz_trace_put(MezzTraceKind kind, MezzPage page);

/* worker.c */
extern void mezz_register_workers(void);
extern bool mezz_worker_runs(int but);

#endif							/* MEZZANINE_H */
