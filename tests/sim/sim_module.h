/*
 * sim_module.h - code: modules, their functions and variables, and libraries.
 */
#ifndef SIM_MODULE_H
#define SIM_MODULE_H

#include "sim_context.h"

struct function {
	struct object object;
	char *name;
	uint64_t ns; /* how long it runs */
	struct module *module;
	struct library *library; /* a kernel, of no context */
	int max_dynamic_shared, carveout;
	unsigned block[3], shared, parameter_bytes; /* of the legacy launch calls */
};

struct global {
	struct global *next;
	char *name;
	uint64_t bytes;
	CUdeviceptr address; /* 0: not placed yet */
};

/* What is in an image. */
struct code {
	bool any_name; /* it cannot be read: take every name for a function */
	char **names;
	unsigned count;
	struct global *globals;
};

struct module {
	struct object object;
	struct code code;
	struct function *functions;
	uint64_t bytes; /* physical */
	struct library *library;
};

/* PTX and cubins on their way to be one image. */
struct link {
	struct object object;
	char *image;
	size_t bytes;
};

struct library {
	struct object object;
	struct code code;
	struct function *kernels;
	struct module *modules; /* one for each context that asked */
};

CUresult code_read(const void *image, struct code *code);
void code_drop(struct code *code);
bool code_has(const struct code *code, const char *name);

CUresult module_open(struct module **module, const void *image);
void module_close(struct module *module);
CUresult module_function(struct module *module, const char *name, struct function **function);
struct function *function_new(const char *name, struct context *context);
void function_delete(struct function *function);
CUresult module_global(
	struct module *module, const char *name, CUdeviceptr *address, size_t *bytes);
CUresult read_file(const char *path, void **image);

/* A function or a kernel cast to one. */
static inline struct function *function_get(CUfunction handle)
{
	return object_get(KIND_function, handle);
}

#endif
