#!/usr/bin/env python3
"""What numba.bats plays: use_numba.py PART. Prints the same on every GPU of the same size."""
import ctypes
import sys

import numpy
from numba import cuda
from numba.cuda.cudadrv import driver
from numba.cuda.cudadrv.error import CudaDriverError

MiB = 1 << 20
PTX = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry twice(.param .u64 a, .param .u32 n) { ret; }
\0"""


def arrays():
    """Arrays in all kinds of memory, and the numbers that come back."""
    numbers = numpy.arange(1 << 16, dtype=numpy.float32)
    stream, began, ended = cuda.stream(), cuda.event(), cuda.event()
    began.record(stream)
    device = cuda.to_device(numbers)
    print("device", (device.copy_to_host() == numbers).all())
    with cuda.pinned(numbers):
        other = cuda.to_device(numbers, stream=stream)
    print("stream", (other.copy_to_host(stream=stream) == numbers).all())
    other.copy_to_device(device)
    pinned = cuda.pinned_array(1000, numpy.int64)
    mapped = cuda.mapped_array(1000, numpy.int64)
    managed = cuda.managed_array(1000, numpy.int64)
    pinned[:] = mapped[:] = 1
    managed[:] = 2
    print("sums", pinned.sum(), mapped.sum(), managed.sum())
    ended.record(stream)
    ended.synchronize()
    print("event", began.elapsed_time(ended) >= 0)
    print("total", cuda.current_context().get_memory_info().total // MiB, "MiB")
    del device, other, pinned, mapped, managed
    cuda.close()


def refused():
    """The exception of a refusal, and what the program can do after it."""
    held = []
    try:
        while len(held) < 100:
            held.append(cuda.device_array(64 * MiB, numpy.int8))
    except CudaDriverError as error:
        print(type(error).__name__, error)
    print("held", len(held))
    held.pop()
    held.append(cuda.to_device(numpy.ones(64 * MiB, numpy.int8)))
    print("went on with", len(held), held[-1][64 * MiB - 1])
    held.clear()
    cuda.close()


def launch():
    """A kernel out of PTX text."""
    context = cuda.current_context()
    module = context.create_module_ptx(PTX)
    function = module.get_function("twice")
    numbers = cuda.to_device(numpy.ones(256, numpy.float32))
    arguments = [driver.device_ctypes_pointer(numbers), ctypes.c_uint32(256)]
    stream = cuda.default_stream().handle
    for _ in range(7):
        driver.launch_kernel(function.handle, 4, 1, 1, 64, 1, 1, 0, stream, arguments)
    cuda.synchronize()
    print("registers", function.attrs.regs >= 0)
    del module, function, numbers, arguments
    cuda.close()


def kept():
    """Numba does not give back what is alive at the end."""
    global forever
    forever = cuda.device_array(MiB, numpy.int8)


globals()[sys.argv[1]]()
