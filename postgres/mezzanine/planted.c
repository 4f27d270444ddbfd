/*
 * planted.c
 *	  The settings mezzanine.planted and mezzanine.pause of test builds.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "utils/guc.h"

#include "planted.h"

/* Each is asked for by mezz_without() where the rule stands. */
static const char *const rules[] = {
	"alone",					/* where no worker runs, critical sections
								 * work */
	"backup_drain",				/* files are current when a backup begins */
	"backup_label",				/* a restored backup has no tier */
	"before_mark",				/* buffers marked for a checkpoint are older
								 * than its redo pointer */
	"checkpoint_all",			/* files are current after a checkpoint that
								 * says so */
	"checkpoint_sync",			/* staged pages and tombstones are durable
								 * before the redo pointer passes them */
	"checksum_version",			/* a tier is of a cluster with checksums or of
								 * one without */
	"control_mark",				/* pg_control says that files are out of date */
	"disk_copy",				/* a page that disk has in this very version is
								 * not lost */
	"disk_sync",				/* what stage-out wrote is synced */
	"drop_db",					/* a dropped database is forgotten */
	"drop_fork",				/* a truncated fork is forgotten */
	"drop_rels",				/* a dropped relation is forgotten */
	"dropped_skipped",			/* pages whose place is missing because the log
								 * drops them are not written */
	"drops_redone",				/* a standby's log drops only what is redone
								 * before queries begin */
	"error_context",			/* errors of stage-out are not those of what
								 * the process was doing */
	"errors_end_here",			/* an error beneath the library is none of the
								 * critical section around it */
	"evict_token",				/* a page that leaves is not taken when it has
								 * changed since */
	"evict_checksum",			/* a clean page gets a fresh checksum */
	"exit_on_error",			/* whoever stops the server outlives what
								 * stage-out meets */
	"failed_write",				/* what cannot be written to flash is written
								 * to disk */
	"failure",					/* a failed device is noticed */
	"fatal_in_work",			/* who ends within a job has crashed */
	"files_at_rest",			/* clean pages of files that were changed
								 * while the server was down are dropped */
	"flush_db",					/* files are current when redo copies a
								 * database */
	"flush_rel",				/* files are current when a relation is synced
								 * or copied */
	"follow_timeline",			/* pages come in from a timeline */
	"lengths",					/* files have the length that the tier's pages
								 * reach when redo is done */
	"lengths_again",			/* or later, if they could not be given it
								 * then */
	"locks_given_back",			/* what fails under a lightweight lock gives it
								 * back */
	"log_drops",				/* pages whose file is missing because the log
								 * drops it do not wait for it */
	"log_end",					/* a log that ends before the tier's newest
								 * page is of another moment */
	"log_flushed",				/* a page that comes in says how far the log is
								 * durable */
	"log_redone",				/* a standby's tier has nothing from behind the
								 * point where queries begin */
	"log_page",					/* the log may end within a record, where a
								 * page does */
	"give_up_buffers",			/* a page that shared buffers have is not lost */
	"give_up_lock",				/* nobody has a page that is given up */
	"lost_error",				/* what is refused because of lost pages is an
								 * error */
	"lost_page",				/* a page whose only copy is unreadable is an
								 * error */
	"lost_shutdown",			/* a server with lost pages can be stopped */
	"missing_file",				/* stage-out makes up for a missing file in
								 * recovery */
	"missing_old",				/* but for none of pages from before the redo
								 * point */
	"missing_at_redo",			/* nor for one whose record ends there */
	"missing_standby",			/* and for none once redo is consistent */
	"missing_strict",			/* or over */
	"overwrite",				/* what is written past the tier is forgotten */
	"redo_lost",				/* redo passes over a page that is lost */
	"lost_map",					/* a lost map counts as empty */
	"redo_room",				/* redo finds room where others are told that
								 * files take no pages */
	"refused_error",			/* what is refused because files do not take
								 * pages is an error */
	"refused_named",			/* who is told of that is told the file */
	"relation_sync",			/* files of absorbed pages are synced at the
								 * next checkpoint */
	"rewind_label",				/* a rewound directory is no restored backup */
	"rewind_running",			/* what pg_rewind had brought up to date needs
								 * no tier */
	"short_file",				/* stage-out makes up for a missing segment in
								 * recovery */
	"shutdown_drain",			/* files are current after a shutdown */
	"shutdown_room",			/* the checkpoint of a shutdown finds it, too */
	"skips_log",				/* what skips the log is not taken before its
								 * transaction has ended */
	"timeline",					/* a redo point is one of a timeline */
	"through",					/* sync mode through writes to disk at once */
	"unknown_settings",			/* a setting that does not exist is an error */
	"unusable_settings",		/* and one that cannot be used */
	"worker_barrier",			/* the worker closes deleted files on request */
	"worker_slots",				/* the workers have slots of their own */
	"write_copy",				/* a page that others change meanwhile is
								 * copied before the tier looks at it */
};

static char *planted = NULL;
/* "PLACE FILE" */
static char *pause_in = NULL;

bool
mezz_without(const char *rule)
{
	return planted != NULL && strcmp(planted, rule) == 0;
}

/*
 * Where mezzanine.pause says so the session makes FILE, and waits until somebody
 * has removed it.  No errors: some places are in critical sections.
 */
void
mezz_pause_in(const char *place)
{
	size_t		length = strlen(place);
	const char *file;
	int			fd;

	if (pause_in == NULL || strncmp(pause_in, place, length) != 0 || pause_in[length] != ' ')
		return;
	file = pause_in + length + 1;
	fd = open(file, O_CREAT | O_WRONLY, 0600);
	if (fd < 0)
		return;
	close(fd);
	while (access(file, F_OK) == 0)
		pg_usleep(1000);
}

static bool
check_planted(char **newval, void **extra, GucSource source)
{
	if ((*newval)[0] == '\0')
		return true;
	for (int i = 0; i < lengthof(rules); i++)
		if (strcmp(*newval, rules[i]) == 0)
			return true;
	GUC_check_errdetail("There is no rule \"%s\".", *newval);
	return false;
}

void
mezz_define_planted(void)
{
	DefineCustomStringVariable("mezzanine.planted",
							   "Name of the rule that is taken out.",
							   NULL,
							   &planted, "", PGC_SIGHUP, 0,
							   check_planted, NULL, NULL);
	DefineCustomStringVariable("mezzanine.pause",
							   "A place, and the file that is made there and that the session waits for until it is gone.",
							   NULL,
							   &pause_in, "", PGC_SUSET, 0,
							   NULL, NULL, NULL);
}
