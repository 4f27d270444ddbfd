/*
 * stat.c
 *	  Views on the tier, and its verification; the SQL side is in
 *	  mezzanine--1.0.sql, which also says who may call what.
 *
 * Passes over the pages go in steps, and waits are given up when the user
 * cancels; in between no function of the library is under way, so that an error
 * may be raised.
 */
#include "postgres.h"

#include "common/relpath.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
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
PG_FUNCTION_INFO_V1(mezzanine_verify);

/* What is counted of a tier, as of one moment */
typedef MezzCounts Counts;

/* The server has started without its tier, because the device had failed. */
static bool
is_unusable(void)
{
	return mezz_host != NULL && !mezz_tier_exists() &&
		mezz_shared->found.adoption == MEZZ_ADOPTION_UNUSABLE;
}

void
mezz_require_tier(void)
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
void
mezz_require_working_tier(void)
{
	MezzMessage message = {0};

	mezz_require_tier();
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
int64
mezz_count_dirty(const RelFileLocator *rlocator)
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

static void
count(Counts *now)
{
	mezz_statistics(mezz_host, &now->tier);
	now->disk_reads = mezz_counted(MEZZ_COUNT_DISK_READS);
	now->disk_read_ns = mezz_counted(MEZZ_COUNT_DISK_WAIT_NS);
	for (int io = 0; io < MEZZ_FLASH_IOS; io++)
	{
		now->flash_ios[io] = mezz_counted(MEZZ_COUNT_FLASH_IOS + io);
		now->flash_ns[io] = mezz_counted(MEZZ_COUNT_FLASH_NS + io);
	}
	for (int count = 0; count < MEZZ_AHEAD_COUNTS; count++)
		now->ahead[count] = mezz_counted(MEZZ_COUNT_AHEAD + count);
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

	mezz_require_tier();
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
	mezz_require_tier();
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
	put_count(&row, mezz_counted(MEZZ_COUNT_AHEAD_BYTES));

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

	mezz_require_tier();
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

	mezz_require_tier();
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

	mezz_require_tier();
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
