/*
 * limit_show.c - the layers of a limit: asked for when the process was started, changed since, allowed.
 */
#include "limit_show.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin.h"
#include "admin_name.h"
#include "cuward/events.h"
#include "format.h"
#include "need.h"
#include "proc_state.h"
#include "ps.h"
#include "table.h"

/* One limit of one process on one GPU. */
struct layer {
	const char *scope;
	uint64_t bytes; /* BYTES_NONE */
	const char *source; /* NULL unknown */
	bool binds;
};

struct layers {
	struct layer all[12 + ADMIN_GROUPS + ADMIN_RESERVES];
	unsigned count;
	struct admin admin;
	char asked[2][128];
};

static void add_layer(struct layers *layers, const char *scope, uint64_t bytes, const char *source)
{
	if (bytes != BYTES_NONE)
		layers->all[layers->count++] = (struct layer){ scope, bytes, source, false };
}

/* What is kept for others; 0 on this GPU says nothing. */
static void add_reserve(struct layers *layers, const struct admin_reserve *reserve, uint32_t uid)
{
	bool ours = reserve->of_group ? admin_is_member(uid, reserve->id) : reserve->id == uid;

	if (!ours && reserve->bytes[0])
		add_layer(layers, "reserve", reserve->bytes[0], reserve->source);
}

/* The lowest of a scope does, as the process will say at its next allocation. Live replaces asked. */
static void mark_least(struct layers *layers, const char *scope, bool live)
{
	struct layer *least = NULL;

	for (unsigned i = 0; i < layers->count; i++) {
		struct layer *layer = &layers->all[i];

		if (strcmp(layer->scope, scope) != 0 || (live &&
			(!layer->source || strncmp(layer->source, "CUWARD_", 7) == 0)))
			continue;
		if (!least || layer->bytes < least->bytes)
			least = layer;
	}
	if (least)
		least->binds = true;
}

/* ---- what was asked for at the start ---- */

/*
 * The variable in the environment the process was started with; empty where it is not there. False:
 * that cannot be read.
 */
