/*
 * walker.c - takes memory around whoever interposes: reads the driver's symbol table itself, or takes a
 * function out of one of its private tables.
 *
 * walker BYTES [table]: 2 MiB in the usual way, so many around, and a question for what is free. Prints the
 * results.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "own_symbol.h"

typedef CUresult allocate(CUdeviceptr *, size_t);

/* The simulated driver has such a table where CUWARD_SIM_TABLES is 1. */
static allocate *out_of_table(void)
{
	const struct {
		size_t bytes;
		allocate *first;
	} *table = NULL;
	CUuuid id;

	memcpy(&id, "cuward-simulated", sizeof(id));
	return cuGetExportTable((const void **)&table, &id) ? NULL : table->first;
}

int main(int argc, char **argv)
{
	allocate *around;
	CUdeviceptr pointer;
	CUcontext context;
	size_t free_bytes, total_bytes;

	if (argc < 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		return 2;
	around = argc > 2 ? out_of_table() : (allocate *)own_symbol("cuMemAlloc_v2");
	if (!around)
		return 3;
	printf("%d ", cuMemAlloc(&pointer, 2 << 20));
	printf("%d ", around(&pointer, strtoull(argv[1], NULL, 10)));
	printf("%d\n", cuMemGetInfo(&free_bytes, &total_bytes));
	return 0;
}
