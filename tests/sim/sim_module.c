/*
 * sim_module.c - modules: load, unload, and find what is in them.
 */
#include "sim_module.h"
#include "sim_array.h"
#include "sim_knobs.h"
#include "sim_stream.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- life ---- */

struct function *function_new(const char *name, struct context *context)
{
	struct function *function = object_new(KIND_function, context);

	if (!function)
		return NULL;
	function->name = strdup(name);
	function->ns = sim_kernel_ns(name);
	function->block[0] = function->block[1] = function->block[2] = 1;
	function->carveout = -1;
	return function;
}

void function_delete(struct function *function)
{
	free(function->name);
	function->name = NULL;
	object_delete(function);
}

static bool occupy(struct module *module)
{
	struct device *device = module->object.context->device;
	bool fits;

	pthread_mutex_lock(&device->lock);
	fits = device_take(device, module->bytes);
	pthread_mutex_unlock(&device->lock);
	return fits;
}

static CUresult place_globals(struct module *module)
{
	CUresult result = CUDA_SUCCESS;
	struct global *global;

	for (global = module->code.globals; global && result == CUDA_SUCCESS; global = global->next)
		result = heap_alloc(
			&module->object.context->owner->globals, global->bytes, &global->address);
	return result;
}

CUresult module_open(struct module **opened, const void *image)
{
	struct context *context;
	struct module *module;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	module = object_new(KIND_module, context);
	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = code_read(image, &module->code);
	if (result == CUDA_SUCCESS) {
		module->bytes = round_up(knobs.module_bytes, SIM_BLOCK);
		if (!occupy(module)) {
			module->bytes = 0;
			result = CUDA_ERROR_OUT_OF_MEMORY;
		} else {
			result = place_globals(module);
		}
	}
	if (result == CUDA_SUCCESS)
		*opened = module;
	else
		module_close(module);
	return result;
}

void module_close(struct module *module)
{
	struct device *device = module->object.context->device;
	struct function *function;
	struct global *global;

	while ((function = module->functions)) {
		module->functions = (struct function *)function->object.next;
		function_delete(function);
	}
	for (global = module->code.globals; global; global = global->next)
		if (global->address)
			heap_free(global->address, FAMILY(module));
	code_drop(&module->code);
	pthread_mutex_lock(&device->lock);
	device_give(device, module->bytes);
	pthread_mutex_unlock(&device->lock);
	object_delete(module);
}

static struct function *find_function(struct module *module, const char *name)
{
	struct object *object;

	for (object = (struct object *)module->functions; object; object = object->next)
		if (!strcmp(((struct function *)object)->name, name))
			return (struct function *)object;
	return NULL;
}

/* The same name always gives the same handle. */
CUresult module_function(struct module *module, const char *name, struct function **found)
{
	struct function *function;

	if (!code_has(&module->code, name))
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&lock);
	function = find_function(module, name);
	if (!function) {
		function = function_new(name, module->object.context);
		if (function) {
			function->module = module;
			function->object.next = (struct object *)module->functions;
			module->functions = function;
		}
	}
	pthread_mutex_unlock(&lock);
	*found = function;
	return function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult module_global(struct module *module, const char *name, CUdeviceptr *address, size_t *bytes)
{
	struct global *global;

	for (global = module->code.globals; global; global = global->next) {
		if (strcmp(global->name, name))
			continue;
		if (address)
			*address = global->address;
		if (bytes)
			*bytes = global->bytes;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_FOUND;
}

/* ---- calls ---- */

CUresult sim_cuModuleLoadData(CUmodule *module, const void *image)
{
	struct module *opened;
	CUresult result = module && image ? module_open(&opened, image) : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS) {
		object_give(opened, GIVEN_module);
		*module = (CUmodule)opened;
	}
	return result;
}

CUresult sim_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
	CUjit_option *options, void **optionValues)
{
	if (numOptions && (!options || !optionValues))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_cuModuleLoadData(module, image);
}

CUresult sim_cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	return sim_cuModuleLoadData(module, fatCubin);
}

CUresult sim_cuModuleLoad(CUmodule *module, const char *fname)
{
	void *image;
	CUresult result = module && fname ? read_file(fname, &image) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	result = sim_cuModuleLoadData(module, image);
	free(image);
	return result;
}

CUresult sim_cuModuleUnload(CUmodule hmod)
{
	struct module *module = object_get(KIND_module, hmod);

	if (!module || module->library)
		return CUDA_ERROR_INVALID_HANDLE;
	module_close(module);
	return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	struct module *module = object_get(KIND_module, hmod);
	struct function *function;
	CUresult result;

	if (!hfunc || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	result = module_function(module, name, &function);
	if (result == CUDA_SUCCESS)
		*hfunc = (CUfunction)function;
	return result;
}

CUresult sim_cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
	struct module *module = object_get(KIND_module, mod);

	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	*count = module->code.count;
	return CUDA_SUCCESS;
}

CUresult sim_cuModuleEnumerateFunctions(
	CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
	struct module *module = object_get(KIND_module, mod);
	struct function *function;
	CUresult result;
	unsigned i;

	if (!functions || !numFunctions)
		return CUDA_ERROR_INVALID_VALUE;
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	for (i = 0; i < numFunctions && i < module->code.count; i++) {
		result = module_function(module, module->code.names[i], &function);
		if (result != CUDA_SUCCESS)
			return result;
		functions[i] = (CUfunction)function;
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	struct module *module = object_get(KIND_module, hmod);

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	return module ? module_global(module, name, dptr, bytes) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuModuleGetGlobal(
	CUdeviceptr_v1 *dptr, unsigned int *bytes, CUmodule hmod, const char *name)
{
	CUdeviceptr address;
	size_t size;
	CUresult result = sim_cuModuleGetGlobal_v2(&address, &size, hmod, name);

	if (result != CUDA_SUCCESS)
		return result;
	if (address > UINT32_MAX || size > UINT32_MAX)
		return CUDA_ERROR_INVALID_VALUE; /* it lies above what 32 bits can say */
	if (dptr)
		*dptr = (CUdeviceptr_v1)address;
	if (bytes)
		*bytes = (unsigned)size;
	return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}
