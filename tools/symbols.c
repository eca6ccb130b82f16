/*
 * symbols.c - addresses of modules as functions, files and lines; the only file that knows libdw.
 */
#include "symbols.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <unistd.h>

#include "map.h"
#include "need.h"

struct answer {
	unsigned count;
	struct report_frame frames[REPORT_INLINED_MAX];
};

struct module {
	char *path;
	uint8_t build_id[64];
	unsigned build_id_bytes;
	Dwfl *dwfl; /* NULL: cannot be used, and note says why */
	Dwfl_Module *module;
	const char *note;
	struct answer *answers;
	size_t answer_count, answer_capacity;
	struct map answer_of; /* offset -> number of its answer */
};

static struct module **modules;
static size_t module_count, module_capacity;

/* ---- modules ---- */

static char *debuginfo_path; /* the usual folders */

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.section_address = dwfl_offline_section_address,
	.debuginfo_path = &debuginfo_path,
};

static const char *open_file(struct module *module)
{
	const unsigned char *id = NULL;
	GElf_Addr at;
	int bytes;

	if (access(module->path, F_OK) != 0)
		return "the file is gone, so source lines are not known";
	module->dwfl = dwfl_begin(&callbacks);
	if (!module->dwfl)
		return "libdw cannot be used";
	dwfl_report_begin(module->dwfl);
	module->module = dwfl_report_offline(module->dwfl, "", module->path, -1);
	dwfl_report_end(module->dwfl, NULL, NULL);
	if (!module->module)
		return "the file cannot be read, so source lines are not known";
	bytes = dwfl_module_build_id(module->module, &id, &at);
	if (module->build_id_bytes > 0 && (bytes != (int)module->build_id_bytes ||
		memcmp(id, module->build_id, module->build_id_bytes) != 0))
		return "the file is not the one that ran (its build id differs)";
	return NULL;
}

static bool same(const struct module *module, const struct report_module *wanted)
{
	return strcmp(module->path, wanted->path) == 0 &&
		module->build_id_bytes == wanted->build_id_bytes &&
		memcmp(module->build_id, wanted->build_id, wanted->build_id_bytes) == 0;
}

static struct module *module_of(const struct report_module *wanted)
{
	struct module *module;

	for (size_t i = 0; i < module_count; i++)
		if (same(modules[i], wanted))
			return modules[i];
	module = need_zeroed(1, sizeof(*module));
	module->path = need_copy(wanted->path);
	if (wanted->build_id_bytes <= sizeof(module->build_id))
		module->build_id_bytes = wanted->build_id_bytes;
	memcpy(module->build_id, wanted->build_id, module->build_id_bytes);
	module->note = open_file(module);
	if (module->note && module->dwfl) {
		dwfl_end(module->dwfl);
		module->dwfl = NULL;
	}
	modules = need_room(modules, module_count, &module_capacity, sizeof(*modules));
	return modules[module_count++] = module;
}

/* ---- names ---- */

/* The C++ runtime is there on nearly every machine, but it is not worth a link. */
char *symbols_demangled(const char *name)
{
	static char *(*demangle)(const char *, char *, size_t *, int *);
	static bool tried;
	char *text = NULL;
	int status = -1;

	if (!tried) {
		void *runtime = dlopen("libstdc++.so.6", RTLD_LAZY);

		tried = true;
		demangle = runtime ? (__typeof__(demangle))dlsym(runtime, "__cxa_demangle") : NULL;
	}
	if (demangle && strncmp(name, "_Z", 2) == 0)
		text = demangle(name, NULL, NULL, &status);
	return text && status == 0 ? text : need_copy(name);
}

static const char *attribute_text(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;

	return dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
}

static const char *function_name(Dwarf_Die *die)
{
	const char *name = attribute_text(die, DW_AT_linkage_name);

	if (!name)
		name = attribute_text(die, DW_AT_MIPS_linkage_name);
	if (!name)
		name = dwarf_diename(die);
	return name ? symbols_demangled(name) : NULL;
}

/* ---- one address ---- */

static bool is_function(Dwarf_Die *die)
{
	return dwarf_tag(die) == DW_TAG_subprogram || dwarf_tag(die) == DW_TAG_inlined_subroutine;
}

/* Where an inlined function was called. */
static void find_call(Dwarf_Die *die, Dwarf_Die *unit, struct report_frame *caller)
{
	Dwarf_Attribute attribute;
	Dwarf_Files *files;
	Dwarf_Word number;
	const char *path;

	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attribute), &number) == 0)
		caller->line = (unsigned)number;
	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute), &number) == 0 &&
		dwarf_getsrcfiles(unit, &files, NULL) == 0 &&
		(path = dwarf_filesrc(files, number, NULL, NULL)))
		caller->file = need_copy(path);
}

