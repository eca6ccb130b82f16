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

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

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
	if (!sum->api_times.count ||
		(one->api_times.count && one->api_shortest_ns < sum->api_shortest_ns))
		sum->api_shortest_ns = one->api_shortest_ns;
	if (!sum->timed || (one->timed && one->gpu_shortest_ns < sum->gpu_shortest_ns))
		sum->gpu_shortest_ns = one->gpu_shortest_ns;
	sum->shown = sum->shown ? sum->shown : one->shown;
	if (!sum->launches) {
		memcpy(sum->grid, one->grid, sizeof(sum->grid));
		memcpy(sum->block, one->block, sizeof(sum->block));
	}
	sum->shapes_differ |= one->shapes_differ || (one->launches &&
		(memcmp(sum->grid, one->grid, sizeof(sum->grid)) != 0 ||
		memcmp(sum->block, one->block, sizeof(sum->block)) != 0));
	sum->launches = sum_saturated(sum->launches, one->launches);
	sum->api_ns = sum_saturated(sum->api_ns, one->api_ns);
	sum->timed = sum_saturated(sum->timed, one->timed);
	sum->gpu_ns = sum_saturated(sum->gpu_ns, one->gpu_ns);
	sum->queued_ns = sum_saturated(sum->queued_ns, one->queued_ns);
	sum->gpu_longest_ns = larger(sum->gpu_longest_ns, one->gpu_longest_ns);
	sum->api_longest_ns = larger(sum->api_longest_ns, one->api_longest_ns);
	sum->queued_longest_ns = larger(sum->queued_longest_ns, one->queued_longest_ns);
	sum->streams += (unsigned)__builtin_popcountll(one->lanes);
	histogram_join(&sum->gpu_times, &one->gpu_times);
	histogram_join(&sum->api_times, &one->api_times);
}

static int order(uint64_t a, uint64_t b)
{
	return (a < b) - (a > b);
}

static int compare_kernels(const void *left, const void *right)
{
	const struct model_function *a = left, *b = right;
	int by_gpu = order(a->gpu_ns, b->gpu_ns), by_api = order(a->api_ns, b->api_ns);

	return by_gpu ? by_gpu : by_api ? by_api : strcmp(a->name, b->name);
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

void model_kernels_free(struct model_function *kernels, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		histogram_free(&kernels[i].gpu_times);
		histogram_free(&kernels[i].api_times);
	}
	free(kernels);
}

/* ---- calls ---- */

static void add_codes(struct model_calls *sum, const struct model_calls *one)
{
	for (unsigned i = 0; i < one->code_count; i++) {
		unsigned k = 0;

		while (k < sum->code_count && sum->codes[k].code != one->codes[i].code)
			k++;
		if (k == sum->code_count) {
			sum->codes = need(reallocarray(sum->codes, k + 1, sizeof(*sum->codes)));
			sum->codes[sum->code_count++] = (struct model_code){ one->codes[i].code, 0 };
		}
		sum->codes[k].count += one->codes[i].count;
	}
}

static void add_calls(struct model_calls *sum, const struct model_calls *one)
{
	if (!sum->count || one->shortest_ns < sum->shortest_ns)
		sum->shortest_ns = one->shortest_ns;
	sum->count = sum_saturated(sum->count, one->count);
	sum->errors = sum_saturated(sum->errors, one->errors);
	sum->ns = sum_saturated(sum->ns, one->ns);
	sum->longest_ns = larger(sum->longest_ns, one->longest_ns);
	histogram_join(&sum->times, &one->times);
	add_codes(sum, one);
}

static struct model_named_calls *find_calls(struct map *index, struct model_named_calls *calls,
	size_t *count, const char *name)
{
	uint64_t hash = name_hash(name);
	uint32_t at;

	while ((at = map_get(index, hash)) != MAP_NONE && strcmp(calls[at].name, name) != 0)
		hash++;
	if (at == MAP_NONE) {
		at = (uint32_t)(*count)++;
		calls[at].name = need_copy(name);
		map_set(index, hash, at);
	}
	return &calls[at];
}

static int compare_calls(const void *left, const void *right)
{
	const struct model_named_calls *a = left, *b = right;
	int by_ns = order(a->calls.ns, b->calls.ns), by_count = order(a->calls.count, b->calls.count);

	return by_ns ? by_ns : by_count ? by_count : strcmp(a->name, b->name);
}

struct model_named_calls *model_calls(const struct model *model, size_t *count)
{
	struct model_named_calls *calls;
	struct map index = { 0 };
	size_t most = 0;

