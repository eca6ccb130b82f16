/*
 * bypass.c - libraries whose calls of the driver do not come by us, and how they are led back.
 *
 * A library that needs the driver binds to us, who stand first in the global scope. It does not when it
 * was opened with RTLD_DEEPBIND, which puts its own scope first, or in another namespace, where
 * we are not. The words that the loader filled in show it. So when a program looks something up in
 * a library it has just opened, libraries that need the driver are bound to our entries, as they
 * would have been. What called the driver before (a constructor) or is never looked up by dlsym is
 * found at the end, and told. Processes without a driver walk the names of their libraries, once.
 *
 * The loader's lists are walked inside dl_iterate_phdr(), which holds the lock they change under; a
 * dlsym or dlopen there would take another one, in the wrong order.
 */
#include "bypass.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"
#include "driver.h"
#include "guest.h"
#include "library.h"
#include "lock.h"
#include "log.h"
#include "lookup.h"
#include "settings.h"

/* glibc 2.35 and newer list their namespaces; older headers do not know. */
struct spaces {
	struct r_debug base;
	struct spaces *next;
};

extern struct spaces spaces __asm__("_r_debug") __attribute__((weak));

extern const ElfW(Dyn) own_dynamic[] __asm__("_DYNAMIC") __attribute__((visibility("hidden")));

void *bypass_handle;

static struct {
	bool started;
	bool first;  /* nobody before us overrides dlsym */
	bool driver; /* there is one in this process */
	pid_t pid;   /* the process that loaded us */
	const struct link_map *last_at_start; /* what was loaded up to here is never unloaded */
	unsigned long long opened;
	unsigned long long closed;
	const struct link_map *last; /* everything up to here was looked at */
	uint32_t found[FINDING_COUNT];
} seen;

/* One walk over the libraries of the process. */
struct walk {
	const struct link_map *driver; /* of the namespace that is walked */
	bool base;   /* it is ours */
	bool repair; /* lead back what can be */
	bool ours;   /* words can be ours: the driver of this namespace is the one we call */
	bool again;  /* out: there is a driver, and something was opened */
	const struct link_map *elsewhere; /* out: the driver of another namespace */
	enum cuward_finding finding;
	uint32_t escaped; /* out: words of this library that lead around us */
	enum cuward_finding told; /* out: the last finding, and where */
	char name[256];
};

/* Opened late, by dlopen, we stand in front of nobody. */
static bool is_behind_libc(void)
{
	const struct link_map *map = spaces.base.r_map;

	for (; map && map->l_ld != own_dynamic; map = map->l_next) {
		if (library_definition(map, "__libc_start_main"))
			return true;
	}
	return false;
}

static bool is_first_override(void)
{
	const struct link_map *map = spaces.base.r_map;

	while (map && map->l_ld != own_dynamic && !library_definition(map, "dlsym"))
		map = map->l_next;
	return map && map->l_ld == own_dynamic;
}

static struct spaces *next_space(struct spaces *space)
{
	return spaces.base.r_version >= 2 ? space->next : NULL;
}

/* The driver among these libraries: the one in use, where there are several. */
static const struct link_map *find_driver(const struct link_map *map)
{
	const struct link_map *first = NULL;

	for (; map; map = map->l_next) {
		if (map->l_ld == own_dynamic || !driver_is_library(map))
			continue;
		if (driver_is_ours(map))
			return map;
		first = first ? first : map;
	}
	return first;
}

void bypass_start(void)
{
	const struct link_map *last = spaces.base.r_map;

	while (last && last->l_next)
		last = last->l_next;
	seen.last_at_start = last;
	seen.first = is_first_override();
	seen.driver = find_driver(spaces.base.r_map);
	seen.pid = getpid();
	__atomic_store_n(&seen.started, !is_behind_libc(), __ATOMIC_RELEASE);
}

static bool disabled(void)
{
	settings_read();
	return settings_get(SETTING_disable)[0] == '1';
}

/* ---- what one word of a library leads to ---- */

static bool defined_elsewhere(const struct walk *walk, const char *name)
{
	const struct link_map *map = walk->driver;

	while (map->l_prev)
		map = map->l_prev;
	for (; map; map = map->l_next) {
		if (map != walk->driver && map->l_ld != own_dynamic && library_defines(map, name))
			return true;
	}
	return false;
}

/* Does the loader still have to bind it? Then it leads into the library itself. */
static bool is_unbound(const struct link_map *map, const void *target, const char *name)
{
	Elf64_Addr distance = (uintptr_t)target - map->l_addr;
	uintptr_t dynamic = (uintptr_t)map->l_ld - map->l_addr;

	return distance < dynamic && !library_defines(map, name);
}

