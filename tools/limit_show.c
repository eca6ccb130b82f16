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
	struct layer all[15 + ADMIN_GROUPS + ADMIN_RESERVES];
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

/* The variable in the environment the process was started with; empty where none can be read. */
static void start_value(pid_t pid, const char *name, char *text, size_t bytes)
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

/* ---- what is in force ---- */

/* What the process keeps to, as it says itself; the policy files may say something else by now. */
struct force {
	bool known;
	uint64_t bytes;
	const char *source; /* NULL unknown */
};

static bool is_live(const char *source)
{
	return source && strcmp(source, "cuward limit") == 0;
}

static bool is_allowed(const char *source)
{
	return source && source[0] == '/';
}

/*
 * Not before it has looked at what `cuward limit` set or took back since. `allowed` is what the
 * files say now.
 */
static bool is_settled(const struct force *force, uint64_t live, uint64_t allowed)
{
	if (!force->known)
		return false;
	if (!live)
		return !is_live(force->source);
	return force->bytes == live || (force->bytes < live &&
		(force->source ? is_allowed(force->source) : force->bytes == allowed));
}

/* What the files say now does not bind it, if it is not what they said when it began. */
static void drop_unread(struct layers *layers, const char *scope, const struct force *force)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < layers->count; i++) {
		const struct layer *layer = &layers->all[i];
		bool unread = strcmp(layer->scope, scope) == 0 && is_allowed(layer->source) &&
			(is_allowed(force->source) ? layer->bytes != force->bytes : layer->bytes < force->bytes);

		if (!unread)
			layers->all[kept++] = *layer;
	}
	layers->count = kept;
}

static void mark_in_force(struct layers *layers, const char *scope, const struct force *force)
{
	struct layer *found = NULL;

	drop_unread(layers, scope, force);
	if (force->bytes == BYTES_NONE)
		return;
	for (unsigned i = 0; i < layers->count; i++) {
		struct layer *layer = &layers->all[i];

		if (strcmp(layer->scope, scope) != 0 || layer->bytes != force->bytes)
			continue;
		if (!found || (force->source && layer->source && strcmp(layer->source, force->source) == 0))
			found = layer;
	}
	if (!found) {
		add_layer(layers, scope, force->bytes, force->source);
		found = &layers->all[layers->count - 1];
	}
	found->binds = true;
}

/* The slot tells how much, its ledger also why. */
static struct force force_of(const struct ledger_device *device, uint64_t bytes, uint64_t in_ledger,
	const char *source)
{
	return (struct force){ bytes != 0, bytes, device && in_ledger == bytes ? source : NULL };
}

/* Each group is another sum, and each of them applies; the lowest one is known to be in force. */
static void settle_groups(struct layers *layers, const struct ledger_device *device)
{
	uint64_t lowest = BYTES_NONE;

	for (unsigned i = 0; i < layers->admin.group_count; i++)
		if (layers->admin.groups[i].max[0].bytes < lowest)
			lowest = layers->admin.groups[i].max[0].bytes;
	if (device && device->group_limit_bytes != lowest) {
		add_layer(layers, "group", device->group_limit_bytes, device->group_limit_source);
		return;
	}
	for (unsigned i = 0; i < layers->admin.group_count; i++)
		add_layer(layers, "group", layers->admin.groups[i].max[0].bytes,
			layers->admin.groups[i].max[0].source);
}

/* A process under a reserve of others alone has the whole GPU as its limit. */
static void settle_gpu(struct layers *layers, const struct ledger_device *device)
{
	const struct admin_limit *now = &layers->admin.max[ADMIN_GPU][0];

	if (!device || device->gpu_limit_bytes == now->bytes ||
		(now->bytes == BYTES_NONE && device->gpu_limit_bytes == device->total_bytes))
		add_layer(layers, "gpu", now->bytes, now->source);
	else if (device->gpu_limit_bytes != device->total_bytes)
		add_layer(layers, "gpu", device->gpu_limit_bytes, device->gpu_limit_source);
}

/* ---- all of them ---- */

/* Set to none: that is why what was asked for does not bind. */
static void add_lifted(struct layers *layers, const char *scope)
{
	bool bound = false;

	for (unsigned i = 0; i < layers->count; i++)
		bound |= strcmp(layers->all[i].scope, scope) == 0 && layers->all[i].binds;
	layers->all[layers->count++] = (struct layer){ scope, BYTES_NONE, "cuward limit", !bound };
}

static void add_scope(struct layers *layers, const char *scope, uint64_t asked, const char *variable,
	uint64_t live, enum admin_max which, const struct force *force)
{
	const struct admin_limit *max = &layers->admin.max[which][0];

	add_layer(layers, scope, asked, variable);
	add_layer(layers, scope, live ? live : BYTES_NONE, "cuward limit");
	add_layer(layers, scope, max->bytes, max->source);
	if (is_settled(force, live, max->bytes))
		mark_in_force(layers, scope, force);
	else
		mark_least(layers, scope, live);
	if (live == BYTES_NONE)
		add_lifted(layers, scope);
}

static void find_layers(struct layers *layers, const struct box *box, const struct box_process *process,
	const struct box_hold *hold)
{
	const struct slot *slot = &process->entry->slot;
	const struct box_gpu *gpu = &box->gpus[hold->gpu];
	const struct ledger_device *told = ledger_peek_device(&process->peek, hold->word);
	struct limit_device device = { .total_bytes = gpu->total_bytes };
	struct force force;
	uint32_t gids[256];
	char why[300];

	*layers = (struct layers){ 0 };
	memcpy(device.uuid, gpu->uuid, sizeof(device.uuid));
	start_value(process->pid, "CUWARD_MEMORY", layers->asked[0], sizeof(layers->asked[0]));
	start_value(process->pid, "CUWARD_JOB_MEMORY", layers->asked[1], sizeof(layers->asked[1]));
	admin_read_as(&layers->admin, &device, 1, process->uid, gids,
		proc_groups(process->pid, gids, sizeof(gids) / sizeof(gids[0])), why, sizeof(why));
	force = force_of(told, hold->limit_bytes, told ? told->limit_bytes : 0,
		told ? told->limit_source : NULL);
	add_scope(layers, "process", resolve(layers->asked[0], process, hold->word), "CUWARD_MEMORY",
		slot->limit_override[hold->word], ADMIN_PROCESS, &force);
	force = force_of(told, hold->job_limit_bytes, told ? told->job_limit_bytes : 0,
		told ? told->job_limit_source : NULL);
	add_scope(layers, "job", resolve(layers->asked[1], process, hold->word), "CUWARD_JOB_MEMORY",
		slot->job_limit_override[hold->word], ADMIN_JOB, &force);
	force = force_of(told, told ? told->user_limit_bytes : 0, told ? told->user_limit_bytes : 0,
		told ? told->user_limit_source : NULL);
	add_scope(layers, "user", BYTES_NONE, "", slot->user_limit_override[hold->word], ADMIN_USER, &force);
	settle_groups(layers, told);
	settle_gpu(layers, told);
	if (hold->inner_limit_bytes != BYTES_NONE) {
		add_layer(layers, "job", hold->inner_limit_bytes, "CUWARD_INNER_MEMORY");
		layers->all[layers->count - 1].binds = true; /* another sum than that of the whole job */
	}
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
		table_cell(table, layers.count && layer->bytes != BYTES_NONE ? format_bytes(layer->bytes) :
			"none");
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