	*count = 0;
	for (size_t i = 0; i < model->process_count; i++)
		most += model->processes[i]->call_count;
	calls = need_zeroed(most, sizeof(*calls));
	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_process *process = model->processes[i];

		for (unsigned k = 0; k < process->call_count && !process->hidden; k++) {
			char number[16];

			snprintf(number, sizeof(number), "%u", k);
			if (process->calls[k].count)
				add_calls(&find_calls(&index, calls, count, process->call_names[k]
					? process->call_names[k] : number)->calls, &process->calls[k]);
		}
	}
	map_free(&index);
	qsort(calls, *count, sizeof(*calls), compare_calls);
	return calls;
}

void model_calls_free(struct model_named_calls *calls, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(calls[i].name);
		free(calls[i].calls.codes);
		histogram_free(&calls[i].calls.times);
	}
	free(calls);
}

/* ---- copies, devices, memory ---- */

struct model_copies model_copies_sum(const struct model *model, unsigned direction, unsigned host)
{
	struct model_copies sum = { 0 };

	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_copies *one = &model->processes[i]->ways.of[direction][host];

		if (model->processes[i]->hidden)
			continue;
		sum.count = sum_saturated(sum.count, one->count);
		sum.bytes = sum_saturated(sum.bytes, one->bytes);
		sum.api_ns = sum_saturated(sum.api_ns, one->api_ns);
		sum.timed = sum_saturated(sum.timed, one->timed);
		sum.timed_bytes = sum_saturated(sum.timed_bytes, one->timed_bytes);
		sum.gpu_ns = sum_saturated(sum.gpu_ns, one->gpu_ns);
	}
	return sum;
}

struct model_untimed model_untimed(const struct model *model)
{
	struct model_untimed sum = { 0 };

	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_process *process = model->processes[i];

		for (unsigned k = 0; k < UNTIMED_COUNT && !process->hidden; k++) {
			sum.by_reason[k] = sum_saturated(sum.by_reason[k], process->untimed[k]);
			sum.all = sum_saturated(sum.all, process->untimed[k]);
		}
		sum.timed = sum_saturated(sum.timed, process->hidden ? 0 : process->gpu_timed);
	}
	return sum;
}

uint64_t model_rate(const struct model_copies *copies)
{
	unsigned __int128 rate = (unsigned __int128)copies->timed_bytes * 1000000000 / copies->gpu_ns;

	return rate > UINT64_MAX ? UINT64_MAX : (uint64_t)rate;
}

uint64_t model_shared_ns(const struct model *model, size_t gpu)
{
	const struct spans *busy = model->gpu_timing ? &model->gpus[gpu].gpu : &model->gpus[gpu].api;
	uint64_t sum = 0;

	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_process *process = model->processes[i];

		for (unsigned k = 0; k < process->device_count; k++)
			if (process->devices[k].uuid && process->devices[k].gpu_index == gpu)
				sum = sum_saturated(sum, model->gpu_timing ? process->devices[k].gpu.busy_ns
					: process->devices[k].api.busy_ns);
	}
	return sum > busy->busy_ns ? sum - busy->busy_ns : 0;
}

bool model_uses_gpu(const struct model_process *process, size_t gpu)
{
	bool uses = false;

	for (unsigned i = 0; i < process->device_count; i++)
		uses |= process->devices[i].uuid && process->devices[i].used &&
			process->devices[i].gpu_index == gpu;
	return uses;
}

static int compare_held(const void *left, const void *right)
{
	const struct model_held *a = left, *b = right;
	int by_peak = order(a->site->peak_bytes, b->site->peak_bytes);
	int by_end = order(a->site->live_bytes, b->site->live_bytes);
	int by_process = order(b->process, a->process);

	return by_peak ? by_peak : by_end ? by_end : by_process ? by_process
		: order(b->site->id, a->site->id);
}

struct model_held *model_held(const struct model *model, size_t *count)
{
	struct model_held *held;
	size_t most = 0;

	for (size_t i = 0; i < model->process_count; i++)
		most += model->processes[i]->sites.count;
	held = need_zeroed(most, sizeof(*held));
	*count = 0;
	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_process *process = model->processes[i];

		for (size_t k = 0; k < process->sites.count && !process->hidden; k++)
			if (process->sites.items[k].allocs || process->sites.items[k].peak_bytes)
				held[(*count)++] = (struct model_held){ i, &process->sites.items[k] };
	}
	qsort(held, *count, sizeof(*held), compare_held);
	return held;
}
