/*
 * model.c
 *	  Modelled devices as SQL sees them: how fast their time passes, and what
 *	  they have done.  For benchmarks.
 *
 * The state of a modelled drive is shared by all processes, so that one call
 * changes it for everybody.  The SQL side, and who may call what, is in
 * mezzanine--1.0.sql.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"

#include "mezzanine.h"

PG_FUNCTION_INFO_V1(mezzanine_model_time_scale);
PG_FUNCTION_INFO_V1(mezzanine_model_use);

#define MODEL_USE_COLUMNS 14

/* Has modelled devices take so many times as long as real ones; 0: no time. */
Datum
mezzanine_model_time_scale(PG_FUNCTION_ARGS)
{
	double		time_scale = PG_GETARG_FLOAT8(0);

	if (!(time_scale >= 0 && time_scale <= 1000))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("time scale must be between 0 and 1000")));
	if (mezz_disk)
		mezz_disk_set_time_scale(mezz_disk, time_scale);
	if (mezz_host)
		mezz_flash_set_time_scale(mezz_host, time_scale);
	PG_RETURN_VOID();
}

static void
put_use(ReturnSetInfo *rsinfo, const char *device, const MezzDriveUse *used)
{
	Datum		values[MODEL_USE_COLUMNS] = {0};
	bool		nulls[MODEL_USE_COLUMNS] = {0};
	int			column = 0;

	values[column++] = CStringGetTextDatum(device);
	values[column++] = Float8GetDatum(used->time_scale);
	values[column++] = Int64GetDatum(used->reads);
	values[column++] = Int64GetDatum(used->writes);
	values[column++] = Int64GetDatum(used->flushes);
	values[column++] = Int64GetDatum(used->bytes_read);
	values[column++] = Int64GetDatum(used->bytes_written);
	values[column++] = Int64GetDatum(used->read_response_ns);
	values[column++] = Int64GetDatum(used->write_response_ns);
	values[column++] = Int64GetDatum(used->flush_response_ns);
	values[column++] = Int64GetDatum(used->late_ns);
	values[column++] = Int64GetDatum(used->busy_ns);
	values[column++] = Int64GetDatum(used->elapsed_ns);
	values[column++] = Int32GetDatum(used->servers);
	Assert(column == MODEL_USE_COLUMNS);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* One row for each modelled device. */
Datum
mezzanine_model_use(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MezzDriveUse used;

	InitMaterializedSRF(fcinfo, 0);
	if (mezz_disk)
	{
		mezz_disk_used(mezz_disk, &used);
		put_use(rsinfo, "disk", &used);
	}
	if (mezz_host && mezz_flash_used(mezz_host, &used))
		put_use(rsinfo, "flash", &used);
	return (Datum) 0;
}
