/*
 * explain.c
 *	  EXPLAIN (ANALYZE, BUFFERS) tells which pages came from the tier.
 *
 * Each process counts its own reads (mezz_reads).  The lines belong into the
 * query's own group of the output, which the core closes soon after it has
 * ended the executor; so they are written when it is about to do that.
 *
 * Parallel workers add what they have read to their leader's count in shared
 * memory before they say that they have finished.  The leader waits for that,
 * and so it sees all of it when its own executor ends.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "mezzanine.h"

/* What the parallel workers of one process have read; as in MezzReads */
#define READS (sizeof(MezzReads) / sizeof(uint64))

typedef struct WorkersReads
{
	pg_atomic_uint64 counts[READS];
} WorkersReads;

/* An EXPLAIN under way in this process; those that its query executes are inside it */
typedef struct Explaining
{
	ExplainState *es;
	const char *query;			/* the text that its executor is started with */
	QueryDesc  *desc;			/* NULL until that */
	MezzReads	before;
} Explaining;

bool		mezz_explain = true;
MezzReads	mezz_reads = {0};

static WorkersReads *workers = NULL;	/* by the leader's number */
static Explaining *explaining = NULL;

/* Of a parallel worker, which executes one plan: its executor was started; what its leader knows */
static bool working = false;
static MezzReads reported = {0};

static ExplainOneQuery_hook_type prev_explain = NULL;
static ExecutorStart_hook_type prev_start = NULL;
static ExecutorEnd_hook_type prev_end = NULL;

Size
mezz_explain_bytes(void)
{
	return mul_size(MaxBackends, sizeof(WorkersReads));
}

void
mezz_explain_use_memory(void)
{
	bool		found;

	workers = ShmemInitStruct("mezzanine reads of parallel workers", mezz_explain_bytes(), &found);
	if (!found)
		for (int i = 0; i < MaxBackends; i++)
			for (size_t word = 0; word < READS; word++)
				pg_atomic_init_u64(&workers[i].counts[word], 0);
}

static void
tell_leader(void)
{
	const uint64 *now = (const uint64 *) &mezz_reads;
	const uint64 *then = (const uint64 *) &reported;
	WorkersReads *leader = &workers[ParallelLeaderProcNumber];

	StaticAssertStmt(sizeof(MezzReads) % sizeof(uint64) == 0, "reads are counted in words");
	for (size_t word = 0; word < READS; word++)
		pg_atomic_fetch_add_u64(&leader->counts[word], now[word] - then[word]);
	reported = mezz_reads;
}

/* What this process and its workers have read so far. */
static MezzReads
all_reads(void)
{
	MezzReads	reads = mezz_reads;
	uint64	   *of = (uint64 *) &reads;

	for (size_t word = 0; word < READS; word++)
		of[word] += pg_atomic_read_u64(&workers[MyProcNumber].counts[word]);
	return reads;
}

static void
show(ExplainState *es, const MezzReads *before)
{
	MezzReads	now = all_reads();
	uint64		flash = now.flash - before->flash;
	uint64		memory = now.memory - before->memory;
	uint64		missed = now.missed - before->missed;

	if (es->format == EXPLAIN_FORMAT_TEXT && flash + memory + missed == 0)
		return;
	ExplainPropertyInteger("Flash Tier Hit Blocks", NULL, (int64) flash, es);
	ExplainPropertyInteger("Flash Tier Memory Hit Blocks", NULL, (int64) memory, es);
	ExplainPropertyInteger("Flash Tier Missed Blocks", NULL, (int64) missed, es);
	if (track_io_timing)
		ExplainPropertyFloat("Flash Tier I/O Read Time", "ms", (now.flash_ns - before->flash_ns) / 1e6, 3, es);
}

static void
explain_one_query(Query *query, int cursorOptions, IntoClause *into, ExplainState *es,
				  const char *queryString, ParamListInfo params, QueryEnvironment *queryEnv)
{
	Explaining *outer = explaining;
	Explaining	mine = {.es = es,.query = queryString};

	explaining = mezz_explain && es->analyze && es->buffers ? &mine : NULL;
	PG_TRY();
	{
		if (prev_explain)
			prev_explain(query, cursorOptions, into, es, queryString, params, queryEnv);
		else
			standard_ExplainOneQuery(query, cursorOptions, into, es, queryString, params, queryEnv);
	}
	PG_FINALLY();
	{
		explaining = outer;
	}
	PG_END_TRY();
}

/*
 * What the plan's nodes count as reads begins when the executor was started and
 * ends before it is ended; so does this.
 */
static void
executor_start(QueryDesc *desc, int eflags)
{
	/* Queries of functions have texts of their own, and no instrumentation. */
	bool		explained = explaining && explaining->desc == NULL &&
		desc->sourceText == explaining->query &&
		(desc->instrument_options & INSTRUMENT_BUFFERS) != 0;

	if (explained)
		explaining->desc = desc;
	if (prev_start)
		prev_start(desc, eflags);
	else
		standard_ExecutorStart(desc, eflags);
	if (explained)
		explaining->before = all_reads();
	if (IsParallelWorker() && !working)
	{
		working = true;
		reported = mezz_reads;
	}
}

static void
executor_end(QueryDesc *desc)
{
	if (explaining && explaining->desc == desc)
	{
		show(explaining->es, &explaining->before);
		explaining->desc = NULL;
	}
	if (IsParallelWorker())
		tell_leader();
	if (prev_end)
		prev_end(desc);
	else
		standard_ExecutorEnd(desc);
}

void
mezz_register_explain(void)
{
	prev_explain = ExplainOneQuery_hook;
	ExplainOneQuery_hook = explain_one_query;
	prev_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	prev_end = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
}
