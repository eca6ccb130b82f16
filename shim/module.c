/*
 * module.c - which file an address of the process comes from: path, build id, offset.
 *
 * Asked once for each place. The loader calls a module by the name it was opened with, which may be
 * relative to a folder that is no longer the current one, or empty for the program; then the kernel's
 * map tells the file.
 */
#include "module.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ledger.h"
#include "lock.h"
#include "share.h"
#include "uncancelled.h"

#define MODULES_MAX 512

/*
 * Zero in a forked child. The buffers are here because threads may have very small stacks; whoever
 * uses them holds the lock.
 */
static struct {
	uint32_t lock;
	uint32_t count;
	struct {
		uint64_t key;
		uint32_t site;
	} known[MODULES_MAX];
	char path[4096 + 512];
	char text[4096 + 512];
} WHOLE_PAGES modules;

void module_prepare(void)
{
	share_wipe_on_fork(&modules, sizeof(modules));
}

/* ---- the kernel's map ---- */

/* One line of /proc/self/maps: is the address in it? Then its path. */
static bool line_holds(const char *line, uint64_t address)
{
	char *at;
	uint64_t begin = strtoull(line, &at, 16);
	uint64_t end = strtoull(at + 1, &at, 16);
	const char *slash = strchr(at, '/');

	if (address < begin || address >= end)
		return false;
	snprintf(modules.path, sizeof(modules.path), "%s", slash ? slash : "");
	return true;
}

static void path_of_map(uint64_t address)
{
	UNCANCELLED_HERE;
	char *text = modules.text, *line, *end;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	bool found = false;
	ssize_t got;

	modules.path[0] = '\0';
	while (fd >= 0 && !found && (got = read(fd, text + used, sizeof(modules.text) - 1 - used)) > 0) {
		used += got;
		text[used] = '\0';
		for (line = text; !found && (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			found = line_holds(line, address);
		}
		used -= line - text;
		memmove(text, line, used);
		if (used >= sizeof(modules.text) - 1)
			break;
	}
	if (fd >= 0)
		close(fd);
}

/* ---- the headers of a module, as it is mapped ---- */

struct headers {
	const ElfW(Phdr) *first;
	unsigned count;
	uint64_t bias;
};

static bool find_headers(struct headers *headers, const Dl_info *info, const struct link_map *map)
{
	const ElfW(Ehdr) *elf = info->dli_fbase;

	if (memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 || elf->e_phentsize != sizeof(ElfW(Phdr)) ||
		elf->e_phoff + elf->e_phnum * sizeof(ElfW(Phdr)) > 4096)
		return false;
	headers->first = (const void *)((const char *)elf + elf->e_phoff);
	headers->count = elf->e_phnum;
	headers->bias = map ? map->l_addr : (uint64_t)info->dli_fbase;
	return true;
}

static unsigned build_id(const struct headers *headers, const uint8_t **id)
{
	for (unsigned i = 0; i < headers->count; i++) {
		const ElfW(Phdr) *segment = &headers->first[i];
		const char *at = (const char *)headers->bias + segment->p_vaddr;
		const char *end = at + segment->p_memsz;

		while (segment->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) < end) {
			const ElfW(Nhdr) *note = (const void *)at;
			const char *name = at + sizeof(*note);
			const char *text = name + ((note->n_namesz + 3) & ~3u);

			at = text + ((note->n_descsz + 3) & ~3u);
			if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && at <= end &&
				memcmp(name, "GNU", 4) == 0 && note->n_descsz <= BUILD_ID_MAX) {
				*id = (const uint8_t *)text;
				return note->n_descsz;
			}
		}
	}
	return 0;
}

static bool executable(const struct headers *headers, uint64_t address)
{
	for (unsigned i = 0; i < headers->count; i++) {
		const ElfW(Phdr) *segment = &headers->first[i];

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X &&
			address - headers->bias - segment->p_vaddr < segment->p_memsz)
			return true;
	}
	return false;
}

/* ---- modules as sites ---- */

static bool find_address(uint64_t address, Dl_info *info, struct link_map **map)
{
	*map = NULL;
	/* The call itself, not what follows it, which may belong to another line or function. */
	return dladdr1((void *)(address - 1), info, (void **)map, RTLD_DL_LINKMAP) && info->dli_fname &&
		info->dli_fbase;
}

static uint32_t add_module_locked(const Dl_info *info, const struct link_map *map, uint64_t address)
{
	struct ledger_site entry = { .type = SITE_MODULE, .address = map ? map->l_addr : 0 };
	const char *name = map && map->l_name ? map->l_name : info->dli_fname;
	struct headers headers;
	const uint8_t *id = NULL;

	snprintf(modules.path, sizeof(modules.path), "%s", name);
	if (name[0] != '/')
		path_of_map(address);
	if (!modules.path[0])
		snprintf(modules.path, sizeof(modules.path), "%s", info->dli_fname);
	if (find_headers(&headers, info, map))
		entry.count = build_id(&headers, &id);
	return ledger_add_site(&entry, (struct ledger_part[2]){
		{ modules.path, strlen(modules.path) + 1 }, { id, entry.count } });
}

/* A module may be closed and another opened in its place: what it was called tells them apart. */
static uint32_t module_of(const Dl_info *info, const struct link_map *map, uint64_t address)
{
	uint64_t key = (uint64_t)info->dli_fbase ^ (uint64_t)map << 20;
	uint32_t site = 0;

	lock_take(&modules.lock);
	for (uint32_t i = 0; i < modules.count && !site; i++)
		if (modules.known[i].key == key)
			site = modules.known[i].site;
	if (!site) {
		site = add_module_locked(info, map, address);
		if (site && modules.count < MODULES_MAX) {
			modules.known[modules.count].key = key;
			modules.known[modules.count++].site = site;
		}
	}
	lock_give_back(&modules.lock);
	return site;
}

static unsigned what_is(const char *path)
{
	static const struct {
		const char *name;
		enum module_what what;
	} known[] = {
		{ "libffi.so", MODULE_LENDS_GIL }, { "_ctypes.", MODULE_LENDS_GIL },
		{ "_cffi_backend.", MODULE_LENDS_GIL },
		{ "python", MODULE_INTERPRETER }, { "libpython", MODULE_INTERPRETER },
	};
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strncmp(base, known[i].name, strlen(known[i].name)) == 0)
			return known[i].what;
	return 0;
}

bool module_describe(struct module_place *place, uint64_t address)
{
	struct link_map *map;
	Dl_info info;

	*place = (struct module_place){ .offset = address, .function = "" };
	if (!find_address(address, &info, &map))
		return false;
	place->module = module_of(&info, map, address);
	place->offset = address - (map ? map->l_addr : (uint64_t)info.dli_fbase);
	place->what = what_is(info.dli_fname);
	if (info.dli_sname) {
		place->function = info.dli_sname;
		place->function_offset = address - (uint64_t)info.dli_saddr;
	}
	return true;
}

bool module_holds(uint64_t address)
{
	struct headers headers;
	struct link_map *map;
	Dl_info info;

	return find_address(address, &info, &map) &&
		(!find_headers(&headers, &info, map) || executable(&headers, address - 1));
}

void module_forget(void)
{
	memset(&modules, 0, sizeof(modules));
}
