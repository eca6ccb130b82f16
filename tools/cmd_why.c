/*
 * cmd_why.c - `cuward why`: is it normal, whose is it, is it doing anything?
 */
#include <argp.h>
#include <jansson.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "admin.h"
#include "cuward.h"
#include "format.h"
#include "gpus.h"
#include "need.h"
#include "policy.h"
#include "ps.h"
#include "queue.h"
#include "why.h"

struct order {
	const char *what; /* a GPU or a process, NULL all */
	uint64_t look_ns, idle_ns, stuck_ns;
	bool json;
};

static uint64_t duration(const struct argp_state *state, const char *option, const char *text)
{
	uint64_t ns = 0;

	if (!policy_duration(text, &ns) || ns == 0)
		argp_error(state, "--%s: '%s' is no time, as in 90s, 10m, 2h", option, text);
	return ns;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;

	switch (key) {
	case 'j': order->json = true; return 0;
	case 'f': order->look_ns = duration(state, "for", argument); return 0;
	case 'i': order->idle_ns = duration(state, "idle", argument); return 0;
	case 's': order->stuck_ns = duration(state, "stuck", argument); return 0;
	case ARGP_KEY_ARG:
		if (order->what)
			argp_usage(state);
		order->what = argument;
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* ---- what it is about ---- */

static bool is_number(const char *text)
{
	return *text && text[strspn(text, "0123456789")] == '\0';
}

static bool wants_gpu(const struct order *order, const struct box_gpu *gpu)
{
	const char *uuid = box_uuid(gpu), *what = order->what;

	if (!what)
		return true;
	if (is_number(what))
		return false;
	return strncasecmp(uuid, what, strlen(what)) == 0 || strncasecmp(uuid + 4, what, strlen(what)) == 0;
}

static bool wants_process(const struct order *order, const struct box *box,
	const struct box_process *process)
{
	if (!order->what)
		return true;
	if (is_number(order->what))
		return process == box_find(box, box_pid(order->what));
	for (size_t i = 0; i < process->hold_count; i++)
		if (wants_gpu(order, &box->gpus[process->holds[i].gpu]))
			return true;
	return false;
}

static bool wants_other(const struct order *order, const struct box *box, const struct box_other *other)
{
	if (order->what && is_number(order->what))
		return other->pid == box_pid(order->what);
	return wants_gpu(order, &box->gpus[other->gpu]);
}

/* ---- the answer ---- */

struct answer {
	const struct box *box;
	json_t *verdicts; /* NULL: print them */
	bool fault;
};

static json_t *limit_of(const struct answer *answer, const struct why_limit *limit)
{
	return json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:i, s:o, s:b}", "scope", limit->scope,
		"whose", limit->whose[0] ? json_string(limit->whose) : json_null(),
		"uuid", box_uuid(&answer->box->gpus[limit->gpu]),
		"source", limit->source[0] ? json_string(limit->source) : json_null(),
		"limit_bytes", ps_bytes(limit->limit_bytes), "used_bytes", ps_bytes(limit->used_bytes),
		"own_bytes", ps_bytes(limit->own_bytes), "others", (int)limit->others,
		"kept_bytes", ps_bytes(limit->kept_bytes), "binds", limit->binds);
}

static void take_verdict(void *to, enum why_verdict verdict, const char *evidence,
	const struct why_limit *limit)
{
	struct answer *answer = to;
	json_t *one;

	answer->fault |= why_is_fault(verdict);
	if (!answer->verdicts) {
		printf("  %-13s %s\n", why_word(verdict), evidence);
		return;
	}
	one = json_pack("{s:s, s:b, s:s}", "verdict", why_word(verdict), "fault", why_is_fault(verdict),
		"evidence", evidence);
	if (limit)
		json_object_set_new(one, "limit", limit_of(answer, limit));
	json_array_append_new(answer->verdicts, one);
}

static void print_process(const struct box_process *process)
{
	printf("process %s, ", ps_pid(process));
	put_safe(stdout, process->who->command, 40);
	printf(" of ");
	put_safe(stdout, process->user, 40);
	printf("\n");
}

static void print_other(const struct box_other *other)
{
	printf("process %d, ", other->pid);
	put_safe(stdout, other->known ? other->command : "unknown", 40);
	printf(" of ");
	put_safe(stdout, other->known ? other->user : "unknown", 40);
	printf("\n");
}

static void answer_text(const struct order *order, const struct why_watch *watch, struct answer *answer)
{
	const struct box *box = watch->box;

	if (!box->gpu_count && !box->count && !box->other_count)
		puts("no process that we see uses a GPU");
	for (size_t i = 0; i < box->gpu_count; i++) {
		if (!wants_gpu(order, &box->gpus[i]))
			continue;
		printf("%s, %s\n", box_gpu_name(box, &box->gpus[i]), format_bytes(box->gpus[i].total_bytes));
		why_gpu(watch, i, take_verdict, answer);
	}
	for (size_t i = 0; i < box->count; i++) {
		if (watch->of[i].gone || !wants_process(order, box, &box->processes[i]))
			continue;
		print_process(&box->processes[i]);
		why_process(watch, i, take_verdict, answer);
	}
	for (size_t i = 0; i < box->other_count; i++) {
		if (!wants_other(order, box, &box->others[i]))
			continue;
		print_other(&box->others[i]);
		why_other(watch, &box->others[i], take_verdict, answer);
	}
}

