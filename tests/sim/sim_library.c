/*
 * sim_library.c - libraries: code that belongs to no context and becomes a module in each that
 * asks.
 */
#include "sim_module.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

CUresult sim_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
	void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
	void **libraryOptionValues, unsigned int numLibraryOptions)
{
	struct library *opened;
	CUresult result;

	(void)libraryOptionValues;
	if (!library || !code || (numJitOptions && (!jitOptions || !jitOptionsValues)) ||
		(numLibraryOptions && !libraryOptions))
		return CUDA_ERROR_INVALID_VALUE;
	opened = object_new(KIND_library, NULL);
	if (!opened)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = code_read(code, &opened->code);
	if (result != CUDA_SUCCESS) {
		object_delete(opened);
		return result;
	}
	object_give(opened, GIVEN_library);
	*library = (CUlibrary)opened;
	return result;
}

CUresult sim_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
	CUjit_option *jitOptions, void **jitOptionsValues, unsigned int numJitOptions,
	CUlibraryOption *libraryOptions, void **libraryOptionValues, unsigned int numLibraryOptions)
{
	void *image;
	CUresult result =
		library && fileName ? read_file(fileName, &image) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	result = sim_cuLibraryLoadData(library, image, jitOptions, jitOptionsValues, numJitOptions,
		libraryOptions, libraryOptionValues, numLibraryOptions);
	free(image);
	return result;
}

CUresult sim_cuLibraryUnload(CUlibrary handle)
{
	struct library *library = object_get(KIND_library, handle);
	struct function *kernel;
	struct module *module = NULL;

	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	while ((module = object_next(KIND_module, module)))
		if (module->library == library)
			module_close(module);
	while ((kernel = library->kernels)) {
		library->kernels = (struct function *)kernel->object.next;
		function_delete(kernel);
	}
	code_drop(&library->code);
	object_delete(library);
	return CUDA_SUCCESS;
}

static struct function *find_kernel(struct library *library, const char *name)
{
	struct object *object = (struct object *)library->kernels;
	struct function *kernel;

	for (; object; object = object->next)
		if (!strcmp(((struct function *)object)->name, name))
			return (struct function *)object;
	kernel = function_new(name, NULL);
	if (kernel) {
		kernel->library = library;
		kernel->object.next = (struct object *)library->kernels;
		library->kernels = kernel;
	}
	return kernel;
}

static CUresult kernel_of(struct library *library, const char *name, CUkernel *out)
{
	struct function *kernel;

	if (!code_has(&library->code, name))
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&lock);
	kernel = find_kernel(library, name);
	pthread_mutex_unlock(&lock);
	if (!kernel)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object_give(kernel, GIVEN_kernel);
	*out = (CUkernel)kernel;
	return CUDA_SUCCESS;
}

CUresult sim_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary handle, const char *name)
{
	struct library *library = object_get(KIND_library, handle);

	if (!pKernel || !name)
		return CUDA_ERROR_INVALID_VALUE;
	return library ? kernel_of(library, name, pKernel) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
	struct library *library = object_get(KIND_library, lib);

	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	*count = library->code.count;
	return CUDA_SUCCESS;
}

CUresult sim_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
	struct library *library = object_get(KIND_library, lib);
	CUresult result = CUDA_SUCCESS;
	unsigned i;

	if (!kernels || !numKernels)
		return CUDA_ERROR_INVALID_VALUE;
	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	for (i = 0; result == CUDA_SUCCESS && i < numKernels && i < library->code.count; i++)
		result = kernel_of(library, library->code.names[i], &kernels[i]);
	return result;
}

static char *copy_name(const char *name)
{
	char *copy = strdup(name);

	if (!copy)
		abort();
	return copy;
}

/* The library's code as a module: names are copied, for either may go first. */
static void copy_code(const struct library *library, struct code *code)
{
	const struct global *global;
	struct global *copy;
	unsigned i;

	code->any_name = library->code.any_name;
	code->names = calloc(larger(library->code.count, 1), sizeof(*code->names));
	for (i = 0; code->names && i < library->code.count; i++)
		code->names[code->count++] = copy_name(library->code.names[i]);
	for (global = library->code.globals; global; global = global->next) {
		copy = calloc(1, sizeof(*copy));
		if (!copy)
			abort();
		copy->name = copy_name(global->name);
		copy->bytes = global->bytes;
		copy->next = code->globals;
		code->globals = copy;
	}
}

static CUresult module_here(struct library *library, struct module **found)
{
	static const char empty[] = ".version 8.0\n";
	struct context *context;
	struct module *module = NULL;
	struct global *global;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	while ((module = object_next(KIND_module, module)))
		if (module->library == library && module->object.context == context) {
			*found = module;
			return CUDA_SUCCESS;
		}
	result = module_open(found, empty);
	if (result != CUDA_SUCCESS)
		return result;
	(*found)->library = library;
	copy_code(library, &(*found)->code);
	for (global = (*found)->code.globals; global && result == CUDA_SUCCESS;
		global = global->next)
		result = heap_alloc(&context->owner->globals, global->bytes, &global->address);
	return result;
}

CUresult sim_cuLibraryGetModule(CUmodule *pMod, CUlibrary handle)
{
	struct library *library = object_get(KIND_library, handle);
	struct module *module;
	CUresult result;

	if (!pMod)
		return CUDA_ERROR_INVALID_VALUE;
	result = library ? module_here(library, &module) : CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS)
		*pMod = (CUmodule)module;
	return result;
}

CUresult sim_cuLibraryGetGlobal(
	CUdeviceptr *dptr, size_t *bytes, CUlibrary handle, const char *name)
{
	struct library *library = object_get(KIND_library, handle);
	struct module *module;
	CUresult result;

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	result = library ? module_here(library, &module) : CUDA_ERROR_INVALID_HANDLE;
	return result == CUDA_SUCCESS ? module_global(module, name, dptr, bytes) : result;
}

CUresult sim_cuLibraryGetManaged(
	CUdeviceptr *dptr, size_t *bytes, CUlibrary handle, const char *name)
{
	(void)dptr, (void)bytes;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	return object_get(KIND_library, handle) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuKernelGetFunction(CUfunction *pFunc, CUkernel handle)
{
	struct function *kernel = function_get((CUfunction)handle), *function;
	struct module *module;
	CUresult result;

	if (!pFunc)
		return CUDA_ERROR_INVALID_VALUE;
	if (!kernel || !kernel->library)
		return CUDA_ERROR_INVALID_HANDLE;
	result = module_here(kernel->library, &module);
	if (result == CUDA_SUCCESS)
		result = module_function(module, kernel->name, &function);
	if (result == CUDA_SUCCESS)
		*pFunc = (CUfunction)function;
	return result;
}

CUresult sim_cuKernelGetLibrary(CUlibrary *pLib, CUkernel handle)
{
	struct function *kernel = function_get((CUfunction)handle);

	if (!pLib)
		return CUDA_ERROR_INVALID_VALUE;
	if (!kernel || !kernel->library)
		return CUDA_ERROR_INVALID_HANDLE;
	*pLib = (CUlibrary)kernel->library;
	return CUDA_SUCCESS;
}

/* Functions that have one address everywhere: no image here has any. */
CUresult sim_cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
	if (!object_get(KIND_library, library))
		return CUDA_ERROR_INVALID_HANDLE;
	return fptr && symbol ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}