static bool start_value(pid_t pid, const char *name, char *text, size_t bytes)
{
	static char environment[256 << 10];
	char path[64];
	size_t length = strlen(name);
	ssize_t got;
	int fd;

	text[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	got = fd < 0 ? 0 : read(fd, environment, sizeof(environment) - 1);
	if (fd >= 0)
		close(fd);
	environment[got > 0 ? got : 0] = '\0';
	for (ssize_t at = 0; at < got; at += (ssize_t)strlen(environment + at) + 1)
		if (strncmp(environment + at, name, length) == 0 && environment[at + (ssize_t)length] == '=')
			snprintf(text, bytes, "%s", environment + at + length + 1);
	return got > 0;
}

static uint64_t resolve(const char *text, const struct box_process *process, uint32_t word)
{
	const struct ledger_peek *peek = &process->peek;
	struct limit_device devices[SLOT_DEVICES];
	uint64_t bytes[SLOT_DEVICES];
	struct limit limit;
	char why[200];

	for (uint32_t i = 0; i < peek->device_count; i++) {
		memcpy(devices[i].uuid, peek->devices[i].uuid, sizeof(devices[i].uuid));
		devices[i].total_bytes = peek->devices[i].total_bytes;
	}
	if (!peek->devices || !text[0] || !limit_parse(&limit, text, why, sizeof(why)) ||
		!limit_resolve(&limit, devices, peek->device_count, bytes, why, sizeof(why)))
		return BYTES_NONE;
	for (uint32_t i = 0; i < peek->device_count; i++)
		if (peek->devices[i].slot_device == word)
			return bytes[i];
	return BYTES_NONE;
}

/* ---- all of them ---- */

/* What its slot says, where it is not known why. */
static void add_unknown(struct layers *layers, const char *scope, uint64_t bytes)
{
	for (unsigned i = 0; i < layers->count; i++)
		if (strcmp(layers->all[i].scope, scope) == 0 && layers->all[i].bytes <= bytes)
			return;
	add_layer(layers, scope, bytes, NULL);
}

static void find_layers(struct layers *layers, const struct box *box, const struct box_process *process,
	const struct box_hold *hold)
{
	const struct slot *slot = &process->entry->slot;
	const struct box_gpu *gpu = &box->gpus[hold->gpu];
	struct limit_device device = { .total_bytes = gpu->total_bytes };
	uint64_t live = slot->limit_override[hold->word], live_job = slot->job_limit_override[hold->word];
	uint64_t live_user = slot->user_limit_override[hold->word];
	uint32_t gids[256];
	bool known;
	char why[300];

	*layers = (struct layers){ 0 };
	memcpy(device.uuid, gpu->uuid, sizeof(device.uuid));
	known = start_value(process->pid, "CUWARD_MEMORY", layers->asked[0], sizeof(layers->asked[0])) &&
		process->peeked;
	start_value(process->pid, "CUWARD_JOB_MEMORY", layers->asked[1], sizeof(layers->asked[1]));
	admin_read_as(&layers->admin, &device, 1, process->uid, gids,
		proc_groups(process->pid, gids, sizeof(gids) / sizeof(gids[0])), why, sizeof(why));
	add_layer(layers, "process", resolve(layers->asked[0], process, hold->word), "CUWARD_MEMORY");
	add_layer(layers, "process", live ? live : BYTES_NONE, "cuward limit");
	add_layer(layers, "process", layers->admin.max[ADMIN_PROCESS][0].bytes,
		layers->admin.max[ADMIN_PROCESS][0].source);
	if (!known)
		add_unknown(layers, "process", hold->limit_bytes);
	mark_least(layers, "process", live);
	add_layer(layers, "job", resolve(layers->asked[1], process, hold->word), "CUWARD_JOB_MEMORY");
	add_layer(layers, "job", live_job ? live_job : BYTES_NONE, "cuward limit");
	add_layer(layers, "job", layers->admin.max[ADMIN_JOB][0].bytes,
		layers->admin.max[ADMIN_JOB][0].source);
	if (!known)
		add_unknown(layers, "job", hold->job_limit_bytes);
	mark_least(layers, "job", live_job);
	add_layer(layers, "user", live_user ? live_user : BYTES_NONE, "cuward limit");
	add_layer(layers, "user", layers->admin.max[ADMIN_USER][0].bytes,
		layers->admin.max[ADMIN_USER][0].source);
	mark_least(layers, "user", false);
	for (unsigned i = 0; i < layers->admin.group_count; i++)
		add_layer(layers, "group", layers->admin.groups[i].max[0].bytes,
			layers->admin.groups[i].max[0].source);
	add_layer(layers, "gpu", layers->admin.max[ADMIN_GPU][0].bytes,
		layers->admin.max[ADMIN_GPU][0].source);
	for (unsigned i = 0; i < layers->admin.reserve_count; i++)
		add_reserve(layers, &layers->admin.reserves[i], process->uid);
	/* Each group is another sum, and each reserve another's: all of them apply. */
	for (unsigned i = 0; i < layers->count; i++)
		if (layers->all[i].scope[0] == 'g' || layers->all[i].scope[0] == 'r')
			layers->all[i].binds = true;
}

static void put_rows(struct table *table, const struct box *box, const struct box_process *process,
	const struct box_hold *hold)
{
	struct layers layers;

	find_layers(&layers, box, process, hold);
	for (unsigned i = 0; i < layers.count || i == 0; i++) {
		const struct layer *layer = &layers.all[i];

		table_cell(table, ps_pid(process));
		table_cell(table, box_gpu_name(box, &box->gpus[hold->gpu]));
		table_cell(table, layers.count ? layer->scope : "");
		table_cell(table, layers.count ? format_bytes(layer->bytes) : "none");
		table_cell(table, layers.count ? layer->source ? layer->source : "unknown" : "");
		table_cell(table, layers.count && layer->binds ? "yes" : "");
	}
}

static json_t *layers_of(const struct box *box, const struct box_process *process,
	const struct box_hold *hold)
{
	struct layers layers;
	json_t *all = json_array();

	find_layers(&layers, box, process, hold);
	for (unsigned i = 0; i < layers.count; i++) {
		const struct layer *layer = &layers.all[i];

		json_array_append_new(all, json_pack("{s:s, s:o, s:s?, s:b}", "scope", layer->scope, "bytes",
			ps_bytes(layer->bytes), "source", layer->source, "binds", layer->binds));
	}
	return all;
}

static json_t *process_json(const struct box *box, const struct box_process *process)
{
	json_t *devices = json_array();

	for (size_t i = 0; i < process->hold_count; i++)
		json_array_append_new(devices, json_pack("{s:s, s:o, s:o}", "uuid",
			box_uuid(&box->gpus[process->holds[i].gpu]), "used_bytes",
			ps_bytes(process->holds[i].used_bytes), "limits",
			layers_of(box, process, &process->holds[i])));
	return json_pack("{s:I, s:s, s:o}", "pid", (json_int_t)process->who->pid, "job", process->who->job,
		"devices", devices);
}

void limit_show(FILE *out, const struct box *box, struct box_process *const *processes, size_t count,
	bool json)
{
	struct table table = { 0 };
	json_t *all = json_array();

	table_column(&table, "PID");
	table_column(&table, "<GPU");
	table_column(&table, "<OF");
	table_column(&table, "LIMIT");
	table_column(&table, "<FROM");
	table_column(&table, "<BINDS");
	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < processes[i]->hold_count && !json; j++)
			put_rows(&table, box, processes[i], &processes[i]->holds[j]);
		if (json)
			json_array_append_new(all, process_json(box, processes[i]));
	}
	all = json_pack("{s:i, s:o}", "schema", 1, "processes", all);
	if (json) {
		json_dumpf(all, out, JSON_INDENT(1));
		fputc('\n', out);
	} else {
		table_print(&table, out, 0);
	}
	json_decref(all);
}

