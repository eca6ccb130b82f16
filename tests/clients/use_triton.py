#!/usr/bin/env python3
"""What triton.bats plays: a kernel in Triton, compiled to a cubin by what the wheel brings, loaded and
launched by Triton's own driver layer, which it compiles with cc. PyTorch is not needed for that."""
import ctypes
import os
import tempfile

os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(dir=".")
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.driver import CudaUtils, include_dirs, libraries, library_dirs, make_launcher
from triton.compiler import ASTSource
from triton.runtime.build import compile_module_from_src

BYTES = 1 << 20
LAUNCHES = 50


@triton.jit
def more(a, b, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(b + i, tl.load(a + i, mask=i < n) + 1.0, mask=i < n)


class Tensor:
    def __init__(self, cuda, count):
        self.pointer = ctypes.c_uint64()
        must(cuda.cuMemAlloc_v2(ctypes.byref(self.pointer), ctypes.c_size_t(count)))

    def data_ptr(self):
        return self.pointer.value


def must(result):
    if result:
        raise SystemExit(f"error {result}")


compiled = triton.compile(ASTSource(fn=more, signature={"a": "*fp32", "b": "*fp32", "n": "i32",
                                                        "BLOCK": "constexpr"}, constexprs={"BLOCK": 256}),
                          target=GPUTarget("cuda", 80, 32))
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
must(cuda.cuInit(0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
utils = CudaUtils()
print("processors", utils.get_device_properties(0)["multiprocessor_count"])
module, function, _, _, threads = utils.load_binary(compiled.metadata.name, compiled.asm["cubin"],
                                                    compiled.metadata.shared, 0)
print("kernel", compiled.metadata.name, threads)
launcher = compile_module_from_src(src=make_launcher({}, {0: "*fp32", 1: "*fp32", 2: "i32"}, None),
                                   name="__triton_launcher", library_dirs=library_dirs(),
                                   include_dirs=include_dirs, libraries=libraries)
a, b = Tensor(cuda, BYTES), Tensor(cuda, BYTES)
for _ in range(LAUNCHES):
    launcher.launch(BYTES // 4 // 256, 1, 1, 0, function, False, False, None, None,
                    (compiled.metadata.num_warps, 1, compiled.metadata.shared, 1, 1, 1), None, None, None,
                    a, b, BYTES // 4)
must(cuda.cuCtxSynchronize())
must(cuda.cuMemFree_v2(a.pointer))
must(cuda.cuMemFree_v2(b.pointer))
must(cuda.cuModuleUnload(ctypes.c_void_p(module)))
print("done")
