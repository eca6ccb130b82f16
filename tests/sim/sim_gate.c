/*
 * sim_gate.c - what happens around each call: the state of the driver, faults, delays, the log.
 *
 * All of it sits behind the one word sim_slow, so that a call on an initialised driver without
 * knobs pays a load and a branch.
 */
#include "sim.h"
#include "sim_context.h"
#include "sim_gate.h"
#include "sim_knobs.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum state { STATE_NEW, STATE_READY, STATE_POISONED, STATE_ENDED };

struct fault {
	enum call call;
	unsigned long first, last; /* which of its calls, from 1 */
	CUresult code;
	atomic_ulong seen;
	struct fault *next;
};

int sim_slow = 1;
__thread struct sim_thread sim_thread;
static _Atomic enum state state;
static bool watching;   /* a knob wants to see every call, */
static bool controlled; /* or a test does */
static _Atomic bool held; /* the process is locked for a checkpoint */
static struct fault *faults;
static uint64_t *delays, *return_delays;

/* The answer to a call before cuInit; -1: works; 0: a call of a header that is newer than the table. */
#define SUCCESS_AT_ONCE 10000
static const short before_init[CALLS] = {
#define BEFORE(symbol, name, variant, version, profiles, answer) \
	[CALL_##symbol] = (answer) ? (answer) : SUCCESS_AT_ONCE,
	SIM_FACTS(BEFORE)
};

uint64_t sim_thread_id(void)
{
	if (!sim_thread.id)
		sim_thread.id = (uint64_t)syscall(SYS_gettid);
	return sim_thread.id;
}

static void set_state(enum state next)
{
	atomic_store(&state, next);
	__atomic_store_n(&sim_slow, watching || held || next != STATE_READY, __ATOMIC_RELEASE);
}

static void poison_child(void)
{
	sim_thread.id = 0;
	if (atomic_load(&state) != STATE_READY)
		return;
	if (knobs.poison_fork)
		set_state(STATE_POISONED);
	else
		usage_forked();
}

void sim_ready(void)
{
	static bool once;

	if (!once)
		pthread_atfork(knobs.poison_fork ? NULL : usage_before_fork, NULL, poison_child);
	once = true;
	set_state(STATE_READY);
}

bool sim_is_ready(void)
{
	return atomic_load(&state) == STATE_READY;
}

/* ---- knobs that watch every call ---- */

static enum call call_by_name(const char *name, size_t length)
{
	int i;

	for (i = 0; i < CALLS; i++)
		if (!strncmp(sim_call_names[i], name, length) && !sim_call_names[i][length])
			return (enum call)i;
	fprintf(stderr, "simulated driver: CUWARD_SIM_FAULT: no call '%.*s'\n", (int)length, name);
	abort();
}

/* One of "name:nth:code", where nth is a number, a number and + for all from there, or *. */
static void add_fault(const char *row)
{
	const char *nth = strchr(row, ':'), *code = nth ? strchr(nth + 1, ':') : NULL;
	struct fault *fault = calloc(1, sizeof(*fault));
	char *end;

	if (!code || !fault) {
		fprintf(stderr, "simulated driver: CUWARD_SIM_FAULT: not name:nth:code: %s\n", row);
		abort();
	}
	fault->call = call_by_name(row, (size_t)(nth - row));
	fault->first = fault->last = strtoul(nth + 1, &end, 10);
	if (nth[1] == '*')
		fault->first = 1;
	if (nth[1] == '*' || *end == '+')
		fault->last = (unsigned long)-1;
	fault->code = (CUresult)strtol(code + 1, NULL, 10);
	fault->next = faults;
	faults = fault;
}

static void read_faults(const char *list)
{
	while (list && *list) {
		add_fault(list);
		list = strchr(list, ',');
		if (list)
			list++;
	}
}

static uint64_t *read_delays(const char *knob)
{
	uint64_t *table = strcmp(knob, "0") ? calloc(CALLS, sizeof(*table)) : NULL;
	int i;

	for (i = 0; table && i < CALLS; i++)
		table[i] = knobs_by_name(knob, sim_call_names[i], 0);
	return table;
}

static void __attribute__((constructor)) load(void)
{
	knobs_read();
	read_faults(knobs.fault);
	delays = read_delays(knobs.call_delay_ns);
	return_delays = read_delays(knobs.return_delay_ns);
	watching = faults || delays || return_delays || knobs.reenter || *knobs.call_log;
}

static void __attribute__((destructor)) unload(void)
{
	if (strcmp(knobs.deinit, "0"))
		set_state(STATE_ENDED);
}

void gate_watch(void)
{
	watching = controlled = true;
	set_state(atomic_load(&state));
}

void gate_set_delay(int call, uint64_t ns)
{
	if (!delays)
		delays = calloc(CALLS, sizeof(*delays));
	if (delays)
		delays[call] = ns;
	gate_watch();
}

void gate_hold(bool hold)
{
	held = hold;
	set_state(atomic_load(&state));
}

static bool fault_now(enum call call, CUresult *result)
{
	struct fault *fault;
	unsigned long nth;

	for (fault = faults; fault; fault = fault->next) {
		if (fault->call != call)
			continue;
		nth = atomic_fetch_add(&fault->seen, 1) + 1;
		if (nth < fault->first || nth > fault->last)
			continue;
		context_fault(fault->code);
		*result = fault->code;
		return true;
	}
	return false;
}

void gate_delay(uint64_t ns)
{
	uint64_t until;

	if (!ns)
		return;
	until = ns == SIM_NEVER ? SIM_NEVER : sim_now() + ns;
	if (ns > 100000)
		sim_sleep_until(until);
	while (sim_now() < until)
		;
}

/* ---- re-entry: the driver calls exported functions by way of the global scope ---- */

static bool reenters(enum call call)
{
	switch (call) {
	case CALL_cuMemAlloc:
	case CALL_cuMemAlloc_v2:
	case CALL_cuMemAllocPitch_v2:
	case CALL_cuMemAllocManaged:
	case CALL_cuMemAllocAsync:
	case CALL_cuMemHostAlloc:
	case CALL_cuMemFree_v2:
	case CALL_cuMemFreeAsync:
	case CALL_cuArrayCreate_v2:
	case CALL_cuCtxSynchronize:
	case CALL_cuModuleLoadData:
	case CALL_cuLaunchKernel:
		return true;
	default:
		return false;
	}
}

static void reenter(void)
{
	CUresult (*current)(CUcontext *), (*allocate)(CUdeviceptr *, size_t),
		(*release)(CUdeviceptr);
	void *global = dlopen(NULL, RTLD_LAZY); /* RTLD_DEFAULT finds this library first */
	CUcontext context = NULL;
	CUdeviceptr scratch;

	*(void **)&current = dlsym(global, "cuCtxGetCurrent");
	*(void **)&allocate = dlsym(global, "cuMemAlloc_v2");
	*(void **)&release = dlsym(global, "cuMemFree_v2");
	if (current && allocate && release && !current(&context) && context &&
		!allocate(&scratch, 512))
		release(scratch);
	dlclose(global);
}

static void maybe_reenter(enum call call)
{
	if (!knobs.reenter || sim_thread.reentering || !reenters(call))
		return;
	sim_thread.reentering = true;
	reenter();
	sim_thread.reentering = false;
}

/* ---- the two ends of a call ---- */

/* May this call run in the present state? Otherwise *result is its answer. */
static bool admitted(enum call call, uintptr_t first_argument, CUresult *result)
{
	switch (atomic_load(&state)) {
	case STATE_READY:
		return true;
	case STATE_ENDED:
		if (!strcmp(knobs.deinit, "abort"))
			abort();
		*result = CUDA_ERROR_DEINITIALIZED;
		return false;
	case STATE_POISONED:
		if (call == CALL_cuInit) {
			*result = CUDA_ERROR_NOT_INITIALIZED;
			return false;
		}
		break;
	case STATE_NEW:
		break;
	}
	if (before_init[call] < 0)
		return true;
	/* These were measured with zero arguments: the driver looked at those first. */
	*result = CUDA_ERROR_NOT_INITIALIZED;
	if (before_init[call] == CUDA_ERROR_NOT_SUPPORTED || (before_init[call] && !first_argument))
		*result = (CUresult)(before_init[call] % SUCCESS_AT_ONCE);
	return false;
}

bool sim_enter(enum call call, uintptr_t first_argument, CUresult *result)
{
	if (!admitted(call, first_argument, result))
		return false;
	if (held && checkpoint_waits(call, result))
		return false;
	if (delays)
		gate_delay(delays[call]);
	if (faults && fault_now(call, result))
		return false;
	if (controlled && control_fault(call, result)) {
		context_fault(*result);
		return false;
	}
	maybe_reenter(call);
	return true;
}

static const char *module_of(const void *address)
{
	const char *slash;
	Dl_info info;

	if (!dladdr(address, &info) || !info.dli_fname)
		return "?";
	slash = strrchr(info.dli_fname, '/');
	return slash ? slash + 1 : info.dli_fname;
}

/* One write a line: lines of several processes do not mix, and a killed process leaves all its own.
 */
void sim_leave(enum call call, CUresult result, const void *caller)
{
	char line[256];
	ssize_t written;
	int fd, length;

	if (return_delays)
		gate_delay(return_delays[call]);
	if (!*knobs.call_log)
		return;
	length = snprintf(line, sizeof(line), "%d %d %s %d %s\n", (int)getpid(),
		(int)sim_thread_id(), sim_call_names[call], (int)result, module_of(caller));
	fd = open(knobs.call_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	written = write(fd, line, (size_t)length);
	(void)written; /* a full disk must not change what the driver does */
	close(fd);
}
