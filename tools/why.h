/*
 * why.h - is it normal? What is seen of a process or a GPU in a while, as words with evidence.
 */
#ifndef WHY_H
#define WHY_H

#include "box.h"

/* X(id, word, fault, what it means): a fault is something that somebody should look at. */
#define WHY_VERDICTS(X) \
	X(BUSY, "busy", false, "it makes CUDA calls") \
	X(QUIET, "quiet", false, "no CUDA call while we looked, but not for long") \
	X(WAITING, "waiting", false, "it waits until memory is free (--on-limit wait)") \
	X(IDLE, "idle-holding", true, "it holds memory and has done nothing for long") \
	X(STUCK, "stuck", true, "a thread waits for the GPU for long, or a kernel runs that long") \
	X(STOPPED, "stopped", true, "a signal stopped it (--on-limit pause does)") \
	X(GROWING, "growing", true, "what it holds only grows") \
	X(ORPHAN, "orphan", true, "who started it is gone") \
	X(NEAR_LIMIT, "near-limit", true, "nine tenths of a limit are used") \
	X(UNSEEN, "unseen", false, "its ledger cannot be read: what it does now is not known") \
	X(ONE_HOG, "one-hog", false, "one process holds more than half of what is in use") \
	X(MANY, "many", false, "several share it and none holds more than half") \
	X(NOBODY, "nobody", false, "nobody under cuward holds anything there") \
	X(OUTSIDE, "outside", false, "a process that is not under cuward uses the GPU")

enum why_verdict {
#define X(id, word, fault, text) WHY_##id,
	WHY_VERDICTS(X)
#undef X
	WHY_COUNT,
};

const char *why_word(enum why_verdict verdict);
const char *why_meaning(enum why_verdict verdict);
bool why_is_fault(enum why_verdict verdict);

#define WHY_SAMPLES 64

/* What was seen of one process. */
struct why_watched {
	uint64_t used[WHY_SAMPLES]; /* bytes on all GPUs */
	struct slot now;
	bool gone;
};

/* From when on it is idle or near, on one GPU. */
struct why_threshold {
	uint64_t idle_ns;
	unsigned near_percent; /* of a limit */
};

struct why_watch {
	struct box *box;
	struct why_watched *of; /* one a process of the box */
	unsigned samples;
	uint64_t ns; /* how long */
	uint64_t stuck_ns; /* from when on it is */
	struct why_threshold *on; /* one a GPU of the box */
};

/* Look for so long, at box->processes as they are now. */
void why_look(struct why_watch *watch, struct box *box, uint64_t ns);
void why_look_done(struct why_watch *watch);

/* A limit that binds a process on one GPU, and what is used of it by all whom it counts. */
struct why_limit {
	const char *scope; /* a word of CUWARD_SCOPES */
	char whose[96];    /* the job, user or group; safe to print, empty: its own */
	char source[64];   /* where it is set, the same; empty: unknown */
	size_t gpu;
	uint64_t limit_bytes, used_bytes;
	uint64_t kept_bytes; /* of those used: for others, who do not hold them yet */
	uint64_t own_bytes;  /* of those used: by this process */
	unsigned others;     /* that hold the rest */
	bool binds;          /* of all that bind the process there, this one leaves least */
};

#define WHY_LIMITS (5 + SLOT_GROUPS)

/* why_limits.c: all of them, the one that leaves least first. How many? */
unsigned why_limits(const struct why_watch *watch, size_t process, const struct box_hold *hold,
	struct why_limit limits[WHY_LIMITS]);

/* Gets each verdict with a sentence of evidence; the limit of NEAR_LIMIT, else NULL. */
typedef void why_tell(void *to, enum why_verdict verdict, const char *evidence,
	const struct why_limit *limit);
void why_process(const struct why_watch *watch, size_t process, why_tell *tell, void *to);
void why_other(const struct why_watch *watch, const struct box_other *other, why_tell *tell, void *to);
void why_gpu(const struct why_watch *watch, size_t gpu, why_tell *tell, void *to);

#endif
