/*
 * stat.c
 *	  Views on the tier and functions for administrators; the SQL side is in
 *	  mezzanine--1.0.sql, which also says who may call what.
 *
 * Passes over the pages go in steps, and waits are given up when the user
 * cancels; in between no function of the library is under way, so that an error
 * may be raised.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_tablespace_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "storage/smgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/rel.h"
#include "utils/relmapper.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "mezzanine.h"

/* Frames looked at in one step of a pass; of one that reads flash */
#define FRAMES_PER_STEP 1024
#define READS_PER_STEP 32

/* Damaged pages that a verification names one by one */
#define DAMAGE_NAMED_MAX 100

PG_FUNCTION_INFO_V1(pg_stat_get_mezzanine);
PG_FUNCTION_INFO_V1(mezzanine_frames);
PG_FUNCTION_INFO_V1(mezzanine_relations);
PG_FUNCTION_INFO_V1(mezzanine_reset_stats);
PG_FUNCTION_INFO_V1(mezzanine_drain);
PG_FUNCTION_INFO_V1(mezzanine_flush);
PG_FUNCTION_INFO_V1(mezzanine_disable);
PG_FUNCTION_INFO_V1(mezzanine_enable);
PG_FUNCTION_INFO_V1(mezzanine_verify);
PG_FUNCTION_INFO_V1(mezzanine_resize);
PG_FUNCTION_INFO_V1(mezzanine_give_up);
PG_FUNCTION_INFO_V1(mezzanine_give_up_numbers);

/* What is counted of a tier, as of one moment */
typedef MezzCounts Counts;

/* The server has started without its tier, because the device had failed. */
static bool
is_unusable(void)
{
	return mezz_host != NULL && !mezz_tier_exists() &&
		mezz_shared->found.adoption == MEZZ_ADOPTION_UNUSABLE;
}

static void
require_tier(void)
{
	if (mezz_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("mezzanine is not loaded"),
				 errhint("Add mezzanine to shared_preload_libraries and restart the server.")));
	if (mezz_host == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no flash tier"),
				 errhint("Set mezzanine.flash_path and restart the server.")));
	if (is_unusable())
		ereport(ERROR,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("the server has started without its flash tier"),
				 errdetail("%s.", mezz_shared->found.reason),
				 errhint("Restart the server when the flash device works again, or with another one in mezzanine.flash_path.")));
	mezz_ensure_attached();
}

/* For functions that change something: a tier whose device has failed is left alone. */
static void
require_working_tier(void)
{
	MezzMessage message = {0};

	require_tier();
	if (mezz_has_failed(mezz_host, &message))
		mezz_report(ERROR, ERRCODE_IO_ERROR, &message);
}

/* Begins a pass, or goes on with it; false when it is complete. */
static bool
next_pages(MezzCursor *cursor, MezzHeld *pages, size_t *npages)
{
	CHECK_FOR_INTERRUPTS();
	return mezz_pages(mezz_host, cursor, pages, FRAMES_PER_STEP, npages);
}

/* How many pages of a relation, or of all (NULL), are newer in the tier than on disk. */
static int64
count_dirty(const RelFileLocator *rlocator)
{
	MezzHeld   *pages = palloc_array(MezzHeld, FRAMES_PER_STEP);
	MezzCursor	cursor;
	size_t		npages;
	int64		dirty = 0;

	mezz_first_page(mezz_host, &cursor);
	while (next_pages(&cursor, pages, &npages))
		for (size_t i = 0; i < npages; i++)
		{
			const MezzPage *page = &pages[i].page;

			if (pages[i].dirty &&
				(rlocator == NULL ||
				 (page->relation == rlocator->relNumber && page->database == rlocator->dbOid &&
				  page->tablespace == rlocator->spcOid)))
				dirty++;
		}
	pfree(pages);
	return dirty;
}

static bool
interrupted(void)
{
	return INTERRUPTS_PENDING_CONDITION();
}

