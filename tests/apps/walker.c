/*
 * walker.c - takes memory around whoever interposes: reads the driver's symbol table itself, or takes a
 * function out of one of its private tables.
 *
 * walker BYTES [table]: 2 MiB in the usual way, so many around, and a question for what is free. Prints the
 * results.
 */
#include <cuda.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef CUresult allocate(CUdeviceptr *, size_t);

/* The allocator of the library whose symbol table lies here. */
static int look(struct dl_phdr_info *info, size_t size, void *found)
{
	const ElfW(Dyn) *dynamic = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;

	(void)size;
	if (!strstr(info->dlpi_name, "libcuda.so"))
		return 0;
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		if (dynamic->d_tag == DT_SYMTAB)
			symbols = (const void *)dynamic->d_un.d_ptr;
		else if (dynamic->d_tag == DT_STRTAB)
			names = (const void *)dynamic->d_un.d_ptr;
	}
	/* The names follow the symbols. */
	for (; symbols && (const char *)symbols < names; symbols++)
		if (symbols->st_value && !strcmp(names + symbols->st_name, "cuMemAlloc_v2"))
			*(allocate **)found = (allocate *)(info->dlpi_addr + symbols->st_value);
	return 0;
}

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
	allocate *around = NULL;
	CUdeviceptr pointer;
	CUcontext context;
	size_t free_bytes, total_bytes;

	if (argc < 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		return 2;
	if (argc > 2)
		around = out_of_table();
	else
		dl_iterate_phdr(look, &around);
	if (!around)
		return 3;
	printf("%d ", cuMemAlloc(&pointer, 2 << 20));
	printf("%d ", around(&pointer, strtoull(argv[1], NULL, 10)));
	printf("%d\n", cuMemGetInfo(&free_bytes, &total_bytes));
	return 0;
}
