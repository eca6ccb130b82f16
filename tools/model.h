/*
 * model.h - what a trace tells: processes, their devices, streams and memory. Pure: events in,
 * facts out, in memory that does not grow with the number of events.
 *
 * A process is known by (host, pid namespace, pid, start time, image), never by its pid. What the
 * trace does not tell is not guessed: a process whose definition was lost has defined = false, one
 * whose end was not recorded has ended = false. Sums stop at UINT64_MAX instead of wrapping.
 */
#ifndef MODEL_H
#define MODEL_H

#include "event.h"
#include "histogram.h"
#include "map.h"
#include "spans.h"

struct model_calls {
	uint64_t count;
	uint64_t errors; /* result was not CUDA_SUCCESS */
	uint64_t ns;     /* on the CPU */
	uint64_t longest_ns, shortest_ns;
	struct histogram times;
	struct model_code *codes; /* of the errors */
	unsigned code_count;
};

struct model_code {
	int32_t code;
	uint64_t count;
};

struct model_copies {
	uint64_t count;
	uint64_t bytes;
	uint64_t api_ns;
	uint64_t timed, timed_bytes, gpu_ns; /* those with a time on the GPU */
};

/* What one place of the program has allocated and not freed. */
struct model_site {
	uint32_t id; /* 0: unknown places */
	char *frames;
	uint64_t live_bytes, live_count;
	uint64_t peak_bytes, peak_count; /* when all of them together held most, on any device */
	uint64_t allocs, bytes;          /* in all */
	uint64_t epoch;                  /* of peak_bytes */
};

struct model_sites {
	struct model_site *items;
	size_t count, capacity;
	struct map index_of;
	struct map live;              /* pointer -> allocation */
	struct model_live *lives;
	size_t live_count, live_capacity;
	uint32_t free_live;           /* list of unused ones, index + 1 */
	uint64_t bytes, peak_bytes, epoch;
	bool incomplete; /* more were live than are remembered */
};

/* Copies by direction, and by what their side on the host is. */
struct model_ways {
	struct model_copies of[DIRECTION_COUNT][HOST_COUNT];
};

struct model_work {
	uint64_t launches;
	struct model_copies copies[DIRECTION_COUNT];
};

/* A stream of a process on one of its devices. */
struct model_lane {
	uint8_t device;
	uint32_t tid;    /* of a per-thread default stream, else 0 */
	uint64_t stream; /* handle; 0: calls that name no stream */
	struct model_work work;
	struct spans api; /* calls about it, on the CPU */
	struct spans gpu; /* work timed on the GPU */
	uint32_t next;    /* lane with the same hash */
};

/* A device as one process sees it. */
struct model_device {
	bool used; /* else this ordinal never occurred */
	char *uuid, *name; /* "" unknown */
	uint64_t total_bytes;
	uint64_t limit_bytes; /* UINT64_MAX without, 0 unknown */
	uint32_t gpu_index;   /* in model.gpus, MAP_NONE unknown */
	struct steps memory;  /* charged bytes; 0 once the process is gone */
	uint64_t final_bytes; /* what it held last */
	uint64_t allocs, frees;
	uint64_t denied, denied_bytes;
	struct strip refusals;
	struct spans api, gpu; /* of all its lanes together */
};

struct model_function {
	char *name;
	char *shown; /* set by whoever can demangle it; else NULL */
	uint64_t launches;
	uint64_t api_ns;
	uint64_t timed; /* launches with a time on the GPU */
	uint64_t gpu_ns, gpu_longest_ns, gpu_shortest_ns;
	uint64_t api_longest_ns, api_shortest_ns;
	uint64_t queued_ns, queued_longest_ns; /* from the end of its launch to its begin on the GPU */
	struct histogram gpu_times, api_times;
	uint32_t grid[3], block[3]; /* of the first launch */
	bool shapes_differ;
	uint64_t lanes; /* bit i: launched on lane i; the highest bit for all from 63 on */
	unsigned streams; /* of all processes, in what model_kernels() gives; 63 and on are one */
};

struct model_leaks {
	uint64_t count;
	uint64_t bytes;
};

