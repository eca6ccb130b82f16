/*
 * lookup.c - what dlsym and dlvsym answer for names of the driver.
 *
 * dlsym.S calls lookup_symbol() for each look-up of the process and tail-jumps to the next dlsym
 * unless we have an answer, since glibc reads the caller from the return address. So this code runs
 * in processes that never touch CUDA, and early: inside constructors, inside malloc of a sanitizer.
 * For a name that is not ours it looks at three characters.
 */
#include "lookup.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#include "cuward/ledger.h"
#include "bypass.h"
#include "calls.h"
#include "driver.h"
#include "forward.h"
#include "guest.h"
#include "library.h"
#include "lock.h"
#include "settings.h"
#include "share.h"
#include "versions.h"

/* The arguments of a look-up as dlsym.S saved them; it passes on what is in here. */
struct lookup_frame {
	void *handle;
	const char *name;
	const char *version; /* of dlvsym */
	const void *caller;
};

/* Used by dlsym.S: the next definitions behind ours. */
void *(*lookup_next_dlsym)(void *, const char *);
__attribute__((visibility("hidden"))) void *(*lookup_next_dlvsym)(void *, const char *, const char *);

__attribute__((visibility("hidden"))) void *lookup_symbol(struct lookup_frame *frame, bool versioned);
extern void *dlsym(void *handle, const char *name);
extern void *dlvsym(void *handle, const char *name, const char *version);

/* Weak, so that no other library than libc is needed. */
extern struct r_debug _r_debug __attribute__((weak));

/* ---- the next dlsym, found without any function of libc ---- */

/* The link map of this library: the one that defines this very dlsym. */
static const struct link_map *own_map(void)
{
	for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
		if (library_definition(map, "dlsym") == (void *)dlsym)
			return map;
	}
	return NULL;
}

static void *next_definition(const char *name)
{
	const struct link_map *own = own_map();
	void *found = NULL;

	for (const struct link_map *map = own ? own->l_next : NULL; map && !found; map = map->l_next)
		found = library_definition(map, name);
	/* Loaded late, by dlopen: libc stands in front of us. */
	for (const struct link_map *map = _r_debug.r_map; map && map != own && !found; map = map->l_next)
		found = library_definition(map, name);
	return found;
}

static void find_next(void)
{
	if (likely(__atomic_load_n(&lookup_next_dlvsym, __ATOMIC_ACQUIRE)))
		return;
	__atomic_store_n((void **)&lookup_next_dlsym, next_definition("dlsym"), __ATOMIC_RELEASE);
	__atomic_store_n((void **)&lookup_next_dlvsym, next_definition("dlvsym"), __ATOMIC_RELEASE);
}

void *lookup_real(void *handle, const char *name)
{
	find_next();
	return lookup_next_dlsym(handle, name);
}

/* ---- modules of any kind ---- */

void *lookup_in(const struct lookup_module *module, const char *name)
{
	struct link_map map = { .l_addr = module->base, .l_ld = (ElfW(Dyn) *)module->dynamic };

	return library_definition(&map, name);
}

struct search {
	const char *name;
	struct lookup_module *module;
};

static int look_into(struct dl_phdr_info *info, size_t bytes, void *user)
{
	struct search *search = user;

	(void)bytes;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		search->module->base = info->dlpi_addr;
		search->module->dynamic = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		return lookup_in(search->module, search->name) != NULL;
	}
	return 0;
}

bool lookup_module_with(const char *name, struct lookup_module *module)
{
	return dl_iterate_phdr(look_into, &(struct search){ name, module }) == 1;
}

/* ---- coverage: what was asked for, and what we answered ---- */

/* A forked child goes on with these; it may use pointers that its parent looked up. */
static struct {
	uint32_t unhooked_bytes;
	uint64_t looked_up;
	uint64_t hooked;
	uint64_t passed_through;
	char unhooked[sizeof(((struct ledger_header *)0)->unhooked)];
} coverage;

/* A forked child has neither this ledger nor the thread that holds the lock. */
static struct {
	uint32_t lock;
	bool wiped_on_fork;
	struct ledger_header *header;
} WHOLE_PAGES publishing;

static void take_lock(void)
{
	if (!publishing.wiped_on_fork)
		share_wipe_on_fork(&publishing, sizeof(publishing));
	publishing.wiped_on_fork = true;
	lock_take(&publishing.lock);
}

