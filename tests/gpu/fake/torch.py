"""As much of PyTorch as the programs beside it call, on the driver's own calls: for run.sh on the simulated driver."""
import contextlib
import ctypes
import os
import sys
import types

driver = ctypes.CDLL("libcuda.so.1")
get = driver.cuGetProcAddress_v2


def call(name, *args):
    pointer = ctypes.c_void_p()
    get(name.encode(), ctypes.byref(pointer), 12000, ctypes.c_uint64(0), None)
    return ctypes.CFUNCTYPE(ctypes.c_int)(pointer.value)(*args)


context = ctypes.c_void_p()
if call("cuInit", 0) or call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0):
    sys.exit("no GPU")
call("cuCtxSetCurrent", context)
uint8 = 1
# Three ways to get memory, as in the real one.
conf = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")


class OutOfMemoryError(RuntimeError):
    pass


class Storage:
    def __init__(self, size):
        self.pointer = ctypes.c_uint64()
        size = ctypes.c_size_t(size)
        if conf.startswith("backend"):
            result = call("cuMemAllocAsync", ctypes.byref(self.pointer), size, None)
        elif conf.startswith("expandable"):
            size.value = (size.value + (2 << 20) - 1) & -(2 << 20)
            prop = (ctypes.c_int * 8)(1, 0, 1, 0)
            result = call("cuMemCreate", ctypes.byref(self.pointer), size, prop, ctypes.c_uint64(0))
        else:
            result = call("cuMemAlloc", ctypes.byref(self.pointer), size)
        if result == 2:
            raise OutOfMemoryError("out of memory")
        if result:
            raise RuntimeError(f"error {result}")

    def __del__(self):
        free = {"b": "cuMemFreeAsync", "e": "cuMemRelease"}.get(conf[:1], "cuMemFree")
        call(free, self.pointer, None)


class Tensor:
    def __init__(self, size=1 << 20):
        self.storage = Storage(size)

    def __matmul__(self, other):
        return Tensor()

    def all(self):
        return self

    def item(self):
        return True


class Loss:
    value = 1.0

    def backward(self):
        Loss.value *= 0.9

    def item(self):
        return Loss.value


class Model:
    def __init__(self, *parts):
        self.weights = None

    def cuda(self):
        self.weights = Tensor()
        return self

    def __call__(self, data):
        return data

    def parameters(self):
        return []


class Optimizer:
    def __init__(self, parameters, lr):
        self.steps = 0

    def zero_grad(self):
        pass

    def step(self):
        self.steps += 1


def mem_get_info():
    sizes = (ctypes.c_size_t * 2)()
    call("cuMemGetInfo", ctypes.byref(sizes, 0), ctypes.byref(sizes, 8))
    return sizes[0], sizes[1]


def empty(size, dtype=None, device=None):
    return Tensor(size)


def randn(*shape, device=None):
    return Tensor()


def randint(low, high, shape, device=None):
    return Tensor()


def isfinite(tensor):
    return tensor


def manual_seed(seed):
    pass


def use_deterministic_algorithms(on):
    pass


@contextlib.contextmanager
def graph(it):
    yield


cuda = types.SimpleNamespace(
    mem_get_info=mem_get_info, OutOfMemoryError=OutOfMemoryError, empty_cache=lambda: None,
    synchronize=lambda: call("cuCtxSynchronize"), graph=graph,
    CUDAGraph=lambda: types.SimpleNamespace(replay=lambda: None))
nn = types.SimpleNamespace(
    Sequential=Model, Linear=lambda *sizes: None, ReLU=lambda: None,
    functional=types.SimpleNamespace(cross_entropy=lambda out, target: Loss()))
optim = types.SimpleNamespace(SGD=Optimizer)
