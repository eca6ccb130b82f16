/*
 * guest.h - the process we are in: its threads, its devices, and its life from the first CUDA
 * call to the last handler.
 *
 * All state lies in memory that is zero in a forked child, so a child starts as a process that
 * never called CUDA, whatever kind of fork made it.
 */
#ifndef CUWARD_GUEST_H
#define CUWARD_GUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "attend.h"
#include "cuward/ledger.h"
#include "driver.h"
#include "group.h"
#include "kernel.h"
#include "ledger.h"
#include "lock.h"
#include "policy.h"
#include "trace.h"

/* `call` of a thread; 0 is one whose memory was wiped by a fork: it must start again. */
#define THREAD_IDLE 1u
#define THREAD_CALL(call) ((call) + 2u)

/* What it is between calls: where a fork does not wipe, always as after one. */
hot uint32_t thread_idle(void)
{
	_Static_assert(THREAD_IDLE == 1, "what kernel_wipes is on most kernels");
	return __atomic_load_n(&kernel_wipes, __ATOMIC_RELAXED);
}

/* One thread that calls CUDA. */
struct thread {
	struct ledger_thread *counts;
	uint32_t call; /* THREAD_IDLE, or the call it is in: calls made in there are the driver's */
	uint32_t number;
	const void *caller; /* return address of that call */
	const void *frame;  /* and where its frame begins on the stack */
	CUcontext context;  /* the current one when last asked, whose memory is made in it, ... */
	CUcontext owner;    /* ... which differs for a green context, and its device ... */
	int32_t device;
	uint32_t epoch; /* ... valid while no context was destroyed since */
	uint32_t tid;
	uint32_t correlation; /* the last number given to a launch or copy, see traced.h */
	uint32_t traced; /* in which trace its `thread` event is out: trace_number */
	uint32_t site;     /* the call site of ... */
	const void *sited; /* ... this caller, the last that was looked up, where the address is enough */
	struct ledger_spares spares;
} __attribute__((aligned(64)));

struct guest_device {
	CUdevice handle;
	bool grouped; /* limits of several processes apply, or threads of ours wait: group.h */
	struct group_limits group;
	uint64_t limit; /* bytes, BYTES_NONE without one */
	uint64_t *word; /* what we hold: in our slot, or private where there is none */
	struct ledger_device *ledger;
	CUcontext primary;       /* its primary context, once retained */
	uint64_t next_sample_ns; /* see overhead.h */
	uint32_t due;            /* allocations since a sample became due */
	int64_t peer_bytes;      /* that other processes held at the last sample */
	int64_t unattributed;    /* bytes given out that nobody is known to hold; INT64_MIN unknown */
	CUcontext new_context;   /* overhead not measured yet: it was not current */
	uint64_t pool_bytes;     /* live in pools; only where pools are charged as reserved ... */
	int64_t pool_surplus;    /* ... and what they keep beyond, charged too */
} __attribute__((aligned(128))); /* found by a shift */

/* Pools seen; of those beyond the table what they keep is not known, nor that they are managed. */
#define POOLS_MAX 256u

struct guest_pool {
	uint64_t pool;
	int device; /* -1: of no GPU */
	uint8_t kind;
};

#define GREENS_MAX 64u

struct guest_green {
	CUcontext context; /* NULL: it was destroyed, the place is free */
	CUgreenCtx green;
	int device;
};

/* Of contexts destroyed last: records of theirs that are older than `before` are of what is gone. */
#define DEATHS_MAX 64u

struct guest_death {
	uint64_t context;
	uint32_t before; /* epoch */
};

/* What graphs have of a device, and may soon have: graph_memory.c. */
struct guest_graphs {
	uint32_t lock;
	uint32_t asked; /* numbers of looks at the driver's figures, the last ... */
	uint32_t known; /* ... and that of the look which brought these two: */
	uint64_t reserved;
	uint64_t used;
	uint64_t in_flight; /* what launches under way may take, ... */
	uint64_t own;       /* ... after they gave up so much of what is used, ... */
	uint64_t own_frees; /* ... as long as graph_frees is this */
	uint64_t extra;     /* charged for them, beyond what is reserved */
};

