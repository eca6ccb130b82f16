/*
 * site.c - return address -> id of a call site in the ledger.
 *
 * A site is described once, by the loader's own knowledge (module, nearest exported function), when
 * it is first seen; source lines are found later, outside the guest. The table is read without
 * a lock: an entry's address is published after its id.
 */
#include "site.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "ledger.h"
#include "lock.h"
#include "settings.h"
#include "share.h"

#define PLACES 8192u /* a power of two; at most three quarters are used */

static struct {
	uint32_t lock;
	uint32_t count;
	bool wanted;
	bool known;
	struct {
		uint64_t address;
		uint32_t site;
	} *table;
} sites __attribute__((aligned(4096)));

static uint32_t place_of(uint64_t address)
{
	return (address * 0x9e3779b97f4a7c15ull >> 40) % PLACES;
}

static bool prepare(void)
{
	if (sites.known)
		return sites.wanted;
	share_wipe_on_fork(&sites, sizeof(sites));
	lock_take(&sites.lock);
	if (!sites.known) {
		sites.table = share_private(PLACES * sizeof(*sites.table));
		sites.wanted = sites.table && strcmp(settings_get(SETTING_stack), "none") != 0;
		__atomic_store_n(&sites.known, true, __ATOMIC_RELEASE);
	}
	lock_give_back(&sites.lock);
	return sites.wanted;
}

/* Ask the loader first, without a lock of ours: it has one of its own. */
static uint32_t describe(uint64_t address)
{
	struct link_map *map = NULL;
	Dl_info info;
	const char *module = "";
	const char *function = "";
	uint64_t offset = address;
	uint64_t function_offset = 0;

	/* The call itself, not what follows it, which may belong to another line or function. */
	if (dladdr1((void *)(address - 1), &info, (void **)&map, RTLD_DL_LINKMAP) && info.dli_fname) {
		module = info.dli_fname;
		offset = address - (map ? map->l_addr : (uint64_t)info.dli_fbase);
		if (info.dli_sname) {
			function = info.dli_sname;
			function_offset = address - (uint64_t)info.dli_saddr;
		}
	}
	return ledger_add_site(address, offset, module, function, function_offset);
}

static __attribute__((noinline)) uint32_t add(uint64_t address)
{
	uint32_t site;
	uint32_t i;

	if (sites.count >= PLACES / 4 * 3)
		return 0;
	site = describe(address);
	lock_take(&sites.lock);
	for (i = place_of(address); sites.table[i].address; i = (i + 1) % PLACES) {
		if (sites.table[i].address == address)
			break;
	}
	if (!sites.table[i].address) {
		sites.count++;
		sites.table[i].site = site;
		__atomic_store_n(&sites.table[i].address, address, __ATOMIC_RELEASE);
	}
	site = sites.table[i].site;
	lock_give_back(&sites.lock);
	return site;
}

uint32_t site_of(const void *caller)
{
	uint64_t address = (uint64_t)caller;

	if (unlikely(!prepare()) || !address)
		return 0;
	for (uint32_t i = place_of(address);; i = (i + 1) % PLACES) {
		uint64_t found = __atomic_load_n(&sites.table[i].address, __ATOMIC_ACQUIRE);

		if (likely(found == address))
			return sites.table[i].site;
		if (!found)
			return add(address);
	}
}

void site_forget(void)
{
	memset(&sites, 0, sizeof(sites));
}
