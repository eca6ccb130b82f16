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

struct site_table sites;

/* False: call sites are not wanted, or there is no memory for them. */
static bool prepare(void)
{
	if (likely(sites.places))
		return true;
	if (sites.prepared)
		return false;
	share_wipe_on_fork(&sites, sizeof(sites));
	lock_take(&sites.lock);
	if (!sites.prepared && strcmp(settings_get(SETTING_stack), "none") != 0)
		__atomic_store_n(&sites.places, share_private(SITE_PLACES * sizeof(struct site_place)),
			__ATOMIC_RELEASE);
	sites.prepared = true;
	lock_give_back(&sites.lock);
	return sites.places != NULL;
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

uint32_t site_add(uint64_t address)
{
	uint32_t site;
	uint32_t i;

	if (!address || !prepare() || sites.count >= SITE_PLACES / 4 * 3)
		return 0;
	site = describe(address);
	lock_take(&sites.lock);
	for (i = site_place_of(address); sites.places[i].address; i = (i + 1) % SITE_PLACES) {
		if (sites.places[i].address == address)
			break;
	}
	if (!sites.places[i].address) {
		sites.count++;
		sites.places[i].site = site;
		__atomic_store_n(&sites.places[i].address, address, __ATOMIC_RELEASE);
	}
	site = sites.places[i].site;
	lock_give_back(&sites.lock);
	return site;
}

void site_forget(void)
{
	memset(&sites, 0, sizeof(sites));
}
