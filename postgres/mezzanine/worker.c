/*
 * worker.c
 *	  The background workers: carry out the tier's jobs, so that backends need
 *	  not.
 *
 * They start with the postmaster, before recovery, because redo evicts pages too.
 * After the death of a process the postmaster starts none before redo is done;
 * redo then works for itself.
 *
 * The first one writes to flash and nothing else as long as another one is there:
 * staging memory is emptied at the speed of flash, whatever the disk does.  What
 * can go on beside that is one batch of pages on its way to disk and one sync of
 * the disk, which is why three is the default; more of them write several groups
 * at once.
 *
 * A worker that finds nothing sleeps, and says so before its last look.  Whoever
 * completes a job wakes those: one job makes others possible.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "storage/smgr.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "mezzanine.h"

/* Over how long the use of the disk is measured, in ms */
#define PACE_MS 250
#define IDLE_MS 1000

/* Jobs after which it looks around */
#define JOBS_PER_ROUND 64

PGDLLEXPORT void mezz_worker_main(Datum arg);

/* This worker's number */
static int	me;

static void
forget_worker(int code, Datum arg)
{
	pg_atomic_write_u32(&mezz_shared->workers[me].proc, (uint32) INVALID_PROC_NUMBER);
	pg_atomic_write_u32(&mezz_shared->workers[me].idle, 0);
}

/* Whether there is a worker but this one.  There is no worker -1. */
bool
mezz_worker_runs(int but)
{
	for (int i = 0; i < mezz_workers; i++)
		if (i != but && pg_atomic_read_u32(&mezz_shared->workers[i].proc) != (uint32) INVALID_PROC_NUMBER)
			return true;
	return false;
}

/* Somebody waits until everyone has closed the files that he has deleted. */
static inline bool
barrier_pending(void)
{
	return ProcSignalBarrierPending && !mezz_without("worker_barrier");
}

/* Carries out jobs until there are none or there is something else to do; false if there were none. */
static bool
work(void)
{
	bool		writer = me == 0 && mezz_worker_runs(me);

	for (int jobs = 0; jobs < JOBS_PER_ROUND; jobs++)
	{
		if (!mezz_work(mezz_host, writer))
			return jobs > 0;
		if (ShutdownRequestPending || barrier_pending())
			break;
	}
	return true;
}

/* How busy a modelled disk was since the last call, in thousandths: it knows. */
static uint32
modelled_disk_busy(void)
{
	static uint64 busy_before = 0;
	static uint64 elapsed_before = 0;
	MezzDriveUse used;
	double		busy;
	double		elapsed;

	mezz_disk_used(mezz_disk, &used);
	busy = (double) (used.busy_ns - busy_before);
	elapsed = (double) (used.elapsed_ns - elapsed_before) * used.servers;
	busy_before = used.busy_ns;
	elapsed_before = used.elapsed_ns;
	/* While it takes no time, no time passes either. */
	return elapsed > 0 ? (uint32) Min(1000.0, busy * 1000.0 / elapsed) : 0;
}

/* Tells the tier how busy the disk was with what backends waited for.  One worker does. */
static void
pace(void)
{
	static instr_time begin;
	static uint64 waited_before = 0;
	instr_time	now;
	double		elapsed_ns;
	uint64		waited;

	if (me != 0)
		return;
	INSTR_TIME_SET_CURRENT(now);
	elapsed_ns = INSTR_TIME_GET_DOUBLE(now) * 1e9 - INSTR_TIME_GET_DOUBLE(begin) * 1e9;
	if (elapsed_ns < PACE_MS * 1e6)
		return;
	waited = mezz_counted(MEZZ_COUNT_DISK_WAIT_NS);
	mezz_disk_busy(mezz_host, mezz_disk ? modelled_disk_busy() :
				   (uint32) Min(1000.0, (waited - waited_before) * 1000.0 / elapsed_ns));
	begin = now;
	waited_before = waited;
}

/* Has stage-out try again what the files have refused: the reason may have passed.  One worker does. */
static void
retry_disk(void)
{
	static instr_time last;
	instr_time	now;

	if (me != 0)
		return;
	INSTR_TIME_SET_CURRENT(now);
	if (INSTR_TIME_GET_MILLISEC(now) - INSTR_TIME_GET_MILLISEC(last) < IDLE_MS)
		return;
	last = now;
	mezz_retry_disk(mezz_host);
}

/*
 * The same for files that have not got their length: the last worker does, which
 * does not fill flash if others are there.
 */
static void
retry_lengths(void)
{
	if (me == mezz_workers - 1)
		mezz_retry_lengths();
}

void
mezz_worker_main(Datum arg)
{
	me = DatumGetInt32(arg);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGUSR1, procsignal_sigusr1_handler);

	/*
	 * What usually comes with a connection to a database, for which it starts
	 * too early: others wait until it has closed the files of a database that
	 * is dropped, and it is seen in pg_stat_activity.
	 */
	InitProcessPhase2();
	InitializeSessionUserIdStandalone();
	ProcSignalInit();
	pgstat_beinit();
	pgstat_bestart();
	pgstat_report_appname(MyBgworkerEntry->bgw_name);
	BackgroundWorkerUnblockSignals();

	before_shmem_exit(forget_worker, (Datum) 0);
	pg_atomic_write_u32(&mezz_shared->workers[me].proc, (uint32) MyProcNumber);

	while (!ShutdownRequestPending)
	{
		bool		worked = false;

		ResetLatch(MyLatch);
		if (barrier_pending())
			ProcessProcSignalBarrier();
		if (LogMemoryContextPending)
			ProcessLogMemoryContextInterrupt();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (pg_atomic_read_u32(&mezz_shared->started) && mezz_tier_exists())
		{
			pg_read_barrier();
			mezz_ensure_attached();
			pace();
			retry_disk();
			retry_lengths();
			if (!barrier_pending())
				worked = work();
		}
		/* Others may not be able to. */
		if (pg_atomic_read_u32(&mezz_shared->started) && mezz_tier_exists() && mezz_tier_failed())
			mezz_give_up_tier();
		/* Nothing refers to them here; relations that were dropped must not stay open. */
		smgrdestroyall();
		if (worked || ProcSignalBarrierPending)
		{
			pg_atomic_write_u32(&mezz_shared->workers[me].idle, 0);
			continue;
		}
		/* Once more after it was said, because nobody rings for what he did before that. */
		if (pg_atomic_exchange_u32(&mezz_shared->workers[me].idle, 1) == 0)
			continue;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, IDLE_MS,
						 mezz_shared->event_main);
	}
	/* If the server goes on, somebody has terminated it by mistake: it is needed again. */
	proc_exit(1);
}

void
mezz_register_workers(void)
{
	BackgroundWorker worker = {
		.bgw_type = "mezzanine",
		/* Slots of their own: the tier stands still without them. */
		.bgw_flags = BGWORKER_SHMEM_ACCESS | (mezz_without("worker_slots") ? 0 : BGWORKER_BUFFER_TIER),
		.bgw_start_time = BgWorkerStart_PostmasterStart,
		.bgw_restart_time = 1,
		.bgw_library_name = "mezzanine",
		.bgw_function_name = "mezz_worker_main",
	};

	for (int i = 0; i < mezz_workers; i++)
	{
		snprintf(worker.bgw_name, BGW_MAXLEN, "mezzanine worker %d", i + 1);
		worker.bgw_main_arg = Int32GetDatum(i);
		RegisterBackgroundWorker(&worker);
	}
}
