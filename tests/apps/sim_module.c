/*
 * sim_module.c - what is found in PTX text, and what is not.
 */
#include "sim_check.h"

#include <string.h>

static const char ptx[] =
	"// .entry commented()\n"
	".version 7.0\n.target sm_80\n.address_size 64\n"
	".visible .global .align 4 .b8 table[3][16];\n"
	".const .f32 scale = 0f3F800000;\n"
	"/* .entry commented_too() */\n"
	".func (.param .b32 r) helper(.param .b32 a) { ld.global.f32 %f1, [%rd1]; }\n"
	".visible .entry _Z3addPf(\n.param .u64 .ptr .global .align 8 p)\n"
	"{\n .shared .align 4 .b8 tile[64];\n ret;\n}\n"
	".entry second(){}\n";

int main(void)
{
	CUfunction function, again;
	CUdeviceptr address;
	CUlibrary library;
	CUmodule module;
	CUkernel code;
	const char *name;
	unsigned count;
	size_t bytes;

	check_start();
	SAME(cuModuleLoadData(&module, "hello world"), CUDA_ERROR_INVALID_PTX);
	SAME(cuModuleLoadData(&module, "\1\2\3\4"), CUDA_ERROR_INVALID_IMAGE);
	SAME(cuModuleLoad(&module, "/nonexistent.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunctionCount(&count, module));
	SAME(count, 2);
	OK(cuModuleGetFunction(&function, module, "_Z3addPf"));
	OK(cuModuleGetFunction(&again, module, "_Z3addPf"));
	TRUE(function == again);
	OK(cuFuncGetName(&name, function));
	SAME(strcmp(name, "_Z3addPf"), 0);
	SAME(cuModuleGetFunction(&again, module, "commented"), CUDA_ERROR_NOT_FOUND);
	SAME(cuModuleGetFunction(&again, module, "helper"), CUDA_ERROR_NOT_FOUND);
	OK(cuModuleGetGlobal_v2(&address, &bytes, module, "table"));
	SAME(bytes, 48);
	SAME(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemsetD8_v2(address, 1, 48));
	OK(cuModuleGetGlobal_v2(NULL, &bytes, module, "scale"));
	SAME(bytes, 4);
	SAME(cuModuleGetGlobal_v2(&address, &bytes, module, "tile"), CUDA_ERROR_NOT_FOUND);
	OK(cuModuleUnload(module));
	SAME(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
	SAME(cuFuncGetName(&name, function), CUDA_ERROR_INVALID_HANDLE);
	OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&code, library, "second"));
	OK(cuLaunchKernel((CUfunction)code, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	OK(cuKernelGetFunction(&function, code));
	OK(cuFuncGetModule(&module, function));
	SAME(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE); /* the library's */
	OK(cuLibraryUnload(library));
	SAME(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		CUDA_ERROR_INVALID_HANDLE);
	return 0;
}