/* Has pages written to disk and synced.  After a cancel the drain goes on. */
static void
drain(const MezzPage *page, MezzScope scope)
{
	for (;;)
	{
		MezzMessage message = {0};

		switch (mezz_drain_unless(mezz_host, page, scope, interrupted, &message))
		{
			case MEZZ_WAITED_DONE:
				return;
			case MEZZ_WAITED_STOPPED:
				CHECK_FOR_INTERRUPTS();
				break;
			case MEZZ_WAITED_FAILED:
				mezz_report(ERROR, ERRCODE_IO_ERROR, &message);
		}
	}
}

static void
count(Counts *now)
{
	mezz_statistics(mezz_host, &now->tier);
	now->disk_reads = pg_atomic_read_u64(&mezz_shared->reads_disk);
	now->disk_read_ns = pg_atomic_read_u64(&mezz_shared->disk_wait_ns);
	for (int io = 0; io < MEZZ_FLASH_IOS; io++)
	{
		now->flash_ios[io] = pg_atomic_read_u64(&mezz_shared->flash_ios[io]);
		now->flash_ns[io] = pg_atomic_read_u64(&mezz_shared->flash_ns[io]);
	}
	for (int count = 0; count < MEZZ_AHEAD_COUNTS; count++)
		now->ahead[count] = pg_atomic_read_u64(&mezz_shared->ahead[count]);
}

/* What was counted since the last reset.  Counts are 64-bit words throughout. */
static void
count_since_reset(Counts *since, TimestampTz *reset)
{
	Counts		base;
	uint64	   *of = (uint64 *) since;

	StaticAssertStmt(sizeof(Counts) % sizeof(uint64) == 0, "counts are words");
	count(since);
	SpinLockAcquire(&mezz_shared->mutex);
	base = mezz_shared->counts_at_reset;
	*reset = mezz_shared->stats_reset;
	SpinLockRelease(&mezz_shared->mutex);
	for (size_t i = 0; i < sizeof(Counts) / sizeof(uint64); i++)
		of[i] -= ((uint64 *) &base)[i];
}

Datum
mezzanine_reset_stats(PG_FUNCTION_ARGS)
{
	Counts		now;
	TimestampTz at = GetCurrentTimestamp();

	require_tier();
	count(&now);
	SpinLockAcquire(&mezz_shared->mutex);
	mezz_shared->counts_at_reset = now;
	mezz_shared->stats_reset = at;
	SpinLockRelease(&mezz_shared->mutex);
	PG_RETURN_VOID();
}

/* A row under construction: its columns in order */
typedef struct Row
{
	Datum		values[56];
	bool		nulls[56];
	int			n;
} Row;

static void
put(Row *row, Datum value)
{
	Assert(row->n < lengthof(row->values));
	row->values[row->n++] = value;
}

static void
put_null(Row *row)
{
	row->nulls[row->n] = true;
	put(row, (Datum) 0);
}

static void
put_text(Row *row, const char *text)
{
	if (text[0])
		put(row, CStringGetTextDatum(text));
	else
		put_null(row);
}

static void
put_count(Row *row, uint64 count)
{
	put(row, Int64GetDatum((int64) count));
}

static void
put_ms(Row *row, uint64 ns)
{
	put(row, Float8GetDatum(ns / 1e6));
}

/* A share or a mean; null without anything that it could be of. */
static void
put_ratio(Row *row, double part, double whole)
{
	if (whole > 0)
		put(row, Float8GetDatum(part / whole));
	else
		put_null(row);
}

static Datum
finish(Row *row, FunctionCallInfo fcinfo)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (desc->natts != row->n)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the SQL objects of mezzanine are of another version than its library"),
				 errhint("Run ALTER EXTENSION mezzanine UPDATE.")));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), row->values, row->nulls));
}

static const char *
adoption_name(MezzAdoption adoption)
{
	switch (adoption)
	{
		case MEZZ_ADOPTION_ADOPTED:
			return "adopted";
		case MEZZ_ADOPTION_DISCARDED:
			return "discarded";
		case MEZZ_ADOPTION_FORMATTED:
			return "formatted";
		case MEZZ_ADOPTION_UNUSABLE:
			return "unusable";
	}
	return "";
}