/* ---- nobody in particular ---- */

static const char *const scopes[ADMIN_COUNT] = { "process", "job", "user", "gpu" };

static void add_variables(json_t *all)
{
	static const char *const variables[] = { "CUWARD_MEMORY", "CUWARD_JOB_MEMORY" };

	for (unsigned i = 0; i < 2; i++)
		if (getenv(variables[i]))
			json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:n}", "scope", scopes[i], "source",
				variables[i], "text", getenv(variables[i]), "uuid"));
}

/* On the GPUs that somebody uses; others are not known to us. */
static void add_allowed(json_t *all, const struct box_gpu *gpu)
{
	struct limit_device device = { .total_bytes = gpu->total_bytes };
	struct admin admin;
	char why[300];

	memcpy(device.uuid, gpu->uuid, sizeof(device.uuid));
	if (!admin_read(&admin, &device, 1, getuid(), why, sizeof(why)))
		return;
	for (unsigned max = 0; max < ADMIN_COUNT; max++)
		if (admin.max[max][0].bytes != BYTES_NONE)
			json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:s}", "scope", scopes[max], "source",
				admin.max[max][0].source, "text", format_bytes(admin.max[max][0].bytes), "uuid",
				box_uuid(gpu)));
}

static void print_here(FILE *out, json_t *all)
{
	struct table table = { 0 };
	size_t index;
	json_t *one;

	table_column(&table, "<OF");
	table_column(&table, "LIMIT");
	table_column(&table, "<FROM");
	table_column(&table, "<GPU");
	json_array_foreach(all, index, one) {
		const char *uuid = json_string_value(json_object_get(one, "uuid"));

		table_cell(&table, json_string_value(json_object_get(one, "scope")));
		table_cell(&table, json_string_value(json_object_get(one, "text")));
		table_cell(&table, json_string_value(json_object_get(one, "source")));
		table_cell(&table, uuid ? uuid : "each");
	}
	table_print(&table, out, 0);
}

int limit_show_here(FILE *out, const struct box *box, bool json)
{
	json_t *all = json_array();
	struct admin admin;
	char why[300];
	int status = EXIT_FINE;

	add_variables(all);
	for (size_t i = 0; i < box->gpu_count; i++)
		add_allowed(all, &box->gpus[i]);
	if (!admin_read(&admin, NULL, 0, getuid(), why, sizeof(why))) {
		fprintf(stderr, "cuward: %s\n", why);
		status = EXIT_FOUND;
	}
	if (json) {
		all = json_pack("{s:i, s:o}", "schema", 1, "limits", all);
		json_dumpf(all, out, JSON_INDENT(1));
		fputc('\n', out);
	} else {
		print_here(out, all);
	}
	json_decref(all);
	return status;
}
