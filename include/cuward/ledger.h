/*
 * ledger.h - the layout of shared state: the slots file and the ledger files, version 2.
 *
 * In CUWARD_DIR:
 *
 *	slots.UID                       one file a user: a header and SLOT_COUNT slots
 *	jobs/JOB/PID-IMAGE-TICKS.ledger one file a process image that calls CUDA ("-" for JOB where
 *	                                there is none; a nested job is a nested directory)
 *
 * A slot tells other processes who holds how much; every process image that uses CUDA owns one, and
 * holds an OFD write lock on the slot's byte range while it lives. A ledger tells everything
 * about one image and outlives it. Both are written by their owner through a shared mapping and read
 * by others with pread. A reader trusts nothing in them: sizes, counts and strings are checked.
 *
 * All integers are in the byte order of the machine; fields shared between threads or processes are
 * accessed with the __atomic builtins. Files start with magic and version; a reader that finds
 * another version says so and leaves the file alone.
 */
#ifndef CUWARD_LEDGER_H
#define CUWARD_LEDGER_H

#include <stdint.h>

#include "cuward/events.h"

#define CUWARD_LAYOUT_VERSION 3
#define SLOTS_MAGIC 0x31544f4c53575543ull  /* "CUWSLOT1" */
#define LEDGER_MAGIC 0x3152474445575543ull /* "CUWEDGR1" */

/* At most this many GPUs are seen at once, by one process and in one slots file. */
#define SLOT_DEVICES 32
#define SLOT_COUNT 1024
#define SLOT_GROUPS 4 /* groups of users whose limit binds one process */
#define SLOT_WAITS 4  /* limits that threads of one process wait for at the same time, and tell */

/*
 * An odd number of cache lines: a limit of many processes is decided by reading the words of all their
 * slots, and at 2048 bytes these share two of a cache's 64 sets (measured: 100 ns for 64 slots).
 */
#define SLOT_BYTES (51 * 64)

/*
 * One word of a slot: what the owner holds on one device. version (top 8 bits) changes with each
 * update, asking counts threads that wait for a decision, bytes is the sum held and asked for.
 */
#define WORD_BYTES_BITS 46
#define WORD_BYTES_MASK ((1ull << WORD_BYTES_BITS) - 1)
#define WORD_ASKING (1ull << WORD_BYTES_BITS)
#define WORD_VERSION (1ull << 56)

/*
 * One lease of a slot: what the owner may hold on one device, for a moment, without asking again.
 * Limits of all users count the larger of it and of what the word holds until it is over. Bytes in units
 * of 64 KiB (top 30 bits), and until when: CLOCK_MONOTONIC of the machine in ticks of 2^16 ns, mod 2^34.
 */
#define LEASE_UNIT_BITS 16
#define LEASE_TICK_BITS 16
#define LEASE_UNTIL_BITS 34
#define LEASE_TICKS 16 /* so long, at most: about a millisecond */

/* A limit or a size that is not there. */
#define BYTES_NONE UINT64_MAX

/*
 * Who a process image is. (host, pid_ns, pid, start_ticks) names a process; stack_start tells two
 * images of one process apart, since exec keeps the rest.
 */
struct process_identity {
	uint32_t pid;               /* as the process itself sees it */
	uint32_t ppid;
	uint32_t uid;
	uint32_t pid_ns;            /* inode of /proc/self/ns/pid, 0 unknown */
	uint32_t image;             /* 0, and one more with each exec of this process seen */
	uint32_t process;           /* key of this image in traces */
	uint64_t start_ticks;       /* /proc/self/stat field 22, clock ticks since boot */
	uint64_t stack_start;       /* /proc/self/stat field 28 */
	uint64_t start_realtime_ns; /* of this image's first CUDA call, CLOCK_REALTIME */
	char command[64];           /* comm or the base name of argv[0] */
	char job[128];
	char labels[128];
};

/* The devices a slots file speaks of: word i of each slot is about devices[i]. Append only. */
struct slots_device {
	uint8_t uuid[16];
	uint64_t total_bytes;
	uint32_t present; /* set last */
	uint32_t reserved;
};

