/*
 * export_metrics.c - the box in Prometheus' text format, version 0.0.4.
 *
 * A family is one row below: what it is called, what kind of number, and the function that tells it of a
 * process, a process on a GPU, or a GPU. How many processes are listed is bounded; so are the texts in
 * labels, which others wrote.
 */
#include "export.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "format.h"
#include "need.h"
#include "nvml.h"
#include "ps.h"

#define LABEL_MAX 80u
#define LOOK_NS 15000000

struct exported {
	const struct export_order *order;
	struct box box;
	size_t *listed; /* indexes of processes */
	size_t listed_count;
	uint64_t dropped;
	double seconds; /* it took */
	FILE *out;
};

/* False: there is no such number. */
typedef bool gpu_value(const struct box_gpu *gpu, double *value);
typedef bool process_value(const struct box *box, const struct box_process *process, double *value);
typedef bool hold_value(const struct box_process *process, const struct box_hold *hold, double *value);

/* ---- text ---- */

/* \ " and newline are escaped, whatever is no text is spelled out, and long texts are cut. */
static void put_label(FILE *out, const char *text)
{
	char *safe = safe_text(text, LABEL_MAX);

	for (const char *c = safe; *c; c++)
		fprintf(out, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
	free(safe);
}

static void put_value(FILE *out, double value)
{
	if (value == (double)(int64_t)value)
		fprintf(out, " %" PRId64 "\n", (int64_t)value);
	else
		fprintf(out, " %.6f\n", value);
}

static void put_family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP cuward_%s %s\n# TYPE cuward_%s %s\n", name, help, name, type);
}

static bool bytes(uint64_t number, double *value)
{
	*value = (double)number;
	return number < BYTES_UNKNOWN;
}

/* ---- GPUs ---- */

static bool gpu_total(const struct box_gpu *gpu, double *value)
{
	return bytes(gpu->total_bytes, value);
}

static bool gpu_used(const struct box_gpu *gpu, double *value)
{
	return bytes(gpu->used_bytes, value);
}

static bool gpu_overhead(const struct box_gpu *gpu, double *value)
{
	return bytes(box_overhead(gpu), value);
}

static bool gpu_untracked(const struct box_gpu *gpu, double *value)
{
	return bytes(gpu->untracked_bytes, value);
}

static bool gpu_driver(const struct box_gpu *gpu, double *value)
{
	return bytes(gpu->driver_bytes, value);
}

static bool gpu_processes(const struct box_gpu *gpu, double *value)
{
	return bytes(gpu->processes, value);
}

#define GPU_FAMILIES(X) \
	X("gpu_memory_total_bytes", "gauge", "Memory of the GPU.", gpu_total) \
	X("gpu_memory_used_bytes", "gauge", "Charged to processes under cuward.", gpu_used) \
	X("gpu_memory_overhead_bytes", "gauge", "Contexts and modules of those, beyond what is charged.", \
	  gpu_overhead) \
	X("gpu_memory_untracked_bytes", "gauge", "Of what the driver gave out, neither used nor overhead.", \
	  gpu_untracked) \
	X("gpu_memory_driver_used_bytes", "gauge", "Given out by the driver, as NVML says.", gpu_driver) \
	X("gpu_processes", "gauge", "Processes under cuward that hold memory there.", gpu_processes)

static void put_gpus(const struct exported *e, const char *name, const char *type, const char *help,
	gpu_value *ask)
{
	bool any = false;

	for (size_t i = 0; i < e->box.gpu_count; i++) {
		double value;

		if (!ask(&e->box.gpus[i], &value))
			continue;
		if (!any)
			put_family(e->out, name, type, help);
		any = true;
		fprintf(e->out, "cuward_%s{gpu=\"%s\",name=\"", name, box_uuid(&e->box.gpus[i]));
		put_label(e->out, e->box.gpus[i].name);
		fputs("\"}", e->out);
		put_value(e->out, value);
	}
}

/* ---- processes ---- */

static double seconds_of(uint64_t ns)
{
	return (double)ns / 1e9;
}

static bool calls(const struct box *box, const struct box_process *process, double *value)
{
	(void)box;
	*value = (double)process->peek.calls;
	return process->peeked;
}

static bool started(const struct box *box, const struct box_process *process, double *value)
{
	(void)box;
	*value = seconds_of(process->who->start_realtime_ns);
	return process->who->start_realtime_ns > 0;
}

static bool active(const struct box *box, const struct box_process *process, double *value)
{
	(void)box;
	*value = seconds_of(process->activity_ns);
	return process->activity_ns > 0;
}

static bool waiting(const struct box *box, const struct box_process *process, double *value)
{
	(void)box;
	*value = seconds_of(process->waiting_ns);
	return process->waiting_ns > 0;
}

static bool waiting_for(const struct box *box, const struct box_process *process, double *value)
{
	(void)box;
	return process->waiting_ns > 0 && bytes(process->entry->slot.waiting_bytes, value);
}

