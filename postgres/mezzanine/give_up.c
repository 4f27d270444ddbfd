/*
 * give_up.c
 *	  Lost pages that an administrator gives up, by name or by their numbers.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "catalog/pg_tablespace_d.h"
#include "common/relpath.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "storage/smgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/relmapper.h"

#include "mezzanine.h"

PG_FUNCTION_INFO_V1(mezzanine_give_up);
PG_FUNCTION_INFO_V1(mezzanine_give_up_numbers);

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

	mezz_require_working_tier();
	require_no_recovery();
	relation = mezz_open_with_pages(relid, lockmode);
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

	mezz_require_working_tier();
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
