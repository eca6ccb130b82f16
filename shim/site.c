/*
 * site.c - call sites in the ledger: return address -> place, frames -> stack.
 *
 * A site is described by the loader's own knowledge (module, nearest exported function) when it is
 * first seen; source lines are found later, outside the guest.
 */
#include "site.h"

#include <stddef.h>
#include <string.h>

#include "ledger.h"
#include "lock.h"
#include "module.h"
#include "python.h"
#include "settings.h"
#include "share.h"
#include "stack.h"
#include "unwind.h"

struct site_table sites;

/* ---- tables ---- */

static bool wanted(const char *word)
{
	const char *stack = settings_get(SETTING_stack);

	/* Who asks for leaks wants to know how it came to them. */
	if (!settings_is_set(SETTING_stack) && settings_is_set(SETTING_leak) &&
		strcmp(settings_get(SETTING_leak), "off") != 0)
		stack = "full";
	return strcmp(stack, word) == 0;
}

static void prepare_locked(void)
{
	bool all = wanted("full");
	struct site_place *stacks = NULL;

	if (wanted("none"))
		return;
	module_prepare();
	sites.native = all || wanted("native");
	sites.python = all || wanted("python");
	if (sites.python)
		python_prepare();
	sites.native = sites.native && unwind_prepare();
	if (sites.native || sites.python)
		stacks = share_private(SITE_STACKS * sizeof(struct site_place));
	__atomic_store_n(&sites.places, share_private(SITE_PLACES * sizeof(struct site_place)),
		__ATOMIC_RELEASE);
	if (sites.places)
		__atomic_store_n(&sites.stacks, stacks, __ATOMIC_RELEASE);
}

/* False: call sites are not wanted, or there is no memory for them. */
static bool prepare(void)
{
	if (likely(sites.places))
		return true;
	if (sites.prepared)
		return false;
	share_wipe_on_fork(&sites, sizeof(sites));
	lock_take(&sites.lock);
	if (!sites.prepared)
		prepare_locked();
	__atomic_store_n(&sites.prepared, true, __ATOMIC_RELEASE);
	lock_give_back(&sites.lock);
	return sites.places != NULL;
}

static bool full(const uint32_t *count, uint32_t size)
{
	return __atomic_load_n(count, __ATOMIC_RELAXED) >= size / 4 * 3;
}

/* The entry of a key, or the empty one where it belongs. */
static struct site_place *find(struct site_place *table, uint32_t size, uint64_t key)
{
	uint32_t i = (key * 0x9e3779b97f4a7c15ull >> 40) % size;

	for (;; i = (i + 1) % size) {
		uint64_t found = __atomic_load_n(&table[i].key, __ATOMIC_ACQUIRE);

		if (found == key || !found)
			return &table[i];
	}
}

/* Enter a new site; what another thread entered first stays. */
static struct site_place *enter(struct site_place *table, uint32_t size, uint32_t *count,
	const struct site_place *new)
{
	struct site_place *place = NULL;

	lock_take(&sites.lock);
	if (!full(count, size))
		place = find(table, size, new->key);
	if (place && !place->key) {
		__atomic_store_n(count, *count + 1, __ATOMIC_RELAXED);
		place->site = new->site;
		place->what = new->what;
		__atomic_store_n(&place->key, new->key, __ATOMIC_RELEASE);
	}
	lock_give_back(&sites.lock);
	return place;
}

/* ---- places ---- */

static uint32_t describe(uint64_t address, uint32_t *what)
{
	struct ledger_site entry = { .type = SITE_PLACE, .address = address, .offset = address };
	struct module_place place;

	*what = 0;
	/* The loader first, without a lock of ours: it has one of its own. */
	if (module_describe(&place, address)) {
		entry.module = place.module;
		entry.offset = place.offset;
		entry.function_offset = place.function_offset;
		*what = place.what;
	}
	return ledger_add_site(&entry, (struct ledger_part[2]){
		{ place.function, strlen(place.function) + 1 }, { NULL, 0 } });
}

/* The place of an address; NULL where the table is full or memory is. */
static const struct site_place *place_of(uint64_t address)
{
	struct site_place *place = find(sites.places, SITE_PLACES, address);
	struct site_place new = { .key = address };

	if (likely(__atomic_load_n(&place->key, __ATOMIC_ACQUIRE)))
		return place;
	if (__atomic_load_n(&sites.count, __ATOMIC_RELAXED) >= SITE_PLACES / 4 * 3)
		return NULL;
	new.site = describe(address, &new.what);
	return enter(sites.places, SITE_PLACES, &sites.count, &new);
}

uint32_t site_add(const void *caller, const void *frame)
{
	const struct site_place *place;

	if (!caller || !prepare())
		return 0;
	if (sites.stacks)
		return site_deep(caller, frame);
	place = place_of((uint64_t)caller);
	return place ? place->site : 0;
}

