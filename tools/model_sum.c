/*
 * model_sum.c - sums and filters over a finished model.
 */
#include "model_private.h"
#include "need.h"

struct model_memory model_memory(const struct model_process *process)
{
	struct model_memory memory = { .limit_bytes = 0 };

	for (unsigned i = 0; i < process->device_count; i++) {
		const struct model_device *device = &process->devices[i];

		if (device->memory.peak > memory.peak_bytes)
			memory.peak_bytes = device->memory.peak;
		memory.final_bytes = sum_saturated(memory.final_bytes, device->final_bytes);
		memory.denied += device->denied;
		if (device->limit_bytes &&
			(!memory.limit_bytes || device->limit_bytes < memory.limit_bytes))
			memory.limit_bytes = device->limit_bytes;
	}
	return memory;
}

bool model_set_leaks(struct model *model, const char *host, uint32_t pid, uint32_t pid_ns,
	uint32_t image, const struct model_leaks leaks[VERDICT_COUNT])
{
	bool found = false;

	for (size_t i = 0; i < model->process_count; i++) {
		struct model_process *process = model->processes[i];

		if (!process->defined || process->pid != pid || process->pid_ns != pid_ns ||
			process->image != image || strcmp(process->host, host) != 0)
			continue;
		memcpy(process->leaks, leaks, sizeof(process->leaks));
		process->leaks_known = true;
		found = true;
	}
	return found;
}

size_t model_only_pid(struct model *model, uint32_t pid)
{
	size_t left = 0;

	for (size_t i = 0; i < model->process_count; i++) {
		struct model_process *process = model->processes[i];

		process->hidden |= !process->defined || process->pid != pid;
		left += !process->hidden;
	}
	return left;
}

/* ---- kernels ---- */

static uint64_t name_hash(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x100000001b3ull;
	return hash;
}

/* Where name is, or belongs, in a table of count kernels. Equal hashes take the next number. */
static struct model_function *find_kernel(struct map *index, struct model_function *kernels,
	size_t *count, char *name)
{
	uint64_t hash = name_hash(name);
	uint32_t at;

	while ((at = map_get(index, hash)) != MAP_NONE && strcmp(kernels[at].name, name) != 0)
		hash++;
	if (at == MAP_NONE) {
		at = (uint32_t)(*count)++;
		kernels[at] = (struct model_function){ .name = name };
		map_set(index, hash, at);
	}
	return &kernels[at];
}

static void add_kernel(struct model_function *sum, const struct model_function *one)
{
	sum->launches = sum_saturated(sum->launches, one->launches);
	sum->api_ns = sum_saturated(sum->api_ns, one->api_ns);
	sum->timed = sum_saturated(sum->timed, one->timed);
	sum->gpu_ns = sum_saturated(sum->gpu_ns, one->gpu_ns);
	if (one->gpu_longest_ns > sum->gpu_longest_ns)
		sum->gpu_longest_ns = one->gpu_longest_ns;
}

static int order(uint64_t a, uint64_t b)
{
	return (a < b) - (a > b);
}

static int compare_kernels(const void *left, const void *right)
{
	const struct model_function *a = left, *b = right;
	int by_gpu = order(a->gpu_ns, b->gpu_ns), by_count = order(a->launches, b->launches);

	return by_gpu ? by_gpu : by_count ? by_count : strcmp(a->name, b->name);
}

struct model_function *model_kernels(const struct model *model, size_t *count)
{
	struct model_function *kernels;
	struct map index = { 0 };
	size_t most = 0;

	*count = 0;
	for (size_t i = 0; i < model->process_count; i++)
		most += model->processes[i]->function_count;
	kernels = need_zeroed(most, sizeof(*kernels));
	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_process *process = model->processes[i];

		for (size_t k = 0; k < process->function_count && !process->hidden; k++)
			if (process->functions[k].launches || process->functions[k].timed)
				add_kernel(find_kernel(&index, kernels, count, process->functions[k].name),
					&process->functions[k]);
	}
	map_free(&index);
	qsort(kernels, *count, sizeof(*kernels), compare_kernels);
	return kernels;
}
