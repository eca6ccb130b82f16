/*
 * model.c - random calls of every family through the preloaded shim, a third of them wrong; after
 * each the shim's ledger must say what the simulated driver knows.
 *
 *	model [--seeds N] [--from SEED] [--steps N] [--threads N] [--rows FILE] [--enable FAMILY]
 *	model --replay FILE
 *
 * Each seed is a run of this program of its own, since the settings of both sides are read only once;
 * limits, reuse of addresses and handles follow from the seed. With several threads each has its own
 * steps, and both sides are compared while all of them rest. A list of steps that fails is made
 * shorter and printed; what is printed can be replayed. Rows of FILE (symbol, quota, reason why
 * not) without a reason must have been called with success and all rows at least once.
 */
#include "model.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "parts.h"

/* Families that the shim accounts for; the others' operations are not run. */
static bool enabled[FAM_COUNT] = {
#define X(name) [FAM_##name] = true,
	FAMILIES(X)
#undef X
};

static const char *const family_names[FAM_COUNT] = {
#define X(name) #name,
	FAMILIES(X)
#undef X
};

#define OPERATIONS_MAX 128
static struct operation operations[OPERATIONS_MAX];
static unsigned operation_count, weight_sum;

static void operations_collect(void)
{
	static const struct operation *const lists[] = { operations_memory, operations_pool,
		operations_context, operations_object, operations_vmm, operations_array,
		operations_graph, operations_import, operations_handle };

	operation_count = weight_sum = 0;
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (const struct operation *one = lists[i]; one->name; one++) {
			operations[operation_count++] = *one;
			weight_sum += enabled[one->family] ? one->weight : 0;
		}
}

enum family family_named(const char *name)
{
	for (int i = 0; i < FAM_COUNT; i++)
		if (!strcmp(family_names[i], name))
			return (enum family)i;
	fprintf(stderr, "model: no family '%s'\n", name);
	exit(2);
}

static void family_enable(const char *name)
{
	for (int i = 0; i < FAM_COUNT; i++)
		if (!strcmp(family_names[i], name) || !strcmp(name, "all"))
			enabled[i] = true;
}

bool family_enabled(enum family family)
{
	return enabled[family];
}

const struct operation *operation_at(unsigned number)
{
	return number < operation_count ? &operations[number] : NULL;
}

int operation_named(const char *name)
{
	for (unsigned i = 0; i < operation_count; i++)
		if (!strcmp(operations[i].name, name))
			return (int)i;
	return -1;
}

/* ---- steps out of a seed ---- */

static uint64_t next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

void step_make(struct step *step, uint64_t *state)
{
	static const int16_t codes[] = { 1, 2, 201, 999, 1, 2, 201, 999, 1, 2, 201, 999, 1, 2, 201, 700 };
	uint64_t one = next(state), two = next(state), three = next(state);
	unsigned weight = (unsigned)(one % weight_sum);

	step->operation = 0;
	for (unsigned i = 0; i < operation_count; i++) {
		unsigned its = enabled[operations[i].family] ? operations[i].weight : 0;

		if (weight < its) {
			step->operation = (uint16_t)i;
			break;
		}
		weight -= its;
	}
	step->fault = (three >> 32) % 24 == 0 ? codes[(three >> 40) % 16 - ((three >> 40) % 16 == 15 && (three >> 50) % 4)] : 0;
	step->a = (uint32_t)two;
	step->b = (uint32_t)(two >> 32);
	step->c = (uint32_t)three;
}

/* ---- one step, one look ---- */

void step_run(const struct step *step)
{
	world->step = step;
	world->fault = step->fault;
	world->called = false;
	operations[step->operation].run(step);
	if (world->fault)
		sim->fault(-1, 0);
	world->fault = 0;
}

static bool differ(char *what, size_t room, const char *name, const char *figure, int64_t ours,
	int64_t theirs)
{
	if (ours == theirs)
		return false;
	snprintf(what, room, "%s %s: the ledger says %lld, the driver %lld", name, figure,
		(long long)ours, (long long)theirs);
	return true;
}

static enum family family_of(int kind)
{
	static const enum family families[KIND_COUNT] = {
		[KIND_DEVICE] = FAM_device, [KIND_POOL] = FAM_pool, [KIND_VMM] = FAM_vmm,
		[KIND_ARRAY] = FAM_array, [KIND_MANAGED] = FAM_managed, [KIND_PINNED] = FAM_pinned,
		[KIND_IMPORTED] = FAM_imported, [KIND_GRAPH] = FAM_graph,
	};

	return families[kind];
}

bool same(char *what, size_t room)
{
	struct seen ours, theirs;

	seen_read(&ours);
	seen_truth(&theirs);
	for (int kind = 0; kind < KIND_COUNT; kind++) {
		if (!enabled[family_of(kind)])
			continue;
		if (differ(what, room, seen_kinds[kind], "bytes", ours.bytes[kind],
			theirs.bytes[kind]))
			return false;
		if (kind != KIND_GRAPH && differ(what, room, seen_kinds[kind], "count",
			ours.live[kind], theirs.live[kind]))
			return false;
	}
	for (unsigned i = 0; i < seen_object_count; i++)
		if (differ(what, room, seen_objects[i].word, "handles", ours.objects[seen_objects[i].ours],
			theirs.objects[seen_objects[i].ours]))
			return false;
	for (int i = 0; i < SEEN_DEVICES; i++) {
		uint64_t graphs = enabled[FAM_graph] ? sim->truth()->device[i].graph_reserved : 0;

		if (differ(what, room, i ? "device 1" : "device 0", "charged", (int64_t)ours.used[i],
			(int64_t)(theirs.used[i] + graphs)))
			return false;
		if (ours.used[i] > seen_header->devices[i].limit_bytes) {
			snprintf(what, room, "device %d: %llu bytes over its limit", i, (unsigned long long)
				(ours.used[i] - seen_header->devices[i].limit_bytes));
			return false;
		}
	}
	return true;
}

