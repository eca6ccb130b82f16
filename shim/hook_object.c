/*
 * hook_object.c - streams, events, modules, libraries, graphs: counted, so that a leak of them is
 * seen; and the captures that hooks must not disturb.
 */
#include "grant.h"
#include "graph_memory.h"
#include "names.h"
#include "overhead.h"
#include "pool.h"
#include "traced.h"

static void trace_stream_event(int what, uint64_t stream, int device, CUcontext context)
{
	struct event_stream event = {
		.thread = guest_trace_key(guest_thread()), .what = what, .stream = stream,
		.device = device < 0 ? UINT8_MAX : device, .context = (uint64_t)context,
	};

	trace_stream(&event);
}

/*
 * The call was before this, and another thread may have ended the context since: then its sweep takes
 * the record for one that is younger.
 */
static bool owner_is_there(uint32_t record, CUcontext context)
{
	CUdevice device;
	CUresult result;

	if (record == LEDGER_NO_RECORD || !context)
		return true;
	/* A context that an error spoilt answers with that, and is still there. */
	result = real.cuCtxGetDevice(&device);
	if (result != CUDA_ERROR_CONTEXT_IS_DESTROYED && result != CUDA_ERROR_INVALID_CONTEXT)
		return true;
	grant_owner_gone(record, context);
	return false;
}

static uint32_t created(enum cuward_object kind, void *handle, bool owned)
{
	uint32_t epoch = __atomic_load_n(&guest.epoch, __ATOMIC_ACQUIRE);
	CUcontext context;
	int device = guest_current_device(guest_thread(), &context);
	uint32_t record = grant_object_created(kind, (uint64_t)handle, device, owned ? context : NULL);

	if (owned && unlikely(device < 0 || epoch != __atomic_load_n(&guest.epoch, __ATOMIC_ACQUIRE)) &&
	    !owner_is_there(record, context))
		record = LEDGER_NO_RECORD;

	if (unlikely(trace_on) && kind == OBJECT_STREAM)
		trace_stream_event(OBJECT_CREATED, (uint64_t)handle, device, context);
	return record;
}

/* ---- kernels of a library: a list through their records, begun in the library's ---- */

static void kernel_seen(CUlibrary library, CUkernel kernel)
{
	uint64_t key = grant_object_key(OBJECT_LIBRARY, (uint64_t)library);
	struct ledger_record known;
	uint32_t owner;
	uint32_t record;

	if (!guest.header || grant_object_find(OBJECT_KERNEL, (uint64_t)kernel, &known))
		return;
	owner = index_lookup(CLASS_OBJECT, key);
	record = created(OBJECT_KERNEL, kernel, false);
	if (record == LEDGER_NO_RECORD || owner == LEDGER_NO_RECORD)
		return;
	lock_take(&ledger.refs_lock);
	set_field(&ledger_record(record)->context, ledger_record(owner)->link);
	set_field(&ledger_record(owner)->link, record + 1);
	lock_give_back(&ledger.refs_lock);
}

static void kernels_gone(uint32_t library)
{
	uint64_t next;

	if (library == LEDGER_NO_RECORD)
		return;
	for (uint64_t at = ledger_record(library)->link; at; at = next) {
		const struct ledger_record *kernel = ledger_record(at - 1);

		next = kernel->context;
		if (ledger_claim(CLASS_OBJECT, kernel->handle) == at - 1)
			grant_gone(at - 1);
	}
}

/* OWNED: dies with its context. */
#define OBJECT_CREATE(name, kind, handle, owned) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		CUresult cw_result = real.name ARGS_##name; \
\
		if (cw_result == CUDA_SUCCESS) \
			created(kind, handle, owned); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

#define OBJECT_DESTROY(name, kind, handle) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		struct release cw_release; \
		CUresult cw_result; \
