/*
 * ledger_peek.h - the few numbers of a ledger that say what its process is doing now.
 */
#ifndef LEDGER_PEEK_H
#define LEDGER_PEEK_H

#include <stdbool.h>

#include "slots_read.h"

/* Of a process with more threads than this, what it does now is not told: it would take too long. */
#define PEEK_THREADS_MAX 256u

struct ledger_peek {
	uint64_t calls;         /* CUDA calls so far */
	uint64_t sync_since_ns; /* CLOCK_REALTIME: so long some thread waits for the GPU, 0 none does */
	uint32_t sync_call;
	uint64_t sync_calls;    /* that thread's calls so far */
	char kernel[96];        /* that it launched last; "" none, or its name is not known */
	uint32_t thread_count;
	struct peek_thread *threads;   /* for ledger_peek_free() */
	uint32_t device_count;
	struct ledger_device *devices; /* a copy, for ledger_peek_free(); NULL: not looked at */
};

struct peek_thread {
	uint64_t calls;   /* so far */
	uint32_t in_call; /* + 1; 0 none that is known */
};

/*
 * The ledger of the process in this slot. False: there is none that we can read. by_call: calls so far,
 * each by itself, where there is room for them (NULL: not asked for).
 */
bool ledger_peek(struct ledger_peek *peek, uint64_t by_call[LEDGER_CALLS_MAX],
	const struct slots_file *file, const struct slots_entry *entry);
/* The same once more, now; the devices are taken over from before. */
bool ledger_peek_again(struct ledger_peek *now, struct ledger_peek *before,
	const struct slots_file *file, const struct slots_entry *entry);
/* What it says of the device that is this word of its slot; NULL. */
const struct ledger_device *ledger_peek_device(const struct ledger_peek *peek, uint32_t word);
/* All of the header, to be freed, for what few ask. NULL: it is gone, or not to be read. */
struct ledger_header *ledger_peek_header(const struct slots_file *file,
	const struct slots_entry *entry);
/* After many of them: the folder of the last one is closed. */
void ledger_peek_done(void);
/*
 * The call that some thread was in all the time from one look to the other, + 1; 0 none. One in which
 * it may wait for the GPU before one in which it works (compiles, loads, makes ready). `thread`: whose.
 */
unsigned ledger_peek_in_call(const struct ledger_peek *before, const struct ledger_peek *now,
	uint32_t *thread);
/* What that thread launched last; "" nothing, or its name is not known. */
void ledger_peek_kernel(char kernel[96], const struct slots_file *file, const struct slots_entry *entry,
	uint32_t thread);
bool ledger_peek_works(unsigned call);
void ledger_peek_free(struct ledger_peek *peek);

/* Where it lies. False: its name is none of ours. */
bool ledger_peek_path(char *path, size_t bytes, const struct slots_file *file,
	const struct slots_entry *entry);

#endif
