/*
 * sim_code.c - which functions and variables an image holds: PTX text, or a cubin's symbols.
 *
 * Images that cannot be read (fat binaries may be compressed) are taken to hold every function.
 */
#include "sim_module.h"

#include <ctype.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FATBIN_MAGIC 0xBA55ED50u
#define FATBIN_WRAPPER_MAGIC 0x466243b1u

static void add_name(struct code *code, const char *name, size_t length)
{
	char **names = realloc(code->names, (code->count + 1) * sizeof(*names));
	char *copy = strndup(name, length);

	if (names)
		code->names = names;
	if (!names || !copy)
		abort();
	code->names[code->count++] = copy;
}

static void add_global(struct code *code, const char *name, size_t length, uint64_t bytes)
{
	struct global *global = calloc(1, sizeof(*global));

	if (!global || !(global->name = strndup(name, length)))
		abort();
	global->bytes = bytes ? bytes : 1;
	global->next = code->globals;
	code->globals = global;
}

void code_drop(struct code *code)
{
	struct global *global;

	while (code->count)
		free(code->names[--code->count]);
	free(code->names);
	while ((global = code->globals)) {
		code->globals = global->next;
		free(global->name);
		free(global);
	}
}

bool code_has(const struct code *code, const char *name)
{
	unsigned i;

	for (i = 0; i < code->count; i++)
		if (!strcmp(code->names[i], name))
			return true;
	return code->any_name;
}

/* ---- PTX ---- */

static bool in_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static unsigned type_bytes(const char *word, size_t length)
{
	static const char *const types[] = { ".b8", ".u8", ".s8", ".b16", ".u16", ".s16", ".f16",
		".b32", ".u32", ".s32", ".f32", ".b64", ".u64", ".s64", ".f64" };
	static const unsigned char bytes[] = { 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(types); i++)
		if (strlen(types[i]) == length && !strncmp(types[i], word, length))
			return bytes[i];
	return 0;
}

/* The product of the dimensions in "[4][8]". */
static uint64_t dimensions(const char *text)
{
	uint64_t product = 1;
	char *end;

	for (text += strspn(text, " \t"); *text == '['; text += strspn(text, " \t")) {
		product *= larger(strtoull(text + 1, &end, 10), 1);
		text = *end == ']' ? end + 1 : end;
	}
	return product;
}

/* ".visible .global .align 4 .b8 name[16]" */
static void read_variable(struct code *code, const char *text)
{
	unsigned element = 0;
	size_t length;

	for (;;) {
		text += strspn(text, " \t\r\n");
		length = *text == '.' ? 1 + strcspn(text + 1, " \t\r\n;=[") : 0;
		if (!length && isdigit((unsigned char)*text))
			length = strspn(text, "0123456789");
		if (!length)
			break;
		if (type_bytes(text, length))
			element = type_bytes(text, length);
		text += length;
	}
	for (length = 0; in_name(text[length]);)
		length++;
	if (element && length)
		add_global(code, text, length, element * dimensions(text + length));
}

static void read_entry(struct code *code, const char *text)
{
	size_t length = 0;

	text += strspn(text, " \t\r\n");
	while (in_name(text[length]))
		length++;
	if (length)
		add_name(code, text, length);
}

static const char *skip_comment(const char *text)
{
	const char *end;

	if (text[0] == '/' && text[1] == '/')
		return text + strcspn(text, "\n");
	if (text[0] == '/' && text[1] == '*') {
		end = strstr(text + 2, "*/");
		return end ? end + 2 : text + strlen(text);
	}
	return text;
}

/* Declarations of a module stand outside all braces and brackets. */
static CUresult read_ptx(const char *text, struct code *code)
{
	bool version = false;
	int depth = 0;

	for (; *text; text++) {
		text = skip_comment(text);
		if (!*text)
			break;
		depth += (*text == '{' || *text == '(') - (*text == '}' || *text == ')');
		if (*text != '.' || depth)
			continue;
		version = version || !strncmp(text, ".version", 8);
		if (!strncmp(text, ".entry", 6) && isspace((unsigned char)text[6]))
			read_entry(code, text + 6);
		else if (!strncmp(text, ".global ", 8))
			read_variable(code, text + 7);
		else if (!strncmp(text, ".const ", 7))
			read_variable(code, text + 6);
		while (in_name(text[1]))
			text++;
	}
	return version ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}

/* ---- cubin ---- */

static void read_symbols(
	const char *image, const Elf64_Shdr *section, const Elf64_Shdr *strings, struct code *code)
{
	const Elf64_Sym *symbol = (const Elf64_Sym *)(image + section->sh_offset);
	const char *name;
	size_t i;

	for (i = 0; i < section->sh_size / sizeof(*symbol); i++, symbol++) {
		name = image + strings->sh_offset + symbol->st_name;
		if (symbol->st_shndx == SHN_UNDEF)
			continue;
		/* Variables have names for the driver even if they are static; nvcc makes most of them so. */
		if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL)
			add_name(code, name, strlen(name));
		else if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT)
			add_global(code, name, strlen(name), symbol->st_size);
	}
}

static CUresult read_cubin(const char *image, struct code *code)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
	const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + header->e_shoff);
	int i;

	if (header->e_ident[EI_CLASS] != ELFCLASS64)
		return CUDA_ERROR_INVALID_IMAGE;
	for (i = 0; header->e_shoff && i < header->e_shnum; i++)
		if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < header->e_shnum)
			read_symbols(image, &sections[i], &sections[sections[i].sh_link], code);
	code->any_name = !code->count;
	return CUDA_SUCCESS;
}

CUresult code_read(const void *image, struct code *code)
{
	CUresult result;
	uint32_t magic;

	memcpy(&magic, image, sizeof(magic));
	if (magic == FATBIN_MAGIC || magic == FATBIN_WRAPPER_MAGIC) {
		code->any_name = true;
		return CUDA_SUCCESS;
	}
	if (!memcmp(image, ELFMAG, SELFMAG))
		result = read_cubin(image, code);
	else if (isprint(*(const unsigned char *)image) || isspace(*(const unsigned char *)image))
		result = read_ptx(image, code);
	else
		result = CUDA_ERROR_INVALID_IMAGE;
	if (result != CUDA_SUCCESS)
		code_drop(code);
	return result;
}

CUresult read_file(const char *path, void **image)
{
	FILE *file = fopen(path, "rbe");
	long bytes;
	char *data;

	if (!file)
		return CUDA_ERROR_FILE_NOT_FOUND;
	fseek(file, 0, SEEK_END);
	bytes = ftell(file);
	rewind(file);
	data = bytes >= 4 ? calloc(1, (size_t)bytes + 1) : NULL;
	if (data && fread(data, 1, (size_t)bytes, file) != (size_t)bytes) {
		free(data);
		data = NULL;
	}
	fclose(file);
	*image = data;
	return data ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}