\
		grant_object_open(&cw_release, kind, (uint64_t)(handle)); \
		cw_release.began_ns = 0; \
		cw_result = release_close(&cw_release, real.name ARGS_##name); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

/* Code, variables and heaps of a module are memory that nobody asked for by name. */
#define MODULE_LOAD(name, kind, handle, owned) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		struct overhead cw_overhead; \
		CUresult cw_result; \
\
		overhead_open(&cw_overhead); \
		cw_result = real.name ARGS_##name; \
		if (cw_result == CUDA_SUCCESS) { \
			names_unload((uint64_t)(handle)); /* what had this handle before */ \
			created(kind, handle, owned); \
			overhead_close(&cw_overhead, kind, (uint64_t)(handle)); \
		} \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

OBJECT_CREATE(cuStreamCreate, OBJECT_STREAM, *phStream, true)
OBJECT_CREATE(cuStreamCreateWithPriority, OBJECT_STREAM, *phStream, true)

/* A stream of a green context that still lives: that one has a stream less. */
static void green_stream_gone(uint32_t green)
{
	const struct ledger_record *record = ledger_record(green);
	struct ref_change change;

	if (record->class == CLASS_OBJECT && record->kind == OBJECT_GREEN_CONTEXT &&
	    refs_open_record(&change, green, REF_MAPPING, false))
		refs_close(&change, true);
}

#define STREAM_DESTROY(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		struct ledger_record cw_stream = { 0 }; \
		struct release cw_release; \
		CUresult cw_result; \
\
		if (unlikely(guest.green_streams)) \
			grant_object_find(OBJECT_STREAM, (uint64_t)hStream, &cw_stream); \
		grant_object_open(&cw_release, OBJECT_STREAM, (uint64_t)hStream); \
		cw_release.began_ns = 0; \
		cw_result = release_close(&cw_release, real.name ARGS_##name); \
		if (cw_stream.link && cw_result == CUDA_SUCCESS) \
			green_stream_gone(cw_stream.link - 1); \
		if (unlikely(guest.policy.pools_reserved)) \
			pool_look_everywhere(); \
		if (unlikely(cw_began_ns) && cw_result == CUDA_SUCCESS) \
			trace_stream_event(OBJECT_DESTROYED, (uint64_t)hStream, -1, NULL); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

STREAM_DESTROY(cuStreamDestroy)
STREAM_DESTROY(cuStreamDestroy_v2)

OBJECT_CREATE(cuEventCreate, OBJECT_EVENT, *phEvent, true)
OBJECT_DESTROY(cuEventDestroy, OBJECT_EVENT, hEvent)
OBJECT_DESTROY(cuEventDestroy_v2, OBJECT_EVENT, hEvent)

MODULE_LOAD(cuModuleLoad, OBJECT_MODULE, *module, true)
MODULE_LOAD(cuModuleLoadData, OBJECT_MODULE, *module, true)
MODULE_LOAD(cuModuleLoadDataEx, OBJECT_MODULE, *module, true)
MODULE_LOAD(cuModuleLoadFatBinary, OBJECT_MODULE, *module, true)

CUresult on_cuModuleUnload(CUmodule hmod)
{
	uint64_t began_ns = traced_begin();
	struct release release;
	CUresult result;

	grant_object_open(&release, OBJECT_MODULE, (uint64_t)hmod);
	release.began_ns = 0;
	/* Before the driver gives its handles to others. */
	names_unload((uint64_t)hmod);
	result = release_close(&release, real.cuModuleUnload(hmod));
	return traced_end(CALL_cuModuleUnload, result, began_ns);
}

MODULE_LOAD(cuLibraryLoadData, OBJECT_LIBRARY, *library, false)
MODULE_LOAD(cuLibraryLoadFromFile, OBJECT_LIBRARY, *library, false)

/* Its kernels go with it. */
CUresult on_cuLibraryUnload(CUlibrary library)
{
	struct release release;
	CUresult result;

	grant_object_open(&release, OBJECT_LIBRARY, (uint64_t)library);
	names_unload((uint64_t)library);
	result = real.cuLibraryUnload(library);
	if (result == CUDA_SUCCESS)
		kernels_gone(release.record);
	return release_close(&release, result);
}

OBJECT_CREATE(cuTexObjectCreate, OBJECT_TEXTURE, (void *)*pTexObject, true)
OBJECT_DESTROY(cuTexObjectDestroy, OBJECT_TEXTURE, texObject)
OBJECT_CREATE(cuSurfObjectCreate, OBJECT_SURFACE, (void *)*pSurfObject, true)
OBJECT_DESTROY(cuSurfObjectDestroy, OBJECT_SURFACE, surfObject)

OBJECT_CREATE(cuLinkCreate, OBJECT_LINK, *stateOut, true)
OBJECT_CREATE(cuLinkCreate_v2, OBJECT_LINK, *stateOut, true)
OBJECT_DESTROY(cuLinkDestroy, OBJECT_LINK, state)
OBJECT_CREATE(cuTexRefCreate, OBJECT_TEXTURE_REFERENCE, *pTexRef, true)
OBJECT_DESTROY(cuTexRefDestroy, OBJECT_TEXTURE_REFERENCE, hTexRef)
OBJECT_CREATE(cuImportExternalSemaphore, OBJECT_EXTERNAL_SEMAPHORE, *extSem_out, true)
OBJECT_DESTROY(cuDestroyExternalSemaphore, OBJECT_EXTERNAL_SEMAPHORE, extSem)
OBJECT_CREATE(cuIpcOpenEventHandle, OBJECT_EVENT, *phEvent, true)

OBJECT_CREATE(cuGraphCreate, OBJECT_GRAPH, *phGraph, false)
OBJECT_CREATE(cuGraphClone, OBJECT_GRAPH, *phGraphClone, false)
OBJECT_DESTROY(cuGraphDestroy, OBJECT_GRAPH, hGraph)

/* ---- user objects: alive as long as the program holds a reference; those of graphs are theirs ---- */

static void user_object_refs(CUuserObject object, int64_t change)
{
	uint32_t gone = LEDGER_NO_RECORD;
	uint32_t record;
	int64_t refs;

	if (!guest.header)
		return;
	lock_take(&ledger.refs_lock);
	record = index_lookup(CLASS_OBJECT, grant_object_key(OBJECT_USER_OBJECT, (uint64_t)object));
	if (record != LEDGER_NO_RECORD) {
		refs = ledger_record(record)->refs + change;
		set_field(&ledger_record(record)->refs, refs > 0 ? refs : 0);
		if (refs <= 0)
			gone = ledger_claim(CLASS_OBJECT, ledger_record(record)->handle);
	}
	lock_give_back(&ledger.refs_lock);
	if (gone != LEDGER_NO_RECORD)
		grant_gone(gone);
}

CUresult on_cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
	unsigned int initialRefcount, unsigned int flags)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuUserObjectCreate(object_out, ptr, destroy, initialRefcount, flags);

	if (result == CUDA_SUCCESS) {
		created(OBJECT_USER_OBJECT, *object_out, false);
		user_object_refs(*object_out, (int64_t)initialRefcount - 1);
	}
	return traced_end(CALL_cuUserObjectCreate, result, began_ns);
}

