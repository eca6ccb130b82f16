/*
 * release.c - how memory and objects go: freed, with the last reference, or with their context.
 */
#include <string.h>

#include "fault.h"
#include "grant_hot.h"
#include "graph_memory.h"
#include "mapping.h"
#include "names.h"
#include "pool.h"

static void trace_gone(struct thread *thread, const struct ledger_record *record, uint64_t began_ns)
{
	struct event_free event = {
		.thread = guest_trace_key(thread), .api = thread_api(thread), .kind = record->kind,
		.device = record->device, .duration_ns = began_ns ? traced_duration(began_ns) : 0,
		.pointer = record->handle, .bytes = record->bytes,
		.live_bytes = record->device == UINT8_MAX ? 0 : grant_charged_bytes(record->device),
	};

	trace_define_api(guest.key, event.api);
	trace_free(&event);
}

void release_tell(struct thread *thread, const struct ledger_record *record, uint64_t began_ns)
{
	growth_given(record);
	if (trace_on)
		trace_gone(thread, record, began_ns);
}

void release_pool_gone(const struct ledger_record *record)
{
	__atomic_fetch_sub(&guest.devices[record->device].pool_bytes, record->bytes, __ATOMIC_RELAXED);
	pool_settle(record->device, record->bytes);
}

/*
 * Claimed, and its memory or what it stands for is gone. Calls that count references to it may be under
 * way, on their way to be told so by the driver: the last one accounts for it.
 */
void release_reclaimed(struct thread *thread, uint32_t record)
{
	const struct ledger_record *gone = ledger_record(record);

	if (gone->class != CLASS_OBJECT)
		guest_find(FINDING_CONTEXT_RECLAIMED);
	else if (gone->kind == OBJECT_MODULE)
		names_unload(grant_object_key(OBJECT_MODULE, gone->handle)); /* which is its own inverse */
	if ((gone->class == CLASS_ARRAY || gone->class == CLASS_MIPMAP) && gone->link)
		mapping_array_gone(record);
	if (refs_gone(record))
		account(thread, record, 0);
}

/* Before the driver is told: what a launch of a graph holds of its own is not sure from now on. */
bool release_open_oddly(enum record_class class, uint64_t handle)
{
	bool freeing = class == CLASS_MEMORY && handle != 0 && graph_memory_possible();

	if (freeing)
		graph_memory_free_begins();
	return freeing;
}

void release_open(struct release *release, enum record_class class, uint64_t handle)
{
	release_open_hot(release, class, handle);
}

/* A handle of cuMemRelease that was a multicast object's, which is no memory but released alike. */
static bool was_multicast(const struct release *release)
{
	const void *by;

	return release->class == CLASS_PHYSICAL &&
		ledger_was_freed(CLASS_OBJECT, grant_object_key(OBJECT_MULTICAST, release->handle), &by);
}

/* The driver refused to free something we do not know: say what it probably is. */
static void explain_failed_free(const struct release *release, CUresult result)
{
	if (release->handle == 0 || release->class == CLASS_OBJECT || !guest.header)
		return;
	if (result == CUDA_ERROR_DEINITIALIZED)
		fault_note(release->thread, FINDING_FREE_AFTER_SHUTDOWN, release->handle, NULL);
	else if (was_multicast(release))
		fault_note(release->thread, FINDING_DOUBLE_FREE, release->handle, NULL);
	else
		fault_explain(release->thread, release->class, release->handle);
}

/* Which of the calls that free does it for what this call makes; of one that frees: itself. */
static uint16_t freed_by(uint16_t api)
{
	switch (api) {
	case CALL_cuMemAllocHost:
	case CALL_cuMemAllocHost_v2:
	case CALL_cuMemHostAlloc:
	case CALL_cuMemFreeHost:
		return CALL_cuMemFreeHost;
	case CALL_cuMemHostRegister:
	case CALL_cuMemHostRegister_v2:
	case CALL_cuMemHostUnregister:
		return CALL_cuMemHostUnregister;
	case CALL_cuIpcOpenMemHandle:
	case CALL_cuIpcOpenMemHandle_v2:
	case CALL_cuIpcCloseMemHandle:
		return CALL_cuIpcCloseMemHandle;
	case CALL_cuMipmappedArrayCreate:
	case CALL_cuExternalMemoryGetMappedMipmappedArray:
	case CALL_cuMipmappedArrayDestroy:
		return CALL_cuMipmappedArrayDestroy;
	default: /* cuMemFree in all its forms; of other classes there is one way only */
		return CALL_cuMemFree_v2;
	}
}

static bool says_not_so(CUresult result)
{
	return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE ||
		result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

/* The driver refused to free what is live, and stays so. */
static void explain_kept(const struct release *release, CUresult result)
{
	struct ledger_record *record = ledger_record(release->record);

	if (result == CUDA_ERROR_DEINITIALIZED) {
		/* The driver is gone and its memory with it: not live, and no leak. */
		ledger_set_state(record, RECORD_LOST);
		fault_note(release->thread, FINDING_FREE_AFTER_SHUTDOWN, release->handle, record);
	} else if (record->class != CLASS_OBJECT && says_not_so(result) &&
		freed_by(record->api) != freed_by(thread_api(release->thread))) {
		fault_note(release->thread, FINDING_INVALID_FREE, release->handle, record);
	}
}

static void failed(const struct release *release, CUresult result)
{
	if (release->record == LEDGER_NO_RECORD) {
		explain_failed_free(release, result);
		return;
	}
	if (ledger_restore(release->record) != LEDGER_NO_RECORD) {
		/* The driver gave the handle out again: of that memory there is nothing left to free. */
		release_reclaimed(release->thread, release->record);
		return;
	}
	grant_sweep_missed(release->record);
	explain_kept(release, result);
}

CUresult release_close_oddly(struct release release, CUresult result)
{
	if (release.record == LEDGER_NO_RECORD && release.freeing)
		graph_memory_free_ends();
	if (result != CUDA_SUCCESS) {
		failed(&release, result);
		traced_end(thread_api(release.thread), result, release.began_ns);
	} else if (graph_memory_possible()) {
		/* It may have been a graph's: those allocations are no records. */
	} else if (release.handle != 0 && release.class != CLASS_OBJECT) {
		/* Freed all the same: made where we did not see it, inside another library, say. */
		fault_note(release.thread, FINDING_INVALID_FREE, release.handle, NULL);
	}
	return result;
}

CUresult release_close(struct release *release, CUresult result)
{
	return release_close_hot(release, result);
}

void release_open_ref(struct release *release, enum record_class class, uint64_t handle, enum ref what)
{
	release->thread = guest_thread();
	release->class = class;
	release->handle = handle;
	release->change.record = LEDGER_NO_RECORD;
	if (likely(guest.header))
		refs_open(&release->change, class, handle, what, false);
	release->record = release->change.record;
	release->began_ns = unlikely(trace_on) ? guest_clock_ns() : 0;
}

CUresult release_close_ref(struct release *release, CUresult result)
{
	bool gone = refs_close(&release->change, result == CUDA_SUCCESS);

	if (gone)
		account(release->thread, release->record, release->began_ns);
	else if (result != CUDA_SUCCESS)
		traced_end(thread_api(release->thread), result, release->began_ns);
	if (result != CUDA_SUCCESS && release->record == LEDGER_NO_RECORD)
		explain_failed_free(release, result);
	else if (result != CUDA_SUCCESS && !gone)
		explain_kept(release, result);
	return result;
}
