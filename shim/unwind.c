/*
 * unwind.c - call frame information, read for as much as a stack of return addresses needs: how to find
 * the caller's frame, return address and frame pointer. x86-64 only; elsewhere compilers keep
 * frame pointers.
 *
 * Everything read lies in the segment that holds it: a table that is damaged is not understood.
 */
#include "unwind.h"

#include <link.h>
#include <string.h>

#include "lock.h"
#include "share.h"

struct unwind_place *unwind_places;

bool unwind_prepare(void)
{
	struct unwind_place *new;

	if (__atomic_load_n(&unwind_places, __ATOMIC_ACQUIRE))
		return true;
	/* Rules outlive a fork, as the code does that they are about. */
	new = share_private(UNWIND_PLACES * sizeof(*new));
	if (new)
		__atomic_store_n(&unwind_places, new, __ATOMIC_RELEASE);
	return new != NULL;
}

#if defined(__x86_64__)

/* ---- reading ---- */

enum { REGISTER_FRAME = 6, REGISTER_STACK = 7, REGISTER_RETURN = 16 };

struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

static uint64_t read_bytes(struct cursor *in, unsigned count)
{
	uint64_t value = 0;

	if (in->bad || (size_t)(in->end - in->at) < count) {
		in->bad = true;
		return 0;
	}
	memcpy(&value, in->at, count);
	in->at += count;
	return value;
}

static uint64_t read_leb(struct cursor *in, bool is_signed)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = (uint8_t)read_bytes(in, 1);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80 && !in->bad);
	if (is_signed && byte & 0x40 && shift < 64)
		value |= ~0ull << shift;
	return value;
}

/* A pointer in one of the encodings that linkers write (DW_EH_PE_*); data is the base of 0x30. */
static uint64_t read_pointer(struct cursor *in, uint8_t encoding, uint64_t data)
{
	uint64_t here = (uint64_t)in->at, value;

	switch (encoding & 0x0f) {
	case 0x00: case 0x04: case 0x0c: value = read_bytes(in, 8); break;
	case 0x03: value = read_bytes(in, 4); break;
	case 0x0b: value = (uint64_t)(int32_t)read_bytes(in, 4); break;
	default: in->bad = true; return 0;
	}
	switch (encoding & 0x70) {
	case 0x00: return value;
	case 0x10: return value + here;
	case 0x30: return value + data;
	default: in->bad = true; return 0;
	}
}

/* ---- the module, and the entry of the address in it ---- */

struct tables {
	uint64_t address;
	const uint8_t *header, *header_end;
	const uint8_t *begin, *end; /* of the segment that holds the header, and the frames */
};

static int find_tables(struct dl_phdr_info *info, size_t bytes, void *to)
{
	struct tables *tables = to;
	uint64_t header = 0, header_bytes = 0;
	bool ours = false;

	(void)bytes;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && tables->address - start < segment->p_memsz)
			ours = true;
		if (segment->p_type == PT_GNU_EH_FRAME) {
			header = start;
			header_bytes = segment->p_memsz;
		}
	}
	if (!ours)
		return 0;
	for (int i = 0; i < info->dlpi_phnum && header; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && header - start < segment->p_filesz &&
			header_bytes <= segment->p_filesz - (header - start)) {
			tables->header = (const uint8_t *)header;
			tables->header_end = tables->header + header_bytes;
			tables->begin = (const uint8_t *)start;
			tables->end = tables->begin + segment->p_filesz;
		}
	}
	return 1;
}