struct model_process {
	/* who */
	size_t number; /* in model.processes */
	bool defined;
	const char *host;
	uint32_t pid, ppid, uid, pid_ns, image;
	uint64_t start_ticks, start_realtime_ns;
	char *command, *job, *labels, *version;
	char *user; /* set by whoever can look it up; else NULL */

	/* when */
	uint64_t first_ns, last_ns; /* of its events */
	bool ended;                 /* end recorded: how and status hold */
	enum cuward_end how;
	int32_t status;
	uint64_t end_live_bytes, end_live_count, end_denied;

	/* what */
	struct model_device *devices; /* by ordinal */
	unsigned device_count;
	struct model_lane *lanes;
	size_t lane_count, lane_capacity;
	struct map lane_of;
	struct map stream_of; /* number -> index of its handle */
	uint64_t *streams_numbered;
	size_t numbered_count, numbered_capacity;
	uint32_t number_at_hand; /* looked up last, and its handle */
	uint64_t stream_at_hand;
	struct model_function *functions;
	size_t function_count, function_capacity;
	struct map function_of;
	struct model_calls *calls; /* by number of the api */
	char **call_names;
	unsigned call_count;
	struct model_work work;
	struct model_ways ways;
	struct spans api, gpu; /* calls of all its threads, and work timed on the GPU, together */
	uint64_t api_ns, errors;
	uint64_t syncs, sync_ns;
	uint64_t pinned_bytes;    /* host and imported memory made in all; charged to no device */
	uint64_t contexts, streams; /* created */
	uint64_t gpu_timed, gpu_unmatched;
	uint64_t untimed[UNTIMED_COUNT]; /* ran, its time was wanted, and it has none */
	uint32_t gpu_error_ns;    /* the largest bound */
	uint64_t gpu_least_ns;    /* of its work, what is sure: each piece less its bound */
	uint32_t threads;
	struct model_sites sites;
	uint64_t alloc_ns, alloc_bytes; /* of memory on devices: time of its allocs and frees */
	uint64_t largest_refusal, refused_used, refused_limit; /* the largest, and what stood then */
	char *refusal_text; /* the first that was told in a sentence; NULL */
	bool leaks_known;
	struct model_leaks leaks[VERDICT_COUNT];
	uint64_t lost;            /* events, by its own word */
	char *lost_why;
	bool unrecorded;          /* none of its events is there: what it did is unknown, not 0 */
	bool hidden;              /* by a filter */
	struct model_pending *pending; /* launches and copies that wait for their GPU time ... */
	struct model_pending *pending_old; /* ... for long */
	bool wants_gpu;                /* times on the GPU are told of it */
};

/* A GPU of a host, whoever uses it. */
struct model_gpu {
	const char *host;
	char *uuid, *name;
	uint64_t total_bytes;
	unsigned processes;
	struct spans api, gpu;
	struct steps memory; /* charged bytes of all processes */
	uint64_t denied;
};

/* One thing that took its time, as it is fed: for views of each of them. */
enum model_slice_kind { SLICE_CALL, SLICE_GPU };

struct model_slice {
	enum model_slice_kind kind;
	const struct model_process *process;
	uint32_t tid;                /* of a call; 0 unknown */
	const char *thread;          /* the name of it; NULL unknown */
	uint32_t lane;               /* index; MAP_NONE: a call about no stream */
	const char *call;            /* name of the call; NULL unknown or none */
	uint16_t api;
	const char *name;            /* of a kernel, "" if it has none; NULL: no kernel */
	uint64_t begin_ns, end_ns;
	int32_t result;
	uint32_t correlation;        /* joins the call with what it started; 0 none */
	bool has_correlation;
	uint64_t bytes;              /* of a copy or an allocation */
	bool has_bytes;
};

struct model_observer {
	void *user;
	void (*slice)(void *user, const struct model_slice *slice);
	/* Bytes charged on a device of a process. */
	void (*level)(void *user, const struct model_process *process, unsigned device,
		uint64_t time_ns, uint64_t bytes);
	void (*refusal)(void *user, const struct model_process *process, unsigned device,
		uint64_t time_ns, uint64_t bytes);
};

