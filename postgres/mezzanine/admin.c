/*
 * admin.c
 *	  Functions for administrators that have the tier do something: drain, switch
 *	  off and on, resize.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/rel.h"

#include "mezzanine.h"

PG_FUNCTION_INFO_V1(mezzanine_drain);
PG_FUNCTION_INFO_V1(mezzanine_flush);
PG_FUNCTION_INFO_V1(mezzanine_disable);
PG_FUNCTION_INFO_V1(mezzanine_enable);
PG_FUNCTION_INFO_V1(mezzanine_resize);

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

Datum
mezzanine_drain(PG_FUNCTION_ARGS)
{
	int64		dirty;

	mezz_require_working_tier();
	dirty = mezz_count_dirty(NULL);
	drain(NULL, MEZZ_SCOPE_RELATION);
	PG_RETURN_INT64(dirty);
}

/* Opens a relation that is no mere definition; else an error. */
Relation
mezz_open_with_pages(Oid relid, LOCKMODE lockmode)
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

	mezz_require_working_tier();
	relation = mezz_open_with_pages(relid, AccessShareLock);

	/* Pages of other relations never enter the tier. */
	if (RelationIsPermanent(relation))
	{
		const RelFileLocator *rlocator = &relation->rd_locator;
		MezzPage	page = {
			.database = rlocator->dbOid,
			.tablespace = rlocator->spcOid,
			.relation = rlocator->relNumber,
		};

		dirty = mezz_count_dirty(rlocator);
		drain(&page, MEZZ_SCOPE_RELATION);
	}
	relation_close(relation, AccessShareLock);
	PG_RETURN_INT64(dirty);
}

/*
 * No page enters any more, and none is newer than its disk copy.  Pages that
 * are there go on being read.  Given up, or failed, it has changed nothing.
 */
Datum
mezzanine_disable(PG_FUNCTION_ARGS)
{
	MezzNow		now;

	mezz_require_working_tier();
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

	mezz_require_working_tier();
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

	mezz_require_working_tier();
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