#define USER_OBJECT_REFS(name, change) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		CUresult cw_result = real.name ARGS_##name; \
\
		if (cw_result == CUDA_SUCCESS) \
			user_object_refs(object, change); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

USER_OBJECT_REFS(cuUserObjectRetain, (int64_t)count)
USER_OBJECT_REFS(cuUserObjectRelease, -(int64_t)count)
USER_OBJECT_REFS(cuGraphRetainUserObject, flags & CU_GRAPH_USER_OBJECT_MOVE ? -(int64_t)count : 0)

/* ---- captures: a count of those that may be active is the cheap question ---- */

#define BEGIN_CAPTURE(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		CUresult cw_result; \
\
		__atomic_fetch_add(&guest.captures, 1, __ATOMIC_SEQ_CST); \
		cw_result = real.name ARGS_##name; \
		if (cw_result != CUDA_SUCCESS) \
			__atomic_fetch_sub(&guest.captures, 1, __ATOMIC_SEQ_CST); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

BEGIN_CAPTURE(cuStreamBeginCapture)
BEGIN_CAPTURE(cuStreamBeginCapture_ptsz)
BEGIN_CAPTURE(cuStreamBeginCapture_v2)
BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz)
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph)
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph_ptsz)
#ifdef PARAMS_cuStreamBeginRecaptureToGraph
BEGIN_CAPTURE(cuStreamBeginRecaptureToGraph)
BEGIN_CAPTURE(cuStreamBeginRecaptureToGraph_ptsz)
#endif
#ifdef PARAMS_cuStreamBeginCaptureToCig
BEGIN_CAPTURE(cuStreamBeginCaptureToCig)
BEGIN_CAPTURE(cuStreamBeginCaptureToCig_ptsz)
#endif

