/*
 * why.c - verdicts: what was seen, against what is usual. Each says what it is based on.
 */
#include "why.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "format.h"
#include "proc_state.h"
#include "ps.h"

static const struct {
	const char *word, *meaning;
	bool fault;
} verdicts[WHY_COUNT] = {
#define X(id, word, fault, text) { word, text, fault },
	WHY_VERDICTS(X)
#undef X
};

const char *why_word(enum why_verdict verdict) { return verdicts[verdict].word; }
const char *why_meaning(enum why_verdict verdict) { return verdicts[verdict].meaning; }
bool why_is_fault(enum why_verdict verdict) { return verdicts[verdict].fault; }

/* ---- one process ---- */

struct telling {
	const struct why_watch *watch;
	const struct box_process *process;
	const struct why_watched *of;
	why_tell *tell;
	void *to;
};

static void __attribute__((format(printf, 3, 4))) say(const struct telling *t, enum why_verdict verdict,
	const char *format, ...)
{
	char text[400];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	t->tell(t->to, verdict, text, NULL);
}

static uint64_t quiet_ns(const struct telling *t)
{
	uint64_t then = t->of->now.activity_ns;

	return then && then < t->watch->box->now_ns ? t->watch->box->now_ns - then : 0;
}

static uint64_t held(const struct telling *t)
{
	return t->of->used[t->watch->samples - 1];
}

/* Where it holds something; the shortest counts. */
static uint64_t idle_ns(const struct telling *t)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < t->process->hold_count; i++) {
		uint64_t ns = t->watch->on[t->process->holds[i].gpu].idle_ns;

		if (t->process->holds[i].used_bytes && ns < least)
			least = ns;
	}
	return least;
}

static void tell_activity(const struct telling *t)
{
	const struct box_process *process = t->process;
	uint64_t quiet = quiet_ns(t);
	char *kernel = safe_text(process->sync_ns ? process->peek.kernel : process->in_call_kernel, 80);
	const char *last = kernel[0] ? ", last kernel " : "";
	const char *in_call = call_name(process->in_call - 1);
	bool waits = process->in_call && !ledger_peek_works(process->in_call - 1);

	if (process->sync_ns >= t->watch->stuck_ns && !process->stopped)
		say(t, WHY_STUCK, "a thread has been in %s for %s%s%s and made no other call; a kernel that "
			"never ends looks the same as one that runs this long", call_name(process->peek.sync_call),
			format_ns(process->sync_ns), last, kernel);
	else if (t->of->now.waiting_since_ns)
		say(t, WHY_WAITING, "it waits for %s", format_bytes(t->of->now.waiting_bytes));
	else if (process->stopped) /* whatever it was in */
		say(t, WHY_QUIET, "no CUDA call in %s; its last allocation or wait was %s ago",
			format_ns(t->watch->ns), format_ns(quiet));
	else if (waits && process->in_call_ns >= t->watch->stuck_ns)
		say(t, WHY_STUCK, "a thread has been in %s for at least %s%s%s and made no other call; since "
			"when is not known", in_call, format_ns(process->in_call_ns), last, kernel);
	else if (process->busy)
		say(t, WHY_BUSY, "%" PRIu64 " CUDA calls in %s", process->calls, format_ns(t->watch->ns));
	else if (process->sync_ns)
		say(t, WHY_BUSY, "a thread has been in %s for %s%s%s: the GPU works for it",
			call_name(process->peek.sync_call), format_ns(process->sync_ns), last, kernel);
	else if (waits)
		say(t, WHY_BUSY, "a thread has been in %s for at least %s%s%s, since when is not known: the GPU "
			"works for it, or it is stuck, which --for %s would tell", in_call,
			format_ns(process->in_call_ns), last, kernel, format_ns(t->watch->stuck_ns));
	else if (process->in_call)
		say(t, WHY_BUSY, "a thread has been in %s for at least %s", in_call,
			format_ns(process->in_call_ns));
	else if (!process->peeked)
		say(t, WHY_UNSEEN, "its last allocation or wait was %s ago", format_ns(quiet));
	else if (held(t) && quiet >= idle_ns(t))
		say(t, WHY_IDLE, "it holds %s, made no CUDA call in %s, and its last allocation or "
			"wait was %s ago", format_bytes(held(t)), format_ns(t->watch->ns), format_ns(quiet));
	else
		say(t, WHY_QUIET, "no CUDA call in %s; its last allocation or wait was %s ago",
			format_ns(t->watch->ns), format_ns(quiet));
	free(kernel);
}

/* It rose, often, and never fell: memory that is freed again is seen to fall. */
static void tell_growth(const struct telling *t)
{
	unsigned rises = 0;

	for (unsigned i = 1; i < t->watch->samples; i++) {
		if (t->of->used[i] < t->of->used[i - 1])
			return;
		rises += t->of->used[i] > t->of->used[i - 1];
	}
	if (rises >= 3)
		say(t, WHY_GROWING, "it rose %u times from %s to %s in %s and never fell", rises,
			format_bytes(t->of->used[0]), format_bytes(held(t)), format_ns(t->watch->ns));
}

static void tell_kin(const struct telling *t)
{
	struct proc_state proc;
	const struct process_identity *who = t->process->who;

	if (!proc_state(t->process->pid, &proc))
		return;
	if (proc.stopped)
		say(t, WHY_STOPPED, "its state is %c; `cuward resume %d` lets it go on", proc.letter,
			t->process->pid);
	/* What it called its parent is a pid of its own namespace. */
	if (who->pid_ns == ledger_own_pid_ns() && who->ppid && proc.parent != who->ppid)
		say(t, WHY_ORPHAN, "process %u that started it is gone; %u is its parent now", who->ppid,
			proc.parent);
}