struct slots_header {
	uint64_t magic; /* written last when the file is made */
	uint32_t version;
	uint32_t slot_bytes;   /* sizeof(struct slot) */
	uint32_t slot_count;   /* SLOT_COUNT */
	uint32_t slots_used;   /* slots from this one on were never taken */
	uint32_t device_count; /* devices present */
	uint32_t uid;
	uint64_t boot; /* first 8 bytes of the boot id: a file that outlived a boot is stale */
	struct slots_device devices[SLOT_DEVICES];
	uint32_t taken; /* slots taken so far: whoever kept a list of members must make it anew */
	uint32_t waiting; /* not 0 while somebody waits for memory; may be so for nobody */
	uint32_t next_asked; /* slot of the owner that the next start asks after: does he live? */
	uint8_t reserved[4096 - 52 - SLOT_DEVICES * 32];
};

enum slot_state {
	SLOT_FREE,  /* never taken, or given back */
	SLOT_TAKEN, /* owner is alive exactly while it holds the lock on the slot's range */
	SLOT_ENDED, /* the same; it ends in order, with memory that goes when it is dead: then it's free */
};

/* Whether the owner's tracepoints reach a session. */
enum trace_state {
	TRACE_OFF,
	TRACE_STARTING,
	TRACE_REGISTERED,
	TRACE_FAILED, /* asked for, but no session took the events */
};

/*
 * Requests of others to the owner, in `control`: bits, and above them a number that tells two requests
 * of one kind apart. The owner looks at it in each driver call and notes in control_done what it has
 * carried out.
 */
enum {
	CONTROL_TRACE = 1u << 0, /* emit trace events */
	CONTROL_NUMBER = 1u << 8,
};

/* What came of it. */
enum trace_answer {
	ANSWER_NONE,
	ANSWER_WAITS,       /* the provider is there, no session records its events yet */
	ANSWER_RECORDED,
	ANSWER_NO_PROVIDER, /* or no liblttng-ust */
	ANSWER_NO_SESSION,  /* no session daemon answered, or none of its sessions wants our events */
	ANSWER_ELSEWHERE,   /* it is traced already, into a session of its own */
};

/*
 * While a trace of the whole machine is on there is a file of this name in the folder of shared
 * state (root's, which is of all users, has one in /run/cuward, too), and whoever keeps the trace holds
 * a lock on it. A line each: control=NUMBER, home=PATH (LTTNG_HOME of the session daemon; empty:
 * whatever the process has), and what the command reads.
 */
#define TRACE_FILE "trace"

/* A limit that threads of a process wait for: of them the one that came first. */
struct slot_wait {
	uint64_t since_ns; /* CLOCK_MONOTONIC, 0: nobody waits; set last */
	uint64_t seen_ns;  /* when it was at it: who is stopped stands in nobody's way */
	uint64_t bytes;
	uint32_t gid;      /* of SCOPE_GROUP: whose limit */
	uint16_t device;   /* index of the word */
	uint16_t scope;    /* enum cuward_scope */
};

struct slot {
	uint64_t words[SLOT_DEVICES]; /* written by the owner only */

	/* written by others */
	uint32_t control;
	uint32_t limits_changed; /* generation of limit_override */
	uint8_t reserved_control[56];
	uint64_t limit_override[SLOT_DEVICES]; /* of the process; bytes, BYTES_NONE; 0 says nothing */
	uint64_t job_limit_override[SLOT_DEVICES]; /* of its job, the same */
	uint64_t user_limit_override[SLOT_DEVICES]; /* of its user, the same */

