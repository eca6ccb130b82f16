/*
 * hook_object.c - streams, events, modules, libraries, graphs: counted, so that a leak of them is
 * seen; and the captures that hooks must not disturb.
 */
#include "grant.h"
#include "names.h"
#include "traced.h"

static void trace_stream_event(int what, uint64_t stream, int device, CUcontext context)
{
	struct event_stream event = {
		.thread = guest_trace_key(guest_thread()), .what = what, .stream = stream,
		.device = device < 0 ? UINT8_MAX : device, .context = (uint64_t)context,
	};

	trace_stream(&event);
}

static void created(enum cuward_object kind, void *handle, bool owned)
{
	CUcontext context;
	int device = guest_current_device(guest_thread(), &context);

	grant_object_created(kind, (uint64_t)handle, device, owned ? context : NULL);
	if (unlikely(trace_on) && kind == OBJECT_STREAM)
		trace_stream_event(OBJECT_CREATED, (uint64_t)handle, device, context);
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
		if (unlikely(cw_began_ns) && kind == OBJECT_STREAM && cw_result == CUDA_SUCCESS) \
			trace_stream_event(OBJECT_DESTROYED, (uint64_t)(handle), -1, NULL); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

OBJECT_CREATE(cuStreamCreate, OBJECT_STREAM, *phStream, true)
OBJECT_CREATE(cuStreamCreateWithPriority, OBJECT_STREAM, *phStream, true)
OBJECT_DESTROY(cuStreamDestroy, OBJECT_STREAM, hStream)
OBJECT_DESTROY(cuStreamDestroy_v2, OBJECT_STREAM, hStream)

OBJECT_CREATE(cuEventCreate, OBJECT_EVENT, *phEvent, true)
OBJECT_DESTROY(cuEventDestroy, OBJECT_EVENT, hEvent)
OBJECT_DESTROY(cuEventDestroy_v2, OBJECT_EVENT, hEvent)

OBJECT_CREATE(cuModuleLoad, OBJECT_MODULE, *module, true)
OBJECT_CREATE(cuModuleLoadData, OBJECT_MODULE, *module, true)
OBJECT_CREATE(cuModuleLoadDataEx, OBJECT_MODULE, *module, true)
OBJECT_CREATE(cuModuleLoadFatBinary, OBJECT_MODULE, *module, true)
OBJECT_DESTROY(cuModuleUnload, OBJECT_MODULE, hmod)

OBJECT_CREATE(cuLibraryLoadData, OBJECT_LIBRARY, *library, false)
OBJECT_CREATE(cuLibraryLoadFromFile, OBJECT_LIBRARY, *library, false)
OBJECT_DESTROY(cuLibraryUnload, OBJECT_LIBRARY, library)

OBJECT_CREATE(cuTexObjectCreate, OBJECT_TEXTURE, (void *)*pTexObject, true)
OBJECT_DESTROY(cuTexObjectDestroy, OBJECT_TEXTURE, texObject)
OBJECT_CREATE(cuSurfObjectCreate, OBJECT_SURFACE, (void *)*pSurfObject, true)
OBJECT_DESTROY(cuSurfObjectDestroy, OBJECT_SURFACE, surfObject)

OBJECT_CREATE(cuGraphCreate, OBJECT_GRAPH, *phGraph, false)
OBJECT_CREATE(cuGraphClone, OBJECT_GRAPH, *phGraphClone, false)
OBJECT_DESTROY(cuGraphDestroy, OBJECT_GRAPH, hGraph)
OBJECT_CREATE(cuGraphInstantiate, OBJECT_GRAPH_EXEC, *phGraphExec, false)
OBJECT_CREATE(cuGraphInstantiate_v2, OBJECT_GRAPH_EXEC, *phGraphExec, false)
OBJECT_CREATE(cuGraphInstantiateWithFlags, OBJECT_GRAPH_EXEC, *phGraphExec, false)
OBJECT_CREATE(cuGraphInstantiateWithParams, OBJECT_GRAPH_EXEC, *phGraphExec, false)
OBJECT_CREATE(cuGraphInstantiateWithParams_ptsz, OBJECT_GRAPH_EXEC, *phGraphExec, false)
OBJECT_DESTROY(cuGraphExecDestroy, OBJECT_GRAPH_EXEC, hGraphExec)

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

/* An invalidated capture ends with an error and no graph; it has ended all the same. */
static bool capture_ended(CUresult result)
{
	return result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
		result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

#define END_CAPTURE(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		CUresult cw_result = real.name ARGS_##name; \
\
		if (capture_ended(cw_result) && guest.captures > 0) \
			__atomic_fetch_sub(&guest.captures, 1, __ATOMIC_SEQ_CST); \
		if (cw_result == CUDA_SUCCESS && phGraph && *phGraph) \
			created(OBJECT_GRAPH, *phGraph, false); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

END_CAPTURE(cuStreamEndCapture)
END_CAPTURE(cuStreamEndCapture_ptsz)

/* ---- names of kernels, for the trace ---- */

CUresult on_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuModuleGetFunction(hfunc, hmod, name);

	if (result == CUDA_SUCCESS && began_ns)
		names_define((uint64_t)*hfunc, name);
	return traced_end(CALL_cuModuleGetFunction, result, began_ns);
}

CUresult on_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuLibraryGetKernel(pKernel, library, name);

	if (result == CUDA_SUCCESS && began_ns)
		names_define((uint64_t)*pKernel, name);
	return traced_end(CALL_cuLibraryGetKernel, result, began_ns);
}

CUresult on_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuKernelGetFunction(pFunc, kernel);

	if (result == CUDA_SUCCESS && began_ns)
		names_alias((uint64_t)*pFunc, (uint64_t)kernel);
	return traced_end(CALL_cuKernelGetFunction, result, began_ns);
}
