/*
 * hook_init.c - cuInit, and the look-ups that go through the driver.
 */
#include "guest.h"
#include "lookup.h"
#include "traced.h"

CUresult on_cuInit(unsigned int Flags)
{
	uint64_t began_ns = traced_begin();
	CUresult result;

	if (!guest_may_start())
		return CUDA_ERROR_NOT_PERMITTED;
	result = real.cuInit(Flags);
	if (result == CUDA_SUCCESS && !guest_attach())
		return CUDA_ERROR_NOT_PERMITTED;
	return traced_end(CALL_cuInit, result, began_ns);
}

/* The driver decides by name, version and flags; what it hands out identifies the function. */
CUresult on_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	CUresult result = real.cuGetProcAddress(symbol, pfn, cudaVersion, flags);

	if (result == CUDA_SUCCESS && *pfn)
		*pfn = lookup_swap(symbol, flags, *pfn);
	return result;
}

CUresult on_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
	CUdriverProcAddressQueryResult *symbolStatus)
{
	CUresult result = real.cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);

	if (result == CUDA_SUCCESS && *pfn)
		*pfn = lookup_swap(symbol, flags, *pfn);
	return result;
}