uint32_t site_add_python(const char *file, const char *function, unsigned line)
{
	struct ledger_site entry = { .type = SITE_PYTHON, .offset = line };

	return ledger_add_site(&entry, (struct ledger_part[2]){
		{ file, strlen(file) + 1 }, { function, strlen(function) + 1 } });
}

/* ---- stacks ---- */

/* Frames of Python come first, as ids; then return addresses. */
struct frames {
	unsigned lines, addresses;
	uint32_t line[STACK_FRAMES];
	uint64_t address[STACK_FRAMES];
};

/* Each step depends on one multiplication only. */
static uint64_t hash_frames(const struct frames *frames)
{
	uint64_t hash = 0x9e3779b97f4a7c15ull + frames->lines;

	for (unsigned i = 0; i < frames->lines; i++)
		hash = (hash ^ frames->line[i]) * 0xd6e8feb86659fd93ull;
	hash ^= hash >> 32;
	for (unsigned i = 0; i < frames->addresses; i++)
		hash = ((hash << 5 | hash >> 59) ^ frames->address[i]) * 0xd6e8feb86659fd93ull;
	return (hash ^ hash >> 32) | 1;
}

static uint32_t add_stack(const struct frames *frames)
{
	uint32_t ids[2 * STACK_FRAMES];
	struct ledger_site entry = { .type = SITE_STACK };

	memcpy(ids, frames->line, frames->lines * sizeof(*ids));
	entry.count = frames->lines;
	for (unsigned i = 0; i < frames->addresses; i++) {
		const struct site_place *place = place_of(frames->address[i]);

		/* A caller that is in no module is none: what looked like a frame was data. */
		if (!place || (i > 0 && !module_holds(frames->address[i])))
			break;
		ids[entry.count++] = place->site;
	}
	if (entry.count == 0)
		return 0;
	if (entry.count == 1)
		return ids[0];
	return ledger_add_site(&entry, (struct ledger_part[2]){
		{ ids, entry.count * sizeof(*ids) }, { NULL, 0 } });
}

/*
 * How the interpreter got from one line of Python to the next is its own affair, and changes as it warms
 * up: where there are lines, the stack ends there.
 */
static bool belongs(const struct frames *frames, unsigned i)
{
	const struct site_place *place = place_of(frames->address[i]);

	return module_holds(frames->address[i]) &&
		!(frames->lines > 0 && place && place->what & MODULE_INTERPRETER);
}

/* Different garbage behind the same frames is the same stack. */
static uint32_t intern(struct frames *frames)
{
	struct site_place new = { .key = 0 }, *place;
	unsigned good = frames->addresses > 0;

	while (good < frames->addresses && belongs(frames, good))
		good++;
	frames->addresses = good;
	new.key = hash_frames(frames);
	place = find(sites.stacks, SITE_STACKS, new.key);
	if (__atomic_load_n(&place->key, __ATOMIC_ACQUIRE))
		return place->site;
	new.site = add_stack(frames);
	place = new.site ? enter(sites.stacks, SITE_STACKS, &sites.stack_count, &new) : NULL;
	return place ? place->site : new.site;
}

uint32_t site_of_address(const void *address)
{
	const struct site_place *place = address && prepare() ? place_of((uint64_t)address) : NULL;

	return place ? place->site : 0;
}

static void capture(struct frames *frames, const struct site_place *direct,
	const void *caller, const void *frame)
{
	frames->addresses = 1;
	frames->address[0] = (uint64_t)caller;
	if (sites.native)
		frames->addresses = stack_walk(frames->address, caller, frame);
	frames->lines = 0;
	if (sites.python)
		frames->lines = python_walk(frames->line, direct && direct->what & MODULE_LENDS_GIL);
}

static __attribute__((noinline)) uint32_t add_deep(struct frames *frames)
{
	struct site_place new = { .key = hash_frames(frames) }, *place;

	if (full(&sites.stack_count, SITE_STACKS))
		return site_of_address((const void *)frames->address[0]);
	new.site = intern(frames);
	place = new.site ? enter(sites.stacks, SITE_STACKS, &sites.stack_count, &new) : NULL;
	return place ? place->site : new.site;
}

uint32_t site_deep(const void *caller, const void *frame)
{
	const struct site_place *direct = place_of((uint64_t)caller), *place;
	struct frames frames;

	capture(&frames, direct, caller, frame);
	place = find(sites.stacks, SITE_STACKS, hash_frames(&frames));
	if (likely(__atomic_load_n(&place->key, __ATOMIC_ACQUIRE)))
		return place->site;
	if (sites.python && python_look())
		capture(&frames, direct, caller, frame);
	return add_deep(&frames);
}

void site_forget(void)
{
	memset(&sites, 0, sizeof(sites));
	module_forget();
	python_forget();
}
