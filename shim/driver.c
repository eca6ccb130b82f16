/*
 * driver.c - finding and binding the real driver.
 *
 * The very library that the application opened is the one we call: its symbols are resolved
 * through the application's own handle, or from the copy the loader already has in memory. We never
 * search for a driver and never load one: a toolkit's stub would be as easily found as the driver.
 */
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "calls.h"
#include "library.h"
#include "lock.h"
#include "lookup.h"
#include "share.h"

static CUresult absent(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Filled by the first call or look-up: 600 relocations fewer in processes without CUDA. */
struct driver real;

static void *const entries[DRIVER_CALL_COUNT] = {
#define X(name, params, args) (void *)name,
	DRIVER_CALLS(X)
#undef X
};

void *driver_forwards[DRIVER_FORWARD_COUNT];

/* As arrays, not pointers: no relocations. */
#define X(name) #name,
const char driver_forward_names[DRIVER_FORWARD_COUNT][48] = { FORWARDS(X) };
#undef X

/* Functions of `real` by index: the struct is an array of pointers of one size. */
_Static_assert(sizeof(struct driver) == DRIVER_CALL_COUNT * sizeof(void *), "no padding");

static struct {
	uint32_t lock;
	bool loaded;
	bool settled;
	struct link_map *map;
	char path[256];
	/* Open addressing: driver pointer -> call + 1. Twice the calls, a power of two. */
	uint16_t by_pointer[2048];
} state;

static void **slot_of(int call)
{
	return (void **)&real + call;
}

void *driver_entry(int call)
{
	return entries[call];
}

bool driver_has(int call)
{
	return *slot_of(call) != (void *)absent;
}

bool driver_exports(const char *name)
{
	return __atomic_load_n(&state.loaded, __ATOMIC_ACQUIRE) && library_defines(state.map, name);
}

static unsigned pointer_hash(const void *pointer)
{
	return ((uintptr_t)pointer * 0x9e3779b97f4a7c15ull) >> 53;
}

int driver_call_at(const void *pointer)
{
	for (unsigned i = pointer_hash(pointer);; i = (i + 1) % 2048) {
		int call = (int)__atomic_load_n(&state.by_pointer[i], __ATOMIC_ACQUIRE) - 1;

		if (call < 0)
			return -1;
		if (*slot_of(call) == pointer)
			return call;
	}
}

/* Two names on one address would make the reverse map ambiguous: the first keeps it. */
static void remember_pointer(int call)
{
	const void *pointer = *slot_of(call);
	unsigned i = pointer_hash(pointer);

	if (driver_call_at(pointer) >= 0)
		return;
	while (state.by_pointer[i])
		i = (i + 1) % 2048;
	__atomic_store_n(&state.by_pointer[i], call + 1, __ATOMIC_RELEASE);
}

void driver_bind(int call, const void *pointer)
{
	if (call < 0)
		return;
	lock_take(&state.lock);
	if (!driver_has(call)) {
		__atomic_store_n(slot_of(call), (void *)pointer, __ATOMIC_RELEASE);
		remember_pointer(call);
	}
	lock_give_back(&state.lock);
}

bool driver_is_library(const struct link_map *map)
{
	const char *base = strrchr(map->l_name, '/');
	struct library_dynamic dynamic;

	if (strncmp(base ? base + 1 : map->l_name, "libcuda.so", 10) == 0)
		return true;
	library_read(map, &dynamic);
	return dynamic.soname && strcmp(dynamic.soname, "libcuda.so.1") == 0;
}

bool driver_is_ours(const struct link_map *map)
{
	return __atomic_load_n(&state.loaded, __ATOMIC_ACQUIRE) && state.map == map;
}

/*
 * A handle of the driver itself, which is never unloaded then. That of the application may be one
 * of a library before it, which has wrappers under the same names; it tells the namespace.
 */
static void *own_handle(void *handle, const struct link_map *map)
{
	Lmid_t space = LM_ID_BASE;

	if (handle != RTLD_DEFAULT && handle != RTLD_NEXT)
		dlinfo(handle, RTLD_DI_LMID, &space);
	return dlmopen(space, map->l_name, RTLD_LAZY | RTLD_NOLOAD);
}

/* What a driver has. Not every stack has room for it. */
struct found {
	void *calls[DRIVER_CALL_COUNT];
	void *forwards[DRIVER_FORWARD_COUNT];
};

static void look_up_all(struct found *found, void *handle)
{
	for (int call = 0; call < DRIVER_CALL_COUNT; call++)
		found->calls[call] = lookup_real(handle, call_name(call));
	for (int i = 0; i < DRIVER_FORWARD_COUNT; i++)
		found->forwards[i] = lookup_real(handle, driver_forward_names[i]);
	dlerror(); /* no word of those that are absent: the application asked for another name */
}

static void bind_locked(const struct found *found, struct link_map *map)
{
	memset(state.by_pointer, 0, sizeof(state.by_pointer));
	for (int call = 0; call < DRIVER_CALL_COUNT; call++) {
		__atomic_store_n(slot_of(call), found->calls[call] ? found->calls[call] : (void *)absent,
			__ATOMIC_RELEASE);
		if (found->calls[call])
			remember_pointer(call);
	}
	for (int i = 0; i < DRIVER_FORWARD_COUNT; i++)
		__atomic_store_n(&driver_forwards[i],
			found->forwards[i] ? found->forwards[i] : (void *)absent, __ATOMIC_RELEASE);
	state.map = map;
	strncpy(state.path, map->l_name, sizeof(state.path) - 1);
	__atomic_store_n(&state.loaded, true, __ATOMIC_RELEASE);
}

/*
 * Bind all names at once. They are looked up before our lock is taken: the loader has a lock of
 * its own, and a constructor under it may call us.
 */
static bool adopt(void *handle, struct link_map *map)
{
	struct found *found;
	int saved = errno;

	if (state.loaded && (state.settled || state.map == map))
		return true;
	handle = own_handle(handle, map);
	found = handle ? share_private(sizeof(*found)) : NULL;
	if (found) {
		look_up_all(found, handle);
		lock_take(&state.lock);
		if (!state.loaded || (!state.settled && state.map != map))
			bind_locked(found, map);
		lock_give_back(&state.lock);
		share_private_done(found, sizeof(*found));
	}
	errno = saved;
	return found;
}

bool driver_adopt(void *handle, const void *symbol)
{
	struct link_map *map = NULL;
	Dl_info info;

	if (!dladdr1(symbol, &info, (void **)&map, RTLD_DL_LINKMAP) || !map || !driver_is_library(map))
		return false;
	return adopt(handle, map);
}

/* No driver yet: every call is absent. Nobody binds at the same time who would lose by it. */
static void fill_absent(void)
{
	lock_take(&state.lock);
	for (int call = 0; !state.loaded && call < DRIVER_CALL_COUNT; call++)
		__atomic_store_n(slot_of(call), (void *)absent, __ATOMIC_RELEASE);
	lock_give_back(&state.lock);
}

bool driver_find(void)
{
	struct link_map *map = NULL;
	void *handle;

	if (likely(__atomic_load_n(&state.loaded, __ATOMIC_ACQUIRE)))
		return true;
	if (!*slot_of(0))
		fill_absent();
	handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		handle = dlopen("libcuda.so", RTLD_LAZY | RTLD_NOLOAD);
	if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
		return false;
	return adopt(handle, map);
}

void *driver_forward(int forward)
{
	return driver_find() ? driver_forwards[forward] : (void *)absent;
}

void driver_settle(void)
{
	state.settled = true;
}

const char *driver_path(void)
{
	return state.path;
}
