/*
 * sim_tables.c - the private tables of functions that the CUDA runtime fetches by number before its first
 * call, so that with the knob TABLES it comes as far as the driver's attestation. That is not imitated:
 * all programs of the runtime end there, with error 103 of theirs. Without the knob there are no tables.
 *
 * A table begins with its size. Its functions do nothing and say that they succeeded; two of them are
 * taken at their word, and hand out a place to write to. One more table, of no real driver, has a function
 * that takes memory.
 */
#include "sim.h"
#include "sim_knobs.h"

#include <string.h>

#define FUNCTIONS 50

struct table {
	size_t bytes;
	void *functions[FUNCTIONS];
};

static const char ids[][16] = {
	"\xf8\xcf\xf9\x51\x21\x46\x8b\x4e\xb9\xe2\xfb\x46\x9e\x7c\x0d\xd9",
	"\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9",
	"\xa0\x94\x79\x8c\x2e\x74\x2e\x74\x93\xf2\x08\x00\x20\x0c\x0a\x66", /* has the two */
	"\x42\xd8\x5a\x81\x23\xf6\xcb\x47\x82\x98\xf6\xe7\x8a\x3a\xec\xdc",
	"\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93",
	"\x26\x3e\x88\x60\x7c\xd2\x61\x43\x92\xf6\xbb\xd5\x00\x6d\xfa\x7e",
	"\xd4\x08\x20\x55\xbd\xe6\x70\x4b\x8d\x34\xba\x12\x3c\x66\xe1\xf2", /* the attestation */
};
#define WITH_PLACES 2
static const char own_id[16] = "cuward-simulated";

static CUresult nothing(void)
{
	return CUDA_SUCCESS;
}

static CUresult give_place(void **place, size_t *bytes)
{
	static char there[1024];

	if (place && bytes) {
		*place = there;
		*bytes = sizeof(there);
	}
	return CUDA_SUCCESS;
}

static const struct table *table_at(unsigned number)
{
	static struct table tables[2]; /* filled with the same by whoever comes first */
	struct table *table = &tables[number == WITH_PLACES];

	for (unsigned i = 0; i < FUNCTIONS; i++)
		table->functions[i] = (void *)nothing;
	if (number == WITH_PLACES)
		table->functions[1] = table->functions[5] = (void *)give_place;
	table->bytes = sizeof(*table);
	return table;
}

static const struct table *own_table(void)
{
	static struct table table = { sizeof(table), { (void *)sim_cuMemAlloc_v2 } };

	return &table;
}

CUresult sim_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	if (!ppExportTable || !pExportTableId)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; knobs.tables && i < ARRAY_SIZE(ids); i++) {
		if (memcmp(pExportTableId, ids[i], sizeof(ids[i])) != 0)
			continue;
		*ppExportTable = table_at(i);
		return CUDA_SUCCESS;
	}
	if (knobs.tables && !memcmp(pExportTableId, own_id, sizeof(own_id))) {
		*ppExportTable = own_table();
		return CUDA_SUCCESS;
	}
	*ppExportTable = NULL;
	return CUDA_ERROR_NOT_FOUND;
}