	/* written by the owner */
	uint32_t state;
	uint32_t generation; /* times this slot was taken */
	uint32_t trace;      /* enum trace_state */
	uint32_t group_length; /* so much of who.job names the job whose limit binds it */
	uint64_t activity_ns; /* CLOCK_REALTIME of the last allocation or wait; coarse */
	struct process_identity who;
	uint64_t process_limit[SLOT_DEVICES]; /* bytes, BYTES_NONE without one */
	uint64_t overhead[SLOT_DEVICES];      /* bytes of contexts and modules that no word holds */
	uint64_t waiting_since_ns; /* CLOCK_MONOTONIC, of the first thread; 0: none waits for memory */
	uint64_t waiting_bytes;
	int32_t priority;
	uint32_t waiting_device; /* index of the word */
	uint64_t job_limit[SLOT_DEVICES]; /* bytes, BYTES_NONE without one */
	uint32_t denied;           /* requests refused so far */
	uint32_t inner_length;     /* the same as group_length, of a limit within that one */
	uint32_t group_gids[SLOT_GROUPS]; /* groups of users whose limit binds it, + 1 */
	uint32_t control_done;     /* the last value of `control` that was carried out */
	uint32_t control_answer;   /* enum trace_answer */
	struct slot_wait waits[SLOT_WAITS];
	uint64_t job_asked[SLOT_DEVICES]; /* of its job, by its environment; 0 or BYTES_NONE: nothing */
	uint64_t leases[SLOT_DEVICES];
	uint64_t inner_limit[SLOT_DEVICES]; /* of a run within its job; bytes, BYTES_NONE without one */
	uint8_t reserved[64];
};

/* ---- the ledger file ---- */

/* Where its parts lie. Parts are allocated on demand; the file is sparse between them. */
#define LEDGER_THREADS_OFFSET (1ull << 20)
#define LEDGER_SITES_OFFSET (32ull << 20)
#define LEDGER_GROWTH_OFFSET (48ull << 20)
#define LEDGER_RECORDS_OFFSET (64ull << 20)
#define LEDGER_THREADS_MAX 2048u
#define LEDGER_SITES_BYTES_MAX (16u << 20)
#define LEDGER_RECORDS_MAX (16u << 20)
/* Who found no room for his ledger leaves an empty file of this ending, where a run looks for it. */
#define LEDGER_LOST ".lost"
/* Thread blocks that have room from the start, as has one piece of records. */
#define LEDGER_FIRST_THREADS 4u
#define LEDGER_GROW_BYTES (64u << 10)
#define LEDGER_CALLS_MAX 720u
#define LEDGER_DENIALS_MAX 64u
#define LEDGER_GROWTH_MAX 16384u
#define LEDGER_FAULTS_MAX 64u
#define LEDGER_MARKS_MAX 32u
#define LEDGER_MARKS_ASKED 16u
#define LEDGER_DYING_MAX 16u

enum record_state {
	RECORD_FREE,
	RECORD_ALLOCATING, /* the driver is being asked; handle not known yet */
	RECORD_LIVE,
	RECORD_FREEING, /* the driver is being told */
	RECORD_LOST,    /* the driver shut down before it was freed */
};

/* What a handle is, so that equal numbers of different kinds do not meet. */
enum record_class {
	CLASS_MEMORY,   /* device, pool, managed, pinned, imported pointers: one address space */
	CLASS_OBJECT,   /* counted objects; `kind` is an enum cuward_object */
	CLASS_PHYSICAL, /* handles of cuMemCreate: memory without an address */
	CLASS_ARRAY,
	CLASS_EXTERNAL, /* imported external memory */
	CLASS_GRAPH,    /* what a device keeps for the allocations of graphs; handle is its index */
	CLASS_MIPMAP,   /* mipmapped arrays: a call of their own ends them, so numbered apart */
	CLASS_COUNT,
};

enum {
	RECORD_CHARGED = 1u << 0,       /* its bytes are in the device's word */
	RECORD_CONTEXT_OWNED = 1u << 1, /* destroyed with its context */
	RECORD_CLASS_LIMITED = 1u << 2, /* its bytes count against the limit of its kind */
	RECORD_IN_POOL = 1u << 3,       /* of a pool that is charged for what it keeps */
	RECORD_UNSIZED = 1u << 5,       /* imported, and the driver could not be asked for its size yet */
	RECORD_GONE = 1u << 4,          /* claimed for good, whatever becomes of calls under way */
};

