/*
 * events.h - words shared by shim, tools and tests: kinds of memory and objects, scopes, ends,
 * exit codes, and the fields of every trace event.
 *
 * Numbers are part of the trace and ledger formats: append, never renumber.
 */
#ifndef CUWARD_EVENTS_H
#define CUWARD_EVENTS_H

#include <stdint.h>

/* Kinds of memory; the word is the key of `memory` in the JSON report. */
#define CUWARD_KINDS(X) \
	X(DEVICE, "device") \
	X(POOL, "pool") \
	X(VMM, "vmm") \
	X(ARRAY, "array") \
	X(MANAGED, "managed") \
	X(PINNED, "pinned") \
	X(IMPORTED, "imported") \
	X(GRAPH, "graph")

enum cuward_kind {
#define X(id, word) KIND_##id,
	CUWARD_KINDS(X)
#undef X
	KIND_COUNT,
};

/* Kinds of driver objects that are counted, not charged; keys of `objects` in the JSON report. */
#define CUWARD_OBJECTS(X) \
	X(CONTEXT, "context") \
	X(STREAM, "stream") \
	X(EVENT, "event") \
	X(MODULE, "module") \
	X(LIBRARY, "library") \
	X(GRAPH, "graph") \
	X(GRAPH_EXEC, "graph_exec") \
	X(MEM_POOL, "mem_pool") \
	X(TEXTURE, "texture") \
	X(SURFACE, "surface") \
	X(ADDRESS_RANGE, "address_range") \
	X(GREEN_CONTEXT, "green_context") \
	X(KERNEL, "kernel") \
	X(MAPPING, "mapping") \
	X(MULTICAST, "multicast") \
	X(LINK, "link") \
	X(EXTERNAL_SEMAPHORE, "external_semaphore") \
	X(USER_OBJECT, "user_object") \
	X(TEXTURE_REFERENCE, "texture_reference")

enum cuward_object {
#define X(id, word) OBJECT_##id,
	CUWARD_OBJECTS(X)
#undef X
	OBJECT_COUNT,
};

/* Whose limit refused. */
#define CUWARD_SCOPES(X) \
	X(PROCESS, "process") \
	X(JOB, "job") \
	X(USER, "user") \
	X(GROUP, "group") \
	X(GPU, "gpu")

enum cuward_scope {
#define X(id, word) SCOPE_##id,
	CUWARD_SCOPES(X)
#undef X
	SCOPE_COUNT,
};

/* How a process image ended; the word is `ended` in the JSON report. */
#define CUWARD_ENDS(X) \
	X(RUNNING, "running") \
	X(EXIT, "exit") \
	X(SIGNAL, "signal") \
	X(EXEC, "exec") \
	X(UNKNOWN, "unknown")

enum cuward_end {
#define X(id, word) END_##id,
	CUWARD_ENDS(X)
#undef X
	END_COUNT,
};

/* Things worth telling that are no leak; the word is `code` of a finding in the JSON report. */
#define CUWARD_FINDINGS(X) \
	X(DOUBLE_FREE, "double-free", "memory was freed twice") \
	X(INVALID_FREE, "invalid-free", \
		"a free of a pointer that was never handed out, or not for this call") \
	X(INTERIOR_FREE, "interior-free", "a free of a pointer inside an allocation") \
	X(FREE_AFTER_SHUTDOWN, "free-after-shutdown", "memory was freed after the driver shut down") \
	X(CONTEXT_RECLAIMED, "context-reclaimed", "memory left to the destruction of its context") \
	X(POOL_NOT_DESTROYED, "pool-not-destroyed", "memory pools were never destroyed") \
	X(RECORDS_DROPPED, "records-dropped", "allocations counted but not remembered one by one") \
	X(LIMIT_UNUSED, "limit-unused", "a limit names a GPU that is not visible") \
	X(LIMIT_REFUSED, "limit-refused", "the configuration of limits was refused") \
	X(SHARE_UNAVAILABLE, "share-unavailable", "shared state could not be used") \
	X(TRACE_UNAVAILABLE, "trace-unavailable", "tracing was asked for and could not start") \
	X(DEEPBIND, "deepbind", "a library opened with RTLD_DEEPBIND: its calls may get around cuward") \
	X(NAMESPACE, "namespace", "a library opened with dlmopen: its calls may get around cuward") \
	X(CONTEXT_OVERHEAD, "context-overhead", "contexts and modules took memory of their own") \
	X(UNTRACKED, "untracked", "the driver gives out more than anybody seen here asked for") \
	X(POOL_RESERVED, "pool-reserved", "pools or graphs keep memory that was freed") \
	X(GREEN_CONTEXT, "green-context", "a green context was destroyed before its streams") \
	X(UNKNOWN_FORMAT, "unknown-format", "the size of an array was guessed: its format is unknown") \
	X(TOO_FEW_MARKS, "too-few-marks", "fewer than two marks were set, so nothing was compared") \
	X(OBJECTS_LIVE, "objects-live", "streams, events, modules or other objects were never destroyed") \
	X(NVML_UNLIMITED, "nvml-unlimited", "the program asked NVML, whose numbers know no limit")

