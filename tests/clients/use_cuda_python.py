#!/usr/bin/env python3
"""What cuda_python.bats plays: use_cuda_python.py PART, with NVIDIA's own binding of the driver. Prints the same on
every GPU, but for what a kernel would compute."""
import sys

from cuda.bindings import driver as cuda

MiB = 1 << 20
PTX = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry step(.param .u64 weights, .param .u64 batch) { ret; }
\0"""


def do(answer):
    """The values of a call, or its error as an exception."""
    error, *values = answer
    if error != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(error.name)
    return values[0] if len(values) == 1 else values


def begin():
    do(cuda.cuInit(0))
    device = do(cuda.cuDeviceGet(0))
    context = do(cuda.cuDevicePrimaryCtxRetain(device))
    do(cuda.cuCtxSetCurrent(context))
    return device


def train():
    """Batches in stream-ordered memory, two streams, an event between them, a step captured as a graph."""
    device = begin()
    module = do(cuda.cuModuleLoadData(PTX))
    step = do(cuda.cuModuleGetFunction(module, b"step"))
    copies, work = (do(cuda.cuStreamCreate(1)) for _ in range(2))
    ready = do(cuda.cuEventCreate(0))
    weights = do(cuda.cuMemAlloc(MiB))
    host = do(cuda.cuMemHostAlloc(MiB, 0))
    do(cuda.cuStreamBeginCapture(work, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    for _ in range(4):
        do(cuda.cuLaunchKernel(step, 8, 1, 1, 64, 1, 1, 0, work, 0, 0))
    graph = do(cuda.cuStreamEndCapture(work))
    executable = do(cuda.cuGraphInstantiate(graph, 0))
    for _ in range(10):
        batch = do(cuda.cuMemAllocAsync(MiB, copies))
        do(cuda.cuMemcpyHtoDAsync(batch, host, MiB, copies))
        do(cuda.cuEventRecord(ready, copies))
        do(cuda.cuStreamWaitEvent(work, ready, 0))
        do(cuda.cuGraphLaunch(executable, work))
        do(cuda.cuLaunchKernel(step, 8, 1, 1, 64, 1, 1, 0, work, 0, 0))
        do(cuda.cuMemFreeAsync(batch, work))
    do(cuda.cuCtxSynchronize())
    for stream in copies, work:
        do(cuda.cuStreamDestroy(stream))
    do(cuda.cuEventDestroy(ready))
    do(cuda.cuGraphExecDestroy(executable))
    do(cuda.cuGraphDestroy(graph))
    do(cuda.cuMemFreeHost(host))
    do(cuda.cuMemFree(weights))
    do(cuda.cuModuleUnload(module))
    do(cuda.cuDevicePrimaryCtxRelease(device))
    print("trained")


def segments():
    """Memory that grows in segments, as PyTorch's expandable segments do."""
    device = begin()
    prop = cuda.CUmemAllocationProp()
    prop.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    prop.location.id = int(device)
    access = cuda.CUmemAccessDesc()
    access.location = prop.location
    access.flags = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    size = 2 * MiB
    start = do(cuda.cuMemAddressReserve(1024 * MiB, 0, 0, 0))
    segment = []
    try:
        while len(segment) < 100:
            handle = do(cuda.cuMemCreate(size, prop, 0))
            do(cuda.cuMemMap(int(start) + len(segment) * size, size, 0, handle, 0))
            do(cuda.cuMemSetAccess(int(start) + len(segment) * size, size, [access], 1))
            segment.append(handle)
    except RuntimeError as error:
        print(error)
    print("segments", len(segment))
    do(cuda.cuMemsetD8(start, 1, len(segment) * size))
    for number, handle in enumerate(segment):
        do(cuda.cuMemUnmap(int(start) + number * size, size))
        do(cuda.cuMemRelease(handle))
    do(cuda.cuMemAddressFree(start, 1024 * MiB))
    do(cuda.cuDevicePrimaryCtxRelease(device))


globals()[sys.argv[1]]()
