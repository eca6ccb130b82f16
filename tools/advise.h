/*
 * advise.h - what reports of runs say about the next one: pure arithmetic, no output.
 */
#ifndef ADVISE_H
#define ADVISE_H

#include "history.h"

/* Runs of one command, taken together. Bytes are of one process on one GPU. */
struct advice {
	const char *command;
	unsigned runs;
	uint64_t peak_bytes;
	uint64_t overhead_bytes; /* HISTORY_UNKNOWN: of no run */
	uint64_t total_bytes;    /* of the smallest GPU that was used */
	uint64_t limit_bytes;    /* the lowest that any of them ran under; BYTES_NONE */
	const char *limit_source;
	uint64_t limit_peak_bytes; /* of those under that limit */
	uint64_t denied;
	uint64_t wanted_bytes;   /* used and asked for at a refusal, at most */
	uint64_t untracked_bytes; /* at most, 0 none or unknown */
	unsigned cut_short;      /* ended by a signal, or nobody knows how */
	bool pools_kept;         /* pools held more than was live */

	/* what follows from it */
	uint64_t need_bytes;     /* the peak, or more where it was refused */
	uint64_t suggested_bytes;
	uint64_t fit;            /* so many at once on that GPU; 0 none */
	bool fit_known;

	/* label batch=N: bytes = base + each * N */
	unsigned batches;        /* different ones seen */
	bool batch_known;
	double batch_base, batch_each;
	uint64_t batch_largest_seen;
	uint64_t batch_max;      /* that fits under the limit, or else on the GPU */
};

/* One a command, those with most need first; to be freed. */
struct advice *advise(const struct history *history, size_t *count);

/* "5.75G": as -m takes it. Good until the next call. */
const char *advise_limit(uint64_t bytes);

#endif