static bool in_sync(const struct box *box, const struct box_process *process, double *value)
{
	(void)box;
	*value = seconds_of(process->sync_ns);
	return process->sync_ns > 0;
}

#define PROCESS_FAMILIES(X) \
	X("process_calls_total", "counter", "CUDA calls made.", calls) \
	X("process_start_time_seconds", "gauge", "First CUDA call, as seconds since 1970.", started) \
	X("process_last_activity_time_seconds", "gauge", \
	  "Last allocation or wait for the GPU, as seconds since 1970.", active) \
	X("process_waiting_seconds", "gauge", "So long it waits for memory (--on-limit wait).", waiting) \
	X("process_waiting_bytes", "gauge", "So much it waits for.", waiting_for) \
	X("process_synchronizing_seconds", "gauge", "So long a thread of its waits for the GPU.", in_sync)

/* As seen from here; one of another namespace keeps its own, marked. */
static void put_process_labels(FILE *out, const struct box_process *process)
{
	if (process->pid)
		fprintf(out, "pid=\"%d\"", process->pid);
	else
		fprintf(out, "pid=\"%u@%u\"", process->who->pid, process->who->pid_ns);
	fputs(",user=\"", out);
	put_label(out, process->user);
	fputs("\",job=\"", out);
	put_label(out, process->who->job);
	fputs("\",command=\"", out);
	put_label(out, process->who->command);
	fputc('"', out);
}

static void put_processes(const struct exported *e, const char *name, const char *type, const char *help,
	process_value *ask)
{
	bool any = false;

	for (size_t i = 0; i < e->listed_count; i++) {
		const struct box_process *process = &e->box.processes[e->listed[i]];
		double value;

		if (!ask(&e->box, process, &value))
			continue;
		if (!any)
			put_family(e->out, name, type, help);
		any = true;
		fprintf(e->out, "cuward_%s{", name);
		put_process_labels(e->out, process);
		fputc('}', e->out);
		put_value(e->out, value);
	}
}

/* ---- processes on GPUs ---- */

static const struct ledger_device *ledger_of(const struct box_process *process,
	const struct box_hold *hold)
{
	return ledger_peek_device(&process->peek, hold->word);
}

static bool hold_used(const struct box_process *process, const struct box_hold *hold, double *value)
{
	(void)process;
	return bytes(hold->used_bytes, value);
}

static bool hold_overhead(const struct box_process *process, const struct box_hold *hold, double *value)
{
	(void)process;
	return bytes(hold->overhead_bytes, value);
}

static bool hold_limit(const struct box_process *process, const struct box_hold *hold, double *value)
{
	const char *scope;

	(void)process;
	return bytes(box_limit(hold, &scope), value);
}

static bool hold_peak(const struct box_process *process, const struct box_hold *hold, double *value)
{
	const struct ledger_device *device = ledger_of(process, hold);

	return device && bytes(device->peak_bytes, value);
}

static bool hold_denied(const struct box_process *process, const struct box_hold *hold, double *value)
{
	const struct ledger_device *device = ledger_of(process, hold);

	return device && bytes(device->denied, value);
}

static bool hold_denied_bytes(const struct box_process *process, const struct box_hold *hold,
	double *value)
{
	const struct ledger_device *device = ledger_of(process, hold);

	return device && bytes(device->denied_bytes, value);
}

#define HOLD_FAMILIES(X) \
	X("process_memory_used_bytes", "gauge", "Charged to the process.", hold_used) \
	X("process_memory_overhead_bytes", "gauge", "Its contexts and modules, beyond what is charged.", \
	  hold_overhead) \
	X("process_memory_limit_bytes", "gauge", "The lowest limit that binds it.", hold_limit) \
	X("process_memory_peak_bytes", "gauge", "Charged at most so far.", hold_peak) \
	X("process_memory_denied_total", "counter", "Requests that a limit refused.", hold_denied) \
	X("process_memory_denied_bytes_total", "counter", "Bytes of those.", hold_denied_bytes)

static void put_holds(const struct exported *e, const char *name, const char *type, const char *help,
	hold_value *ask)
{
	bool any = false;

	for (size_t i = 0; i < e->listed_count; i++) {
		const struct box_process *process = &e->box.processes[e->listed[i]];

		for (size_t j = 0; j < process->hold_count; j++) {
			double value;

			if (!ask(process, &process->holds[j], &value))
				continue;
			if (!any)
				put_family(e->out, name, type, help);
			any = true;
			fprintf(e->out, "cuward_%s{gpu=\"%s\",", name,
				box_uuid(&e->box.gpus[process->holds[j].gpu]));
			put_process_labels(e->out, process);
			fputc('}', e->out);
			put_value(e->out, value);
		}
	}
}

/* ---- users, and who is not under cuward ---- */

