#!/usr/bin/env python3
"""What pycuda.bats plays: use_pycuda.py PART. Prints the same on every GPU of the same size."""
import sys
import threading

import numpy
import pycuda.driver as cuda

MiB = 1 << 20
PTX = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .global .align 4 .b8 table[400];
.visible .entry twice(.param .u64 a, .param .u32 n) { ret; }
.visible .entry idle() { ret; }
\0"""


def context(gpu=0):
    cuda.init()
    return cuda.Device(gpu).make_context()


def memory():
    """Every kind of memory, every way of copying, and the bytes that come back."""
    ctx = context()
    stream, began, ended = cuda.Stream(), cuda.Event(), cuda.Event()
    numbers = numpy.arange(1 << 16, dtype=numpy.float32)

    began.record(stream)
    device = cuda.mem_alloc(numbers.nbytes)
    cuda.memcpy_htod(device, numbers)
    other = cuda.mem_alloc(numbers.nbytes)
    cuda.memcpy_dtod(other, device, numbers.nbytes)
    back = numpy.empty_like(numbers)
    cuda.memcpy_dtoh(back, other)
    print("device", (back == numbers).all())

    pinned = cuda.pagelocked_empty(numbers.shape, numbers.dtype)
    cuda.memset_d32_async(device, 7, numbers.size, stream)
    cuda.memcpy_dtoh_async(pinned, device, stream)
    stream.synchronize()
    print("pinned", (pinned.view(numpy.uint32) == 7).all())

    managed = cuda.managed_zeros((1000,), numpy.int64, mem_flags=cuda.mem_attach_flags.GLOBAL)
    print("managed", managed.sum())

    pitched, pitch = cuda.mem_alloc_pitch(100, 10, 4)
    copy = cuda.Memcpy2D()
    copy.set_src_host(numbers[:250])
    copy.set_dst_device(pitched)
    copy.src_pitch = copy.width_in_bytes = 100
    copy.dst_pitch, copy.height = pitch, 10
    copy(aligned=True)
    row = numpy.empty(25, numpy.float32)
    cuda.memcpy_dtoh(row, int(pitched) + 9 * pitch)
    print("pitch", pitch >= 100, (row == numbers[225:250]).all())

    array = cuda.matrix_to_array(numbers.reshape(256, 256), "C")
    print("array", array.get_descriptor().width, array.get_descriptor().height)

    print("range", cuda.mem_get_address_range(other)[1])
    ended.record(stream)
    ended.synchronize()
    print("event", ended.query(), ended.time_since(began) >= 0)
    print("total", cuda.mem_get_info()[1] // MiB, "MiB")
    ctx.pop()


def pool():
    """A caching allocator: held blocks are allocations until it lets go of them."""
    import pycuda.tools

    ctx = context()
    blocks = pycuda.tools.DeviceMemoryPool()
    for _ in range(3):
        taken = [blocks.allocate(MiB) for _ in range(4)]
        print(blocks.active_blocks, blocks.held_blocks)
        del taken
    print(blocks.active_blocks, blocks.held_blocks)
    blocks.free_held()
    print(blocks.active_blocks, blocks.held_blocks)
    ctx.pop()


def refused():
    """The program is told, in its own terms, and goes on."""
    ctx = context()
    held = []
    try:
        while len(held) < 100:
            held.append(cuda.mem_alloc(64 * MiB))
    except cuda.MemoryError as error:
        print(type(error).__module__, type(error).__name__, error)
    print("held", len(held))
    try:
        cuda.mem_alloc_pitch(MiB, 100, 4)
    except cuda.MemoryError as error:
        print(error)
    held.pop()
    held.append(cuda.mem_alloc(64 * MiB))
    cuda.memset_d8(held[-1], 1, 64 * MiB)
    byte = numpy.empty(1, numpy.int8)
    cuda.memcpy_dtoh(byte, int(held[-1]) + 64 * MiB - 1)
    print("went on with", len(held), byte[0])
    held.clear()
    ctx.pop()


def launch():
    """Every way of launching that the library has, those of CUDA 2 too."""
    ctx = context()
    module = cuda.module_from_buffer(PTX)
    twice, idle = module.get_function("twice"), module.get_function("idle")
    address, size = module.get_global("table")
    print("table", address != 0, size)
    numbers = cuda.to_device(numpy.ones(256, numpy.float32))
    stream, count = cuda.Stream(), numpy.uint32(256)
    for _ in range(5):
        twice(numbers, count, block=(256, 1, 1), grid=(4, 2))
    twice(numbers, count, block=(32, 1, 1), stream=stream)
    twice.prepare("PI")
    twice.prepared_call((8, 1), (32, 1, 1), numbers, count)
    twice.prepared_async_call((8, 1), (32, 1, 1), stream, numbers, count)
    idle._set_block_shape(16, 1, 1)
    idle._param_set_size(0)
    idle._launch()
    idle._launch_grid(2, 2)
    idle._launch_grid_async(2, 2, stream)
    stream.synchronize()
    ctx.synchronize()
    for wrong in lambda: module.get_function("thrice"), lambda: idle(block=(2048, 1, 1)):
        try:
            wrong()
        except cuda.LogicError as error:
            print(error)
    ctx.pop()


def compiled():
    """A module that nvcc makes."""
    from pycuda.compiler import SourceModule

    ctx = context()
    module = SourceModule("""
        __device__ float sum[100];
        __global__ void add(const float *a) { sum[threadIdx.x] += a[threadIdx.x]; }
    """, cache_dir=False, arch="sm_86")
    add = module.get_function("add")
    add(cuda.In(numpy.ones(100, numpy.float32)), block=(100, 1, 1))
    print("sum", module.get_global("sum")[1])
    ctx.pop()


def reclaimed():
    """Memory that is left to the destruction of its context."""
    ctx = context()
    kept = [cuda.mem_alloc(MiB) for _ in range(3)]
    ctx.pop()
    ctx.detach()
    print(len(kept))


def leak():
    """An object that nobody can ever free keeps its memory and its context."""
    import ctypes

    ctx = context()
    for _ in range(3):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(cuda.mem_alloc(MiB)))
    ctx.pop()


def threads():
    """A thread a GPU, each with its own context; both GPUs are asked for the same."""
    got = {}

    def work(gpu):
        ctx = context(gpu)
        held = []
        try:
            while len(held) < 10:
                held.append(cuda.mem_alloc(32 * MiB))
        except cuda.MemoryError:
            pass
        got[gpu] = len(held)
        held.clear()
        ctx.pop()
        ctx.detach()

    workers = [threading.Thread(target=work, args=(gpu,)) for gpu in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(got[0], got[1])


globals()[sys.argv[1]]()
