/*
 * hook_import.c - memory that belongs to another process or API: who made it pays for it.
 *
 * Counted as imported; charged to the limit only where CUWARD_IMPORTED says so.
 */
#include "grant.h"
#include "ledger.h"
#include "lock.h"
#include "traced.h"

/* OWNED: it goes with the current context. What comes from a pool does not. */
static CUresult open_import(struct grant *grant, enum record_class class, uint64_t bytes, bool owned)
{
	struct grant_request request = {
		.kind = KIND_IMPORTED, .class = class, .bytes = bytes,
		.charged = guest.policy.imported_charged,
	};

	if (attention_wanted())
		guest_look();
	request.device = guest_current_device(guest_thread(), &request.context);
	if (!owned)
		request.context = NULL;
	return grant_open_for(grant, &request);
}

static bool captures(void)
{
	return __atomic_load_n(&guest.captures, __ATOMIC_SEQ_CST) != 0;
}

/*
 * Only the driver knows how large it is, and only once it is there. False: over the limit. While a
 * stream captures it is not asked: then the size is learnt when the last capture ends.
 */
static bool learn_size(struct grant *grant, CUdeviceptr pointer)
{
	size_t bytes = 0;

	if (!captures() && real.cuMemGetAddressRange_v2(NULL, &bytes, pointer) == CUDA_SUCCESS)
		return grant_resize(grant, bytes);
	grant->flags |= RECORD_UNSIZED;
	if (grant->at)
		set_field(&grant->at->flags, grant->at->flags | RECORD_UNSIZED);
	return true;
}

void grant_imports_look(void)
{
	uint32_t position = 0;
	uint64_t pointer;
	size_t bytes;

	if (likely(!__atomic_load_n(&guest.unsized_imports, __ATOMIC_SEQ_CST)) || captures() ||
	    !__atomic_exchange_n(&guest.unsized_imports, false, __ATOMIC_SEQ_CST))
		return;
	while ((pointer = ledger_next_unsized(&position)) != 0) {
		if (real.cuMemGetAddressRange_v2(NULL, &bytes, pointer) == CUDA_SUCCESS)
			grant_learn(pointer, bytes);
		else
			__atomic_store_n(&guest.unsized_imports, true, __ATOMIC_SEQ_CST);
	}
}

/*
 * Said only now that the record is there to be seen: else a look of another thread may come between. And
 * the last capture may have ended meanwhile.
 */
static void sized_later(const struct grant *grant)
{
	if (unlikely(grant->flags & RECORD_UNSIZED))
		__atomic_store_n(&guest.unsized_imports, true, __ATOMIC_SEQ_CST);
	grant_imports_look();
}

/*
 * The same memory opened again has the same address: one more reference. In another context it is
 * other memory, where that of a context that is going was.
 */
static bool opened_again(const struct grant *grant, CUdeviceptr pointer)
{
	struct ref_change change;

	if (grant->record == LEDGER_NO_RECORD ||
	    !refs_open_again(&change, CLASS_MEMORY, pointer, grant->at->context))
		return false;
	if (refs_close(&change, true)) /* its context went, and all of it */
		grant_gone(change.record);
	return true;
}

/* UNDO closes what turned out too large. */
#define IMPORT_POINTER(name, pointer, undo, owned) \
	CUresult on_##name PARAMS_##name \
	{ \
		struct grant cw_grant; \
		CUresult cw_result = open_import(&cw_grant, CLASS_MEMORY, 0, owned); \
		CUdeviceptr cw_before = pointer ? *pointer : 0; \
\
		if (cw_result != CUDA_SUCCESS) \
			return cw_result; \
		cw_result = real.name ARGS_##name; \
		lock_take(&ledger.import_lock); \
		if (cw_result == CUDA_SUCCESS && opened_again(&cw_grant, *pointer)) { \
			grant_withdraw(&cw_grant); \
		} else { \
			if (cw_result == CUDA_SUCCESS && !learn_size(&cw_grant, *pointer)) { \
				real.undo(*pointer); \
				*pointer = cw_before; \
				cw_result = CUDA_ERROR_OUT_OF_MEMORY; \
			} \
			cw_result = grant_close(&cw_grant, cw_result, \
				cw_result == CUDA_SUCCESS ? *pointer : 0); \
		} \
		lock_give_back(&ledger.import_lock); \
		sized_later(&cw_grant); \
		return cw_result; \
	}

IMPORT_POINTER(cuIpcOpenMemHandle, pdptr, cuIpcCloseMemHandle, true)
IMPORT_POINTER(cuIpcOpenMemHandle_v2, pdptr, cuIpcCloseMemHandle, true)
IMPORT_POINTER(cuMemPoolImportPointer, ptr_out, cuMemFree_v2, false)

CUresult on_cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct release release;

	release_open_ref(&release, CLASS_MEMORY, dptr, REF_HANDLE);
	return release_close_ref(&release, real.cuIpcCloseMemHandle(dptr));
}

CUresult on_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
	CUmemAllocationHandleType handleType, unsigned long long flags)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuMemPoolImportFromShareableHandle(pool_out, handle, handleType, flags);

	if (result == CUDA_SUCCESS)
		grant_object_created(OBJECT_MEM_POOL, (uint64_t)*pool_out, -1, NULL);
	return traced_end(CALL_cuMemPoolImportFromShareableHandle, result, began_ns);
}

/* ---- external memory: its size is told at the import, buffers in it have none of their own ---- */

CUresult on_cuImportExternalMemory(CUexternalMemory *extMem_out,
	const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
	struct grant grant;
	CUresult result = open_import(&grant, CLASS_EXTERNAL, memHandleDesc ? memHandleDesc->size : 0,
		true);

	if (result != CUDA_SUCCESS)
		return result;
	result = real.cuImportExternalMemory(extMem_out, memHandleDesc);
	return grant_close(&grant, result, result == CUDA_SUCCESS ? (uint64_t)*extMem_out : 0);
}

CUresult on_cuDestroyExternalMemory(CUexternalMemory extMem)
{
	struct release release;

	release_open(&release, CLASS_EXTERNAL, (uint64_t)extMem);
	return release_close(&release, real.cuDestroyExternalMemory(extMem));
}

/* It lies where the external memory does, and goes with that one's context. */
static CUresult open_part(struct grant *grant, enum record_class class, CUexternalMemory memory)
{
	struct grant_request request = { .kind = KIND_IMPORTED, .class = class, .device = -1 };
	struct ledger_record whole;

	if (guest.header && ledger_find(CLASS_EXTERNAL, (uint64_t)memory, &whole)) {
		request.device = whole.device == UINT8_MAX ? -1 : whole.device;
		request.context = (CUcontext)whole.context;
	}
	return grant_open_for(grant, &request);
}

#define IMPORT_PART(name, class, handle) \
	CUresult on_##name PARAMS_##name \
	{ \
		struct grant cw_grant; \
		CUresult cw_result = open_part(&cw_grant, class, extMem); \
\
		if (cw_result != CUDA_SUCCESS) \
			return cw_result; \
		cw_result = real.name ARGS_##name; \
		return grant_close(&cw_grant, cw_result, \
			cw_result == CUDA_SUCCESS ? (uint64_t)*handle : 0); \
	}

IMPORT_PART(cuExternalMemoryGetMappedBuffer, CLASS_MEMORY, devPtr)
IMPORT_PART(cuExternalMemoryGetMappedMipmappedArray, CLASS_MIPMAP, mipmap)