/* All that there is to be said of a tier that there is not. */
static Datum
unusable_row(FunctionCallInfo fcinfo)
{
	Row			row = {0};
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	put_text(&row, "failed");
	put_text(&row, mezz_shared->found.reason);
	put_text(&row, adoption_name(mezz_shared->found.adoption));
	while (row.n < desc->natts)
		put_null(&row);
	return finish(&row, fcinfo);
}

Datum
pg_stat_get_mezzanine(PG_FUNCTION_ARGS)
{
	Row			row = {0};
	MezzNow		now;
	MezzMessage failure = {0};
	Counts		counts;
	const MezzStatistics *tier = &counts.tier;
	const MezzStarted *found;
	TimestampTz reset;
	uint64		pages,
				dirty;
	bool		failed;

	if (is_unusable())
		return unusable_row(fcinfo);
	require_tier();
	found = &mezz_shared->found;
	failed = mezz_has_failed(mezz_host, &failure);
	mezz_now(mezz_host, &now);
	mezz_count_pages(mezz_host, &pages, &dirty);
	count_since_reset(&counts, &reset);

	put_text(&row, failed ? "failed" : now.admits ? "active" : "disabled");
	put_text(&row, failure.message);
	put_text(&row, adoption_name(found->adoption));
	put_text(&row, found->reason);
	put(&row, TimestampTzGetDatum(mezz_shared->started_at));
	put(&row, Float8GetDatum((double) mezz_shared->start_ms));
	put_text(&row, now.sync_mode);
	put_text(&row, now.design);
	put_text(&row, now.admission);

	put_count(&row, now.frames);
	put_count(&row, now.frames_max);
	if (now.resizing)
	{
		put_count(&row, now.frames_wanted);
		put_count(&row, now.frames_to_go);
	}
	else
	{
		put_null(&row);
		put_null(&row);
	}
	put_count(&row, pages);
	put_count(&row, dirty);
	put_count(&row, now.staged);
	put_count(&row, now.lost);
	put_text(&row, now.used_up);

	put_count(&row, tier->hits_memory);
	put_count(&row, tier->hits_flash);
	put_count(&row, tier->misses);
	put_ratio(&row, tier->hits_memory + tier->hits_flash,
			  tier->hits_memory + tier->hits_flash + tier->misses);

	put_count(&row, tier->staged_dirty);
	put_count(&row, tier->staged_clean);
	put_count(&row, tier->refused);
	put_count(&row, tier->stalls);

	put_count(&row, tier->groups_written);
	put_ratio(&row, tier->group_bytes_written, tier->groups_written);
	put_count(&row, tier->flash_bytes_written);
	put_count(&row, tier->flash_syncs);
	put_count(&row, counts.flash_ios[MEZZ_FLASH_IO_READ]);
	put_ms(&row, counts.flash_ns[MEZZ_FLASH_IO_READ]);
	put_ms(&row, counts.flash_ns[MEZZ_FLASH_IO_WRITE]);
	put_ms(&row, counts.flash_ns[MEZZ_FLASH_IO_SYNC]);
	for (int count = 0; count < MEZZ_AHEAD_COUNTS; count++)
		put_count(&row, counts.ahead[count]);
	put_count(&row, pg_atomic_read_u64(&mezz_shared->ahead_bytes));

	put_count(&row, tier->disk_writes);
	put_count(&row, tier->pages_drained);
	put_count(&row, tier->disk_refused);
	put_count(&row, tier->second_chances);
	put_ratio(&row, (double) tier->staged_dirty - (double) tier->disk_writes, tier->staged_dirty);
	put_count(&row, tier->disk_syncs);
	put_count(&row, counts.disk_reads);
	put_ms(&row, counts.disk_read_ns);
	put(&row, TimestampTzGetDatum(reset));
	return finish(&row, fcinfo);
}