#define RECORD_WHAT(kind, class, device, state, flags) ((uint64_t)(kind) | (uint64_t)(class) << 8 | \
	(uint64_t)(device) << 16 | (uint64_t)(state) << 24 | (uint64_t)(flags) << 32)

struct ledger_record {
	uint64_t handle;  /* pointer or handle as the driver gave it */
	uint64_t bytes;   /* charged or counted size */
	uint64_t context; /* owning CUcontext, 0 if not owned by one */
	uint64_t time_ns; /* CLOCK_REALTIME_COARSE of the allocation */
	uint32_t site;    /* call site, 0 unknown */
	uint32_t tid;
	uint32_t epoch; /* when it was begun, in contexts destroyed and made since */
	uint16_t api;   /* index of the call that made it */
	uint16_t pending; /* calls under way that change refs or mappings */
	union {
		struct {
			uint8_t kind;  /* enum cuward_kind, or enum cuward_object */
			uint8_t class; /* enum record_class */
			uint8_t device;
			uint8_t state; /* enum record_state */
			uint8_t flags;
			uint8_t reserved[3];
		};
		uint64_t what; /* all of these, written at once: RECORD_WHAT() */
	};
	uint32_t refs; /* of a handle that is counted: it goes when refs and mappings are 0 */
	union {
		uint32_t mappings;
		uint32_t link; /* + 1; a mapping's physical memory, the next of a chain */
	};
};

/* Instead of the handle of a function. */
#define LAUNCHED_GRAPH 1ull

/* Counters of one thread; only that thread writes. A block is handed on when its thread died. */
struct ledger_thread {
	uint32_t tid;
	uint32_t thread; /* key in traces */
	uint64_t allocs[KIND_COUNT];
	uint64_t frees[KIND_COUNT];
	int64_t bytes[KIND_COUNT]; /* taken less freed here; the sum over all threads is what is live */
	uint64_t created[OBJECT_COUNT];
	uint64_t destroyed[OBJECT_COUNT];
	struct {
		uint64_t count;
		uint64_t errors;
	} calls[LEDGER_CALLS_MAX];
	uint64_t sync_since_ns; /* CLOCK_REALTIME, 0: the thread does not wait for the GPU; coarse */
	uint32_t sync_call;     /* in which call */
	uint32_t in_call;       /* the call it is in, + 1; 0 none */
	uint64_t launched;      /* what it launched last: a handle, LAUNCHED_GRAPH, 0 nothing */
	uint64_t launched_named; /* the handle that the name is of; set last */
	char launched_name[96]; /* as of when it began to wait; cut, and ended */
	uint8_t reserved[12288 - 136 - 24 * KIND_COUNT - 16 * OBJECT_COUNT - 16 * LEDGER_CALLS_MAX];
};

struct ledger_device {
	uint8_t uuid[16];
	char pci_bus_id[16];
	char name[64];
	uint64_t total_bytes;
	uint64_t limit_bytes;  /* of the process; BYTES_NONE without one */
	char limit_source[48]; /* "CUWARD_MEMORY", "default", ... */
	uint64_t job_limit_bytes;
	char job_limit_source[48];
	uint64_t inner_limit_bytes; /* of a run within the job; BYTES_NONE without one */
	uint64_t user_limit_bytes;
	char user_limit_source[48];
	uint64_t group_limit_bytes; /* the lowest of those of its user's groups */
	char group_limit_source[48];
	uint64_t gpu_limit_bytes;   /* of all users together */
	char gpu_limit_source[48];
	uint64_t peak_bytes;
	uint64_t denied;
	uint64_t denied_bytes;
	int64_t untracked_bytes; /* -1 unknown */
	int64_t overhead_bytes;  /* of contexts and modules, -1 unknown */
	uint64_t overhead_peak_bytes;
	uint64_t charged_bytes;  /* part of the word that is in no record: overhead, idle pools */
	uint32_t slot_device;    /* index of its word in the slot */
	uint32_t reserved;
};

