#!/usr/bin/env python3
"""What taichi.bats plays: a simulation in Taichi, which brings its own compiler. On a GPU that computes nothing
all numbers are 0."""
import numpy
import taichi as ti

ti.init(arch=ti.cuda, log_level=ti.ERROR, offline_cache=False, device_memory_GB=0.125)
heat = ti.field(ti.f32, shape=(256, 256))
numbers = numpy.ones((64, 64), dtype=numpy.float32)


@ti.kernel
def step(rate: ti.f32):
    for i, j in heat:
        heat[i, j] += rate * (heat[(i + 1) % 256, j] - heat[i, j])


@ti.kernel
def twice(array: ti.types.ndarray()):
    for i, j in array:
        array[i, j] *= 2


for _ in range(10):
    step(0.1)
ti.sync()
print("heat", heat.to_numpy().sum())
on_gpu = ti.ndarray(ti.f32, shape=(64, 64))
on_gpu.from_numpy(numbers)
twice(on_gpu)
print("ndarray", on_gpu.to_numpy().sum())
twice(numbers)
print("numpy", numbers.sum())
ti.reset()
print("done")