static void publish_locked(void)
{
	struct ledger_header *header = publishing.header;

	if (!header)
		return;
	header->looked_up = coverage.looked_up;
	header->hooked = coverage.hooked;
	header->passed_through = coverage.passed_through;
	memcpy(header->unhooked, coverage.unhooked, sizeof(header->unhooked));
}

static bool already_listed(const char *name)
{
	for (uint32_t i = 0; i < coverage.unhooked_bytes; i += strlen(coverage.unhooked + i) + 1) {
		if (strcmp(coverage.unhooked + i, name) == 0)
			return true;
	}
	return false;
}

static void count(const char *name, bool hooked)
{
	size_t bytes = strlen(name) + 1;

	take_lock();
	coverage.looked_up++;
	if (hooked) {
		coverage.hooked++;
	} else {
		coverage.passed_through++;
		if (bytes < sizeof(coverage.unhooked) - coverage.unhooked_bytes && !already_listed(name)) {
			memcpy(coverage.unhooked + coverage.unhooked_bytes, name, bytes);
			coverage.unhooked_bytes += bytes;
		}
	}
	publish_locked();
	lock_give_back(&publishing.lock);
}

/* By dlsym. In one of its calls the driver looks up for somebody, who is counted himself. */
static void count_asked(const char *name, bool hooked)
{
	const struct thread *thread = guest_thread();

	if (!thread || thread->call == THREAD_IDLE)
		count(name, hooked);
}

void lookup_publish(struct ledger_header *header)
{
	take_lock();
	publishing.header = header;
	publish_locked();
	lock_give_back(&publishing.lock);
}

void lookup_forget(void)
{
	memset(&publishing, 0, sizeof(publishing));
}

/* A driver that is not bound to itself (-Bsymbolic) hands out what its names lead to: our entries. */
static int call_of_entry(const void *pointer)
{
	for (int call = 0; call < DRIVER_CALL_COUNT; call++) {
		if (driver_entry(call) == pointer)
			return call;
	}
	return -1;
}

void *lookup_swap(const char *name, uint64_t flags, void *pointer)
{
	int call = driver_call_at(pointer);

	if (unlikely(call < 0))
		call = call_of_entry(pointer);
	if (unlikely(call < 0))
		call = versions_call(name, flags, pointer);
	count(name, call >= 0);
	return call >= 0 ? driver_entry(call) : pointer;
}

/* ---- the answer of dlsym and dlvsym ---- */

static bool disabled(void)
{
	settings_read();
	return settings_get(SETTING_disable)[0] == '1';
}

/* As the caller asked, but in another scope. */
static void *look_up(const struct lookup_frame *frame, void *handle, bool versioned)
{
	return versioned ? lookup_next_dlvsym(handle, frame->name, frame->version) :
		lookup_next_dlsym(handle, frame->name);
}

/* Make the tail-jump fail as a look-up of a missing name does: ask libc for it. */
static void *fail_naturally(struct lookup_frame *frame)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	if (libc)
		frame->handle = libc;
	return NULL;
}

/* A plug-in finds its own libraries by RTLD_DEFAULT, although nobody else does. */
static void *find_for_caller(const struct lookup_frame *frame, bool versioned)
{
	void *handle = NULL;
	void *found = NULL;
	Dl_info info;

	if (dladdr(frame->caller, &info) && info.dli_fname && info.dli_fname[0])
		handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (handle) {
		found = look_up(frame, handle, versioned);
		dlclose(handle);
	}
	return found;
}

/*
 * RTLD_DEFAULT, RTLD_NEXT, or a handle whose scope begins with us: what would be found if we were
 * not there? For us, that is what comes next.
 */
static void *answer_global(struct lookup_frame *frame, int call, bool versioned)
{
	void *found = look_up(frame, RTLD_NEXT, versioned);

	if (!found && frame->handle == RTLD_DEFAULT)
		found = find_for_caller(frame, versioned);
	if (!found)
		return fail_naturally(frame);
	if (disabled())
		return found;
	/* Another interposer behind us leads to the driver too, and we stand before it. */
	if (!driver_adopt(RTLD_NEXT, found) && !(driver_find() && driver_has(call)))
		return found;
	count_asked(frame->name, true);
	return driver_entry(call);
}

/* An interposer in front of us defines the name too: the look-up is none of our business. */
static bool defined_before_us(int call)
{
	void *first = lookup_real(RTLD_DEFAULT, call_name(call));

	return first && first != driver_entry(call);
}

