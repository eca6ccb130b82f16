/*
 * quota.h - may this process have n more bytes on this device? Arithmetic on one word.
 *
 * The word is the process's word in its slot (cuward/ledger.h): only this process writes it, its
 * bytes are what is held and asked for. A refused request never shows in it.
 */
#ifndef CUWARD_QUOTA_H
#define CUWARD_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "cuward/ledger.h"

/* No single request can be larger: it would run into the fields above. No GPU is either. */
#define QUOTA_REQUEST_MAX (1ull << (WORD_BYTES_BITS - 1))

static inline uint64_t quota_used(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED) & WORD_BYTES_MASK;
}

/* Add bytes, and `marks` above them, if the sum stays within limit (BYTES_NONE: no limit). */
static inline bool quota_add(uint64_t *word, uint64_t bytes, uint64_t limit, uint64_t marks)
{
	uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
	uint64_t used;

	if (bytes > QUOTA_REQUEST_MAX)
		return false;
	do {
		used = old & WORD_BYTES_MASK;
		if (used + bytes > limit || used + bytes > WORD_BYTES_MASK)
			return false;
	} while (!__atomic_compare_exchange_n(word, &old, old + marks + bytes, true, __ATOMIC_SEQ_CST,
		__ATOMIC_RELAXED));
	return true;
}

/* Take bytes. False: nothing was taken. */
static inline bool quota_take(uint64_t *word, uint64_t bytes, uint64_t limit)
{
	return quota_add(word, bytes, limit, WORD_VERSION);
}

/*
 * The same in two halves, for limits of several processes: the word shows the bytes and that a decision
 * is under way, before the others' words are read. Then settle, or withdraw.
 */
static inline bool quota_raise(uint64_t *word, uint64_t bytes, uint64_t limit)
{
	return quota_add(word, bytes, limit, WORD_VERSION + WORD_ASKING);
}

static inline void quota_settle(uint64_t *word)
{
	__atomic_fetch_add(word, WORD_VERSION - WORD_ASKING, __ATOMIC_SEQ_CST);
}

static inline void quota_withdraw(uint64_t *word, uint64_t bytes)
{
	__atomic_fetch_add(word, WORD_VERSION - WORD_ASKING - bytes, __ATOMIC_SEQ_CST);
}

static inline unsigned quota_asking(uint64_t word)
{
	return word >> WORD_BYTES_BITS & 0x3ff;
}

/* Bytes that were taken before; never more than are there. */
static inline void quota_give_back(uint64_t *word, uint64_t bytes)
{
	__atomic_fetch_add(word, WORD_VERSION - bytes, __ATOMIC_SEQ_CST);
}

#endif