static void store(const struct link_map *map, void **word, void *target)
{
	uintptr_t page = sysconf(_SC_PAGESIZE);
	uintptr_t start = 0, end = 0, at = (uintptr_t)word & ~(page - 1);
	bool sealed = library_relro(map, &start, &end) && at >= (start & ~(page - 1)) &&
		at < (end & ~(page - 1));

	if (sealed && mprotect((void *)at, page, PROT_READ | PROT_WRITE) != 0)
		return;
	__atomic_store_n(word, target, __ATOMIC_RELEASE);
	if (sealed)
		mprotect((void *)at, page, PROT_READ);
}

static void look_at_word(const struct link_map *map, const char *name, void **word, void *user)
{
	struct walk *walk = user;
	int call = call_number(name);
	const void *target = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	bool around, unbound;

	if (call < 0 || target == driver_entry(call))
		return;
	/* What the driver defines may lead to another place in it (IFUNC). */
	around = target && (library_holds(walk->driver, target) ||
		target == library_definition(walk->driver, name));
	unbound = !around && walk->repair && is_unbound(map, target, name) &&
		!defined_elsewhere(walk, name) && library_defines(walk->driver, name);
	walk->escaped += around;
	if (walk->repair && walk->ours && (around || unbound))
		store(map, word, driver_entry(call));
}

/* ---- a library, a namespace, the process ---- */

static bool is_told(const struct link_map *map)
{
	static const ElfW(Dyn) *told[64];
	static unsigned count;

	for (unsigned i = 0; i < count; i++) {
		if (told[i] == map->l_ld)
			return true;
	}
	if (count < 64)
		told[count++] = map->l_ld;
	return count == 64;
}

/* The line on stderr is for later: the loader waits for us. */
static void tell(struct walk *walk, enum cuward_finding finding, const struct link_map *map)
{
	if (is_told(map))
		return;
	seen.found[finding]++;
	guest_find(finding);
	walk->told = finding;
	strncpy(walk->name, map->l_name, sizeof(walk->name) - 1);
}

static void log_walk(const struct walk *walk)
{
	if (walk->name[0])
		log_line(LOG_WARN, "%s was opened %s: its calls may get around cuward", walk->name,
			walk->told == FINDING_DEEPBIND ? "with RTLD_DEEPBIND" : "by dlmopen");
}

static void look_at_library(const struct link_map *map, struct walk *walk)
{
	if (map == walk->driver || map->l_ld == own_dynamic || !library_needs(map, "libcuda.so"))
		return;
	walk->escaped = 0;
	library_imports(map, look_at_word, walk);
	if (walk->escaped)
		tell(walk, walk->finding, map);
}

static void look_at_space(const struct link_map *first, struct walk *walk)
{
	walk->driver = find_driver(first);
	if (!walk->driver)
		return;
	walk->finding = walk->base ? FINDING_DEEPBIND : FINDING_NAMESPACE;
	walk->ours = driver_is_ours(walk->driver);
	/* The program itself is never bound but to what stands before the driver. */
	for (const struct link_map *map = walk->base ? first->l_next : first; map; map = map->l_next)
		look_at_library(map, walk);
}

/* A driver that we never were asked for. */
static void look_at_strangers(const struct link_map *first, struct walk *walk);

static int look_everywhere(struct dl_phdr_info *info, size_t bytes, void *user)
{
	struct walk *walk = user;

	(void)info, (void)bytes;
	for (struct spaces *space = &spaces; space; space = next_space(space)) {
		walk->base = space == &spaces;
		look_at_space(space->base.r_map, walk);
		if (!walk->repair)
			look_at_strangers(space->base.r_map, walk);
	}
	return 1;
}

static void note_driver(const struct link_map *from, struct walk *walk)
{
	seen.driver = seen.driver || find_driver(from);
	for (struct spaces *space = next_space(&spaces); space; space = next_space(space)) {
		walk->elsewhere = find_driver(space->base.r_map);
		seen.driver = seen.driver || walk->elsewhere;
	}
}

/*
 * Behind RTLD_DEEPBIND dlsym is libc's own, and all that is found by it leads around us. Such a
 * library is given ours, which passes on whatever is not a function of the driver. What is not bound
 * yet may be given it too: in any other library it will be.
 */
static void lead_look_ups(const struct link_map *map, const char *name, void **word, void *user)
{
	const void *target = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	bool plain = library_equal(name, "dlsym");

	(void)user;
	if (!plain && !library_equal(name, "dlvsym"))
		return;
	if (target == (plain ? (void *)lookup_next_dlsym : (void *)lookup_next_dlvsym) ||
		(seen.first && is_unbound(map, target, name)))
		store(map, word, plain ? (void *)dlsym : (void *)dlvsym);
}