/* An invalidated capture ends with an error and no graph; it has ended all the same. */
static bool capture_ended(CUresult result)
{
	return result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
		result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

/* One less; of those that began before we looked none were counted, and it never falls below none. */
static void uncount_capture(void)
{
	uint32_t count = __atomic_load_n(&guest.captures, __ATOMIC_RELAXED);

	while (count > 0 && !__atomic_compare_exchange_n(&guest.captures, &count, count - 1, true,
		__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

/* A capture may have been into a graph that was there before. */
static void captured_graph(CUgraph graph)
{
	struct ledger_record known;

	if (!grant_object_find(OBJECT_GRAPH, (uint64_t)graph, &known))
		created(OBJECT_GRAPH, graph, false);
}

#define END_CAPTURE(name, graph) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		CUresult cw_result = real.name ARGS_##name; \
\
		if (capture_ended(cw_result)) \
			uncount_capture(); \
		if (cw_result == CUDA_SUCCESS && graph && *graph) \
			captured_graph(*graph); \
		if (unlikely(graph_memory_possible())) \
			graph_memory_look_everywhere(); \
		grant_imports_look(); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

#define CW_NO_GRAPH ((CUgraph *)NULL)

END_CAPTURE(cuStreamEndCapture, phGraph)
END_CAPTURE(cuStreamEndCapture_ptsz, phGraph)
#ifdef PARAMS_cuStreamEndCaptureToCig
END_CAPTURE(cuStreamEndCaptureToCig, CW_NO_GRAPH)
END_CAPTURE(cuStreamEndCaptureToCig_ptsz, CW_NO_GRAPH)
#endif

/* ---- names of kernels, for the trace ---- */

CUresult on_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuModuleGetFunction(hfunc, hmod, name);

	if (result == CUDA_SUCCESS)
		names_define((uint64_t)*hfunc, name, (uint64_t)hmod);
	return traced_end(CALL_cuModuleGetFunction, result, began_ns);
}

CUresult on_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuLibraryGetKernel(pKernel, library, name);

	if (result == CUDA_SUCCESS) {
		kernel_seen(library, *pKernel);
		names_define((uint64_t)*pKernel, name, (uint64_t)library);
	}
	return traced_end(CALL_cuLibraryGetKernel, result, began_ns);
}

CUresult on_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
	uint64_t began_ns = traced_begin();
	unsigned int count = 0;
	CUresult result = real.cuLibraryEnumerateKernels(kernels, numKernels, lib);

	if (result == CUDA_SUCCESS && real.cuLibraryGetKernelCount(&count, lib) == CUDA_SUCCESS) {
		for (unsigned int i = 0; i < count && i < numKernels; i++)
			kernel_seen(lib, kernels[i]);
	}
	return traced_end(CALL_cuLibraryEnumerateKernels, result, began_ns);
}

CUresult on_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuKernelGetFunction(pFunc, kernel);

	if (result == CUDA_SUCCESS)
		names_alias((uint64_t)*pFunc, (uint64_t)kernel);
	return traced_end(CALL_cuKernelGetFunction, result, began_ns);
}
