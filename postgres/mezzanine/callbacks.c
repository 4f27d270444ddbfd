/*
 * callbacks.c
 *	  What the library calls: jobs on disk (disk.c), waiting and waking, and
 *	  the moments around requests to flash.
 *
 * No error may leave them; see errors.c.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogutils.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/wait_event.h"

#include "mezzanine.h"

/* Longest that anyone waits without looking again, in ms */
#define WAIT_MS_MAX 10

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
	mezz_count(MEZZ_COUNT_FLASH_IOS + io, 1);
	if (io == MEZZ_FLASH_IO_READ)
		mezz_flash_reads.reads++;
	if (INSTR_TIME_IS_ZERO(flash_begin))
		return;
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, flash_begin);
	mezz_count(MEZZ_COUNT_FLASH_NS + io, INSTR_TIME_GET_NANOSEC(duration));
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
	.write_pages = mezz_write_pages,
	.read_page = mezz_read_block,
	.sync_pages = mezz_sync_pages,
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