/* Who holds what of a limit of several processes. */
static void tell_shares(char *text, size_t bytes, const struct why_limit *limit)
{
	uint64_t rest = limit->used_bytes - limit->kept_bytes;
	size_t used;

	rest -= limit->own_bytes < rest ? limit->own_bytes : rest;
	used = (size_t)snprintf(text, bytes, ": %s by this process", format_bytes(limit->own_bytes));
	if (limit->others)
		used += (size_t)snprintf(text + used, bytes - used, ", %s by %u other%s", format_bytes(rest),
			limit->others, limit->others == 1 ? "" : "s");
	if (limit->kept_bytes)
		snprintf(text + used, bytes - used, ", %s kept for others", format_bytes(limit->kept_bytes));
}

static void tell_limit(const struct telling *t, const struct why_limit *limit)
{
	const struct box *box = t->watch->box;
	unsigned percent = t->watch->on[limit->gpu].near_percent;
	char shares[200] = "", from[180] = "", text[500];
	uint64_t near = limit->limit_bytes / 100 * percent + limit->limit_bytes % 100 * percent / 100;

	if (limit->used_bytes < near)
		return;
	if (strcmp(limit->scope, "process") != 0)
		tell_shares(shares, sizeof(shares), limit);
	if (limit->whose[0] || limit->source[0])
		snprintf(from, sizeof(from), " (%s%s%s)", limit->whose,
			limit->whose[0] && limit->source[0] ? "; " : "", limit->source);
	snprintf(text, sizeof(text), "%s of the %s limit of %s%s are used on %s%s",
		format_bytes(limit->used_bytes), limit->scope, format_bytes(limit->limit_bytes), from,
		box_gpu_name(box, &box->gpus[limit->gpu]), shares);
	t->tell(t->to, WHY_NEAR_LIMIT, text, limit);
}

static void tell_limits(const struct telling *t)
{
	struct why_limit limits[WHY_LIMITS];

	for (size_t i = 0; i < t->process->hold_count; i++) {
		unsigned count = why_limits(t->watch, (size_t)(t->process - t->watch->box->processes),
			&t->process->holds[i], limits);

		for (unsigned j = 0; j < count; j++)
			tell_limit(t, &limits[j]);
	}
}

void why_process(const struct why_watch *watch, size_t index, why_tell *tell, void *to)
{
	struct telling t = { watch, &watch->box->processes[index], &watch->of[index], tell, to };

	if (t.of->gone)
		return;
	tell_activity(&t);
	tell_growth(&t);
	tell_kin(&t);
	tell_limits(&t);
}

void why_other(const struct why_watch *watch, const struct box_other *other, why_tell *tell, void *to)
{
	struct telling t = { .watch = watch, .tell = tell, .to = to };
	bool known = other->used_bytes != BYTES_UNKNOWN;

	say(&t, WHY_OUTSIDE, "NVML says that it uses %s on %s (%s); what it does is not seen",
		known ? format_bytes(other->used_bytes) : "an unknown amount",
		box_gpu_name(watch->box, &watch->box->gpus[other->gpu]), other->kind);
}

/* ---- one GPU ---- */

struct holders {
	unsigned count;
	uint64_t sum, most;
	char who[40]; /* holds most */
};

static void add_holder(struct holders *holders, uint64_t used, const char *who)
{
	if (!used)
		return;
	holders->count++;
	holders->sum = slots_add(holders->sum, used);
	if (used <= holders->most)
		return;
	holders->most = used;
	snprintf(holders->who, sizeof(holders->who), "%s", who);
}

static void find_holders(struct holders *holders, const struct why_watch *watch, size_t gpu)
{
	const struct box *box = watch->box;
	char pid[24];

	for (size_t i = 0; i < box->count; i++) {
		for (size_t j = 0; j < box->processes[i].hold_count && !watch->of[i].gone; j++) {
			const struct box_hold *hold = &box->processes[i].holds[j];

			if (hold->gpu == gpu && hold->used_bytes != BYTES_UNKNOWN)
				add_holder(holders, watch->of[i].now.words[hold->word] & WORD_BYTES_MASK,
					ps_pid(&box->processes[i]));
		}
	}
	for (size_t i = 0; i < box->other_count; i++) {
		snprintf(pid, sizeof(pid), "%d", box->others[i].pid);
		if (box->others[i].gpu == gpu && box->others[i].used_bytes != BYTES_UNKNOWN)
			add_holder(holders, box->others[i].used_bytes, pid);
	}
}

void why_gpu(const struct why_watch *watch, size_t gpu, why_tell *tell, void *to)
{
	struct telling t = { .watch = watch, .tell = tell, .to = to };
	struct holders holders = { 0 };

	find_holders(&holders, watch, gpu);
	if (!holders.count)
		say(&t, WHY_NOBODY, "no process that we see holds memory there");
	else if (holders.count == 1)
		say(&t, WHY_ONE_HOG, "process %s alone holds %s", holders.who, format_bytes(holders.most));
	else if (holders.most > holders.sum / 2)
		say(&t, WHY_ONE_HOG, "process %s holds %s of the %s that %u processes hold", holders.who,
			format_bytes(holders.most), format_bytes(holders.sum), holders.count);
	else
		say(&t, WHY_MANY, "%u processes hold %s together, and none of them more than %s",
			holders.count, format_bytes(holders.sum), format_bytes(holders.most));
}