enum cuward_finding {
#define X(id, word, text) FINDING_##id,
	CUWARD_FINDINGS(X)
#undef X
	FINDING_COUNT,
};

/* Exit status of `cuward run` beside the command's own. */
enum {
	EXIT_LEAK = 23,
	EXIT_STALLED = 24,
	EXIT_DENIED = 25,
	EXIT_WAITED = 75,
	EXIT_CUWARD = 125,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
};

/* Exit status of the other subcommands. */
enum {
	EXIT_FINE = 0,
	EXIT_FOUND = 1,
	EXIT_USAGE = 2,
	EXIT_UNAVAILABLE = 3,
	EXIT_NO_PERMISSION = 4,
};

/* Direction of a copy or set. */
#define CUWARD_DIRECTIONS(X) \
	X(HTOD, "htod") \
	X(DTOH, "dtoh") \
	X(DTOD, "dtod") \
	X(HTOH, "htoh") \
	X(PEER, "peer") \
	X(SET, "set") \
	X(UNKNOWN, "unknown")

enum cuward_direction {
#define X(id, word) DIRECTION_##id,
	CUWARD_DIRECTIONS(X)
#undef X
	DIRECTION_COUNT,
};

/* The host's side of a copy. */
#define CUWARD_HOSTS(X) \
	X(UNKNOWN, "unknown") \
	X(NONE, "none") \
	X(PAGEABLE, "pageable") \
	X(PINNED, "pinned")

enum cuward_host {
#define X(id, word) HOST_##id,
	CUWARD_HOSTS(X)
#undef X
	HOST_COUNT,
};

/* Why a launch, copy or set that ran has no `gpu` event, though its time was wanted. */
#define CUWARD_UNTIMED(X) \
	X(PAIRS, "pairs", "all pairs of events of its context were in use") \
	X(CONTEXTS, "contexts", "more contexts at a time than can be timed") \
	X(GREEN, "green", "it ran in a green context") \
	X(CAPTURE, "capture", "a stream was capturing") \
	X(CLOCK, "clock", "the clock of its GPU could not be read") \
	X(DRIVER, "driver", "the driver refused to record or to read its events") \
	X(GONE, "gone", "its context was destroyed before it was over")

enum cuward_untimed {
#define X(id, word, text) UNTIMED_##id,
	CUWARD_UNTIMED(X)
#undef X
	UNTIMED_COUNT,
};

/* `api` of a launch that is one more kernel of the call before it, and no call. */
#define API_SAME_CALL UINT16_MAX

/*
 * The trace events of provider `cuward`, and their fields in order: X(event, FIELDS) where FIELDS
 * is a list of F(type, name); types: u8 u16 u32 u64 i32, x64 (shown in hex), str.
 *
 * `thread` is the key of the calling thread: defined by a `thread` event before first use, unique
 * in the trace until redefined. `process` is the key of a process image, defined by `process`.
 * `api` numbers calls; an `api` event gives a number its name before first use in each process.
 * Events are emitted after the call they describe; `duration_ns` is how long the call took on the
 * CPU, so it began at (time of event - duration_ns). `result` is the CUresult.
 * `live_bytes`: bytes charged on the device after the event. `site`: see `site`; 0 is unknown.
 * Streams are handles as the driver knows them, 1 the legacy and 2 the per-thread default stream.
 * `process_end` comes later than the end, which was at ended_ns, CLOCK_REALTIME; 0 is unknown.
 * `launched` is a launch that succeeded, in fewer bytes: its stream is a number that a `stream_number`
 * defines.
 * `text` of `denied` is the refusal as a sentence; of most of many equal ones it is empty.
 * `held` is memory that was live when the trace of its process began; pointer 0 sums up many.
 * `correlation` counts launches and copies in a process; joins `launch`/`copy` with `gpu`, whose
 * begin_ns and end_ns are moments of CLOCK_MONOTONIC, the clock of the trace, or with `untimed`.
 */