static uint64_t used_by(const struct box *box, uint32_t uid, size_t gpu)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < box->count; i++)
		for (size_t j = 0; j < box->processes[i].hold_count && box->processes[i].uid == uid; j++)
			if (box->processes[i].holds[j].gpu == gpu &&
				box->processes[i].holds[j].used_bytes != BYTES_UNKNOWN)
				sum = slots_add(sum, box->processes[i].holds[j].used_bytes);
	return sum;
}

static void put_users(const struct exported *e)
{
	const struct box *box = &e->box;

	if (!box->user_count || !box->gpu_count)
		return;
	put_family(e->out, "user_memory_used_bytes", "gauge", "Charged to all processes of the user.");
	for (size_t i = 0; i < box->user_count; i++)
		for (size_t gpu = 0; gpu < box->gpu_count; gpu++) {
			fprintf(e->out, "cuward_user_memory_used_bytes{gpu=\"%s\",user=\"",
				box_uuid(&box->gpus[gpu]));
			put_label(e->out, box->users[i].user);
			fputs("\"}", e->out);
			put_value(e->out, (double)used_by(box, box->users[i].uid, gpu));
		}
}

static void put_others(const struct exported *e)
{
	const struct box *box = &e->box;
	bool any = false;

	for (size_t i = 0; i < box->other_count && i < e->order->processes_max; i++) {
		const struct box_other *other = &box->others[i];

		if (other->used_bytes == BYTES_UNKNOWN)
			continue;
		if (!any)
			put_family(e->out, "other_memory_used_bytes", "gauge",
				"Used by a process that is not seen under cuward, as NVML says.");
		any = true;
		fprintf(e->out, "cuward_other_memory_used_bytes{gpu=\"%s\",pid=\"%d\",kind=\"%s\",user=\"",
			box_uuid(&box->gpus[other->gpu]), other->pid, other->kind);
		put_label(e->out, other->known ? other->user : "");
		fputs("\",command=\"", e->out);
		put_label(e->out, other->known ? other->command : "");
		fputs("\"}", e->out);
		put_value(e->out, (double)other->used_bytes);
	}
}

/* ---- all ---- */

static bool same(const struct box_process *a, const struct box_process *b)
{
	return a->uid == b->uid && a->pid == b->pid && a->who->pid == b->who->pid &&
		a->who->pid_ns == b->who->pid_ns;
}

/* Most memory first. What two slots of one user tell of the same process is told once: a series twice
 * makes all of it worthless to who reads it. */
static void choose(struct exported *e)
{
	e->listed = need_zeroed(e->order->processes_max, sizeof(*e->listed));
	for (size_t i = 0; i < e->box.count; i++) {
		bool known = false;

		for (size_t j = 0; j < e->listed_count; j++)
			known |= same(&e->box.processes[e->listed[j]], &e->box.processes[i]);
		if (known || e->listed_count == e->order->processes_max)
			e->dropped++;
		else
			e->listed[e->listed_count++] = i;
	}
}

static void put_itself(const struct exported *e)
{
	put_family(e->out, "build_info", "gauge", "The version of cuward that told this.");
	fprintf(e->out, "cuward_build_info{version=\"%s\"} 1\n", CUWARD_VERSION);
	put_family(e->out, "export_processes_dropped", "gauge",
		"Processes that are counted in the sums and not listed.");
	fprintf(e->out, "cuward_export_processes_dropped %" PRIu64 "\n", e->dropped);
	put_family(e->out, "export_unreadable_files", "gauge", "Slots files that cannot be read.");
	fprintf(e->out, "cuward_export_unreadable_files %zu\n", e->box.slots.unreadable);
	put_family(e->out, "export_duration_seconds", "gauge", "So long it took to look.");
	fprintf(e->out, "cuward_export_duration_seconds %.6f\n", e->seconds);
	if (!e->order->nvml)
		return;
	put_family(e->out, "nvml_up", "gauge", "1 if NVML answered.");
	fprintf(e->out, "cuward_nvml_up %d\n", e->box.nvml);
}

static void put_all(const struct exported *e)
{
#define X(name, type, help, value) put_gpus(e, name, type, help, value);
	GPU_FAMILIES(X)
#undef X
#define X(name, type, help, value) put_holds(e, name, type, help, value);
	HOLD_FAMILIES(X)
#undef X
#define X(name, type, help, value) put_processes(e, name, type, help, value);
	PROCESS_FAMILIES(X)
#undef X
	put_users(e);
	put_others(e);
	put_itself(e);
}

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

char *export_metrics(const struct export_order *order, size_t *size)
{
	struct exported e = { .order = order };
	double began = now_seconds();
	char *text = NULL;

	if (order->nvml)
		nvml_begin();
	box_open(&e.box, false);
	nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	box_look(&e.box);
	if (order->nvml)
		box_add_others(&e.box);
	choose(&e);
	e.seconds = now_seconds() - began;
	e.out = need(open_memstream(&text, size));
	put_all(&e);
	fclose(e.out);
	free(e.listed);
	box_close(&e.box);
	return need(text);
}