/* Who held what when a request was refused: another process, or a call site of our own. */
struct ledger_holder {
	uint64_t bytes;
	uint64_t since_ns; /* CLOCK_REALTIME */
	uint32_t pid;      /* 0: this process */
	uint32_t site;     /* of our own ledger, where most was allocated; 0: none */
	uint32_t uid;
	char command[20];
	char line[64];     /* the same of another process of this user; empty: unknown */
};

#define LEDGER_HOLDERS 3

/* Equal refusals (api, device, site, scope) are one entry; bytes, used and limit are the first's. */
struct ledger_denial {
	uint64_t bytes;
	uint64_t limit_bytes;
	uint64_t used_bytes;
	uint64_t count;
	uint64_t kept_bytes; /* of those used: for others, who do not hold them yet */
	uint64_t first_ns; /* CLOCK_REALTIME, and of the last one */
	uint64_t time_ns;
	uint64_t told_ns;  /* when the log and the trace told it in a sentence */
	uint32_t site;
	uint16_t api;
	uint8_t device;
	uint8_t scope;
	uint32_t present; /* set last */
	uint32_t reserved;
	char source[48];   /* of the limit */
	struct ledger_holder holders[LEDGER_HOLDERS]; /* largest first, as of the first refusal */
};

/*
 * A free that went wrong, and the other place that has to do with it: where the memory was freed
 * before, or where what is freed halfway was allocated. Equal ones are one entry.
 */
struct ledger_fault {
	uint64_t pointer; /* of the first */
	uint64_t bytes;   /* of the allocation it lies in, 0 unknown */
	uint64_t count;
	uint64_t time_ns; /* of the last, CLOCK_REALTIME */
	uint32_t site;
	uint32_t other_site; /* 0 unknown */
	uint16_t api;
	uint8_t finding; /* enum cuward_finding */
	uint8_t reserved;
	uint32_t present; /* set last */
};

/*
 * What is live of one call site over time, under --leak growth and marks. Time is counted in
 * allocations and frees of the whole process. A sample says the least that was live since the one
 * before; when all are used, two become one, and the step doubles.
 */
#define GROWTH_SAMPLES 32u

struct ledger_sample {
	uint64_t activity;
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint64_t least_bytes;
};

struct ledger_growth {
	uint32_t used; /* set last */
	uint32_t site;
	uint64_t live_bytes;
	uint64_t live;
	uint64_t least_bytes; /* since the last sample */
	uint64_t last_time_ns; /* of the last allocation, CLOCK_REALTIME */
	uint64_t next;        /* activity at which a sample is due */
	uint64_t step;
	uint32_t lock;
	uint32_t sample_count;
	uint16_t api; /* of the first allocation */
	uint8_t kind;
	uint8_t device;
	uint32_t reserved;
	uint64_t first_mark_bytes; /* live at the first mark, and at the last */
	uint64_t first_mark_live;
	uint64_t last_mark_bytes;
	uint64_t last_mark_live;
	struct ledger_sample samples[GROWTH_SAMPLES];
	uint8_t reserved_end[1024 - 104 - GROWTH_SAMPLES * sizeof(struct ledger_sample)];
};

/* A moment that the program or `cuward mark` named. The last entry is the last mark. */
struct ledger_mark {
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint64_t live_bytes;
	uint64_t live;
	char name[40];
};

/* What counts as a leak. */
enum ledger_leak_mode {
	LEAK_EXIT,
	LEAK_GROWTH,
	LEAK_MARKS,
	LEAK_OFF,
};

/*
 * Call sites and what they are made of. An id is where its entry begins, in units of 8 bytes and
 * counted from 1, so that a reader finds it without a search. What follows an entry is given with its
 * type; texts end with a 0 byte, and everything is padded to 8.
 */
