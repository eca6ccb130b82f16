/*
 * ps_refusals.c - what limits refused one process: asked for, used, by whom, and what can be done.
 */
#include "ps.h"

#include <limits.h>

#include "calls.h"
#include "format.h"
#include "ledger_read.h"
#include "refusal_words.h"
#include "report_refusal.h"
#include "report_host.h"
#include "symbols.h"

static const char *const scopes[] = {
#define X(id, word) word,
	CUWARD_SCOPES(X)
#undef X
};

/* The whole ledger, for call sites; or its header alone, where no more can be had. */
struct whole {
	struct ledger_view view;
	struct ledger_header *header; /* what is told of it is of one moment */
	struct ledger_file file;
	bool open;
};

/* False: the process has no ledger, or it is gone by now. */
static bool open_whole(struct whole *whole, const struct box_process *process)
{
	char path[PATH_MAX], why[256];

	*whole = (struct whole){
		.header = process->peeked ? ledger_peek_header(process->file, process->entry) : NULL,
	};
	whole->view.header = whole->header;
	if (!whole->header)
		return false;
	whole->open = ledger_peek_path(path, sizeof(path), process->file, process->entry) &&
		ledger_open(&whole->file, path, why, sizeof(why));
	if (!whole->open)
		return true;
	whole->view = whole->file.view;
	whole->view.header = whole->header;
	whole->view.symbols = symbols_open();
	return true;
}

static void close_whole(struct whole *whole)
{
	free(whole->header);
	if (!whole->open)
		return;
	symbols_close();
	ledger_close(&whole->file);
}

static const char *user_of(const struct ledger_holder *holder, char user[64])
{
	if (!report_user_name(holder->uid, user, 64))
		snprintf(user, 64, "uid %u", holder->uid);
	return user;
}

/* Of a limit of another kind of memory there is no GPU. */
static const struct box_gpu *gpu_of(const struct box *box, const struct box_process *process,
	const struct ledger_denial *denial)
{
	const struct ledger_peek *peek = &process->peek;

	for (size_t i = 0; denial->device < peek->device_count && i < process->hold_count; i++)
		if (process->holds[i].word == peek->devices[denial->device].slot_device)
			return &box->gpus[process->holds[i].gpu];
	return NULL;
}

static bool is_there(const struct ledger_denial *denial)
{
	return denial->present && denial->scope < SCOPE_COUNT;
}

static void print_holders(FILE *out, const struct box *box, const struct ledger_view *view,
	const struct ledger_denial *denial)
{
	for (unsigned i = 0; i < LEDGER_HOLDERS && denial->holders[i].bytes; i++) {
		const struct ledger_holder holder = report_holder(view, &denial->holders[i]);
		const char *line = refusal_line(view, &holder);
		char command[sizeof(holder.command) + 1], user[64];

		snprintf(command, sizeof(command), "%.*s", (int)sizeof(holder.command), holder.command);
		fprintf(out, "    %s: process %u, ", format_bytes(holder.bytes), holder.pid);
		put_safe(out, command, 40);
		fprintf(out, " of %s", user_of(&holder, user));
		if (holder.since_ns && holder.since_ns < box->now_ns)
			fprintf(out, ", for %s by now", ps_age(box, holder.since_ns));
		if (*line)
			fprintf(out, ", at %s", line);
		fputc('\n', out);
	}
}

static void print_source(FILE *out, const struct ledger_denial *denial)
{
	if (!denial->source[0])
		return;
	fputs(" (", out);
	put_safe(out, denial->source, 48);
	fputc(')', out);
}