static void
put_frame(const MezzHeld *held, ReturnSetInfo *result)
{
	Row			row = {0};

	put_count(&row, held->position);
	put(&row, ObjectIdGetDatum(held->page.database));
	put(&row, ObjectIdGetDatum(held->page.tablespace));
	put(&row, ObjectIdGetDatum(held->page.relation));
	put(&row, Int16GetDatum((int16) held->page.fork));
	put_count(&row, held->page.block);
	put(&row, BoolGetDatum(held->dirty));
	put(&row, BoolGetDatum(held->referenced));
	put(&row, BoolGetDatum(held->staged));
	put(&row, BoolGetDatum(held->lost));
	tuplestore_putvalues(result->setResult, result->setDesc, row.values, row.nulls);
}

Datum
mezzanine_frames(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	MezzHeld   *pages;
	MezzCursor	cursor;
	size_t		npages;

	require_tier();
	InitMaterializedSRF(fcinfo, 0);
	pages = palloc_array(MezzHeld, FRAMES_PER_STEP);
	mezz_first_page(mezz_host, &cursor);
	while (next_pages(&cursor, pages, &npages))
		for (size_t i = 0; i < npages; i++)
			put_frame(&pages[i], result);
	return (Datum) 0;
}

/* Pages of a relation; the key comes first */
typedef struct RelationPages
{
	RelFileLocator rlocator;
	int64		pages;
	int64		dirty;
	int64		staged;
} RelationPages;

Datum
mezzanine_relations(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	HASHCTL		ctl = {.keysize = sizeof(RelFileLocator),.entrysize = sizeof(RelationPages)};
	HTAB	   *relations;
	HASH_SEQ_STATUS scan;
	RelationPages *relation;
	MezzHeld   *pages;
	MezzCursor	cursor;
	size_t		npages;

	require_tier();
	InitMaterializedSRF(fcinfo, 0);
	ctl.hcxt = CurrentMemoryContext;
	relations = hash_create("relations in the flash tier", 256, &ctl,
							HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	pages = palloc_array(MezzHeld, FRAMES_PER_STEP);
	mezz_first_page(mezz_host, &cursor);
	while (next_pages(&cursor, pages, &npages))
		for (size_t i = 0; i < npages; i++)
		{
			const MezzPage *page = &pages[i].page;
			RelFileLocator key = {
				.spcOid = page->tablespace,
				.dbOid = page->database,
				.relNumber = page->relation,
			};
			bool		known;

			relation = hash_search(relations, &key, HASH_ENTER, &known);
			if (!known)
				relation->pages = relation->dirty = relation->staged = 0;
			relation->pages++;
			relation->dirty += pages[i].dirty;
			relation->staged += pages[i].staged;
		}

	hash_seq_init(&scan, relations);
	while ((relation = hash_seq_search(&scan)) != NULL)
	{
		Row			row = {0};

		put(&row, ObjectIdGetDatum(relation->rlocator.dbOid));
		put(&row, ObjectIdGetDatum(relation->rlocator.spcOid));
		put(&row, ObjectIdGetDatum(relation->rlocator.relNumber));
		put_count(&row, relation->pages);
		put_count(&row, relation->dirty);
		put_count(&row, relation->staged);
		tuplestore_putvalues(result->setResult, result->setDesc, row.values, row.nulls);
	}
	hash_destroy(relations);
	return (Datum) 0;
}

Datum
mezzanine_drain(PG_FUNCTION_ARGS)
{
	int64		dirty;

	require_working_tier();
	dirty = count_dirty(NULL);
	drain(NULL, MEZZ_SCOPE_RELATION);
	PG_RETURN_INT64(dirty);
}

/* Opens a relation that is no mere definition; else an error. */
static Relation
open_with_pages(Oid relid, LOCKMODE lockmode)
{
	Relation	relation = relation_open(relid, lockmode);

	if (!RELKIND_HAS_STORAGE(relation->rd_rel->relkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" has no pages", RelationGetRelationName(relation)),
				 errdetail_relkind_not_supported(relation->rd_rel->relkind),
				 errhint("Name a table, index, materialized view, sequence or TOAST table; of a partitioned one its partitions.")));
	return relation;
}

