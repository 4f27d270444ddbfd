/*
 * trace.c
 *	  Recording what shared buffers ask for and give up, as a trace.
 *
 * Processes put what happens into a ring in shared memory; a background worker,
 * which is there only while something is recorded, takes it out and writes it
 * into the file.  Nobody waits: what finds the ring full is lost, and counted.
 * A page is given up when no lock is held any more, so another process may have
 * asked for it again just before.
 *
 * The ring: a process reserves the place "head" by moving it on, fills it, and
 * then says so with the place's number, counted from 1, since it had another
 * one's number before.  The worker goes on only to a place that was filled.
 * The order of reservations is the order of the trace, so the worker lets no
 * time go back.
 *
 * While nothing is recorded the price is a look at a flag.
 */
#include "postgres.h"

#include <limits.h>

#include "access/xact.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/wait_event.h"

#include "mezzanine.h"

/* Places of the ring: a power of two.  With 48 bytes each they take 3 MB. */
#define TRACE_PLACES 65536

/* Events that are taken out at a time */
#define TRACE_BATCH 1024

/* How long the worker sleeps with nothing to take, and how old events get before they are written, in ms */
#define TRACE_NAP_MS 10
#define TRACE_FLUSH_MS 1000

typedef enum TraceState
{
	TRACE_IDLE,					/* nothing is recorded */
	TRACE_STARTING,				/* the worker was asked for */
	TRACE_RUNNING,
	TRACE_STOPPING,				/* the worker is asked to end */
} TraceState;

typedef struct TracePlace
{
	pg_atomic_uint64 filled;	/* number of the reservation that filled it, from 1 */
	MezzTraced	event;
} TracePlace;

struct MezzTraceShared
{
	/* looked at before everything else */
	pg_atomic_uint32 on;

	pg_atomic_uint64 head;		/* reservations */
	pg_atomic_uint64 tail;		/* of these, taken out */
	pg_atomic_uint64 lost;		/* events that found no place, since the trace was begun */
	uint64		origin_ns;		/* when it was begun, by the clock of instr_time */

	/* broadcast when "state" changes */
	ConditionVariable changed;

	slock_t		mutex;			/* protects what follows */
	TraceState	state;
	bool		ended;			/* a trace is complete or has failed, and nobody has been told */
	bool		failed;
	uint64		events;
	uint64		bytes;
	double		seconds;		/* after which it ends by itself; 0 if never */
	char		path[MAXPGPATH];
	MezzMessage message;

	TracePlace	places[TRACE_PLACES];
};

MezzTraceShared *mezz_trace = NULL;

PG_FUNCTION_INFO_V1(mezzanine_trace_start);
PG_FUNCTION_INFO_V1(mezzanine_trace_stop);

PGDLLEXPORT void mezz_trace_main(Datum arg);

static uint32 wait_event = 0;

Size
mezz_trace_bytes(void)
{
	return sizeof(MezzTraceShared);
}

/* Called with AddinShmemInitLock held. */
void
mezz_trace_use_memory(void)
{
	bool		found;

	mezz_trace = ShmemInitStruct("mezzanine trace", sizeof(MezzTraceShared), &found);
	if (found)
		return;
	memset(mezz_trace, 0, sizeof(MezzTraceShared));
	pg_atomic_init_u32(&mezz_trace->on, 0);
	pg_atomic_init_u64(&mezz_trace->head, 0);
	pg_atomic_init_u64(&mezz_trace->tail, 0);
	pg_atomic_init_u64(&mezz_trace->lost, 0);
	for (int i = 0; i < TRACE_PLACES; i++)
		pg_atomic_init_u64(&mezz_trace->places[i].filled, 0);
	ConditionVariableInit(&mezz_trace->changed);
	SpinLockInit(&mezz_trace->mutex);
}

bool
mezz_trace_is_on(void)
{
	return mezz_trace != NULL && unlikely(pg_atomic_read_u32(&mezz_trace->on) != 0);
}

static uint64
now_ns(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_NANOSEC(now);
}

void
mezz_trace_put(MezzTraceKind kind, MezzPage page)
{
	uint64		number = pg_atomic_read_u64(&mezz_trace->head);
	TracePlace *place;

	do
	{
		if (number - pg_atomic_read_u64(&mezz_trace->tail) >= TRACE_PLACES)
		{
			pg_atomic_fetch_add_u64(&mezz_trace->lost, 1);
			return;
		}
	} while (!pg_atomic_compare_exchange_u64(&mezz_trace->head, &number, number + 1));

	place = &mezz_trace->places[number % TRACE_PLACES];
	place->event = (MezzTraced)
	{
		.time_ns = now_ns() - mezz_trace->origin_ns,
			.page = page,
			.client = (uint32) MyProcPid,
			.transaction = GetTopTransactionIdIfAny(),
			.kind = kind,
	};
	pg_write_barrier();
	pg_atomic_write_u64(&place->filled, number + 1);
}

