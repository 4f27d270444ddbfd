/*
 * errors.c
 *	  Errors beneath the library end here.
 *
 * No error may leave what the library calls: it would jump over frames that are
 * not C's.  There are two ways to keep that:
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

#include "access/xlogutils.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/memutils.h"

#include "mezzanine.h"

/* Lightweight locks that an error may leave to us: what is called here takes one at a time */
#define MEZZ_LOCKS_MAX 8

/* What the last error said that was caught here and is none yet */
static char caught[MEZZ_TEXT_BYTES];

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

/* What the last error said that was caught, and went to the log alone. */
const char *
mezz_caught_error(void)
{
	return caught;
}
