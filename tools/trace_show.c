/*
 * trace_show.c - what `cuward trace` says about its trace.
 */
#include <stdio.h>

#include "trace_show.h"

#include <jansson.h>

#include "format.h"
#include "session.h"
#include "view_jansson.h"

uint64_t tree_size(const char *path); /* session_tree.c */

struct facts {
	bool answered; /* by the session daemon */
	uint64_t lost;
	uint64_t bytes;
	char warning[512];
	size_t reached, later, unreachable, others;
};

static bool is_of_somebody(const struct box_process *process)
{
	return process->owner != OWNER_DEAD;
}

static struct facts look(const struct box_trace *trace, const struct box *box)
{
	struct facts facts = { .bytes = tree_size(trace->dir) };
	struct session_result result;
	const char *why;

	facts.answered = session_ask(trace->own_daemon ? trace->home : "", trace->name, &result) &&
		result.complete;
	facts.lost = result.lost;
	snprintf(facts.warning, sizeof(facts.warning), "%s", facts.answered ? "" : result.warning[0] ?
		result.warning : "the session daemon does not know the session any more");
	for (size_t i = 0; i < box->count; i++) {
		if (!is_of_somebody(&box->processes[i]))
			continue;
		switch (box_trace_reach(trace, &box->processes[i], &why)) {
		case REACH_RECORDED: facts.reached++; break;
		case REACH_LATER: facts.later++; break;
		case REACH_OTHERS: facts.others++; break;
		default: facts.unreachable++;
		}
	}
	return facts;
}

/* ---- JSON ---- */

static json_t *guests_json(const struct box_trace *trace, const struct box *box)
{
	json_t *all = json_array();
	const char *why;

	for (size_t i = 0; i < box->count; i++) {
		const struct box_process *process = &box->processes[i];
		enum reach reach;
		json_t *one;

		if (!is_of_somebody(process))
			continue;
		one = json_object();
		reach = box_trace_reach(trace, process, &why);
		set_number(one, "pid", process->pid ? (uint64_t)process->pid : process->who->pid);
		set_text(one, "user", process->user);
		set_text(one, "command", process->who->command);
		set_text(one, "state", box_trace_word(reach));
		if (why[0])
			set_text(one, "why", why);
		json_array_append_new(all, one);
	}
	return all;
}

static json_t *trace_json(const struct box_trace *trace, bool active)
{
	json_t *all = json_object();

	json_object_set_new(all, "active", json_boolean(active));
	set_text(all, "dir", trace->dir);
	set_text(all, "session", trace->name);
	set_text(all, "daemon", trace->own_daemon ? "own" : "existing");
	set_text(all, "home", trace->home);
	set_number(all, "start_ns", trace->start_ns);
	return all;
}

static void set_bytes(json_t *all, const struct box_trace *trace, uint64_t bytes)
{
	json_object_set_new(all, "bytes", session_is_remote(trace->dir) ? json_null() :
		json_integer((json_int_t)bytes));
}

static void dump(FILE *out, json_t *all)
{
	json_dumpf(all, out, JSON_INDENT(1));
	fputc('\n', out);
	json_decref(all);
}

static void show_json(FILE *out, const struct box_trace *trace, const struct facts *facts,
	const struct box *box)
{
	json_t *all = trace_json(trace, true);

	set_bytes(all, trace, facts->bytes);
	json_object_set_new(all, "lost_events", facts->answered ?
		json_integer((json_int_t)facts->lost) : json_null());
	if (facts->warning[0])
		set_text(all, "warning", facts->warning);
	set_number(all, "reached", facts->reached);
	set_number(all, "later", facts->later);
	set_number(all, "unreachable", facts->unreachable);
	json_object_set_new(all, "guests", guests_json(trace, box));
	dump(out, all);
}

/* ---- text ---- */

static void put_path(FILE *out, const char *before, const char *path)
{
	fputs(before, out);
	put_safe(out, path, 0);
	fputc('\n', out);
}

static const char *size_of(const struct box_trace *trace, uint64_t bytes)
{
	static char text[64];

	snprintf(text, sizeof(text), "%s%s", session_is_remote(trace->dir) ? "nothing of it" :
		format_bytes(bytes), session_is_remote(trace->dir) ? " is here" : " on disk");
	return text;
}

static void show_text(FILE *out, const struct box_trace *trace, const struct facts *facts,
	const struct box *box)
{
	const char *why;

	put_path(out, "trace in ", trace->dir);
	fprintf(out, "session %s of %s, since %s; %s, ", trace->name,
		trace->own_daemon ? "a session daemon of its own" : "your session daemon",
		format_moment(trace->start_ns), size_of(trace, facts->bytes));
	if (facts->answered)
		fprintf(out, "%llu events lost\n", (unsigned long long)facts->lost);
	else
		fprintf(out, "it is not known what was lost: %s\n", facts->warning);
	fprintf(out, "%zu recorded, %zu will join, %zu cannot be reached%s\n", facts->reached,
		facts->later, facts->unreachable, facts->others ? "; others' are not asked" : "");
	for (size_t i = 0; i < box->count; i++) {
		const struct box_process *process = &box->processes[i];
		enum reach reach;

		if (!is_of_somebody(process))
			continue;
		reach = box_trace_reach(trace, process, &why);
		fprintf(out, "  %-10s %7u  ", box_trace_word(reach),
			process->pid ? (unsigned)process->pid : process->who->pid);
		put_safe(out, process->who->command, 24);
		if (!process->file->own) {
			fputs(" of ", out);
			put_safe(out, process->user, 24);
		}
		fprintf(out, "%s%s\n", why[0] ? ": " : "", why);
	}
}

int trace_show(FILE *out, const struct box_trace *trace, bool json)
{
	struct facts facts;
	struct box box;

	box_open(&box, false);
	facts = look(trace, &box);
	if (json)
		show_json(out, trace, &facts, &box);
	else
		show_text(out, trace, &facts, &box);
	box_close(&box);
	return facts.unreachable || facts.lost || !facts.answered ? EXIT_FOUND : EXIT_FINE;
}

void trace_show_end(FILE *out, const struct box_trace *trace, bool json)
{
	json_t *all;

	if (!json) {
		put_path(out, "trace in ", trace->dir);
		if (trace->ended)
			fprintf(out, "%s, %llu events lost\n", size_of(trace, trace->bytes),
				(unsigned long long)trace->lost);
		if (trace->warning[0])
			fprintf(out, "%s\n", trace->warning);
		return;
	}
	all = trace_json(trace, false);
	set_bytes(all, trace, trace->bytes);
	json_object_set_new(all, "lost_events", trace->ended ?
		json_integer((json_int_t)trace->lost) : json_null());
	json_object_set_new(all, "complete", json_boolean(trace->complete));
	if (trace->warning[0])
		set_text(all, "warning", trace->warning);
	dump(out, all);
}