/* A transaction without a number has changed nothing. */
static void
trace_commit(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT && mezz_trace_is_on() && TransactionIdIsValid(GetTopTransactionIdIfAny()))
		mezz_trace_put(MEZZ_TRACE_KIND_COMMIT, (MezzPage) {0});
}

/* Before processes are forked, which all have it then. */
void
mezz_register_trace(void)
{
	RegisterXactCallback(trace_commit, NULL);
}

/* Takes out what is there, up to a batch. */
static int
take(MezzTraced *events)
{
	static uint64 last_ns = 0;
	uint64		tail = pg_atomic_read_u64(&mezz_trace->tail);
	int			n = 0;

	while (n < TRACE_BATCH)
	{
		TracePlace *place = &mezz_trace->places[tail % TRACE_PLACES];

		if (pg_atomic_read_u64(&place->filled) != tail + 1)
			break;
		pg_read_barrier();
		events[n] = place->event;
		/* One that a process began before this trace was, or put in after a later one. */
		if (events[n].time_ns > PG_INT64_MAX || events[n].time_ns < last_ns)
			events[n].time_ns = last_ns;
		last_ns = events[n].time_ns;
		n++;
		tail++;
	}
	/* The places are free now: what was read must not be read later. */
	pg_memory_barrier();
	pg_atomic_write_u64(&mezz_trace->tail, tail);
	return n;
}

static TraceState
trace_state(void)
{
	TraceState	state;

	SpinLockAcquire(&mezz_trace->mutex);
	state = mezz_trace->state;
	SpinLockRelease(&mezz_trace->mutex);
	return state;
}

static void
set_state(TraceState state)
{
	SpinLockAcquire(&mezz_trace->mutex);
	mezz_trace->state = state;
	SpinLockRelease(&mezz_trace->mutex);
	ConditionVariableBroadcast(&mezz_trace->changed);
}

/* The trace has ended, and how. */
static void
end_trace(bool failed, uint64 events, uint64 bytes, const MezzMessage *message)
{
	pg_atomic_write_u32(&mezz_trace->on, 0);
	SpinLockAcquire(&mezz_trace->mutex);
	mezz_trace->ended = true;
	mezz_trace->failed = failed;
	mezz_trace->events = events;
	mezz_trace->bytes = bytes;
	if (message)
		mezz_trace->message = *message;
	SpinLockRelease(&mezz_trace->mutex);
	set_state(TRACE_IDLE);
}

/* However the worker ends. */
static void
worker_exit(int code, Datum arg)
{
	MezzMessage message = {0};

	if (trace_state() == TRACE_IDLE)
		return;
	strlcpy(message.message, "the process that wrote the trace has ended", MEZZ_TEXT_BYTES);
	strlcpy(message.hint, "The server's log may say why.", MEZZ_TEXT_BYTES);
	end_trace(true, 0, 0, &message);
}

void
mezz_trace_main(Datum arg)
{
	static MezzTraced events[TRACE_BATCH];
	MezzMessage message = {0};
	MezzTrace  *trace;
	uint64		flushed_ns = 0;
	uint64		total = 0;
	uint64		bytes = 0;
	bool		failed = false;

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	before_shmem_exit(worker_exit, (Datum) 0);

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("MezzanineTrace");
	trace = mezz_trace_create(mezz_trace->path, BLCKSZ, &message);
	if (trace == NULL)
	{
		end_trace(true, 0, 0, &message);
		proc_exit(0);
	}
	mezz_trace->origin_ns = now_ns();
	pg_atomic_write_u64(&mezz_trace->lost, 0);
	pg_memory_barrier();
	pg_atomic_write_u32(&mezz_trace->on, 1);
	set_state(TRACE_RUNNING);

	for (;;)
	{
		uint64		age_ns = now_ns() - mezz_trace->origin_ns;
		bool		last = ShutdownRequestPending || trace_state() != TRACE_RUNNING ||
			(mezz_trace->seconds > 0 && age_ns > mezz_trace->seconds * 1e9);
		uint64		upto;
		int			n;

		if (last)
			pg_atomic_write_u32(&mezz_trace->on, 0);
		pg_memory_barrier();
		upto = pg_atomic_read_u64(&mezz_trace->head);
		while ((n = take(events)) > 0)
			if (!mezz_trace_add(trace, events, n, &message))
			{
				failed = true;
				break;
			}
		if (!failed && age_ns - flushed_ns > TRACE_FLUSH_MS * UINT64CONST(1000000))
		{
			flushed_ns = age_ns;
			failed = !mezz_trace_flush(trace, &message);
		}
		/* Whoever was about to fill a place when it ended is waited for. */
		if (failed || (last && pg_atomic_read_u64(&mezz_trace->tail) >= upto))
			break;
		ResetLatch(MyLatch);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, TRACE_NAP_MS, wait_event);
	}
	if (failed)
	{
		MezzMessage ignored = {0};

		pg_atomic_write_u32(&mezz_trace->on, 0);
		(void) mezz_trace_finish(trace, &total, &bytes, &ignored);
		ereport(LOG, (errmsg("%s", message.message), message.detail[0] ? errdetail("%s", message.detail) : 0));
	}
	else
		failed = !mezz_trace_finish(trace, &total, &bytes, &message);
	end_trace(failed, total, bytes, &message);
	proc_exit(0);
}