enum ledger_site_type {
	SITE_PLACE,  /* a return address: function that exports it, or "" */
	SITE_MODULE, /* a file that is mapped: path, then `count` bytes of build id */
	SITE_PYTHON, /* a line of Python: file, function; offset is the line */
	SITE_STACK,  /* `count` ids (uint32_t) of places and lines of Python, innermost first */
};

struct ledger_site {
	uint32_t bytes; /* of this entry with all that follows and padding */
	uint32_t site;  /* its id */
	uint16_t type;  /* enum ledger_site_type */
	uint16_t count;
	uint32_t module;  /* of a place: id of its module, 0 none */
	uint64_t address; /* of a place; of a module: what was added to its addresses */
	uint64_t offset;  /* of a place: the address as the file has it */
	uint64_t function_offset; /* of a place: behind the function's start */
};

#define SITE_FRAMES_MAX 64u
#define BUILD_ID_MAX 32u

struct ledger_header {
	uint64_t magic; /* written last */
	uint32_t version;
	uint32_t header_bytes;
	uint32_t record_bytes;
	uint32_t call_count; /* names below */
	struct process_identity who;
	uint32_t slot;       /* SLOT_COUNT where there is none */
	uint32_t uses_cuda;  /* cuInit succeeded */
	uint32_t ended;      /* enum cuward_end; RUNNING until the final handler ran */
	int32_t status;      /* exit status once ended */
	uint64_t end_realtime_ns;
	uint32_t driver_version;
	uint32_t simulated;
	uint32_t device_count;
	uint32_t trace; /* enum trace_state */
	char version_text[32];

	uint32_t record_count; /* records ever used; later ones are holes */
	uint32_t thread_count; /* thread blocks ever used */
	uint32_t site_count;
	uint32_t sites_bytes;
	uint64_t dropped_records; /* live allocations counted but not recorded */
	uint64_t dropped_sites;
	uint64_t dropped_threads; /* threads that share one block: calls are a lower bound */
	uint64_t findings[32];    /* by enum cuward_finding */
	uint64_t looked_up;       /* names asked for and found */
	uint64_t hooked;
	uint64_t passed_through;
	char unhooked[1024]; /* names passed through, each ended by a 0 byte, as many as fit */
	char refusal[256];   /* why the configuration was refused, empty if not */

	uint32_t leak_mode;      /* enum ledger_leak_mode */
	uint32_t growth_count;   /* entries that may be used */
	uint64_t growth_dropped; /* call sites without an entry */
	uint64_t activity;       /* allocations and frees so far, where growth is kept */
	uint32_t mark_count;     /* marks set, also those without an entry */
	uint32_t marks_asked;    /* by others, the n-th under name n % LEDGER_MARKS_ASKED; set last */
	uint32_t marks_taken;    /* of those */
	char mark_asked[LEDGER_MARKS_ASKED][40];
	struct ledger_mark marks[LEDGER_MARKS_MAX];
	struct ledger_fault faults[LEDGER_FAULTS_MAX];

	/* Contexts that the driver is being told to end: what is live of theirs is in flight. 0: none. */
	uint64_t dying[LEDGER_DYING_MAX];

	uint64_t kind_peak_bytes[KIND_COUNT];
	struct ledger_denial denials[LEDGER_DENIALS_MAX];
	struct ledger_device devices[SLOT_DEVICES];
	char argv[4096]; /* arguments, each ended by a 0 byte, cut to fit */
	char comm[16];   /* the kernel's name of it, which an exec changes; empty if unknown */
};

_Static_assert(sizeof(struct slots_header) == 4096, "slots header is one page");
_Static_assert(sizeof(struct slot) == SLOT_BYTES, "slots lie as readers expect");
_Static_assert(sizeof(struct ledger_record) == 64, "a record is one cache line");
_Static_assert(sizeof(struct ledger_thread) == 12288, "a thread block is three pages");
_Static_assert(sizeof(struct ledger_growth) == 1024, "all of them fit before the records");
_Static_assert(sizeof(struct ledger_header) <= 64 << 10, "the header fits its first allocation");
_Static_assert(FINDING_COUNT <= 32, "findings fit the header");

#endif