static void find_line(struct module *module, Dwarf_Addr address, struct report_frame *frame)
{
	Dwfl_Line *line = dwfl_module_getsrc(module->module, address);
	int number = 0;
	const char *path = line ? dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL) : NULL;

	if (!path || number <= 0)
		return;
	frame->file = need_copy(path);
	frame->line = (unsigned)number;
}

static void find_functions(struct module *module, Dwarf_Addr address, struct answer *answer)
{
	Dwarf_Addr bias;
	Dwarf_Die *unit = dwfl_module_addrdie(module->module, address, &bias), *scopes = NULL;
	Dwarf_Die *inner = NULL, *outer = NULL;
	int count = unit ? dwarf_getscopes(unit, address - bias, &scopes) : 0;

	/* What encloses an inlined call is not among the scopes of the function it came from. */
	for (int i = 0; i < count && !inner; i++)
		if (is_function(&scopes[i]))
			inner = &scopes[i];
	if (inner)
		count = dwarf_getscopes_die(inner, &outer);
	for (int i = 0; inner && i < count && answer->count < REPORT_INLINED_MAX; i++) {
		struct report_frame *frame = &answer->frames[answer->count];

		if (!is_function(&outer[i]))
			continue;
		frame->function = function_name(&outer[i]);
		answer->count++;
		if (dwarf_tag(&outer[i]) != DW_TAG_inlined_subroutine)
			break;
		if (answer->count < REPORT_INLINED_MAX)
			find_call(&outer[i], unit, frame + 1);
	}
	free(scopes);
	free(outer);
}

static void find_symbol(struct module *module, Dwarf_Addr address, struct answer *answer)
{
	GElf_Off offset;
	GElf_Sym symbol;
	const char *name = dwfl_module_addrinfo(module->module, address, &offset, &symbol, NULL, NULL,
		NULL);

	if (!name || GELF_ST_TYPE(symbol.st_info) != STT_FUNC)
		return;
	answer->frames[0].function = symbols_demangled(name);
	answer->count = 1;
}

/* The call itself: what a return address points at may belong to another line. */
static Dwarf_Addr call_address(struct module *module, uint64_t offset)
{
	GElf_Addr bias = 0;

	dwfl_module_getelf(module->module, &bias);
	return offset - 1 + bias;
}

static const struct answer *ask(struct module *module, uint64_t offset)
{
	struct answer *answer;
	Dwarf_Addr address;

	if (map_get(&module->answer_of, offset) != MAP_NONE)
		return &module->answers[map_get(&module->answer_of, offset)];
	map_set(&module->answer_of, offset, (uint32_t)module->answer_count);
	module->answers = need_room(module->answers, module->answer_count, &module->answer_capacity,
		sizeof(*answer));
	answer = &module->answers[module->answer_count++];
	*answer = (struct answer){ 0 };
	address = call_address(module, offset);
	find_functions(module, address, answer);
	if (answer->count == 0)
		find_symbol(module, address, answer);
	if (answer->count > 0)
		find_line(module, address, &answer->frames[0]);
	return answer;
}

static unsigned resolve(const struct report_symbols *symbols, const struct report_module *wanted,
	uint64_t offset, struct report_frame frames[REPORT_INLINED_MAX], const char **note)
{
	struct module *module = module_of(wanted);
	const struct answer *answer;

	(void)symbols;
	*note = module->note;
	if (!module->dwfl)
		return 0;
	answer = ask(module, offset);
	memcpy(frames, answer->frames, sizeof(answer->frames));
	return answer->count;
}

const struct report_symbols *symbols_open(void)
{
	static const struct report_symbols symbols = { .resolve = resolve };

	/* No report is worth a wait for the network. */
	unsetenv("DEBUGINFOD_URLS");
	return &symbols;
}

static void close_answers(struct module *module)
{
	for (size_t i = 0; i < module->answer_count; i++)
		for (unsigned k = 0; k < module->answers[i].count; k++) {
			free((char *)module->answers[i].frames[k].function);
			free((char *)module->answers[i].frames[k].file);
		}
	free(module->answers);
	map_free(&module->answer_of);
}

void symbols_close(void)
{
	for (size_t i = 0; i < module_count; i++) {
		close_answers(modules[i]);
		if (modules[i]->dwfl)
			dwfl_end(modules[i]->dwfl);
		free(modules[i]->path);
		free(modules[i]);
	}
	free(modules);
	modules = NULL;
	module_count = module_capacity = 0;
}