static bool is_before_us(const struct link_map *its)
{
	const struct link_map *own = own_map();

	for (const struct link_map *map = _r_debug.r_map; map && map != own; map = map->l_next) {
		if (map == its)
			return true;
	}
	return false;
}

/*
 * Somebody asks libc for dlsym itself, to go around overriders: ours must stay on the way. An overrider
 * behind us asks the same for its own way out, and would come back to itself; one in front of us
 * asks for the next one by libc's version of it, which ours does not have.
 */
static void *answer_dlsym(const struct lookup_frame *frame, bool versioned)
{
	struct link_map *asking = NULL;
	Dl_info info;
	bool plain = library_equal(frame->name, "dlsym");
	bool wanted;

	if ((!plain && !library_equal(frame->name, "dlvsym")) || frame->handle == RTLD_DEFAULT || disabled())
		return NULL;
	if (!dladdr1(frame->caller, &info, (void **)&asking, RTLD_DL_LINKMAP) || !asking)
		return NULL;
	wanted = frame->handle == RTLD_NEXT ? versioned && is_before_us(asking) :
		!library_definition(asking, "dlsym") && look_up(frame, frame->handle, versioned);
	return !wanted ? NULL : plain ? (void *)dlsym : (void *)dlvsym;
}

/*
 * A name like the driver's that we have no hook for, which may be one of another library: whoever asks
 * gets what is there without us. If that is the driver's, it is counted.
 */
static void *answer_unhooked(struct lookup_frame *frame, bool versioned)
{
	bool global = frame->handle == RTLD_DEFAULT || frame->handle == RTLD_NEXT;
	int forward = forward_number(frame->name);
	void *ours = forward >= 0 ? forward_entry(forward) : NULL;
	void *found = look_up(frame, global ? RTLD_NEXT : frame->handle, versioned);

	if (ours && frame->handle == RTLD_DEFAULT && lookup_real(RTLD_DEFAULT, frame->name) != ours)
		return NULL;
	if (ours && !global && found == ours)
		found = look_up(frame, RTLD_NEXT, versioned);
	else if (!ours || !global)
		ours = NULL;
	if (ours && !found && frame->handle == RTLD_DEFAULT)
		found = find_for_caller(frame, versioned);
	if (found && !disabled() && driver_adopt(global ? RTLD_NEXT : frame->handle, found))
		count_asked(frame->name, false);
	return !ours ? NULL : found ? found : fail_naturally(frame);
}

/* ---- NVML, whose numbers know no limit: only noted ---- */

static bool nvml_asked;

static void note_nvml(const char *name)
{
	static const char wanted[] = "nvmlDeviceGetMemoryInfo";
	unsigned i;

	for (i = 0; i < sizeof(wanted) - 1 && name[i] == wanted[i]; i++)
		;
	if (i < sizeof(wanted) - 1 || (name[i] && name[i] != '_'))
		return;
	__atomic_store_n(&nvml_asked, true, __ATOMIC_RELAXED);
	guest_find_once(FINDING_NVML_UNLIMITED);
}

bool lookup_asked_nvml(void)
{
	return __atomic_load_n(&nvml_asked, __ATOMIC_RELAXED);
}

void *lookup_symbol(struct lookup_frame *frame, bool versioned)
{
	int call;
	void *found;

	find_next();
	if (unlikely(frame->handle != bypass_handle) && frame->handle != RTLD_DEFAULT &&
	    frame->handle != RTLD_NEXT)
		bypass_look(frame->handle);
	if (frame->name && unlikely(frame->name[0] == 'd' && frame->name[1] == 'l'))
		return answer_dlsym(frame, versioned);
	if (frame->name && unlikely(frame->name[0] == 'n' && frame->name[1] == 'v'))
		note_nvml(frame->name);
	call = frame->name ? call_number(frame->name) : -1;
	if (likely(call < 0))
		return frame->name && call_like(frame->name) ? answer_unhooked(frame, versioned) : NULL;
	if (frame->handle == RTLD_DEFAULT && defined_before_us(call))
		return NULL;
	if (frame->handle == RTLD_DEFAULT || frame->handle == RTLD_NEXT)
		return answer_global(frame, call, versioned);
	found = look_up(frame, frame->handle, versioned);
	if (found == driver_entry(call))
		return answer_global(frame, call, versioned);
	if (!found || disabled() || !driver_adopt(frame->handle, found))
		return NULL;
	count_asked(frame->name, true);
	return driver_entry(call);
}
