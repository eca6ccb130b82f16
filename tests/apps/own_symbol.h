/*
 * own_symbol.h - a function of the driver itself, out of its symbol table: a way in that no look-up shows.
 */
#ifndef OWN_SYMBOL_H
#define OWN_SYMBOL_H

#include <link.h>
#include <string.h>

struct own_symbol {
	const char *name;
	void *function;
};

static int own_symbol_in(struct dl_phdr_info *info, size_t size, void *wanted)
{
	const ElfW(Dyn) *dynamic = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;
	struct own_symbol *own = wanted;

	(void)size;
	if (!strstr(info->dlpi_name, "libcuda.so"))
		return 0;
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		if (dynamic->d_tag == DT_SYMTAB)
			symbols = (const void *)dynamic->d_un.d_ptr;
		else if (dynamic->d_tag == DT_STRTAB)
			names = (const void *)dynamic->d_un.d_ptr;
	}
	/* The names follow the symbols. */
	for (; symbols && (const char *)symbols < names; symbols++)
		if (symbols->st_value && !strcmp(names + symbols->st_name, own->name))
			own->function = (void *)(info->dlpi_addr + symbols->st_value);
	return 0;
}

/* NULL: no driver is loaded, or it has none of this name. */
static inline void *own_symbol(const char *name)
{
	struct own_symbol own = { name, NULL };

	dl_iterate_phdr(own_symbol_in, &own);
	return own.function;
}

#endif