/* What a program is told fits what it holds. */
bool told(char *what, size_t room)
{
	size_t space, total;
	struct seen ours;
	CUdevice device;
	uint64_t held;

	if (cuCtxGetDevice(&device) != CUDA_SUCCESS || cuMemGetInfo_v2(&space, &total) != CUDA_SUCCESS)
		return true;
	seen_read(&ours);
	held = ours.used[device] - sim->truth()->device[device].family[FAMILY_managed].bytes;
	if (seen_header->devices[device].limit_bytes != BYTES_NONE)
		held = ours.used[device];
	if (space + held <= total && total <= seen_header->devices[device].limit_bytes)
		return true;
	snprintf(what, room, "device %d: %zu free and %llu held of %zu", device, space,
		(unsigned long long)held, total);
	return false;
}

/* The records say the same as the counters. */
bool recorded(char *what, size_t room)
{
	int64_t bytes[KIND_COUNT] = { 0 }, live[KIND_COUNT] = { 0 };
	struct seen ours;

	for (uint32_t i = 0; i < seen_header->record_count && i < 1u << 20; i++) {
		const struct ledger_record *record = &seen_records[i];

		if (record->state != RECORD_LIVE || record->class == CLASS_OBJECT)
			continue;
		bytes[record->kind] += (int64_t)record->bytes;
		live[record->kind]++;
	}
	seen_read(&ours);
	for (int kind = 0; kind < KIND_COUNT; kind++)
		if (differ(what, room, seen_kinds[kind], "in records", bytes[kind], ours.bytes[kind]) ||
			differ(what, room, seen_kinds[kind], "records", live[kind], ours.live[kind]))
			return false;
	return true;
}

static bool array_is_there(uint64_t handle)
{
	CUDA_ARRAY3D_DESCRIPTOR descriptor;
	CUarray level;

	return cuArray3DGetDescriptor_v2(&descriptor, (CUarray)handle) == CUDA_SUCCESS ||
		cuMipmappedArrayGetLevel(&level, (CUmipmappedArray)handle, 0) == CUDA_SUCCESS;
}

/* Records of memory that the driver does not know, for whoever looks for the reason. */
void strays(FILE *to)
{
	for (uint32_t i = 0; i < seen_header->record_count && i < 1u << 20; i++) {
		const struct ledger_record *record = &seen_records[i];
		CUdeviceptr base = 0;
		size_t bytes = 0;

		if (record->state == RECORD_LIVE &&
			(record->class == CLASS_ARRAY || record->class == CLASS_MIPMAP) &&
			!array_is_there(record->handle))
			fprintf(to, "record %u: array %#llx of context %#llx, epoch %u, by %s of thread %u\n",
				i, (unsigned long long)record->handle, (unsigned long long)record->context,
				record->epoch, call_name(record->api), record->tid);
		if (record->state == RECORD_FREE || record->class != CLASS_MEMORY ||
			record->api == CALL_cuMemHostRegister || record->api == CALL_cuMemHostRegister_v2)
			continue;
		if (record->state == RECORD_LIVE &&
			cuMemGetAddressRange_v2(&base, &bytes, record->handle) == CUDA_SUCCESS &&
			base == record->handle && bytes == record->bytes)
			continue;
		fprintf(to, "record %u: state %d, %s, %#llx, %llu bytes, context %#llx, by %s of thread %u; "
			"the driver has %zu bytes at %#llx\n", i, record->state, seen_kinds[record->kind],
			(unsigned long long)record->handle, (unsigned long long)record->bytes,
			(unsigned long long)record->context, call_name(record->api), record->tid, bytes,
			(unsigned long long)base);
	}
}

int main(int argc, char **argv)
{
	struct options options = { .seeds = 4, .from = 1, .steps = 20000, .threads = 1 };

	for (int i = 1; i < argc; i += 2) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (!value) {
			fprintf(stderr, "model: %s: no such option, or no value\n", argv[i]);
			return 2;
		}
		if (!strcmp(argv[i], "--seeds"))
			options.seeds = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "--from"))
			options.from = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "--steps"))
			options.steps = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "--threads"))
			options.threads = atoi(value);
		else if (!strcmp(argv[i], "--rows"))
			options.rows = value;
		else if (!strcmp(argv[i], "--replay"))
			options.replay = value;
		else if (!strcmp(argv[i], "--child"))
			options.child = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "--enable"))
			options.enabled[options.enabled_count++ % ENABLED_MAX] = value;
	}
	for (unsigned i = 0; i < options.enabled_count && i < ENABLED_MAX; i++)
		family_enable(options.enabled[i]);
	operations_collect();
	return options.child || options.replay ? child_main(&options) : parent_main(&options, argv[0]);
}
