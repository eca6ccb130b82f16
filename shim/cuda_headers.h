/*
 * cuda_headers.h - the driver's headers, as the generator and the shim read them.
 *
 * With __CUDA_API_VERSION_INTERNAL (set by the Makefile) cuda.h declares every ABI version and
 * stream twin under its own name and maps no name to another.
 */
#ifndef CUWARD_CUDA_HEADERS_H
#define CUWARD_CUDA_HEADERS_H

/* Our definitions of these functions are exported although everything else is hidden. */
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#pragma GCC visibility pop

#if !defined(CUDA_VERSION) || CUDA_VERSION < 13000
#error "cuward needs the headers of CUDA 13.0 or newer; set CUDA_HOME, or run tests/setup.sh build"
#endif

#endif
