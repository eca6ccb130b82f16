/*
 * ctf_value.h - values of any TSDL type, read bit by bit: for what is not on the fast path.
 */
#ifndef CTF_VALUE_H
#define CTF_VALUE_H

#include <stdio.h>

#include "tsdl.h"

struct ctf_value {
	const struct tsdl_type *type;
	const char *name; /* in its struct, or of the option of a variant */
	union {
		uint64_t number; /* sign-extended where the type is signed */
		double real;
		struct { const char *text; uint64_t length; } string;
		struct { struct ctf_value *items; uint64_t count; } list; /* of structs, arrays, variants */
	};
};

/* The parts of an event that tags and lengths may be found in, outermost first. */
enum ctf_part {
	CTF_PACKET_HEADER,
	CTF_PACKET_CONTEXT,
	CTF_EVENT_HEADER,
	CTF_STREAM_EVENT_CONTEXT,
	CTF_EVENT_CONTEXT,
	CTF_EVENT_FIELDS,
	CTF_PARTS,
};

enum ctf_outcome {
	CTF_FINE,
	CTF_SHORT, /* the bits end before the value */
	CTF_WRONG, /* they make no sense */
};

struct ctf_decoder {
	const uint8_t *bytes; /* of the packet; bit 0 is where alignment counts from */
	uint64_t at, end;     /* in bits */
	uint64_t clock;       /* follows the numbers that are times */
	struct arena *arena;
	struct ctf_value *parts[CTF_PARTS]; /* that were read already, else NULL */
	const struct ctf_scope *scope;
	unsigned depth;
	unsigned budget; /* values that may still be made */
};

#define CTF_VALUES_MAX (1u << 20)

/* Read a struct, or what its part of the event is; *value lives in the arena. */
enum ctf_outcome ctf_decode(struct ctf_decoder *decoder, enum ctf_part part,
	const struct tsdl_type *type, struct ctf_value **value);

/* NULL: the struct has no such member. */
const struct ctf_value *ctf_member(const struct ctf_value *structure, const char *name);

/* A time that wraps around after `bits`, continued from where the clock stands. */
static inline uint64_t ctf_clock_forward(uint64_t clock, uint64_t value, unsigned bits)
{
	uint64_t mask = bits < 64 ? (1ull << bits) - 1 : UINT64_MAX;
	uint64_t next = (clock & ~mask) | (value & mask);

	return bits < 64 && next < clock ? next + mask + 1 : next;
}

/* ---- as babeltrace2 writes it, in ctf_print.c ---- */

void ctf_print(FILE *out, const struct ctf_value *value);
/* One member: "name = value". */
void ctf_print_member(FILE *out, const struct ctf_value *value);

#endif
