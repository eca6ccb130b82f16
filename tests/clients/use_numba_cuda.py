#!/usr/bin/env python3
"""What numba_cuda.bats plays: use_numba_cuda.py PART. NVIDIA's Numba compiles kernels written in Python."""
import os
import site
import sys

site.addsitedir(os.environ["PYTHONPATH"])  # its .pth puts it in the place of Numba's own
import numpy
from numba import cuda

MiB = 1 << 20


@cuda.jit
def forward(weights, batch, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = weights[i] * batch[i]


@cuda.jit
def backward(weights, out, rate):
    i = cuda.grid(1)
    if i < weights.size:
        weights[i] -= rate * out[i]


def train():
    """Batches on a stream of their own, two kernels each, the loss every fourth."""
    stream, began, ended = cuda.stream(), cuda.event(), cuda.event()
    weights = cuda.to_device(numpy.ones(1 << 18, numpy.float32))
    out = cuda.device_array(1 << 18, numpy.float32)
    pinned = cuda.pinned_array(1 << 18, numpy.float32)
    began.record(stream)
    for step in range(12):
        pinned[:] = step
        batch = cuda.to_device(pinned, stream=stream)
        forward[1024, 256, stream](weights, batch, out)
        backward[1024, 256, stream](weights, out, 0.1)
        stream.synchronize()
        if step % 4 == 3:
            print("loss", out.copy_to_host().shape)
    ended.record(stream)
    ended.synchronize()
    print("time", began.elapsed_time(ended) >= 0)
    del batch, weights, out, pinned
    cuda.close()


def refused():
    held = []
    try:
        while len(held) < 100:
            held.append(cuda.device_array(16 * MiB, numpy.int8))
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
    print("held", len(held))
    held.clear()
    held.append(cuda.to_device(numpy.ones(MiB, numpy.int8)))
    print("went on", held[0].copy_to_host().sum())
    held.clear()
    cuda.close()


print(cuda.__file__.split("/")[-4:])
globals()[sys.argv[1]]()
