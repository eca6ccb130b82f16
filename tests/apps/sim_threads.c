/*
 * sim_threads.c - eight threads allocate, copy and free at random; nothing is lost, nothing
 * overlaps.
 */
#include "sim_check.h"

#include <pthread.h>
#include <string.h>

#define THREADS 8
#define ROUNDS 3000
#define LIVE 32

static CUcontext context;

struct piece {
	CUdeviceptr address;
	size_t bytes;
	unsigned char mark;
};

/* Each piece carries a mark of its own at both ends. */
static void fill(struct piece *piece, CUstream stream, unsigned random)
{
	piece->bytes = random % 7 ? 1 + random % 5000 : 1 + random % (5 * MIB);
	piece->mark = (unsigned char)random;
	if (random % 3)
		OK(cuMemAlloc_v2(&piece->address, piece->bytes));
	else
		OK(cuMemAllocAsync(&piece->address, piece->bytes, stream));
	OK(cuMemsetD8_v2(piece->address, piece->mark, 1));
	OK(cuMemsetD8_v2(piece->address + piece->bytes - 1, piece->mark, 1));
}

static void empty(struct piece *piece, CUstream stream, unsigned random)
{
	unsigned char first, last;

	OK(cuMemcpyDtoH_v2(&first, piece->address, 1));
	OK(cuMemcpyDtoH_v2(&last, piece->address + piece->bytes - 1, 1));
	SAME(first, piece->mark);
	SAME(last, piece->mark);
	if (random % 2)
		OK(cuMemFree_v2(piece->address));
	else
		OK(cuMemFreeAsync(piece->address, stream));
	piece->address = 0;
}

static void *work(void *number)
{
	unsigned random = (unsigned)(uintptr_t)number + 1;
	struct piece pieces[LIVE];
	CUstream stream;
	int i;

	memset(pieces, 0, sizeof(pieces));
	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (i = 0; i < ROUNDS; i++) {
		random = random * 1103515245 + 12345;
		if (pieces[random / 65536 % LIVE].address)
			empty(&pieces[random / 65536 % LIVE], stream, random / 65536);
		else
			fill(&pieces[random / 65536 % LIVE], stream, random / 65536);
	}
	for (i = 0; i < LIVE; i++)
		if (pieces[i].address)
			empty(&pieces[i], stream, (unsigned)i);
	OK(cuStreamDestroy_v2(stream));
	return NULL;
}

int main(void)
{
	size_t before, after, total;
	pthread_t threads[THREADS];
	uintptr_t i;

	context = check_start();
	OK(cuMemGetInfo_v2(&before, &total));
	for (i = 0; i < THREADS; i++)
		SAME(pthread_create(&threads[i], NULL, work, (void *)i), 0);
	for (i = 0; i < THREADS; i++)
		SAME(pthread_join(threads[i], NULL), 0);
	OK(cuCtxSynchronize());
	OK(cuMemGetInfo_v2(&after, &total));
	SAME(after, before);
	return 0;
}
