/*
 * library.c - symbols, needs and relocations of libraries in memory.
 */
#include "library.h"

#include <elf.h>
#include <stddef.h>

#if defined(__x86_64__)
#define IS_FUNCTION_WORD(type) \
	((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#elif defined(__aarch64__)
#define IS_FUNCTION_WORD(type) \
	((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#endif

bool library_equal(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static bool begins(const char *text, const char *prefix)
{
	while (*prefix && *text == *prefix)
		text++, prefix++;
	return !*prefix;
}

/* Most loaders relocate the addresses in a dynamic section in place, some leave offsets. */
static const void *address(const struct link_map *map, ElfW(Addr) value)
{
	return (const void *)(value < map->l_addr ? value + map->l_addr : value);
}

void library_read(const struct link_map *map, struct library_dynamic *dynamic)
{
	const ElfW(Dyn) *soname = NULL;

	*dynamic = (struct library_dynamic){ 0 };
	for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			dynamic->symbols = address(map, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_STRTAB)
			dynamic->names = address(map, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_SONAME)
			soname = entry;
		else if (entry->d_tag == DT_GNU_HASH)
			dynamic->gnu_hash = address(map, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_HASH)
			dynamic->sysv_hash = address(map, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_RELA)
			dynamic->relocations[0] = address(map, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_RELASZ)
			dynamic->relocation_bytes[0] = entry->d_un.d_val;
		else if (entry->d_tag == DT_RELACOUNT)
			dynamic->relative = entry->d_un.d_val;
		else if (entry->d_tag == DT_JMPREL)
			dynamic->relocations[1] = address(map, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_PLTRELSZ)
			dynamic->relocation_bytes[1] = entry->d_un.d_val;
	}
	if (soname && dynamic->names)
		dynamic->soname = dynamic->names + soname->d_un.d_val;
}

static bool defines(const struct library_dynamic *dynamic, uint32_t i, const char *name)
{
	const ElfW(Sym) *symbol = &dynamic->symbols[i];
	int type = ELF64_ST_TYPE(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC) &&
		library_equal(dynamic->names + symbol->st_name, name);
}

static uint32_t find_gnu(const struct library_dynamic *dynamic, const char *name)
{
	const uint32_t *head = dynamic->gnu_hash;
	const uint32_t *buckets = head + 4 + head[2] * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = buckets + head[0];
	uint32_t hash = 5381;
	uint32_t i;

	for (const char *c = name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	i = head[0] ? buckets[hash % head[0]] : 0;
	if (i < head[1])
		return 0;
	do {
		if (((chain[i - head[1]] ^ hash) & ~1u) == 0 && defines(dynamic, i, name))
			return i;
	} while (!(chain[i++ - head[1]] & 1));
	return 0;
}

static uint32_t find_sysv(const struct library_dynamic *dynamic, const char *name)
{
	for (uint32_t i = 1; i < dynamic->sysv_hash[1]; i++) {
		if (defines(dynamic, i, name))
			return i;
	}
	return 0;
}

static uint32_t find(const struct library_dynamic *dynamic, const char *name)
{
	if (!dynamic->symbols || !dynamic->names)
		return 0;
	return dynamic->gnu_hash ? find_gnu(dynamic, name) :
		dynamic->sysv_hash ? find_sysv(dynamic, name) : 0;
}

bool library_defines(const struct link_map *map, const char *name)
{
	struct library_dynamic dynamic;

	library_read(map, &dynamic);
	return find(&dynamic, name) != 0;
}

/* What chooses a function when it is bound (IFUNC) is not that function. */
void *library_definition(const struct link_map *map, const char *name)
{
	struct library_dynamic dynamic;
	uint32_t i;

	library_read(map, &dynamic);
	i = find(&dynamic, name);
	if (!i || ELF64_ST_TYPE(dynamic.symbols[i].st_info) != STT_FUNC)
		return NULL;
	return (void *)(map->l_addr + dynamic.symbols[i].st_value);
}

bool library_needs(const struct link_map *map, const char *prefix)
{
	struct library_dynamic dynamic;

	library_read(map, &dynamic);
	for (const ElfW(Dyn) *entry = map->l_ld; dynamic.names && entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_NEEDED && begins(dynamic.names + entry->d_un.d_val, prefix))
			return true;
	}
	return false;
}

void library_imports(const struct link_map *map, library_visitor *visit, void *user)
{
	struct library_dynamic dynamic;

	library_read(map, &dynamic);
	for (int table = 0; dynamic.symbols && dynamic.names && table < 2; table++) {
		const ElfW(Rela) *one = dynamic.relocations[table];
		const ElfW(Rela) *end = one + dynamic.relocation_bytes[table] / sizeof(*one);

		if (one && table == 0 && dynamic.relative <= (size_t)(end - one))
			one += dynamic.relative;
		for (; one && one < end; one++) {
			uint32_t symbol = ELF64_R_SYM(one->r_info);

			if (symbol && IS_FUNCTION_WORD(ELF64_R_TYPE(one->r_info)) && one->r_addend == 0)
				visit(map, dynamic.names + dynamic.symbols[symbol].st_name,
					(void **)(map->l_addr + one->r_offset), user);
		}
	}
}

/*
 * The program headers follow the file header, which is where the library begins: at its load address,
 * unless it was linked for another one (prelinked), which its tables show. NULL then.
 */
static const ElfW(Phdr) *parts(const struct link_map *map, int *count)
{
	const ElfW(Ehdr) *file = (const void *)map->l_addr;
	struct library_dynamic dynamic;

	library_read(map, &dynamic);
	*count = 0;
	if (!map->l_addr || (uintptr_t)dynamic.names - map->l_addr > 1u << 30)
		return NULL;
	*count = file->e_phnum;
	return (const void *)(map->l_addr + file->e_phoff);
}

bool library_relro(const struct link_map *map, uintptr_t *start, uintptr_t *end)
{
	int count;
	const ElfW(Phdr) *part = parts(map, &count);

	for (int i = 0; i < count; i++) {
		if (part[i].p_type == PT_GNU_RELRO) {
			*start = map->l_addr + part[i].p_vaddr;
			*end = *start + part[i].p_memsz;
			return true;
		}
	}
	return false;
}

bool library_holds(const struct link_map *map, const void *address)
{
	int count;
	const ElfW(Phdr) *part = parts(map, &count);

	for (int i = 0; i < count; i++) {
		if (part[i].p_type == PT_LOAD &&
			(uintptr_t)address - map->l_addr - part[i].p_vaddr < part[i].p_memsz)
			return true;
	}
	return false;
}