static void print_refusal(FILE *out, const struct box *box, const struct box_process *process,
	const struct ledger_view *view, const struct ledger_denial *denial)
{
	const struct box_gpu *gpu = gpu_of(box, process, denial);

	fprintf(out, "refused %s time%s, last %s ago: %s of %s%s%s; the %s limit is %s",
		format_count(denial->count), denial->count == 1 ? "" : "s",
		format_ns(denial->time_ns < box->now_ns ? box->now_ns - denial->time_ns : 0),
		call_name(denial->api), format_bytes(denial->bytes), gpu ? " on " : "",
		gpu ? box_gpu_name(box, gpu) : "", scopes[denial->scope],
		format_bytes(denial->limit_bytes));
	print_source(out, denial);
	fprintf(out, ", and %s were used\n", format_bytes(denial->used_bytes));
	print_holders(out, box, view, denial);
	fprintf(out, "    %s\n", refusal_advice(view, denial));
}

/* Its owner may write into it what it likes. */
static struct ledger_denial ended(const struct ledger_denial *denial)
{
	struct ledger_denial copy = *denial;

	copy.source[sizeof(copy.source) - 1] = '\0';
	for (unsigned i = 0; i < LEDGER_HOLDERS; i++)
		copy.holders[i].line[sizeof(copy.holders[i].line) - 1] = '\0';
	return copy;
}

void ps_refusals(FILE *out, const struct box *box, const struct box_process *process)
{
	struct whole whole;

	if (!open_whole(&whole, process))
		return;
	for (unsigned i = 0; i < LEDGER_DENIALS_MAX; i++) {
		struct ledger_denial denial = ended(&whole.header->denials[i]);

		if (is_there(&denial))
			print_refusal(out, box, process, &whole.view, &denial);
	}
	close_whole(&whole);
}

static json_t *text_or_null(const char *text)
{
	return text[0] ? ps_text(text) : json_null();
}

static json_t *json_holders(const struct ledger_view *view, const struct ledger_denial *denial)
{
	json_t *holders = json_array();

	for (unsigned i = 0; i < LEDGER_HOLDERS && denial->holders[i].bytes; i++) {
		const struct ledger_holder holder = report_holder(view, &denial->holders[i]);
		char command[sizeof(holder.command) + 1], user[64];

		snprintf(command, sizeof(command), "%.*s", (int)sizeof(holder.command), holder.command);
		json_array_append_new(holders, json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o}",
			"pid", (json_int_t)holder.pid, "uid", (json_int_t)holder.uid,
			"user", report_user_name(holder.uid, user, sizeof(user)) ? ps_text(user) : json_null(),
			"command", text_or_null(command), "bytes", ps_bytes(holder.bytes),
			"since", ps_time(holder.since_ns),
			"line", text_or_null(refusal_line(view, &holder))));
	}
	return holders;
}

static json_t *json_refusal(const struct box *box, const struct box_process *process,
	const struct ledger_view *view, const struct ledger_denial *denial)
{
	const struct box_gpu *gpu = gpu_of(box, process, denial);
	json_t *refusal = json_pack("{s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o}",
		"api", call_name(denial->api), "bytes", ps_bytes(denial->bytes),
		"uuid", gpu ? json_string(box_uuid(gpu)) : json_null(), "scope", scopes[denial->scope],
		"limit_bytes", ps_bytes(denial->limit_bytes), "source", text_or_null(denial->source),
		"used_bytes", ps_bytes(denial->used_bytes), "count", ps_bytes(denial->count),
		"last_time", ps_time(denial->time_ns));

	json_object_set_new(refusal, "holders", json_holders(view, denial));
	json_object_set_new(refusal, "text", ps_text(refusal_sentence(view, denial)));
	json_object_set_new(refusal, "advice", ps_text(refusal_advice(view, denial)));
	return refusal;
}

json_t *ps_refusals_json(const struct box *box, const struct box_process *process)
{
	json_t *refusals;
	struct whole whole;

	if (!open_whole(&whole, process))
		return json_null();
	refusals = json_array();
	for (unsigned i = 0; i < LEDGER_DENIALS_MAX; i++) {
		struct ledger_denial denial = ended(&whole.header->denials[i]);

		if (is_there(&denial))
			json_array_append_new(refusals, json_refusal(box, process, &whole.view, &denial));
	}
	close_whole(&whole);
	return refusals;
}
