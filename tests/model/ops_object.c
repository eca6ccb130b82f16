/*
 * ops_object.c - streams, events, modules and launches.
 */
#include "model.h"

static const char image[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .global .align 4 .b8 variable[4096];\n.visible .entry kernel()\n{ ret; }\n";

static void stream_create(const struct step *s)
{
	int place = place_empty(T_STREAM, s->a);
	CUstream stream = NULL;
	CUresult result;

	if (place < 0)
		return;
	if (s->b & 1)
		result = CALL(cuStreamCreate, &stream, s->b % 3);
	else
		result = CALL(cuStreamCreateWithPriority, &stream, s->b % 3, 0);
	if (result == CUDA_SUCCESS)
		place_fill(T_STREAM, place, (uint64_t)stream, 0);
}

static void stream_destroy(const struct step *s)
{
	int place;
	CUstream stream = (CUstream)pick(T_STREAM, s->a, &place);
	CUresult result;

	if ((uint64_t)stream <= 2)
		return;
	result = s->b & 1 ? CALL(cuStreamDestroy, stream) : CALL(cuStreamDestroy_v2, stream);
	place_settle(T_STREAM, place, result);
}

static void event_make(const struct step *s)
{
	int place = place_empty(T_EVENT, s->a);
	CUevent event = NULL;

	if (place >= 0 && CALL(cuEventCreate, &event, s->b % 4) == CUDA_SUCCESS)
		place_fill(T_EVENT, place, (uint64_t)event, 0);
}

static void event_use(const struct step *s)
{
	int place;
	CUevent event = (CUevent)pick(T_EVENT, s->a, &place);
	CUresult result;

	if (s->b % 2 == 0) {
		CALL_TWIN(cuEventRecord, s->c & 1, event, any_stream(s->c >> 1));
		return;
	}
	result = s->b & 2 ? CALL(cuEventDestroy, event) : CALL(cuEventDestroy_v2, event);
	place_settle(T_EVENT, place, result);
}

static void module_unload(const struct step *s)
{
	int place;
	CUmodule module = (CUmodule)pick(T_MODULE, s->a, &place);

	place_settle(T_MODULE, place, CALL(cuModuleUnload, module));
}

static void module_load(const struct step *s)
{
	int place = place_empty(T_MODULE, s->a);
	CUmodule module = NULL;
	CUresult result;

	if (place < 0) {
		module_unload(s);
		return;
	}
	switch (s->b % 4) {
	case 0:
		result = CALL(cuModuleLoad, &module, s->c & 1 ? "/proc/self/exe" : "/nowhere");
		break;
	case 1:
		result = CALL(cuModuleLoadData, &module, image);
		break;
	case 2:
		result = CALL(cuModuleLoadDataEx, &module, image, 0, NULL, NULL);
		break;
	default:
		result = CALL(cuModuleLoadFatBinary, &module, image);
	}
	if (result == CUDA_SUCCESS)
		place_fill(T_MODULE, place, (uint64_t)module, 0);
}

static void library(const struct step *s)
{
	int place = place_empty(T_LIBRARY, s->a);
	CUlibrary library = NULL;
	CUresult result;

	if (place < 0 || s->b % 2 == 0) {
		library = (CUlibrary)pick(T_LIBRARY, s->a, &place);
		place_settle(T_LIBRARY, place, CALL(cuLibraryUnload, library));
		return;
	}
	if (s->c % 2)
		result = CALL(cuLibraryLoadData, &library, image, NULL, NULL, 0, NULL, NULL, 0);
	else
		result = CALL(cuLibraryLoadFromFile, &library,
			s->c & 2 ? "/proc/self/exe" : "/nowhere", NULL, NULL, 0, NULL, NULL, 0);
	if (result == CUDA_SUCCESS)
		place_fill(T_LIBRARY, place, (uint64_t)library, 0);
}

static void launch(const struct step *s)
{
	int place;
	CUmodule module = (CUmodule)pick(T_MODULE, s->a, &place);
	CUfunction function = NULL;

	if (place >= 0 && CALL(cuModuleGetFunction, &function, module, "kernel") == CUDA_SUCCESS)
		CALL_TWIN(cuLaunchKernel, s->c & 1, function, 1, 1, 1, 32, 1, 1, 0,
			any_stream(s->c >> 1), NULL, NULL);
}

const struct operation operations_object[] = {
	{ "stream_create", FAM_object, 6, stream_create, false },
	{ "stream_destroy", FAM_object, 5, stream_destroy, false },
	{ "event_make", FAM_object, 4, event_make, false },
	{ "event_use", FAM_object, 6, event_use, false },
	{ "module_load", FAM_module, 3, module_load, false },
	{ "module_unload", FAM_module, 3, module_unload, false },
	{ "library", FAM_module, 2, library, false },
	{ "launch", FAM_module, 10, launch, false },
	{ 0 },
};
