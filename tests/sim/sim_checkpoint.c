/*
 * sim_checkpoint.c - a process gives up its devices for a while: lock, checkpoint, restore, unlock.
 *
 * Only the calling process itself can be treated so. While it is locked, calls of other threads
 * wait, and those of the thread that locked it answer CUDA_ERROR_ILLEGAL_STATE, where a real driver
 * would block that one too.
 */
#include "sim_device.h"
#include "sim_gate.h"

#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic CUprocessState state;
static _Atomic uint64_t locker;
static uint64_t kept[SIM_DEVICES]; /* physical bytes that moved to the host */

static bool is_zero(const void *bytes, size_t count)
{
	const char *at = bytes;

	while (count--)
		if (*at++)
			return false;
	return true;
}

/* The state that a call needs and makes; args: all zero, or there are none. */
static CUresult change(int pid, const void *args, size_t bytes, CUprocessState from,
	CUprocessState to)
{
	if (args && !is_zero(args, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (pid != (int)getpid())
		return pid <= 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
	if (state != from)
		return CUDA_ERROR_ILLEGAL_STATE;
	locker = to == CU_PROCESS_STATE_RUNNING ? 0 : sim_thread_id();
	state = to;
	gate_hold(to != CU_PROCESS_STATE_RUNNING);
	return CUDA_SUCCESS;
}

bool checkpoint_waits(enum call call, CUresult *result)
{
	switch ((int)call) {
	case CALL_cuCheckpointProcessCheckpoint:
	case CALL_cuCheckpointProcessGetRestoreThreadId:
	case CALL_cuCheckpointProcessGetState:
	case CALL_cuCheckpointProcessLock:
	case CALL_cuCheckpointProcessRestore:
	case CALL_cuCheckpointProcessUnlock:
		return false;
	}
	*result = CUDA_ERROR_ILLEGAL_STATE;
	while (state != CU_PROCESS_STATE_RUNNING) {
		if (locker == sim_thread_id())
			return true;
		usleep(1000);
	}
	return false;
}

CUresult sim_cuCheckpointProcessGetState(int pid, CUprocessState *its)
{
	if (!its || pid <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (pid != (int)getpid())
		return CUDA_ERROR_NOT_SUPPORTED;
	*its = state;
	return CUDA_SUCCESS;
}

CUresult sim_cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
	if (!tid || pid != (int)getpid())
		return CUDA_ERROR_INVALID_VALUE;
	*tid = (int)sim_thread_id();
	return CUDA_SUCCESS;
}

CUresult sim_cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
	CUresult result;

	if (args && (args->reserved0 || !is_zero(args->reserved1, sizeof(args->reserved1))))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	result = change(pid, NULL, 0, CU_PROCESS_STATE_RUNNING, CU_PROCESS_STATE_LOCKED);
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult sim_cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args)
{
	CUresult result;

	pthread_mutex_lock(&lock);
	result = change(
		pid, args, sizeof(*args), CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING);
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult sim_cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
	CUresult result;
	int i;

	pthread_mutex_lock(&lock);
	result = change(
		pid, args, sizeof(*args), CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED);
	for (i = 0; result == CUDA_SUCCESS && i < device_count; i++) {
		pthread_mutex_lock(&devices[i].lock);
		kept[i] = devices[i].truth->physical;
		device_give(&devices[i], kept[i]);
		pthread_mutex_unlock(&devices[i].lock);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static bool take_back(void)
{
	int i, taken;
	bool fits = true;

	for (taken = 0; taken < device_count && fits; taken++) {
		pthread_mutex_lock(&devices[taken].lock);
		fits = device_take(&devices[taken], kept[taken]);
		pthread_mutex_unlock(&devices[taken].lock);
	}
	for (i = 0; !fits && i < taken - 1; i++) {
		pthread_mutex_lock(&devices[i].lock);
		device_give(&devices[i], kept[i]);
		pthread_mutex_unlock(&devices[i].lock);
	}
	return fits;
}

/* Somebody else may have taken the room meanwhile: then it stays where it is. */
CUresult sim_cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
	CUresult result = CUDA_SUCCESS;

	if (args && args->gpuPairsCount)
		return CUDA_ERROR_NOT_SUPPORTED; /* onto other devices */
	pthread_mutex_lock(&lock);
	if (pid == (int)getpid() && state == CU_PROCESS_STATE_CHECKPOINTED && !take_back())
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS)
		result = change(pid, NULL, 0, CU_PROCESS_STATE_CHECKPOINTED,
			CU_PROCESS_STATE_LOCKED);
	pthread_mutex_unlock(&lock);
	return result;
}
