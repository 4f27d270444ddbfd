/*
 * counts.c
 *	  What processes count.
 *
 * Each counts in a place of its own, for which it needs no lock and which no
 * other process writes, and the places are added up where somebody asks.  A
 * place outlives its process: the next one with its number goes on in it.  Those
 * that have none, such as one that has given it back, share one.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "mezzanine.h"

/* A multiple of what processors exchange, so that nobody else's counts come along */
typedef struct MezzPlace
{
	pg_attribute_aligned(2 * PG_CACHE_LINE_SIZE)
	pg_atomic_uint64 counts[MEZZ_COUNTS];
} MezzPlace;

static MezzPlace *places = NULL;

/* The last one is shared. */
static int
place_count(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS + 1;
}

Size
mezz_count_bytes(void)
{
	return add_size(mul_size(place_count(), sizeof(MezzPlace)), sizeof(MezzPlace));
}

void
mezz_count_use_memory(void)
{
	bool		found;
	void	   *memory = ShmemInitStruct("mezzanine counts", mezz_count_bytes(), &found);

	places = (MezzPlace *) TYPEALIGN(sizeof(MezzPlace), memory);
	if (found)
		return;
	for (int i = 0; i < place_count(); i++)
		for (int what = 0; what < MEZZ_COUNTS; what++)
			pg_atomic_init_u64(&places[i].counts[what], 0);
}

/* What is taken back is added as the negative of it. */
void
mezz_count(MezzCount what, uint64 n)
{
	pg_atomic_uint64 *count;

	if (MyProcNumber == INVALID_PROC_NUMBER)
	{
		pg_atomic_fetch_add_u64(&places[place_count() - 1].counts[what], n);
		return;
	}
	Assert(MyProcNumber < place_count() - 1);
	count = &places[MyProcNumber].counts[what];
	pg_atomic_write_u64(count, pg_atomic_read_u64(count) + n);
}

uint64
mezz_counted(MezzCount what)
{
	uint64		sum = 0;

	for (int i = 0; i < place_count(); i++)
		sum += pg_atomic_read_u64(&places[i].counts[what]);
	return sum;
}
