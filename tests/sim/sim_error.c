/*
 * sim_error.c - names and texts of error codes.
 */
#include "sim.h"
#include "sim_errors.h"

#include <string.h>

static const struct {
	CUresult code;
	const char *name;
} names[] = {
#define ERROR(code) { code, #code },
	SIM_ERRORS(ERROR)
};

/* The texts that programs print and people grep for; others say what their name says. */
static const struct {
	CUresult code;
	const char *text;
} texts[] = {
	{ CUDA_SUCCESS, "no error" },
	{ CUDA_ERROR_INVALID_VALUE, "invalid argument" },
	{ CUDA_ERROR_OUT_OF_MEMORY, "out of memory" },
	{ CUDA_ERROR_NOT_INITIALIZED, "initialization error" },
	{ CUDA_ERROR_DEINITIALIZED, "driver shutting down" },
	{ CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected" },
	{ CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal" },
	{ CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid" },
	{ CUDA_ERROR_INVALID_CONTEXT, "invalid device context" },
	{ CUDA_ERROR_INVALID_HANDLE, "invalid resource handle" },
	{ CUDA_ERROR_NOT_FOUND, "named symbol not found" },
	{ CUDA_ERROR_NOT_READY, "device not ready" },
	{ CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered" },
	{ CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure" },
	{ CUDA_ERROR_NOT_PERMITTED, "operation not permitted" },
	{ CUDA_ERROR_NOT_SUPPORTED, "operation not supported" },
	{ CUDA_ERROR_UNKNOWN, "unknown error" },
};

CUresult sim_cuGetErrorName(CUresult error, const char **pStr)
{
	size_t i;

	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = NULL;
	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].code == error)
			*pStr = names[i].name;
	return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGetErrorString(CUresult error, const char **pStr)
{
	CUresult result = sim_cuGetErrorName(error, pStr);
	size_t i;

	for (i = 0; result == CUDA_SUCCESS && i < ARRAY_SIZE(texts); i++)
		if (texts[i].code == error)
			*pStr = texts[i].text;
	return result;
}