Datum
mezzanine_flush(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Relation	relation;
	int64		dirty = 0;

	require_working_tier();
	relation = open_with_pages(relid, AccessShareLock);

	/* Pages of other relations never enter the tier. */
	if (RelationIsPermanent(relation))
	{
		const RelFileLocator *rlocator = &relation->rd_locator;
		MezzPage	page = {
			.database = rlocator->dbOid,
			.tablespace = rlocator->spcOid,
			.relation = rlocator->relNumber,
		};

		dirty = count_dirty(rlocator);
		drain(&page, MEZZ_SCOPE_RELATION);
	}
	relation_close(relation, AccessShareLock);
	PG_RETURN_INT64(dirty);
}

/* Whether shared buffers have a page.  It leaves them only when the tier has what was changed in it. */
bool
mezz_is_in_buffers(const RelFileLocator *rlocator, ForkNumber forknum, BlockNumber block)
{
	BufferTag	tag;
	uint32		hash;
	int			buffer;
	bool		valid = false;

	InitBufferTag(&tag, rlocator, forknum, block);
	hash = BufTableHashCode(&tag);
	LWLockAcquire(BufMappingPartitionLock(hash), LW_SHARED);
	buffer = BufTableLookup(&tag, hash);
	if (buffer >= 0)
		valid = (pg_atomic_read_u32(&GetBufferDescriptor(buffer)->state) & BM_VALID) != 0;
	LWLockRelease(BufMappingPartitionLock(hash));
	return valid;
}

/* Where a block is, if the fork has it; else an error. */
static MezzPage
block_of(SMgrRelation smgr, ForkNumber forknum, int64 block)
{
	const RelFileLocator *rlocator = &smgr->smgr_rlocator.locator;
	BlockNumber blocks = smgrexists(smgr, forknum) ? smgrnblocks(smgr, forknum) : 0;

	if (block < 0 || block >= blocks)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no block " INT64_FORMAT " in file \"%s\"", block, relpath(smgr->smgr_rlocator, forknum)),
				 errdetail("It has %u blocks, counted from 0.", blocks),
				 errhint("Name the block and the fork as pg_mezzanine_frames or the error of a read does.")));
	return (MezzPage)
	{
		.database = rlocator->dbOid,
		.tablespace = rlocator->spcOid,
		.relation = rlocator->relNumber,
		.fork = forknum,
		.block = (BlockNumber) block,
	};
}

/* Before a page is given up, and before a lock is taken for that */
static void
require_no_recovery(void)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no page can be given up during recovery"),
				 errhint("Redo may still bring the page. Wait for the end of recovery; make a standby anew from a base backup.")));
}

/* Gives up a block of a fork that nobody else can read or write meanwhile. */
static void
give_up_block(SMgrRelation smgr, ForkNumber forknum, int64 block)
{
	MezzPage	page = block_of(smgr, forknum, block);
	char	   *path = relpath(smgr->smgr_rlocator, forknum);
	MezzMessage message = {0};

	if (mezz_is_in_buffers(&smgr->smgr_rlocator.locator, forknum, page.block) && !mezz_without("give_up_buffers"))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("block %u in file \"%s\" cannot be given up: it is not lost: shared buffers have it", page.block, path),
				 errhint("CHECKPOINT writes it if it was changed. If not, rewrite the relation (VACUUM FULL, REINDEX) while it is there.")));
	if (!mezz_give_up_page(mezz_host, page, &message))
		ereport(ERROR,
				(errcode(message.lost || mezz_tier_failed() ? ERRCODE_IO_ERROR : ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("block %u in file \"%s\" cannot be given up: %s", page.block, path, message.message),
				 message.detail[0] ? errdetail("%s", message.detail) : 0,
				 message.hint[0] ? errhint("%s", message.hint) : 0));
	ereport(LOG,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("block %u in file \"%s\" was lost in the flash tier and is given up", page.block, path),
			 errdetail("On disk is now a page that no server accepts.")));
}

