/*
 * small.c - a small driver of another hand whose handles are small numbers, counted from 1 for each kind
 * of thing and given out again at once; that hands out memory opened in the process that made it where
 * it is. Built with -DUNCOUNTED it does not tell how many devices there are.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ROOM (1ull << 34)
#define PLACES 64

/* One kind of thing: what each of them takes, 0 for a free place. */
struct things {
	uint64_t bytes[PLACES];
};

static struct things arrays, mipmaps, memory;
static int initialised;
static void *current;

static int put(struct things *to, uint64_t *handle, uint64_t bytes)
{
	for (uint64_t i = 1; i < PLACES; i++) {
		if (to->bytes[i] == 0) {
			to->bytes[i] = bytes;
			*handle = i;
			return 0;
		}
	}
	return 2;
}

static int take(struct things *from, uint64_t handle, int error)
{
	if (handle == 0 || handle >= PLACES || from->bytes[handle] == 0)
		return error;
	from->bytes[handle] = 0;
	return 0;
}

static int fine(int result) { return initialised ? result : 3; }
static int within(int result) { return current ? result : 201; }

#define CALL(name, params, result) \
	int name params; \
	int name params { return result; }

CALL(cuInit, (int flags), (initialised = 1, flags ? 1 : 0))
CALL(cuDriverGetVersion, (int *to), (*to = 12040, 0))
#ifdef UNCOUNTED
CALL(cuDeviceGetCount, (int *to), to ? 999 : 1)
#else
CALL(cuDeviceGetCount, (int *to), (*to = 1, fine(0)))
#endif
CALL(cuDeviceGet, (int *to, int i), (*to = i, fine(i ? 101 : 0)))
CALL(cuDeviceGetName, (char *to, int bytes, int d), (snprintf(to, bytes, "Small"), fine(d)))
CALL(cuDeviceTotalMem_v2, (uint64_t *to, int d), (*to = ROOM, fine(d)))
CALL(cuDevicePrimaryCtxRetain, (void **to, int d), (*to = (void *)1, fine(d)))
CALL(cuCtxSetCurrent, (void *context), (current = context, fine(0)))
CALL(cuCtxGetCurrent, (void **to), (*to = current, fine(0)))
CALL(cuCtxGetDevice, (int *to), (*to = 0, within(0)))
CALL(cuArray3DCreate_v2, (uint64_t *to, const void *shape), shape ? within(put(&arrays, to, 1)) : 1)
CALL(cuArrayDestroy, (uint64_t array), take(&arrays, array, 400))
CALL(cuMipmappedArrayCreate, (uint64_t *to, const void *shape, unsigned levels),
	shape && levels ? within(put(&mipmaps, to, 1)) : 1)
CALL(cuMipmappedArrayDestroy, (uint64_t array), take(&mipmaps, array, 400))
CALL(cuMemAlloc_v2, (uint64_t *to, uint64_t bytes), bytes ? within(put(&memory, to, bytes)) : 1)
CALL(cuMemFree_v2, (uint64_t pointer), take(&memory, pointer, 1))

struct name {
	char bytes[64];
};

static int name_of(struct name *to, uint64_t pointer)
{
	memset(to, 0, sizeof(*to));
	memcpy(to, &pointer, sizeof(pointer));
	return 0;
}

static int named(uint64_t *to, struct name name)
{
	memcpy(to, &name, sizeof(*to));
	return 0;
}

CALL(cuIpcGetMemHandle, (struct name *to, uint64_t pointer), name_of(to, pointer))
CALL(cuIpcOpenMemHandle_v2, (uint64_t *to, struct name name, int flags), flags == 1 ? named(to, name) : 1)
CALL(cuIpcCloseMemHandle, (uint64_t pointer), memory.bytes[pointer % PLACES] ? 0 : 1)