/* Nothing opened: nothing to do. Nothing closed: what was looked at is still there, and in front. */
static int look_for_driver(struct dl_phdr_info *info, size_t bytes, void *user)
{
	struct walk *walk = user;
	const struct link_map *from = seen.last;

	(void)bytes;
	if (info->dlpi_adds == seen.opened && info->dlpi_subs == seen.closed)
		return 1;
	walk->again = true;
	if (!from || info->dlpi_subs != seen.closed)
		from = spaces.base.r_map;
	note_driver(from, walk);
	while (from && from->l_next) {
		from = from->l_next;
		if (from->l_ld != own_dynamic && !library_definition(from, "dlsym"))
			library_imports(from, lead_look_ups, walk);
	}
	seen.last = from;
	seen.opened = info->dlpi_adds;
	seen.closed = info->dlpi_subs;
	return 1;
}

/* Our entries lead to the driver that the program means by this handle. */
static void bind_driver(void *handle, const struct link_map *elsewhere)
{
	Lmid_t space = LM_ID_BASE;

	if (dlinfo(handle, RTLD_DI_LMID, &space) == 0 && space != LM_ID_BASE && elsewhere)
		driver_adopt(handle, elsewhere->l_ld);
	else
		driver_find();
}

void bypass_look(void *handle)
{
	struct walk walk = { .repair = true };

	bypass_handle = handle;
	if (!__atomic_load_n(&seen.started, __ATOMIC_ACQUIRE))
		return;
	dl_iterate_phdr(look_for_driver, &walk);
	if (likely(!walk.again || !seen.driver) || disabled())
		return;
	bind_driver(handle, walk.elsewhere);
	dl_iterate_phdr(look_everywhere, &walk);
	log_walk(&walk);
}

/* ---- the end ---- */

/* A library behind which dlsym is libc's own: it was opened with RTLD_DEEPBIND. */
static void look_for_dlsym(const struct link_map *map, const char *name, void **word, void *user)
{
	struct walk *walk = user;

	(void)map;
	if (library_equal(name, "dlsym") && *word == (void *)lookup_next_dlsym)
		walk->escaped++;
}

/* It was opened by somebody who is gone: nobody here needs it, and we were never asked for it. */
static bool is_left_behind(const struct link_map *first)
{
	const struct link_map *map = first;

	while (map && (map->l_ld == own_dynamic || !library_needs(map, "libcuda.so")))
		map = map->l_next;
	return !map && seen.closed > 0;
}

static void look_at_strangers(const struct link_map *first, struct walk *walk)
{
	uint32_t before = seen.found[FINDING_DEEPBIND];

	if (!walk->driver || walk->ours)
		return;
	if (!walk->base)
		tell(walk, FINDING_NAMESPACE, walk->driver);
	for (const struct link_map *map = first; walk->base && map; map = map->l_next) {
		walk->escaped = 0;
		if (map->l_ld != own_dynamic && !library_definition(map, "dlsym"))
			library_imports(map, look_for_dlsym, walk);
		if (walk->escaped)
			tell(walk, FINDING_DEEPBIND, map);
	}
	if (walk->base && before == seen.found[FINDING_DEEPBIND] && is_left_behind(first))
		tell(walk, FINDING_DEEPBIND, walk->driver);
}

/* Nothing was opened that is still there: most processes. Told without the loader's lock. */
static bool is_as_at_start(void)
{
	return seen.last_at_start && !__atomic_load_n(&seen.last_at_start->l_next, __ATOMIC_ACQUIRE) &&
		!next_space(&spaces);
}

/*
 * A forked child has nothing to tell, and another thread may have had the loader's lock when it was
 * made: most of them end by _exit. Otherwise who we are is only asked where there is a driver, for
 * sandboxes kill for a system call.
 */
bool bypass_look_at_end(bool at_exit)
{
	struct walk walk = { 0 };

	if (!seen.started || (!seen.driver && is_as_at_start()))
		return false;
	if (!at_exit && seen.pid != getpid())
		return false;
	dl_iterate_phdr(look_for_driver, &walk);
	if (!seen.driver || disabled() || seen.pid != getpid())
		return false;
	dl_iterate_phdr(look_everywhere, &walk);
	log_walk(&walk);
	return seen.found[FINDING_DEEPBIND] || seen.found[FINDING_NAMESPACE];
}

void bypass_publish(struct ledger_header *header)
{
	header->findings[FINDING_DEEPBIND] = seen.found[FINDING_DEEPBIND];
	header->findings[FINDING_NAMESPACE] = seen.found[FINDING_NAMESPACE];
}