/* A moment: absolute, or counted from the first event. */
struct model_moment {
	uint64_t ns;
	bool absolute;
};

/* [from, to): sums and spans count only what lies inside; definitions count always. */
struct model_range {
	struct model_moment from, to;
};

struct model {
	struct model_process **processes; /* in order of appearance */
	size_t process_count, process_capacity;
	struct model_gpu *gpus;
	size_t gpu_count, gpu_capacity;
	char **hosts;
	size_t host_count, host_capacity;
	uint64_t first_ns, last_ns; /* of all events */
	uint64_t from_ns, to_ns;    /* the part of it that is told: the range asked for */
	uint64_t events;            /* in that range */
	bool any;         /* an event was seen */
	struct histogram gpu_errors; /* bounds, of all processes */
	bool gpu_timing;  /* a gpu event was seen */
	uint64_t undefined; /* events whose thread or process was never defined */
	struct model_range range;
	const struct model_observer *observer; /* NULL none; set it before the first event */
	/* private */
	struct model_thread *threads;
	size_t thread_count, thread_capacity;
	struct map thread_of, process_of;
	uint32_t users; /* the most parts of one session: the low half of event.source */
	uint64_t last_key; /* of the thread that the last event was about */
	uint32_t last_thread; /* MAP_NONE none */
};

/* range NULL: all. */
struct model *model_open(const struct model_range *range);
void model_feed(struct model *model, const struct event *event);
/* No more events: sums are final. */
void model_finish(struct model *model);
void model_close(struct model *model);

/* What a JSON report says about the leaks of a process; false: it is none of ours. */
bool model_set_leaks(struct model *model, const char *host, uint32_t pid, uint32_t pid_ns,
	uint32_t image, const struct model_leaks leaks[VERDICT_COUNT]);

/* A process of which a JSON report tells that it was not recorded, and the trace nothing. */
void model_add_unrecorded(struct model *model, const char *host, const struct event_process *who,
	enum cuward_end how, int status);

/* Hide the processes with another pid. Returns how many are left. */
size_t model_only_pid(struct model *model, uint32_t pid);

/* ---- summaries, in model_sum.c ---- */

static inline uint64_t sum_saturated(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The highest peak, the lowest limit (UINT64_MAX none, 0 unknown) and all refusals of a process. */
struct model_memory {
	uint64_t peak_bytes, final_bytes, limit_bytes, denied;
};
struct model_memory model_memory(const struct model_process *process);

/* Launches by kernel name over all processes that are not hidden, busiest first. */
struct model_function *model_kernels(const struct model *model, size_t *count);
void model_kernels_free(struct model_function *kernels, size_t count);

/* Calls by name over all processes that are not hidden, most time first. */
struct model_named_calls {
	char *name; /* its number where it is not known */
	struct model_calls calls;
};
struct model_named_calls *model_calls(const struct model *model, size_t *count);
void model_calls_free(struct model_named_calls *calls, size_t count);

/* Copies of a direction with such a side on the host, over all processes that are not hidden. */
struct model_copies model_copies_sum(const struct model *model, unsigned direction, unsigned host);
/* Bytes a second on the GPU, of the copies that have a time there. */
uint64_t model_rate(const struct model_copies *copies);

/* Work that was to be timed on the GPU and was not, over all processes that are not hidden. */
struct model_untimed {
	uint64_t all, timed;
	uint64_t by_reason[UNTIMED_COUNT];
};
struct model_untimed model_untimed(const struct model *model);

/* How much longer its processes were busy on a GPU than it was itself: they shared it. */
uint64_t model_shared_ns(const struct model *model, size_t gpu);

/* The last number stands for none: host memory, calls outside any context. */
static inline bool model_is_no_device(const struct model_process *process, unsigned index)
{
	return index == UINT8_MAX && (!process->devices[index].uuid || !*process->devices[index].uuid);
}

/* Did the process use the GPU? */
bool model_uses_gpu(const struct model_process *process, size_t gpu);

/* Call sites that hold memory, those that hold most at the peak first; free() it. */
struct model_held {
	size_t process; /* in model.processes */
	const struct model_site *site;
};
struct model_held *model_held(const struct model *model, size_t *count);

#endif
