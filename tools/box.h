/*
 * box.h - who holds what on this machine, as far as this user may see: slots and ledgers as rows.
 */
#ifndef BOX_H
#define BOX_H

#include <sys/types.h>

#include "ledger_peek.h"

/* Bytes nobody knows; and BYTES_NONE where a limit is meant. */
#define BYTES_UNKNOWN (UINT64_MAX - 1)

struct box_gpu {
	uint8_t uuid[16];
	uint64_t total_bytes;
	uint64_t used_bytes; /* by everybody alive we see, never more than there is; overhead apart */
	uint64_t overhead_bytes; /* that is known */
	bool overhead_unknown;   /* of some; see box_overhead() */
	unsigned processes;
	bool claimed_more; /* the sum was more than there is */
	uint64_t driver_bytes;    /* used by all, as NVML says; BYTES_UNKNOWN */
	uint64_t untracked_bytes; /* of those; with used and overhead it makes their sum */
	char name[64];     /* empty where no ledger tells */
};

/* What a process has to do with one GPU. */
struct box_hold {
	size_t gpu; /* index */
	uint32_t word;
	uint64_t used_bytes;     /* BYTES_UNKNOWN: more than the GPU has, and not by somebody we trust */
	uint64_t overhead_bytes; /* BYTES_UNKNOWN */
	uint64_t limit_bytes;    /* of the process, BYTES_NONE */
	uint64_t job_limit_bytes, inner_limit_bytes; /* of its job, and of a run within that */
	uint64_t user_limit_bytes, group_limit_bytes, gpu_limit_bytes; /* where its ledger can be read */
};

struct box_process {
	const struct slots_file *file;
	const struct slots_entry *entry;
	const struct process_identity *who;
	enum ledger_owner owner;
	uint32_t uid;
	char *user;    /* name, or the number */
	pid_t pid;     /* as we see it, 0 unknown */
	bool peeked;
	bool busy;     /* it made CUDA calls while we looked (box_look()) */
	uint64_t calls; /* how many */
	struct ledger_peek peek;
	struct box_hold *holds;
	size_t hold_count;
	uint64_t used_bytes; /* on all GPUs */
	uint64_t activity_ns; /* CLOCK_REALTIME, 0 unknown */
	uint64_t sync_ns;     /* so long a thread has been waiting for the GPU, 0 none */
	unsigned in_call;     /* box_look(): a thread was in this call all the time, + 1; 0 none, ... */
	uint64_t in_call_ns;  /* ... so long; since when it is in there is not known */
	char in_call_kernel[96]; /* that this thread launched last; "" none, or its name is not known */
	bool stopped;         /* by a signal */
	uint64_t waiting_ns;  /* so long it waits for memory, 0 it does not */
};

/* A process on a GPU that is not seen under cuward; from NVML. */
struct box_other {
	size_t gpu;
	pid_t pid;
	uint64_t used_bytes; /* BYTES_UNKNOWN */
	const char *kind;    /* "compute", "graphics", "mps" */
	bool known;          /* what follows */
	uint32_t uid;
	char *user;
	char command[64];
	uint64_t start_ns; /* CLOCK_REALTIME */
};

struct box_user {
	uint32_t uid;
	const char *user;
	unsigned processes;
	uint64_t used_bytes, overhead_bytes;
	bool overhead_unknown;
};

/* Of a GPU or a user: what is known together, BYTES_UNKNOWN where that is nothing. */
#define box_overhead(of) \
	((of)->overhead_unknown && !(of)->overhead_bytes ? BYTES_UNKNOWN : (of)->overhead_bytes)

struct box {
	struct slots_list slots;
	struct box_process *processes; /* most memory first */
	size_t count, capacity;
	struct box_gpu *gpus;
	size_t gpu_count;
	struct box_user *users;
	size_t user_count;
	struct box_other *others; /* most memory first; only after box_add_others() */
	size_t other_count;
	bool others_known;
	bool nvml; /* it answered */
	uint64_t now_ns; /* CLOCK_REALTIME */
};

/* dead: also those of whom only their slots are left. */
void box_open(struct box *box, bool dead);
/* Once more, after a while: who made calls since box_open()? */
void box_look(struct box *box);
/* What NVML knows beyond; nvml_begin() before box_open() saves the time it takes. */
void box_add_others(struct box *box);
void box_close(struct box *box);

/* The number that is a pid; 0, which nobody has, where it is none. */
pid_t box_pid(const char *text);
/*
 * Is the process with that pid the one of its slot: started when that says, of the user whose file it
 * is? While a descriptor of it is open, it stays that. A pid that was handed on is somebody else's, and
 * in his own file anybody may name any pid.
 */
bool box_is_what_it_says(const struct box_process *process);
#define BOX_NOT_WHAT_IT_SAYS "it is gone, or not what its slot says"
/*
 * The living process with this pid, as we see it or, where that is not known, as it sees itself. One
 * that is what its slot says comes before one that is not.
 */
struct box_process *box_find(const struct box *box, pid_t pid);
/* The process with this pid that is not under cuward. */
const struct box_other *box_find_other(const struct box *box, pid_t pid);
/*
 * A limit as it is with what `cuward limit` set: a lower one is followed at the next allocation, and so
 * it counts now. A higher one may be more than the policy allows: that the process says once it looked.
 */
uint64_t box_with_live(uint64_t bytes, uint64_t live);
/* The least limit that binds it there, and of what: "process", "job", "user"...; BYTES_NONE. */
uint64_t box_limit(const struct box_hold *hold, const char **scope);
/* Is it of this job, or of one within it? */
bool box_in_job(const struct box_process *process, const char *job);
/* "GPU-0011..." in full; and short, as far as it is unambiguous here. */
size_t box_find_gpu(struct box *box, const uint8_t uuid[16], uint64_t total_bytes); /* or make it */
const char *box_uuid(const struct box_gpu *gpu);
const char *box_gpu_name(const struct box *box, const struct box_gpu *gpu);

#endif
