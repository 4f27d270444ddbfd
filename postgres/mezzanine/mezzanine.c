/*
 * mezzanine.c
 *	  A flash tier between shared buffers and disks: settings, shared memory,
 *	  start.
 *
 * The tier itself is the Rust library behind mezz_ffi.h.  No error of
 * PostgreSQL crosses it: what it calls back is in callbacks.c and returns whether it
 * succeeded.
 */
#include "postgres.h"

#include <limits.h>
#include <unistd.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/file_perm.h"
#include "common/relpath.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/wait_event.h"

#include "mezzanine.h"

PG_MODULE_MAGIC;

MezzHost   *mezz_host = NULL;
MezzDisk   *mezz_disk = NULL;
MezzShared *mezz_shared = NULL;

char	   *mezz_flash_path = NULL;
static int	flash_size_mb = 0;
static int	flash_size_max_mb = 0;
int			mezz_sync_mode = 0;
static int	design = 0;
static int	admission = 0;
static bool returning_only = false;
static int	group_pages = 0;
bool		mezz_drain_on_shutdown = true;
int			mezz_workers = 3;
static char *disk_model = NULL;
static char *flash_model = NULL;
static double model_time_scale = 1.0;
static double disk_spread = 1.0;
static double disk_span = 1.0;

static const struct config_enum_entry sync_mode_options[] = {
	{"drained", 0, false},
	{"durable", 1, false},
	{"through", 2, false},
	{NULL, 0, false}
};

static const struct config_enum_entry design_options[] = {
	{"face-gsc", 0, false},
	{"face-gr", 1, false},
	{"face-basic", 2, false},
	{NULL, 0, false}
};

static const struct config_enum_entry admission_options[] = {
	{"both", 0, false},
	{"clean", 1, false},
	{"dirty", 2, false},
	{NULL, 0, false}
};

static shmem_request_hook_type prev_shmem_request = NULL;
static shmem_startup_hook_type prev_shmem_startup = NULL;
static MezzSizes sizes;

void		_PG_init(void);

static const char *
option_name(const struct config_enum_entry *options, int value)
{
	for (; options->name; options++)
		if (options->val == value)
			return options->name;
	elog(FATAL, "unknown value %d of a setting", value);
}

/* Reports what the library refuses, with its detail and its hint. */
void
mezz_report(int elevel, int sqlerrcode, const MezzMessage *message)
{
	char		detail[2 * MEZZ_TEXT_BYTES];

	strlcpy(detail, message->detail, sizeof(detail));
	if (message->disk_refuses)
		mezz_tell_refusal(detail, sizeof(detail));
	ereport(elevel,
			(errcode(sqlerrcode),
			 errmsg("%s", message->message),
			 detail[0] ? errdetail("%s", detail) : 0,
			 message->hint[0] ? errhint("%s", message->hint) : 0));
}

static bool
check_flash_path(char **newval, void **extra, GucSource source)
{
	if ((*newval)[0] == '\0' || is_absolute_path(*newval))
		return true;
	GUC_check_errdetail("The path is not absolute.");
	GUC_check_errhint("Name the file or block device by its path from the root directory.");
	return false;
}

/* In the order of the documentation */
static const char *const setting_names[] = {
	"mezzanine.flash_path",
	"mezzanine.flash_size",
	"mezzanine.flash_size_max",
	"mezzanine.sync_mode",
	"mezzanine.design",
	"mezzanine.admission",
	"mezzanine.returning_only",
	"mezzanine.group_pages",
	"mezzanine.workers",
	"mezzanine.drain_on_shutdown",
	"mezzanine.explain",
	"mezzanine.disk_model",
	"mezzanine.flash_model",
	"mezzanine.model_time_scale",
	"mezzanine.disk_spread",
	"mezzanine.disk_span",
};

static void define_settings(void);

/*
 * A setting that does not exist is a misspelt one: PostgreSQL would warn of it and
 * go on with the default of the one that was meant, which may be no tier at all.
 */