/*
 * Whoever writes a page of a relation, or reads one, has a lock on it, and all
 * of these conflict with ours: hint bits are written under the weakest.  So a
 * page that is neither in shared buffers nor can be read stays like that.  Redo
 * has no locks; during recovery it may bring the page at any time.
 */
Datum
mezzanine_give_up(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	int64		block = PG_GETARG_INT64(1);
	ForkNumber	forknum = forkname_to_number(text_to_cstring(PG_GETARG_TEXT_PP(2)));
	LOCKMODE	lockmode = mezz_without("give_up_lock") ? AccessShareLock : AccessExclusiveLock;
	Relation	relation;

	require_working_tier();
	require_no_recovery();
	relation = open_with_pages(relid, lockmode);
	if (!RelationIsPermanent(relation))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("relation \"%s\" is temporary or unlogged, and no page of it is in the flash tier",
						RelationGetRelationName(relation)),
				 errhint("What cannot be read of it is damaged on disk.")));
	give_up_block(RelationGetSmgr(relation), forknum, block);
	relation_close(relation, lockmode);
	PG_RETURN_VOID();
}

/*
 * Keeps everybody else from the pages of a database, as DROP DATABASE does: its
 * catalogs are not read here, so the lock of a relation cannot be had.  Nobody who
 * is in no database reads pages of one without a lock on it.
 */
static void
lock_database(Oid database)
{
	int			backends;
	int			prepared;

	if (mezz_without("give_up_lock"))
		return;
	LockSharedObject(DatabaseRelationId, database, 0, AccessExclusiveLock);
	/* A transaction that is prepared does nothing before a session ends it. */
	if (CountOtherDBBackends(database, &backends, &prepared) && backends > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("no page of database %u can be given up by its numbers while others are connected to it", database),
				 errdetail_plural("There is %d other session using the database.",
								  "There are %d other sessions using the database.",
								  backends, backends),
				 errhint("End them with pg_terminate_backend(). Or name the relation in that database, mezzanine_give_up(relation, block, fork), which locks it alone.")));
}

static void
unlock_database(Oid database)
{
	if (!mezz_without("give_up_lock"))
		UnlockSharedObject(DatabaseRelationId, database, 0, AccessExclusiveLock);
}

/* What a shared relation's file belongs to: all of them are mapped, so no catalog is read for it. */
static Oid
shared_relation_of(RelFileNumber number)
{
	Oid			relid = RelationMapFilenumberToOid(number, true);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("no shared catalog has the file number %u", number),
				 errhint("Give the numbers as pg_mezzanine_frames or the error of a read does.")));
	return relid;
}

/*
 * The same by the numbers of a relation, for those of other databases and for
 * catalogs without which names mean nothing.
 */
Datum
mezzanine_give_up_numbers(PG_FUNCTION_ARGS)
{
	RelFileLocator rlocator = {
		.spcOid = PG_GETARG_OID(0),
		.dbOid = PG_GETARG_OID(1),
		.relNumber = PG_GETARG_OID(2),
	};
	int64		block = PG_GETARG_INT64(3);
	ForkNumber	forknum = forkname_to_number(text_to_cstring(PG_GETARG_TEXT_PP(4)));
	bool		shared = rlocator.dbOid == InvalidOid;
	Oid			relid = InvalidOid;
	SMgrRelation smgr;

	require_working_tier();
	require_no_recovery();
	if (shared != (rlocator.spcOid == GLOBALTABLESPACE_OID))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no relation is in tablespace %u and database %u", rlocator.spcOid, rlocator.dbOid),
				 errhint("Only shared catalogs have the database 0, and all of them are in tablespace %u. Give the numbers as pg_mezzanine_frames or the error of a read does.",
						 GLOBALTABLESPACE_OID)));
	if (shared)
	{
		relid = shared_relation_of(rlocator.relNumber);
		LockRelationOid(relid, AccessExclusiveLock);
	}
	else
		lock_database(rlocator.dbOid);
	smgr = smgropen(rlocator, INVALID_PROC_NUMBER);
	if (!smgrexists(smgr, MAIN_FORKNUM))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("there is no file \"%s\"", relpath(smgr->smgr_rlocator, MAIN_FORKNUM)),
				 errdetail("It would be that of tablespace %u, database %u, file number %u.",
						   rlocator.spcOid, rlocator.dbOid, rlocator.relNumber),
				 errhint("Give the numbers as pg_mezzanine_frames or the error of a read does.")));
	give_up_block(smgr, forknum, block);
	if (shared)
		UnlockRelationOid(relid, AccessExclusiveLock);
	else
		unlock_database(rlocator.dbOid);
	PG_RETURN_VOID();
}

