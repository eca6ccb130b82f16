/*
 * report_refusal.c - one sentence on a refusal, for the log, the trace, the report and `cuward ps`.
 */
#include "report_refusal.h"

#include <string.h>

#include "report_host.h"
#include "report_leaks.h"
#include "report_sites.h"
#include "text.h"

static const char *const whose[SCOPE_COUNT] = {
	[SCOPE_PROCESS] = "the limit of the process",
	[SCOPE_JOB] = "the limit of the job",
	[SCOPE_USER] = "the limit of the user",
	[SCOPE_GROUP] = "the limit of the group",
	[SCOPE_GPU] = "the limit of all users together",
};

static const char *const free_by[SCOPE_COUNT] = {
	[SCOPE_PROCESS] = "free some of it first",
	[SCOPE_JOB] = "end a process of the job, or wait for one (--on-limit wait)",
	[SCOPE_USER] = "end a process of the user, or wait for one (--on-limit wait)",
	[SCOPE_GROUP] = "wait until a process of the group ends (--on-limit wait)",
	[SCOPE_GPU] = "wait until a process on this GPU ends (--on-limit wait), or take another GPU "
		"(cuward fit)",
};

static bool is_policy(const struct ledger_denial *denial)
{
	return denial->source[0] == '/';
}

/* Nobody else has any of it, so nobody is to be waited for. */
static bool has_all(const struct process_identity *who, const struct ledger_denial *denial)
{
	const struct ledger_holder *most = &denial->holders[0];

	return most->bytes && most->bytes == denial->used_bytes && most->pid == who->pid &&
		most->uid == who->uid;
}

static const char *what_helps(const struct process_identity *who, const struct ledger_denial *denial)
{
	if (denial->bytes > denial->limit_bytes)
		return "ask for less: so much never fits";
	return free_by[has_all(who, denial) ? SCOPE_PROCESS : denial->scope];
}

/* Of a run within a run: no command raises that. */
static bool is_inner(const struct ledger_denial *denial)
{
	return strncmp(denial->source, "CUWARD_INNER_MEMORY", sizeof(denial->source)) == 0;
}

void report_refusal_advice(struct report_out *out, const struct ledger_view *view,
	const struct ledger_denial *denial)
{
	const struct process_identity *who = &view->header->who;

	if (denial->scope >= SCOPE_COUNT)
		return;
	text_put(out, what_helps(who, denial));
	if (is_policy(denial)) {
		text_put(out, "; the administrator sets this limit");
	} else if (denial->scope == SCOPE_PROCESS && denial->device < view->header->device_count) {
		text_put(out, ", or raise the limit: cuward limit set ");
		text_number(out, who->pid);
		text_put(out, " SIZE");
	} else if (denial->scope == SCOPE_JOB && who->job[0] && !is_inner(denial)) {
		text_put(out, ", or raise the limit: cuward limit set ");
		text_clean(out, who->job, strnlen(who->job, sizeof(who->job)));
		text_put(out, " SIZE");
	}
}

static void put_process(struct report_out *out, const struct ledger_view *view,
	const struct ledger_holder *holder)
{
	char user[64];

	if (holder->pid == view->header->who.pid && holder->uid == view->header->who.uid)
		text_put(out, "this process");
	else
		text_put(out, "process ");
	if (holder->pid != view->header->who.pid || holder->uid != view->header->who.uid)
		text_number(out, holder->pid);
	text_put(out, " (");
	text_clean(out, holder->command, sizeof(holder->command));
	text_put(out, " of ");
	if (report_user_name(holder->uid, user, sizeof(user))) {
		text_clean(out, user, sizeof(user));
	} else {
		text_put(out, "uid ");
		text_number(out, holder->uid);
	}
	text_put(out, ")");
}

/* The place is that of the most it held; of others' processes it was written down as text. */
static void put_line(struct report_out *out, const struct ledger_view *view,
	const struct ledger_holder *holder)
{
	text_put(out, " at ");
	if (holder->site)
		report_site_text(out, view, holder->site);
	else
		text_clean(out, holder->line, sizeof(holder->line));
}

static void put_holder(struct report_out *out, const struct ledger_view *view,
	const struct ledger_denial *denial, const struct ledger_holder *holder)
{
	if (holder->pid)
		put_process(out, view, holder);
	else
		text_put(out, "this process");
	text_char(out, ' ');
	text_size(out, holder->bytes);
	if (holder->since_ns && denial->first_ns >= holder->since_ns) {
		text_put(out, " for ");
		text_span(out, denial->first_ns - holder->since_ns);
	}
	if (holder->site || holder->line[0])
		put_line(out, view, holder);
}

static void put_limit(struct report_out *out, const struct ledger_denial *denial)
{
	text_put(out, denial->scope < SCOPE_COUNT ? whose[denial->scope] : "a limit");
	text_put(out, " of ");
	text_size(out, denial->limit_bytes);
	if (denial->source[0]) {
		text_put(out, " (");
		text_clean(out, denial->source, sizeof(denial->source));
		text_char(out, ')');
	}
	text_put(out, " has ");
	text_size(out, denial->used_bytes);
	text_put(out, " in use");
	if (denial->kept_bytes) {
		text_put(out, ", ");
		text_size(out, denial->kept_bytes);
		text_put(out, " of it kept for others");
	}
}

void report_refusal_text(struct report_out *out, const struct ledger_view *view,
	const struct ledger_denial *denial)
{
	const char *api = report_call_name(view, denial->api);

	text_put(out, api ? api : "a call");
	text_put(out, " asked for ");
	text_size(out, denial->bytes);
	if (denial->device < view->header->device_count) {
		text_put(out, " on GPU ");
		text_number(out, denial->device);
	}
	text_put(out, " and was refused: ");
	if (view->header->refusal[0]) {
		text_clean(out, view->header->refusal, sizeof(view->header->refusal));
		return;
	}
	put_limit(out, denial);
	for (unsigned i = 0; i < LEDGER_HOLDERS && denial->holders[i].bytes; i++) {
		text_put(out, i ? ", " : ", most by ");
		put_holder(out, view, denial, &denial->holders[i]);
	}
	text_put(out, "; ");
	report_refusal_advice(out, view, denial);
}

struct ledger_holder report_holder(const struct ledger_view *view, const struct ledger_holder *holder)
{
	const struct process_identity *who = &view->header->who;
	struct ledger_holder named = *holder;

	if (named.pid)
		return named;
	named.pid = who->pid;
	named.uid = who->uid;
	memset(named.command, 0, sizeof(named.command));
	memcpy(named.command, who->command, sizeof(named.command) - 1);
	return named;
}