static void
refuse_unknown_settings(void)
{
	StringInfoData known;
	int			count;
	struct config_generic **settings = get_guc_variables(&count);

	if (mezz_without("unknown_settings"))
		return;
	for (int i = 0; i < count; i++)
	{
		if (!(settings[i]->flags & GUC_CUSTOM_PLACEHOLDER) ||
			pg_strncasecmp(settings[i]->name, "mezzanine.", strlen("mezzanine.")) != 0)
			continue;
		initStringInfo(&known);
		for (int name = 0; name < lengthof(setting_names); name++)
			appendStringInfo(&known, "%s%s", name == 0 ? "" : ", ",
							 setting_names[name] + strlen("mezzanine."));
		ereport(FATAL,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("there is no setting \"%s\"", settings[i]->name),
				 settings[i]->sourcefile ? errdetail("It is set in \"%s\", line %d.", settings[i]->sourcefile, settings[i]->sourceline) : 0,
				 errhint("Correct its name or remove it. The settings of \"mezzanine\" are: %s.", known.data)));
	}
}

/*
 * PostgreSQL warns of a library's setting that it cannot use and goes on with
 * the default.  A server that was to have a tier must not run without, or in
 * another sync mode.
 */
static void
define_settings_strictly(void)
{
	char	   *given[lengthof(setting_names)];

	for (int i = 0; i < lengthof(setting_names); i++)
	{
		const char *value = GetConfigOption(setting_names[i], true, false);

		given[i] = value ? pstrdup(value) : NULL;
	}
	define_settings();
	refuse_unknown_settings();
	MarkGUCPrefixReserved("mezzanine");
	if (mezz_without("unusable_settings"))
		return;
	for (int i = 0; i < lengthof(setting_names); i++)
		if (given[i] != NULL &&
			find_option(setting_names[i], false, false, ERROR)->source == PGC_S_DEFAULT)
			ereport(FATAL,
					(errcode(ERRCODE_CONFIG_FILE_ERROR),
					 errmsg("\"%s\" cannot be set to \"%s\"", setting_names[i], given[i]),
					 errhint("The warning before this message says what is allowed.")));
}

