"""Cost of a pair of allocation and free from ten Python functions deep: one number, ns a pair."""
import ctypes
import time

driver = ctypes.PyDLL("libcuda.so.1")  # keeps Python's lock: no waiting in what is measured
pointer, context = ctypes.c_uint64(), ctypes.c_void_p()
allocate, free, size = driver.cuMemAlloc_v2, driver.cuMemFree_v2, ctypes.c_size_t(1024)
allocate.argtypes, free.argtypes = [ctypes.c_void_p, ctypes.c_size_t], [ctypes.c_uint64]
for result in (driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
               driver.cuCtxSetCurrent(context)):
    assert result == 0
address = ctypes.addressof(pointer)


def rounds():
    best = 1e18
    for _ in range(60):
        began = time.perf_counter_ns()
        for _ in range(2000):
            allocate(address, 1024)
            free(pointer.value)
        best = min(best, (time.perf_counter_ns() - began) / 2000)
    return best


def deeper(depth):
    return rounds() if depth == 1 else deeper(depth - 1)


print("pair_python", round(deeper(9), 1))