struct guest {
	PAGE_COLOUR(1);
	uint32_t pid; /* 0 before the first CUDA call, and in a forked child */
	uint32_t lock;
	uint32_t attaching; /* lock of guest_attach() */
	bool attached; /* cuInit succeeded; devices and limits are known */
	bool refused;  /* configuration refused: nothing is granted */
	bool green_streams; /* some stream was made in a green context */
	bool unsized_imports; /* the size of some is not known: asked for while a stream captured */
	bool new_contexts; /* some device has a new_context */
	bool ended;
	uint32_t thread_count;
	uint32_t epoch; /* steps: contexts destroyed and made, and what else changes who owns what */
	uint32_t correlation; /* numbers of launches and copies given to threads */
	uint32_t captures;    /* stream captures that may be active */
	uint32_t graph_allocations; /* graph nodes made that allocate, ever */
	uint64_t graph_frees;       /* frees that may be of their memory, begun ... */
	uint64_t graph_freeing;     /* ... and under way */
	uint64_t window_peak; /* bytes held on all devices, at most since cuward_reset_peak() */
	uint32_t key; /* of this process image in traces; threads add their number */
	uint32_t device_count;
	bool more_devices; /* than are looked after */
	struct thread *threads;
	struct ledger_header *header;
	struct slot *slot;
	struct guest_device devices[SLOT_DEVICES];
	struct kind_limit kinds[KIND_COUNT];
	struct policy policy;
	uint32_t control_lock; /* somebody follows a request: attend.h */
	uint32_t control_done;
	bool replaying; /* what was before the trace is being told to it */
	bool trace_own; /* traced because the environment says so */
	uint64_t trace_tried_ns;  /* last, to load the provider */
	uint32_t trace_waits_for; /* this request waits for a session ... */
	uint64_t trace_waits_ns;  /* ... since then */
	uint64_t trace_seen_ns;  /* since when a session records some of our events; 0: not seen yet */
	uint32_t *limits_changed; /* by others, live; what they say is followed ... */
	uint32_t limits_seen;     /* ... up to this change: bounds.h */
	uint32_t green_count;
	struct guest_green greens[GREENS_MAX];
	uint32_t deaths_lock;
	uint32_t death_count;
	struct guest_death deaths[DEATHS_MAX];
	uint32_t pools_lock;
	uint32_t pool_count;
	struct guest_pool pools[POOLS_MAX];
	struct guest_graphs graphs[SLOT_DEVICES];
	uint64_t private_words[SLOT_DEVICES];
} WHOLE_PAGES;

extern struct guest guest __attribute__((visibility("hidden")));
extern __thread struct thread *guest_thread_pointer __attribute__((visibility("hidden")));

/* First call of this thread, or of this process. NULL: cuward is switched off. */
struct thread *guest_enter(void);

/* Open the books of a process that made no call that we saw, but must be told of. */
void guest_open(void);

/* The calling thread. Inside a hook it is always there; elsewhere NULL before its first call. */
hot struct thread *guest_thread(void)
{
	return guest_thread_pointer;
}

/* Number of the call this thread is in. */
hot uint16_t thread_api(const struct thread *thread)
{
	return thread->call - THREAD_CALL(0);
}

/* Is this thread inside a driver call already? */
static inline bool guest_in_call(void)
{
	const struct thread *thread = guest_thread();

	return thread && thread->call > THREAD_IDLE;
}

/*
 * Is the call this thread is said to be in over, as a call whose frame begins at `frame` shows? A
 * signal handler jumped out of it then.
 */
bool guest_call_is_over(const struct thread *thread, const void *frame);

/* Is a call whose frame begins at `frame` made inside another one? */
static inline bool guest_nested(const void *frame)
{
	struct thread *thread = guest_thread();

	if (guest_in_call() && guest_call_is_over(thread, frame))
		thread->call = thread_idle();
	return guest_in_call();
}

/* May the process use CUDA at all? False: its configuration is refused, and that was said. */
bool guest_may_start(void);

/* cuInit succeeded: find devices, take a slot, resolve limits, start tracing. False: refused. */
bool guest_attach(void);

/* Attach, if that is still to be done, and follow requests of others. When attention_wanted(). */
void guest_look(void);

/* Index of the device with this driver handle; -1 unknown. */
int guest_device_index(CUdevice handle);

/* The slow half of guest_current_device(): ask the driver for the context's device. */
int guest_context_device(struct thread *thread, CUcontext context);

/* This context is a green one of that device: what is made in it belongs to the primary context. */
void guest_is_green(CUcontext context, CUgreenCtx green, int device);
/* It is no more. Its handle may stand for a new one already, which then has a record. */
void guest_green_gone(CUgreenCtx green);

/* Device of the context that is current on this thread, and the one that owns what is made; -1, NULL. */
hot int guest_current_device(struct thread *thread, CUcontext *context)
{
	*context = NULL;
	if (unlikely(real.cuCtxGetCurrent(context) != CUDA_SUCCESS)) {
		*context = NULL;
		return -1;
	}
	if (unlikely(*context != thread->context ||
		thread->epoch != __atomic_load_n(&guest.epoch, __ATOMIC_RELAXED)))
		guest_context_device(thread, *context);
	*context = thread->owner;
	return thread->device;
}

/* Key of the calling thread in traces; its `thread` event comes before the first use. */
void guest_tell_thread(struct thread *thread);
hot uint32_t guest_trace_key(struct thread *thread)
{
	if (unlikely(thread->traced != trace_number))
		guest_tell_thread(thread);
	return guest.key | (thread->number & 0xfff);
}

/* The process does something: whoever looks at its slot sees when it last did. */
hot void guest_active(uint64_t realtime_ns)
{
	struct slot *slot = guest.slot;

	if (likely(slot) && __atomic_load_n(&slot->activity_ns, __ATOMIC_RELAXED) != realtime_ns)
		__atomic_store_n(&slot->activity_ns, realtime_ns, __ATOMIC_RELAXED);
}

/* Something worth telling happened; or is so, however often it is seen. */
void guest_find(enum cuward_finding finding);
void guest_find_once(enum cuward_finding finding);

/*
 * The end before a signal N, `status` is 128 + N: report written, slot given back. Once; nothing in
 * other processes' memory.
 */
void guest_end_by(enum cuward_end how, int status);

/* CLOCK_MONOTONIC */
hot uint64_t guest_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* CLOCK_REALTIME_COARSE */
hot uint64_t guest_realtime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

#endif