/* The last entry of the sorted table that begins at or before the address. */
static const uint8_t *find_entry(const struct tables *tables)
{
	struct cursor in = { tables->header, tables->header_end, false };
	uint64_t base = (uint64_t)tables->header, low = 0, high;
	uint8_t version = (uint8_t)read_bytes(&in, 1), pointer = (uint8_t)read_bytes(&in, 1);
	uint8_t counter = (uint8_t)read_bytes(&in, 1), table = (uint8_t)read_bytes(&in, 1);
	const int32_t *rows;

	read_pointer(&in, pointer, base);
	high = read_pointer(&in, counter, base);
	if (in.bad || version != 1 || table != 0x3b || high > (uint64_t)(in.end - in.at) / 8)
		return NULL;
	rows = (const int32_t *)in.at;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (base + (uint64_t)(int64_t)rows[2 * middle] <= tables->address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? (const uint8_t *)(base + (uint64_t)(int64_t)rows[2 * low - 1]) : NULL;
}

/* ---- the program of an entry ---- */

struct common { /* of a CIE */
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding;
	bool has_length; /* augmentation data follow in the entry */
	struct cursor program;
};

/* The length of an entry; the cursor ends with it. */
static bool enter(struct cursor *in)
{
	uint64_t length = read_bytes(in, 4);

	if (in->bad || length == 0 || length == 0xffffffff || length > (uint64_t)(in->end - in->at))
		return false;
	in->end = in->at + length;
	return true;
}

static bool read_augmentation(struct common *common, struct cursor *in, const char *text)
{
	uint64_t length = read_leb(in, false);
	const uint8_t *end = in->at + length;

	if (in->bad || length > (uint64_t)(in->end - in->at))
		return false;
	common->has_length = true;
	for (; *text; text++) {
		if (*text == 'R')
			common->encoding = (uint8_t)read_bytes(in, 1);
		else if (*text == 'L')
			read_bytes(in, 1);
		else if (*text == 'P')
			/* Where it points does not matter, so neither does what it is relative to. */
			read_pointer(in, (uint8_t)read_bytes(in, 1) & 0x0f, 0);
		else if (*text != 'B')
			return false; /* a signal frame, or something unheard of */
	}
	in->at = end;
	return !in->bad;
}

static bool read_common(struct common *common, const uint8_t *at, const uint8_t *end)
{
	struct cursor in = { at, end, false };
	const char *augmentation;
	uint8_t version;

	*common = (struct common){ .encoding = 0 };
	if (!enter(&in) || read_bytes(&in, 4) != 0)
		return false;
	version = (uint8_t)read_bytes(&in, 1);
	augmentation = (const char *)in.at;
	if ((version != 1 && version != 3) || !memchr(in.at, 0, (size_t)(in.end - in.at)))
		return false;
	in.at += strlen(augmentation) + 1;
	common->code_align = read_leb(&in, false);
	common->data_align = (int64_t)read_leb(&in, true);
	if ((version == 1 ? read_bytes(&in, 1) : read_leb(&in, false)) != REGISTER_RETURN)
		return false;
	if (*augmentation == 'z' && !read_augmentation(common, &in, augmentation + 1))
		return false;
	common->program = in;
	return !in.bad && (*augmentation == 'z' || *augmentation == 0);
}

struct row {
	uint64_t reg;
	int64_t offset;
	int64_t frame;    /* where the frame pointer is saved */
	bool frame_saved;
	bool last;        /* the return address is undefined */
	bool odd;         /* an expression, or a register kept in another */
};

struct machine {
	struct row row, first, saved[4];
	unsigned depth;
	uint64_t location;
};

static void save(struct machine *machine, uint64_t reg, int64_t offset)
{
	if (reg == REGISTER_FRAME) {
		machine->row.frame = offset;
		machine->row.frame_saved = true;
	} else if (reg == REGISTER_RETURN && offset != -8) {
		machine->row.odd = true;
	}
}

static void restore(struct machine *machine, uint64_t reg)
{
	if (reg != REGISTER_FRAME)
		return;
	machine->row.frame = machine->first.frame;
	machine->row.frame_saved = machine->first.frame_saved;
}

/* Registers that are kept in odd ways matter only if they are those we follow. */
static void note_odd(struct machine *machine, uint64_t reg)
{
	if (reg == REGISTER_FRAME || reg == REGISTER_RETURN)
		machine->row.odd = true;
}

static void skip(struct cursor *in, uint64_t bytes)
{
	if (bytes > (uint64_t)(in->end - in->at))
		in->bad = true;
	else
		in->at += bytes;
}

static void step_rare(struct machine *machine, const struct common *common, struct cursor *in,
	uint8_t code)
{
	uint64_t reg;

	switch (code) {
	case 0x05: reg = read_leb(in, false); /* offset_extended */
		save(machine, reg, (int64_t)read_leb(in, false) * common->data_align);
		break;
	case 0x11: reg = read_leb(in, false); /* offset_extended_sf */
		save(machine, reg, (int64_t)read_leb(in, true) * common->data_align);
		break;
	case 0x06: restore(machine, read_leb(in, false)); break; /* restore_extended */
	case 0x07: /* undefined */
		machine->row.last |= read_leb(in, false) == REGISTER_RETURN;
		break;
	case 0x08: read_leb(in, false); break; /* same_value */
	case 0x09: note_odd(machine, read_leb(in, false)); /* register */
		read_leb(in, false);
		break;
	case 0x0f: machine->row.reg = UINT64_MAX; /* def_cfa_expression */
		skip(in, read_leb(in, false));
		break;
	case 0x10: case 0x16: note_odd(machine, read_leb(in, false)); /* (val_)expression */
		skip(in, read_leb(in, false));
		break;
	case 0x12: machine->row.reg = read_leb(in, false); /* def_cfa_sf */
		machine->row.offset = (int64_t)read_leb(in, true) * common->data_align;
		break;
	case 0x13: machine->row.offset = (int64_t)read_leb(in, true) * common->data_align; break;
	case 0x2e: read_leb(in, false); break; /* GNU_args_size */
	default: in->bad = true;
	}
}

static void step(struct machine *machine, const struct common *common, struct cursor *in)
{
	uint8_t code = (uint8_t)read_bytes(in, 1);

	switch (code >> 6) {
	case 1: machine->location += (code & 0x3f) * common->code_align; return;
	case 2: save(machine, code & 0x3f, (int64_t)read_leb(in, false) * common->data_align); return;
	case 3: restore(machine, code & 0x3f); return;
	}
	switch (code) {
	case 0x00: break;
	case 0x01: machine->location = read_pointer(in, common->encoding, 0); break;
	case 0x02: machine->location += read_bytes(in, 1) * common->code_align; break;
	case 0x03: machine->location += read_bytes(in, 2) * common->code_align; break;
	case 0x04: machine->location += read_bytes(in, 4) * common->code_align; break;
	case 0x0a: /* remember_state */
		if (machine->depth < 4)
			machine->saved[machine->depth++] = machine->row;
		else
			in->bad = true;
		break;
	case 0x0b: /* restore_state */
		if (machine->depth > 0)
			machine->row = machine->saved[--machine->depth];
		else
			in->bad = true;
		break;
	case 0x0c: machine->row.reg = read_leb(in, false);
		machine->row.offset = (int64_t)read_leb(in, false);
		break;
	case 0x0d: machine->row.reg = read_leb(in, false); break;
	case 0x0e: machine->row.offset = (int64_t)read_leb(in, false); break;
	default: step_rare(machine, common, in, code);
	}
}

static bool run(struct machine *machine, const struct common *common, struct cursor program,
	uint64_t address)
{
	while (program.at < program.end && !program.bad) {
		struct row before = machine->row;

		step(machine, common, &program);
		if (machine->location > address) {
			machine->row = before;
			break;
		}
	}
	return !program.bad;
}

static bool find_row(struct row *row, const struct tables *tables)
{
	const uint8_t *entry = find_entry(tables);
	struct cursor in = { entry, tables->end, false };
	const uint8_t *place;
	struct machine machine = { .depth = 0 };
	struct common common;
	uint64_t distance, range;

	if (!entry || entry < tables->begin || entry >= tables->end || !enter(&in))
		return false;
	place = in.at;
	distance = read_bytes(&in, 4);
	if (distance == 0 || distance > (uint64_t)(place - tables->begin) ||
		!read_common(&common, place - distance, tables->end))
		return false;
	machine.location = read_pointer(&in, common.encoding, 0);
	range = read_pointer(&in, common.encoding & 0x0f, 0);
	if (in.bad || tables->address - machine.location >= range)
		return false;
	if (common.has_length)
		skip(&in, read_leb(&in, false));
	if (!run(&machine, &common, common.program, UINT64_MAX))
		return false;
	machine.first = machine.row;
	if (!run(&machine, &common, in, tables->address))
		return false;
	*row = machine.row;
	return true;
}

static uint64_t find_rule(uint64_t address)
{
	struct tables tables = { .address = address };
	struct row row;
	unsigned flags = UNWIND_KNOWN;

	dl_iterate_phdr(find_tables, &tables);
	if (!tables.header || !find_row(&row, &tables) || row.odd || row.offset < 8 ||
		row.offset > INT32_MAX || row.frame > 0 || row.frame <= -(1 << 23) ||
		(row.reg != REGISTER_FRAME && row.reg != REGISTER_STACK))
		return UNWIND_SEEN;
	flags |= row.last ? UNWIND_LAST : 0;
	flags |= row.reg == REGISTER_FRAME ? UNWIND_BY_FRAME : 0;
	flags |= row.frame_saved ? UNWIND_FRAME_SAVED : 0;
	return UNWIND_RULE(flags, row.offset, row.frame);
}

#else

static uint64_t find_rule(uint64_t address)
{
	(void)address;
	return UNWIND_SEEN;
}

#endif

/* Two that find the same address may both write its rule. */
__attribute__((noinline)) uint64_t unwind_add(uint64_t address)
{
	uint64_t rule = find_rule(address);
	uint32_t home = unwind_home(address);

	for (uint32_t i = 0; i < UNWIND_PROBES; i++) {
		struct unwind_place *place = &unwind_places[(home + i) % UNWIND_PLACES];
		uint64_t none = 0;

		if (__atomic_compare_exchange_n(&place->address, &none, address, false, __ATOMIC_ACQ_REL,
			__ATOMIC_ACQUIRE) || none == address) {
			__atomic_store_n(&place->rule, rule, __ATOMIC_RELEASE);
			break;
		}
	}
	return rule;
}