/*
 * No page enters any more, and none is newer than its disk copy.  Pages that
 * are there go on being read.  Given up, or failed, it has changed nothing.
 */
Datum
mezzanine_disable(PG_FUNCTION_ARGS)
{
	MezzNow		now;

	require_working_tier();
	mezz_now(mezz_host, &now);
	mezz_admit(mezz_host, false);
	PG_TRY();
	{
		drain(NULL, MEZZ_SCOPE_RELATION);
	}
	PG_CATCH();
	{
		if (now.admits)
			mezz_admit(mezz_host, true);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (now.admits)
		ereport(LOG, (errmsg("flash tier disabled")));
	PG_RETURN_VOID();
}

Datum
mezzanine_enable(PG_FUNCTION_ARGS)
{
	MezzNow		now;

	require_working_tier();
	mezz_now(mezz_host, &now);
	mezz_admit(mezz_host, true);
	if (!now.admits)
		ereport(LOG, (errmsg("flash tier enabled")));
	PG_RETURN_VOID();
}

/* Takes effect when the queue has come round: see pg_stat_mezzanine. */
Datum
mezzanine_resize(PG_FUNCTION_ARGS)
{
	int64		bytes = PG_GETARG_INT64(0);
	MezzMessage message = {0};

	require_working_tier();
	if (bytes <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a flash tier cannot have " INT64_FORMAT " bytes", bytes),
				 errhint("Give the size in bytes, such as pg_size_bytes('10GB').")));
	if (!mezz_resize(mezz_host, (uint64) bytes, &message))
		mezz_report(ERROR, ERRCODE_INVALID_PARAMETER_VALUE, &message);
	mezz_wake_workers();
	PG_RETURN_VOID();
}

static void
report_damage(const MezzHeld *held)
{
	RelFileLocator rlocator = {
		.spcOid = held->page.tablespace,
		.dbOid = held->page.database,
		.relNumber = held->page.relation,
	};

	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("block %u of file \"%s\" is damaged in the flash tier",
					held->page.block, relpathperm(rlocator, held->page.fork)),
			 held->dirty ?
			 errdetail("The copy on disk is older. Reading the block raises an error.") :
			 errdetail("The copy on disk is as new and is read instead.")));
}

Datum
mezzanine_verify(PG_FUNCTION_ARGS)
{
	Row			row = {0};
	MezzHeld	damaged[READS_PER_STEP];
	MezzCursor	cursor;
	size_t		ndamaged;
	uint64		checked = 0;
	uint64		total = 0;
	uint64		damage = 0;
	MezzMessage message;
	MezzStep	step;

	require_tier();
	mezz_first_page(mezz_host, &cursor);
	while ((step = mezz_verify(mezz_host, &cursor, damaged, READS_PER_STEP,
							   &ndamaged, &checked, &message)) == MEZZ_STEP_MORE)
	{
		for (size_t i = 0; i < ndamaged; i++)
			if (damage++ < DAMAGE_NAMED_MAX)
				report_damage(&damaged[i]);
		total += checked;
		CHECK_FOR_INTERRUPTS();
	}
	if (step == MEZZ_STEP_FAILED)
		mezz_report(ERROR, ERRCODE_IO_ERROR, &message);
	put_count(&row, total);
	put_count(&row, damage);
	return finish(&row, fcinfo);
}
