/*
 * ops_context.c - contexts that come and go, with whatever is in them.
 */
#include "model.h"

#include <unistd.h>

static void set_current(const struct step *s)
{
	int place;

	if (s->a % 4 != 0) {
		CALL(cuCtxSetCurrent, world->primary[s->b % SEEN_DEVICES]);
		return;
	}
	if (s->a % 128 == 0)
		CALL(cuCtxSetCurrent, NULL);
	else
		CALL(cuCtxSetCurrent, (CUcontext)pick(T_CONTEXT, s->b, &place));
}

/* Everything in it went with it, whether this table knows or not: those handles are stale now. */
static void context_destroy(const struct step *s)
{
	int place;
	CUcontext context = (CUcontext)pick(T_CONTEXT, s->a, &place);
	CUcontext current = NULL;
	CUresult result;

	switch (s->c % 3) {
	case 0:
		cuCtxGetCurrent(&current);
		if (current != context || world->primary[0] == current || world->primary[1] == current)
			return;
		result = CALL(cuCtxDetach, context);
		if (result == CUDA_SUCCESS && place >= 0 && table_of(T_CONTEXT)->extra[place]) {
			table_of(T_CONTEXT)->extra[place]--;
			return;
		}
		break;
	case 1:
		result = CALL(cuCtxDestroy, context);
		break;
	default:
		result = CALL(cuCtxDestroy_v2, context);
	}
	if (result == CUDA_SUCCESS)
		context_died(context, false);
	place_settle(T_CONTEXT, place, result);
}

static void context_create(const struct step *s)
{
	int place = place_empty(T_CONTEXT, s->a);
	int device = (int)(s->b % 9 == 0 ? 2 : s->b % 2);
	CUcontext context = NULL;
	CUresult result;

	if (place < 0 || place >= 6) {
		context_destroy(s);
		return;
	}
	switch (s->c % 4) {
	case 0:
		result = CALL(cuCtxCreate, &context, 0, device);
		break;
	case 1:
		result = CALL(cuCtxCreate_v2, &context, 0, device);
		break;
	case 2:
		result = CALL(cuCtxCreate_v3, &context, NULL, 0, 0, device);
		break;
	default:
		result = CALL(cuCtxCreate_v4, &context, NULL, 0, device);
	}
	if (result == CUDA_SUCCESS)
		place_fill(T_CONTEXT, place, (uint64_t)context, 0);
}

static void context_pop(const struct step *s)
{
	CUcontext context = NULL;

	(void)s;
	CALL(cuCtxPopCurrent_v2, &context);
}

static void attach(const struct step *s)
{
	CUcontext context = NULL;

	(void)s;
	if (CALL(cuCtxAttach, &context, 0) != CUDA_SUCCESS)
		return;
	/* Whether it outlives a detach can't be asked: its handle may be another thread's by then. */
	for (int place = 0; place < PLACES; place++)
		if (table_of(T_CONTEXT)->handle[place] == (uint64_t)context)
			table_of(T_CONTEXT)->extra[place]++;
}

/* One more user, one less, or gone whoever uses it. */
static void primary(const struct step *s)
{
	int device = (int)(s->a % 17 == 0 ? 2 : s->a % 2), active = 0;
	CUcontext context = NULL;
	unsigned flags;
	CUresult result;

	switch (s->b % 16) {
	case 0:
		result = CALL(cuDevicePrimaryCtxRelease, device);
		break;
	case 1:
		result = CALL(cuDevicePrimaryCtxRelease_v2, device);
		break;
	case 2:
		result = CALL(cuDevicePrimaryCtxReset, device);
		break;
	case 3:
		result = CALL(cuDevicePrimaryCtxReset_v2, device);
		break;
	default:
		if (CALL(cuDevicePrimaryCtxRetain, &context, device) == CUDA_SUCCESS)
			CALL(cuCtxSetCurrent, context);
		return;
	}
	cuDevicePrimaryCtxGetState(device % SEEN_DEVICES, &flags, &active);
	if (result == CUDA_SUCCESS && (s->b % 16 > 1 || !active))
		context_died(world->primary[device % SEEN_DEVICES], true);
}

static void context_end(int place)
{
	CUcontext context = (CUcontext)table_of(T_CONTEXT)->handle[place];
	CUresult result = CALL(cuCtxDestroy_v2, context);

	if (result == CUDA_SUCCESS)
		context_died(context, false);
	place_settle(T_CONTEXT, place, result);
}

/* After an error that stays, only the end of the context helps. */
static void heal(const struct step *s)
{
	(void)s;
	for (int i = 0; i < SEEN_DEVICES; i++) {
		CUcontext context = NULL;

		cuCtxSetCurrent(world->primary[i]);
		if (cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS &&
			CALL(cuDevicePrimaryCtxReset_v2, i) == CUDA_SUCCESS)
			context_died(world->primary[i], true);
		if (cuCtxSetCurrent(world->primary[i]) != CUDA_SUCCESS &&
			CALL(cuDevicePrimaryCtxRetain, &context, i) == CUDA_SUCCESS)
			CALL(cuCtxSetCurrent, context);
	}
	for (int place = 0; place < PLACES; place++) {
		uint64_t context = table_of(T_CONTEXT)->handle[place];

		if (context && cuCtxSetCurrent((CUcontext)context) == CUDA_SUCCESS &&
			cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS)
			context_end(place);
	}
	cuCtxSetCurrent(world->primary[0]);
}

static void wait(const struct step *s)
{
	int place;
	CUcontext context = (CUcontext)pick(T_CONTEXT, s->b, &place);
	CUevent event = (CUevent)pick(T_EVENT, s->b, &place);

	switch (s->a % 5) {
	case 0:
		CALL(cuCtxSynchronize);
		break;
	case 1:
		CALL(cuCtxSynchronize_v2, context);
		break;
	case 2:
		CALL(cuEventSynchronize, event);
		break;
	default:
		CALL_TWIN(cuStreamSynchronize, s->c & 1, any_stream(s->c >> 1));
	}
}

static void set_limit(const struct step *s)
{
	CALL(cuCtxSetLimit, s->a % 9, s->b % (64 * MiB));
}

/* All memory leaves the device and comes back; who holds what stays as it is. */
static void checkpoint(const struct step *s)
{
	int pid = s->a % 5 ? (int)getpid() : 1;

	CALL(cuCheckpointProcessLock, pid, NULL);
	CALL(cuCheckpointProcessCheckpoint, pid, NULL);
	CALL(cuCheckpointProcessRestore, pid, NULL);
	CALL(cuCheckpointProcessUnlock, pid, NULL);
}

const struct operation operations_context[] = {
	{ "set_current", FAM_context, 40, set_current, false },
	{ "context_create", FAM_context, 4, context_create, false },
	{ "context_destroy", FAM_context, 4, context_destroy, false },
	{ "context_pop", FAM_context, 2, context_pop, false },
	{ "context_attach", FAM_context, 2, attach, false },
	{ "primary", FAM_context, 4, primary, true },
	{ "heal", FAM_context, 8, heal, true },
	{ "wait", FAM_context, 12, wait, false },
	{ "set_limit", FAM_context, 1, set_limit, false },
	{ "checkpoint", FAM_context, 1, checkpoint, true },
	{ 0 },
};