static void
require_trace(void)
{
	if (mezz_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("mezzanine is not loaded"),
				 errhint("Add mezzanine to shared_preload_libraries and restart the server.")));
	if (mezz_trace == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no flash tier"),
				 errhint("Set mezzanine.flash_path and restart the server.")));
}

static void
report_failure(void)
{
	MezzMessage message;

	SpinLockAcquire(&mezz_trace->mutex);
	message = mezz_trace->message;
	mezz_trace->ended = false;
	SpinLockRelease(&mezz_trace->mutex);
	mezz_report(ERROR, ERRCODE_IO_ERROR, &message);
}

/* Waits until the state is another one than "state". */
static void
wait_while(TraceState state)
{
	ConditionVariablePrepareToSleep(&mezz_trace->changed);
	while (trace_state() == state)
		(void) ConditionVariableTimedSleep(&mezz_trace->changed, 1000, mezz_shared->event_progress);
	ConditionVariableCancelSleep();
}

Datum
mezzanine_trace_start(PG_FUNCTION_ARGS)
{
	char	   *path = text_to_cstring(PG_GETARG_TEXT_PP(0));
	double		seconds = PG_GETARG_FLOAT8(1);
	BackgroundWorker worker = {
		.bgw_name = "mezzanine trace",
		.bgw_type = "mezzanine trace",
		.bgw_flags = BGWORKER_SHMEM_ACCESS,
		.bgw_start_time = BgWorkerStart_ConsistentState,
		.bgw_restart_time = BGW_NEVER_RESTART,
		.bgw_library_name = "mezzanine",
		.bgw_function_name = "mezz_trace_main",
	};
	BackgroundWorkerHandle *handle;
	bool		mine = false;
	bool		ended;
	pid_t		pid;

	require_trace();
	if (!is_absolute_path(path) || strlen(path) >= MAXPGPATH)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the path of a trace must be absolute and of less than %d bytes", MAXPGPATH)));
	if (!(seconds >= 0) || seconds > 1e9)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a trace cannot take %g seconds", seconds),
				 errhint("0 means until mezzanine_trace_stop().")));

	SpinLockAcquire(&mezz_trace->mutex);
	if (mezz_trace->state == TRACE_IDLE)
	{
		mine = true;
		mezz_trace->state = TRACE_STARTING;
		mezz_trace->ended = false;
		mezz_trace->seconds = seconds;
		strlcpy(mezz_trace->path, path, MAXPGPATH);
	}
	SpinLockRelease(&mezz_trace->mutex);
	if (!mine)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("a trace is being recorded already"),
				 errdetail("It is written to \"%s\".", mezz_trace->path),
				 errhint("End it with mezzanine_trace_stop().")));

	worker.bgw_notify_pid = MyProcPid;
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
	{
		set_state(TRACE_IDLE);
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("there is no background worker left to write a trace"),
				 errhint("Raise max_worker_processes.")));
	}
	if (WaitForBackgroundWorkerStartup(handle, &pid) != BGWH_STARTED && trace_state() == TRACE_STARTING)
		set_state(TRACE_IDLE);
	wait_while(TRACE_STARTING);
	SpinLockAcquire(&mezz_trace->mutex);
	ended = mezz_trace->ended && mezz_trace->failed;
	SpinLockRelease(&mezz_trace->mutex);
	if (ended)
		report_failure();
	PG_RETURN_VOID();
}

Datum
mezzanine_trace_stop(PG_FUNCTION_ARGS)
{
	TupleDesc	columns;
	Datum		values[3];
	bool		nulls[3] = {false, false, false};
	TraceState	state;
	bool		ended;
	bool		failed;

	require_trace();
	if (get_call_result_type(fcinfo, NULL, &columns) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	wait_while(TRACE_STARTING);
	SpinLockAcquire(&mezz_trace->mutex);
	state = mezz_trace->state;
	if (state == TRACE_RUNNING)
		mezz_trace->state = TRACE_STOPPING;
	SpinLockRelease(&mezz_trace->mutex);
	wait_while(TRACE_STOPPING);

	SpinLockAcquire(&mezz_trace->mutex);
	ended = mezz_trace->ended;
	failed = mezz_trace->failed;
	if (!failed)
		mezz_trace->ended = false;
	values[0] = Int64GetDatum((int64) mezz_trace->events);
	values[2] = Int64GetDatum((int64) mezz_trace->bytes);
	SpinLockRelease(&mezz_trace->mutex);
	if (!ended)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no trace is being recorded"),
				 errhint("Begin one with mezzanine_trace_start().")));
	if (failed)
		report_failure();
	values[1] = Int64GetDatum((int64) pg_atomic_read_u64(&mezz_trace->lost));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(columns), values, nulls)));
}