static void
define_settings(void)
{
	DefineCustomStringVariable("mezzanine.flash_path",
							   "Sets the absolute path of the file or block device that holds the flash tier.",
							   "An empty string means that there is no tier. The file must lie outside of the data directory and all tablespaces, and only the server's user may have access to it. It is created if it does not exist.",
							   &mezz_flash_path, "", PGC_POSTMASTER, GUC_SUPERUSER_ONLY,
							   check_flash_path, NULL, NULL);
	DefineCustomIntVariable("mezzanine.flash_size",
							"Sets how much flash the tier uses.",
							"A new value takes effect at a start where no page is newer in the tier than on disk; the tier is then made anew.",
							&flash_size_mb, 1024, 1, INT_MAX, PGC_POSTMASTER, GUC_UNIT_MB,
							NULL, NULL, NULL);
	DefineCustomIntVariable("mezzanine.flash_size_max",
							"Sets how much flash the tier can be made to use while the server runs.",
							"Memory and metadata are laid out for so much. 0 means no more than mezzanine.flash_size.",
							&flash_size_max_mb, 0, 0, INT_MAX, PGC_POSTMASTER, GUC_UNIT_MB,
							NULL, NULL, NULL);
	DefineCustomEnumVariable("mezzanine.sync_mode",
							 "Sets when pages that enter the flash tier changed are written to disk.",
							 "\"through\" means at once, \"drained\" before the next checkpoint completes, \"durable\" when they leave the tier, which is then part of the database.",
							 &mezz_sync_mode, 0, sync_mode_options, PGC_POSTMASTER, 0,
							 NULL, NULL, NULL);
	DefineCustomEnumVariable("mezzanine.design",
							 "Sets how pages leave the flash tier.",
							 "\"face-gsc\" gives pages that were read from the tier a second chance, \"face-gr\" does not, \"face-basic\" does not write in groups either.",
							 &design, 0, design_options, PGC_POSTMASTER, 0,
							 NULL, NULL, NULL);
	DefineCustomEnumVariable("mezzanine.admission",
							 "Sets which pages that leave shared buffers enter the flash tier.",
							 "\"clean\" means those that equal their copy on disk, \"dirty\" those that do not.",
							 &admission, 0, admission_options, PGC_POSTMASTER, 0,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("mezzanine.returning_only",
							 "Lets a clean page enter the flash tier only if it left shared buffers before, not long ago.",
							 "Most clean pages never come back, and each costs a write of flash. Changed pages enter all the same, and while the tier fills for the first time every page does.",
							 &returning_only, false, PGC_POSTMASTER, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("mezzanine.group_pages",
							"Sets how many pages are written to flash in one write.",
							"0 means 64, or fewer in a small tier.",
							&group_pages, 0, 0, 256, PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("mezzanine.workers",
							"Sets how many background workers carry out the flash tier's work.",
							"If there are several, one of them only writes to flash, so that this never waits for a disk. They do not count for max_worker_processes.",
							&mezz_workers, 3, 1, MEZZ_WORKERS_MAX, PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
	DefineCustomBoolVariable("mezzanine.drain_on_shutdown",
							 "Writes pages that are newer in the flash tier than on disk to disk when the server is shut down.",
							 "The pages stay in the tier as well, so that the next start finds it warm. Without it, a tier in sync mode \"durable\" stops sooner and remains part of the database.",
							 &mezz_drain_on_shutdown, true, PGC_SIGHUP, 0,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("mezzanine.explain",
							 "Has EXPLAIN with ANALYZE and BUFFERS show which blocks came from the flash tier.",
							 NULL,
							 &mezz_explain, true, PGC_USERSET, 0,
							 NULL, NULL, NULL);
	DefineCustomStringVariable("mezzanine.disk_model",
							   "Sets the model of a disk that reads and writes of relations take the time of.",
							   "This is for benchmarks. An empty string means none.",
							   &disk_model, "", PGC_POSTMASTER, 0,
							   NULL, NULL, NULL);
	DefineCustomStringVariable("mezzanine.flash_model",
							   "Sets the model of a drive that the flash tier takes the time of.",
							   "This is for benchmarks. An empty string means none.",
							   &flash_model, "", PGC_POSTMASTER, 0,
							   NULL, NULL, NULL);
	DefineCustomRealVariable("mezzanine.model_time_scale",
							 "Sets how many times slower than real time modelled devices are at first.",
							 "0: they take no time. mezzanine_model_time_scale() changes it while the server runs.",
							 &model_time_scale, 1.0, 0.0, 1000.0, PGC_POSTMASTER, 0,
							 NULL, NULL, NULL);
	DefineCustomRealVariable("mezzanine.disk_spread",
							 "Sets how many times farther apart blocks lie on the modelled disk than in their relations.",
							 "So that a small database seeks as a large one would.",
							 &disk_spread, 1.0, 1.0, 1e9, PGC_POSTMASTER, 0,
							 NULL, NULL, NULL);
	DefineCustomRealVariable("mezzanine.disk_span",
							 "Sets the share of the modelled disk that the database lies on.",
							 NULL,
							 &disk_span, 1.0, 1e-6, 1.0, PGC_POSTMASTER, 0,
							 NULL, NULL, NULL);
#ifdef MEZZ_PLANTED
	mezz_define_planted();
#endif
}

/* What cannot be had is said here with its reason: the kernel's refusal of all shared memory names none. */
static void
check_memory(void)
{
	uint64		machine = (uint64) sysconf(_SC_PHYS_PAGES) * (uint64) sysconf(_SC_PAGESIZE);

	if (sizes.memory_bytes > machine)
		ereport(FATAL,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("the flash tier needs " UINT64_FORMAT " MB of shared memory, and this machine has " UINT64_FORMAT " MB",
						sizes.memory_bytes >> 20, machine >> 20),
				 errdetail("Every page that it can hold on flash takes some."),
				 errhint("Lower mezzanine.flash_size or mezzanine.flash_size_max.")));
}

static void
open_devices(void)
{
	MezzMessage message = {0};

	if (disk_model[0])
	{
		mezz_disk = mezz_disk_open(disk_model, model_time_scale, disk_spread, disk_span, &message);
		if (mezz_disk == NULL)
			mezz_report(FATAL, ERRCODE_CONFIG_FILE_ERROR, &message);
	}
	if (mezz_flash_path[0])
	{
		MezzSettings settings = {
			.version = MEZZ_FFI_VERSION,
			.page_bytes = BLCKSZ,
			.flash_path = mezz_flash_path,
			.flash_bytes = (uint64) flash_size_mb * 1024 * 1024,
			.flash_bytes_max = (uint64) flash_size_max_mb * 1024 * 1024,
			.data_directory = DataDir,
			.design = option_name(design_options, design),
			.admission = option_name(admission_options, admission),
			.returning_only = returning_only,
			.sync_mode = option_name(sync_mode_options, mezz_sync_mode),
			.group_pages = group_pages,
			.flash_model = flash_model,
			.time_scale = model_time_scale,
			.segment_blocks = mezz_without("files_at_rest") ? 0 : RELSEG_SIZE,
			.tablespace_directory = TABLESPACE_VERSION_DIRECTORY,
		};

		mezz_host = mezz_open(&settings, &mezz_callbacks, &message);
		if (mezz_host == NULL)
			mezz_report(FATAL, ERRCODE_CONFIG_FILE_ERROR, &message);
		mezz_sizes(mezz_host, &sizes);
		check_memory();
	}
}

static void
shmem_request(void)
{
	if (prev_shmem_request)
		prev_shmem_request();
	RequestAddinShmemSpace(add_size(sizeof(MezzShared), sizes.memory_bytes));
	RequestAddinShmemSpace(mezz_count_bytes());
	RequestAddinShmemSpace(mezz_explain_bytes());
	if (mezz_host || mezz_disk)
		RequestAddinShmemSpace(mezz_trace_bytes());
}

/* Here, because processes that wait in a critical section cannot. */
static void
name_wait_events(void)
{
	mezz_shared->event_main = WaitEventExtensionNew("MezzanineWorkerMain");
	mezz_shared->event_progress = WaitEventExtensionNew("MezzanineProgress");
	mezz_shared->event_flash[MEZZ_FLASH_IO_READ] = WaitEventExtensionNew("MezzanineFlashRead");
	mezz_shared->event_flash[MEZZ_FLASH_IO_WRITE] = WaitEventExtensionNew("MezzanineFlashWrite");
	mezz_shared->event_flash[MEZZ_FLASH_IO_SYNC] = WaitEventExtensionNew("MezzanineFlashSync");
}

static void
shmem_startup(void)
{
	bool		found;

	if (prev_shmem_startup)
		prev_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	mezz_shared = ShmemInitStruct("mezzanine", sizeof(MezzShared), &found);
	if (!found)
	{
		memset(mezz_shared, 0, sizeof(MezzShared));
		ConditionVariableInit(&mezz_shared->progress);
		SpinLockInit(&mezz_shared->mutex);
		for (int i = 0; i < MEZZ_WORKERS_MAX; i++)
		{
			pg_atomic_init_u32(&mezz_shared->workers[i].proc, (uint32) INVALID_PROC_NUMBER);
			pg_atomic_init_u32(&mezz_shared->workers[i].idle, 0);
		}
		pg_atomic_init_u32(&mezz_shared->started, 0);
		pg_atomic_init_u32(&mezz_shared->lengths_restored, 0);
		pg_atomic_init_u32(&mezz_shared->lengths_left, 0);
		pg_atomic_init_u32(&mezz_shared->given_up, 0);
		pg_atomic_init_u32(&mezz_shared->ahead_said, 0);
		for (int place = 0; place < MEZZ_SKIP_PLACES; place++)
			pg_atomic_init_u32(&mezz_shared->skipping[place], 0);
		mezz_shared->stats_reset = GetCurrentTimestamp();
		name_wait_events();
		LWLockInitialize(&mezz_shared->superblock, LWLockNewTrancheId());
		LWLockInitialize(&mezz_shared->gate, LWLockNewTrancheId());
		LWLockInitialize(&mezz_shared->lengths, LWLockNewTrancheId());
	}
	mezz_count_use_memory();
	if (mezz_host || mezz_disk)
		mezz_trace_use_memory();
	if (mezz_host)
	{
		MezzMessage message = {0};
		void	   *memory;

		/*
		 * Not before: whether another server uses this data directory was found
		 * out when shared memory was made, and is said there.
		 */
		if (!mezz_lock_device(mezz_host, &message))
			mezz_report(FATAL, ERRCODE_CONFIG_FILE_ERROR, &message);
		memory = ShmemInitStruct("mezzanine tier", sizes.memory_bytes, &found);
		/*
		 * The postmaster makes shared memory anew after a crash of a backend, and
		 * fresh shared memory is zero.
		 */
		mezz_use_memory(mezz_host, memory, sizes.memory_bytes, !found);
		mezz_explain_use_memory();
	}
	LWLockRegisterTranche(mezz_shared->superblock.tranche, "MezzanineSuperblock");
	LWLockRegisterTranche(mezz_shared->gate.tranche, "MezzanineGivingUp");
	LWLockRegisterTranche(mezz_shared->lengths.tranche, "MezzanineLengths");
	LWLockRelease(AddinShmemInitLock);
}

/* This process's number in the tier's locks and jobs. */
static uint32
owner_number(void)
{
	if (MyProcNumber == INVALID_PROC_NUMBER)
		elog(PANIC, "the flash tier is used by a process without a PGPROC");
	return (uint32) MyProcNumber + 1;
}

/* Joins the tier when this process first needs it. */
void
mezz_ensure_attached(void)
{
	MezzMessage message = {0};

	mezz_refuse_exit_within_work();
	if (mezz_is_attached(mezz_host))
		return;
	mezz_watch_exit();
	if (!mezz_attach(mezz_host, owner_number(), &message))
		mezz_report(PANIC, ERRCODE_INTERNAL_ERROR, &message);
	/* The ring for batches of requests has a descriptor that the core does not count. */
	ReserveExternalFD();
}

/*
 * Whether backup_label, which the core has just read and renames later, says
 * that the files are complete, whatever tier they had.
 *
 * That of a base backup does: pg_basebackup and pg_backup_start() write "BACKUP
 * METHOD: streamed".  pg_rewind leaves a label as well, for redo to begin at
 * the last common checkpoint, in a directory of which it has replaced what the
 * source has changed, and nothing else: pages that only a tier had are missing
 * still.  It adds "BUFFER TIER: none" if it had the source's server bring the
 * files up to date.
 *
 * The control file does not tell them apart: a rewound one is
 * DB_IN_ARCHIVE_RECOVERY, and so is that of a backup from a standby, which has
 * "BACKUP FROM: standby" in common with it, too.
 */
static bool
label_needs_no_tier(void)
{
	char		line[MAXPGPATH];
	bool		complete = mezz_without("rewind_label");
	FILE	   *file = AllocateFile(BACKUP_LABEL_FILE, "r");

	if (!file)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not read file \"%s\": %m", BACKUP_LABEL_FILE)));
	while (fgets(line, sizeof(line), file))
		if (strcmp(line, "BACKUP METHOD: streamed\n") == 0 ||
			(strcmp(line, "BUFFER TIER: none\n") == 0 && !mezz_without("rewind_running")))
			complete = true;
	FreeFile(file);
	return complete;
}

/* Before redo: judges the tier that is found, and recovers it. */
void
mezz_tier_start(const BufferTierStartup *info)
{
	MezzMessage message = {0};
	MezzStart	start = {
		.system_identifier = GetSystemIdentifier(),
		.redo = info->have_backup_label ? info->start_redo : info->redo,
		.timeline = mezz_without("timeline") ? 0 : info->have_backup_label ? info->start_tli : info->tli,
		.owner = owner_number(),
		.files_lack_pages = info->tier_dirty && !mezz_without("control_mark"),
		.checksums = DataChecksumsEnabled() && !mezz_without("checksum_version"),
		.from_backup = info->have_backup_label && !mezz_without("backup_label") && label_needs_no_tier(),
	};
	MezzStarted *found = &mezz_shared->found;
	instr_time	begin,
				duration;

	if (!pg_strong_random(start.new_uuid, sizeof(start.new_uuid)) ||
		!pg_strong_random(start.new_session, sizeof(start.new_session)))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate names for the flash tier and its session")));

	mezz_watch_exit();
	INSTR_TIME_SET_CURRENT(begin);
	mezz_log_found(info);
	if (!mezz_start(mezz_host, &start, found, &message))
		mezz_report(FATAL, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, &message);
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, begin);
	mezz_shared->start_ms = (int64) INSTR_TIME_GET_MILLISEC(duration);
	mezz_shared->started_at = GetCurrentTimestamp();
	if (found->adoption == MEZZ_ADOPTION_UNUSABLE)
		pg_atomic_write_u32(&mezz_shared->given_up, 1);
	pg_write_barrier();
	pg_atomic_write_u32(&mezz_shared->started, 1);
	mezz_wake_workers();

	switch (found->adoption)
	{
		case MEZZ_ADOPTION_ADOPTED:
			ereport(LOG,
					(errmsg("flash tier adopted: " UINT64_FORMAT " pages, " UINT64_FORMAT " of them newer than on disk, read " UINT64_FORMAT " kB in " INT64_FORMAT " ms",
							found->pages, found->dirty, found->bytes_read / 1024, mezz_shared->start_ms)));
			break;
		case MEZZ_ADOPTION_DISCARDED:
			ereport(LOG,
					(errmsg("flash tier emptied"),
					 errdetail("%s.", found->reason)));
			break;
		case MEZZ_ADOPTION_FORMATTED:
			ereport(LOG,
					(errmsg("new flash tier on \"%s\": " UINT64_FORMAT " frames, " UINT64_FORMAT " MB of flash, " UINT64_FORMAT " MB of shared memory",
							mezz_flash_path, sizes.frames, sizes.flash_bytes >> 20, sizes.memory_bytes >> 20),
					 found->reason[0] ? errdetail("%s.", found->reason) : 0));
			break;
		case MEZZ_ADOPTION_UNUSABLE:
			ereport(WARNING,
					(errcode(ERRCODE_IO_ERROR),
					 errmsg("the server starts without its flash tier"),
					 errdetail("%s. No page is lost: the files have them, or the log.", found->reason),
					 errhint("Check the flash device and the kernel's log. Restart the server when the device works again, or with another one in mezzanine.flash_path: the tier is then made anew.")));
			break;
	}
	if (found->changed_pages > 0)
		ereport(LOG,
				(errmsg("flash tier: " UINT64_FORMAT " pages of " UINT64_FORMAT " files were dropped, because the files were changed while the server was down",
						found->changed_pages, found->changed_files)));
	if (found->mode_kept)
		ereport(WARNING,
				(errmsg("the flash tier keeps the sync mode and admission that it was used with"),
				 errdetail("It may hold the only copy of pages."),
				 errhint("Shut the server down with mezzanine.drain_on_shutdown turned on, and start it again.")));
	if (found->sizes_kept[0])
		ereport(WARNING,
				(errmsg("the flash tier keeps the size that it was made with"),
				 errdetail("%s What was not drained keeps its size.", found->sizes_kept),
				 errhint("Shut the server down with mezzanine.drain_on_shutdown turned on, and start it again: the tier is then made anew with the size that is configured. Or configure the size that it has.")));
}

/* Called by whoever was part of the transaction.  Children inherit it from the postmaster. */
static void
transaction_ended(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PREPARE:
			mezz_end_skipping();
			mezz_end_ahead();
			break;
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			break;
	}
}

void
_PG_init(void)
{
	/*
	 * Elsewhere it does nothing, so that the SQL objects can be restored from a
	 * dump; they say what is missing when they are used.
	 */
	if (!process_shared_preload_libraries_in_progress)
		return;
	define_settings_strictly();
	if (IsBinaryUpgrade)
		return;
	open_devices();
	prev_shmem_request = shmem_request_hook;
	shmem_request_hook = shmem_request;
	prev_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
	if (mezz_host || mezz_disk)
	{
		RegisterBufferTier(&mezz_routine);
		mezz_register_trace();
	}
	if (mezz_host)
	{
		mezz_register_workers();
		RegisterXactCallback(transaction_ended, NULL);
		mezz_register_explain();
	}
}
