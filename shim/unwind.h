/*
 * unwind.h - where a function keeps what its caller needs, by the call frame information (.eh_frame)
 * that every module carries.
 */
#ifndef CUWARD_UNWIND_H
#define CUWARD_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "lock.h"

/*
 * A rule in a word, for an address of code: its caller's stack pointer is the frame pointer or the stack
 * pointer plus an offset; the return address lies just below that, and the frame pointer may too.
 */
enum {
	UNWIND_SEEN = 1,
	UNWIND_KNOWN = 2,       /* else nobody tells, or in a way that is not understood */
	UNWIND_LAST = 4,        /* there is no caller */
	UNWIND_BY_FRAME = 8,
	UNWIND_FRAME_SAVED = 16,
};

#define UNWIND_RULE(flags, end, frame) \
	(UNWIND_SEEN | (flags) | (uint64_t)((frame) & 0xffffff) << 8 | (uint64_t)(uint32_t)(end) << 32)

hot int32_t unwind_end(uint64_t rule) /* the caller's stack pointer, from the base */
{
	return (int32_t)(rule >> 32);
}

hot int32_t unwind_frame(uint64_t rule) /* where the frame pointer is saved, from there */
{
	return (int32_t)((uint32_t)rule & ~0xffu) >> 8;
}

/* What a function has that keeps a frame pointer: the frame pointer says everything. */
#define UNWIND_STANDARD UNWIND_RULE(UNWIND_KNOWN | UNWIND_BY_FRAME | UNWIND_FRAME_SAVED, 16, -16)

#define UNWIND_PLACES 32768u /* a power of two */
#define UNWIND_PROBES 8u

/* The rule is 0 until it is written. */
struct unwind_place {
	uint64_t address;
	uint64_t rule;
};

extern struct unwind_place *unwind_places __attribute__((visibility("hidden")));

/* An address not seen before. */
uint64_t unwind_add(uint64_t address);

hot uint32_t unwind_home(uint64_t address)
{
	return (address * 0x9e3779b97f4a7c15ull >> 40) % UNWIND_PLACES;
}

/* The rule of an address: found once, and looked up from then on. After unwind_prepare(). */
hot uint64_t unwind_rule(uint64_t address)
{
	uint32_t home = unwind_home(address);

	for (uint32_t i = 0; i < UNWIND_PROBES; i++) {
		const struct unwind_place *place = &unwind_places[(home + i) % UNWIND_PLACES];
		uint64_t there = __atomic_load_n(&place->address, __ATOMIC_ACQUIRE);

		if (likely(there == address)) {
			uint64_t rule = __atomic_load_n(&place->rule, __ATOMIC_ACQUIRE);

			if (likely(rule))
				return rule;
		}
		if (there == 0)
			break;
	}
	return unwind_add(address);
}

/* Before the first. False: no memory. */
bool unwind_prepare(void);

#endif