static json_t *json_others(const struct order *order, const struct why_watch *watch,
	struct answer *answer)
{
	const struct box *box = watch->box;
	json_t *others = json_array();

	for (size_t i = 0; i < box->other_count; i++) {
		json_t *one;

		if (!wants_other(order, box, &box->others[i]))
			continue;
		answer->verdicts = json_array();
		why_other(watch, &box->others[i], take_verdict, answer);
		one = ps_other(box, &box->others[i]);
		json_object_set_new(one, "verdicts", answer->verdicts);
		json_array_append_new(others, one);
	}
	return others;
}

static void answer_json(const struct order *order, const struct why_watch *watch, struct answer *answer)
{
	const struct box *box = watch->box;
	json_t *gpus = json_array(), *processes = json_array(), *document;

	for (size_t i = 0; i < box->gpu_count; i++) {
		if (!wants_gpu(order, &box->gpus[i]))
			continue;
		answer->verdicts = json_array();
		why_gpu(watch, i, take_verdict, answer);
		json_array_append_new(gpus, json_pack("{s:s, s:o}", "uuid", box_uuid(&box->gpus[i]), "verdicts",
			answer->verdicts));
	}
	for (size_t i = 0; i < box->count; i++) {
		json_t *one;

		if (watch->of[i].gone || !wants_process(order, box, &box->processes[i]))
			continue;
		answer->verdicts = json_array();
		why_process(watch, i, take_verdict, answer);
		one = ps_process(box, &box->processes[i]);
		json_object_set_new(one, "verdicts", answer->verdicts);
		json_array_append_new(processes, one);
	}
	document = json_pack("{s:i, s:o, s:o, s:o}", "schema", 1, "gpus", gpus, "processes", processes,
		"others", json_others(order, watch, answer));
	json_dumpf(document, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(document);
}

static bool is_there(const struct order *order, const struct box *box)
{
	for (size_t i = 0; i < box->gpu_count; i++)
		if (wants_gpu(order, &box->gpus[i]))
			return true;
	for (size_t i = 0; i < box->count; i++)
		if (wants_process(order, box, &box->processes[i]))
			return true;
	for (size_t i = 0; i < box->other_count; i++)
		if (wants_other(order, box, &box->others[i]))
			return true;
	return !order->what;
}

/* A number that is nobody's pid may be that of a GPU, as programs count them that are started here. */
static void look_for_index(struct order *order, struct box *box)
{
	static char uuid[48];
	struct gpu_fact facts[SLOT_DEVICES];
	unsigned count;

	if (!order->what || !is_number(order->what) || strlen(order->what) > 2 || is_there(order, box))
		return;
	count = gpus_ask(facts);
	if ((unsigned)atoi(order->what) >= count)
		return;
	facts[0] = facts[atoi(order->what)];
	queue_uuid_text(uuid, facts[0].uuid);
	box_find_gpu(box, facts[0].uuid, facts[0].total_bytes);
	order->what = uuid;
}

/* Where the options say nothing the administrator may. */
static void set_thresholds(struct why_watch *watch, const struct box *box, const struct order *order)
{
	static struct admin admin;
	char why[300];

	watch->stuck_ns = order->stuck_ns;
	watch->on = need_zeroed(box->gpu_count, sizeof(*watch->on));
	for (size_t i = 0; i < box->gpu_count; i++) {
		struct limit_device device = { .total_bytes = box->gpus[i].total_bytes };

		memcpy(device.uuid, box->gpus[i].uuid, sizeof(device.uuid));
		admin_read(&admin, &device, 1, getuid(), why, sizeof(why));
		watch->on[i].near_percent = admin.warn[0] ? admin.warn[0] : 90;
		watch->on[i].idle_ns = order->idle_ns ? order->idle_ns :
			admin.idle_ns[0] ? admin.idle_ns[0] : 60000000000;
	}
}

int cmd_why(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "for", 'f', "T", 0, "Look for so long (default 2s)", 0 },
		{ "idle", 'i', "T", 0, "Idle is who did nothing for so long (default 1m)", 0 },
		{ "stuck", 's', "T", 0, "Stuck is who waits for the GPU for so long (default 30s)", 0 },
		{ "json", 'j', NULL, 0, "As JSON", 0 },
		{ 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option,
		.args_doc = "[GPU|PID]",
		.doc = "Is it normal, whose is it, is it doing anything? Verdicts with evidence.\v"
			"Exit status: 0 all is normal, 1 a verdict is a fault, or there is no such GPU or process, "
			"2 usage." };
	struct order order = { .look_ns = 2000000000, .stuck_ns = 30000000000 };
	struct why_watch watch = { 0 };
	struct box box;
	struct answer answer = { .box = &box };

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	box_open(&box, false);
	box_add_others(&box);
	look_for_index(&order, &box);
	if (!is_there(&order, &box)) {
		fputs("cuward: why: ", stderr);
		put_safe(stderr, order.what, 0);
		fputs(": no process that we see, and no GPU; `cuward ps` lists them\n", stderr);
		box_close(&box);
		return EXIT_FOUND;
	}
	set_thresholds(&watch, &box, &order);
	why_look(&watch, &box, order.look_ns);
	(order.json ? answer_json : answer_text)(&order, &watch, &answer);
	why_look_done(&watch);
	free(watch.on);
	box_close(&box);
	return answer.fault ? EXIT_FOUND : EXIT_FINE;
}