#define CUWARD_EVENTS(X, F) \
	X(process, F(u32, process) F(u32, pid) F(u32, ppid) F(u32, uid) F(u32, pid_ns) F(u32, image) \
		F(u64, start_ticks) F(u64, start_realtime_ns) F(str, command) F(str, job) \
		F(str, labels) F(str, version)) \
	X(device, F(u32, process) F(u8, device) F(str, uuid) F(str, name) F(u64, total_bytes) \
		F(u64, limit_bytes)) \
	X(thread, F(u32, thread) F(u32, process) F(u32, tid) F(str, name)) \
	X(process_end, F(u32, process) F(u8, how) F(i32, status) F(u64, live_bytes) \
		F(u64, live_count) F(u64, denied) F(u64, ended_ns)) \
	X(api, F(u32, process) F(u16, api) F(str, name)) \
	X(function, F(u32, process) F(u32, function) F(str, name)) \
	X(context, F(u32, thread) F(u8, what) F(u8, device) F(x64, context)) \
	X(stream, F(u32, thread) F(u8, what) F(u8, device) F(x64, stream) F(x64, context)) \
	X(alloc, F(u32, thread) F(u16, api) F(u8, kind) F(u8, device) F(u32, duration_ns) \
		F(u32, site) F(x64, pointer) F(u64, bytes) F(u64, live_bytes) F(x64, stream)) \
	X(free, F(u32, thread) F(u16, api) F(u8, kind) F(u8, device) F(u32, duration_ns) \
		F(x64, pointer) F(u64, bytes) F(u64, live_bytes)) \
	X(denied, F(u32, thread) F(u16, api) F(u8, scope) F(u8, device) F(u32, site) F(u64, bytes) \
		F(u64, limit_bytes) F(u64, used_bytes) F(str, text)) \
	X(launch, F(u32, thread) F(u16, api) F(u8, device) F(i32, result) F(u32, duration_ns) \
		F(u32, function) F(u32, grid_x) F(u16, grid_y) F(u16, grid_z) F(u16, block_x) \
		F(u16, block_y) F(u8, block_z) F(u32, shared_bytes) F(x64, stream) F(u32, correlation)) \
	X(copy, F(u32, thread) F(u16, api) F(u8, direction) F(u8, device) F(i32, result) \
		F(u32, duration_ns) F(u64, bytes) F(x64, stream) F(u32, correlation) F(u8, host)) \
	X(sync, F(u32, thread) F(u16, api) F(u8, device) F(i32, result) F(u64, duration_ns) \
		F(x64, handle)) \
	X(gpu, F(u32, process) F(u32, correlation) F(u64, begin_ns) F(u64, end_ns) F(u32, error_ns)) \
	X(call, F(u32, thread) F(u16, api) F(i32, result) F(u32, duration_ns)) \
	X(site, F(u32, process) F(u32, site) F(str, frames)) \
	X(leak, F(u32, process) F(u8, verdict) F(u8, kind) F(u8, device) F(u64, bytes) \
		F(u64, count) F(u32, site)) \
	X(lost, F(u32, process) F(u64, events) F(str, why)) \
	X(held, F(u32, process) F(u16, api) F(u8, kind) F(u8, device) F(u32, site) F(x64, pointer) \
		F(u64, bytes) F(u64, count) F(u64, live_bytes)) \
	X(untimed, F(u32, process) F(u32, correlation) F(u8, reason)) \
	X(stream_number, F(u32, process) F(u32, number) F(x64, stream)) \
	X(launched, F(u32, thread) F(u16, api) F(u8, device) F(u32, duration_ns) F(u32, function) \
		F(u32, grid_x) F(u16, grid_y) F(u16, grid_z) F(u16, block_x) F(u16, block_y) \
		F(u8, block_z) F(u32, shared_bytes) F(u32, number) F(u32, correlation))

enum cuward_event {
#define F(type, name)
#define X(event, fields) EVENT_##event,
	CUWARD_EVENTS(X, F)
#undef X
#undef F
	EVENT_COUNT,
};

/* The fields of each event as a struct: struct event_alloc and so on, one for shim and tools. */
#define CUWARD_FIELD_u8(name) uint8_t name;
#define CUWARD_FIELD_u16(name) uint16_t name;
#define CUWARD_FIELD_u32(name) uint32_t name;
#define CUWARD_FIELD_u64(name) uint64_t name;
#define CUWARD_FIELD_i32(name) int32_t name;
#define CUWARD_FIELD_x64(name) uint64_t name;
#define CUWARD_FIELD_str(name) const char *name;
#define F(type, name) CUWARD_FIELD_##type(name)
#define X(event, fields) struct event_##event { fields };
CUWARD_EVENTS(X, F)
#undef X
#undef F

/* `what` of context and stream events; PRESENT: it was there when the trace began. */
enum { OBJECT_CREATED, OBJECT_DESTROYED, OBJECT_PRESENT };

/* Verdicts; the word is `verdict` of an entry of `leaks` in the JSON report. */
#define CUWARD_VERDICTS(X) \
	X(LEAK, "leak") \
	X(GROWTH, "growth") \
	X(HELD, "held") \
	X(CONTEXT, "context") \
	X(IMPORTED, "imported") \
	X(KILLED, "killed")

enum cuward_verdict {
#define X(id, word) VERDICT_##id,
	CUWARD_VERDICTS(X)
#undef X
	VERDICT_COUNT,
};

#endif
