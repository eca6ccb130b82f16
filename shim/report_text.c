/*
 * report_text.c - the leaks of a ledger in a few lines for people.
 */
#include "report.h"

#include "report_growth.h"
#include "report_leaks.h"
#include "text.h"

#define WORTH_TELLING_NS 2000000000ull /* the age of a leak */

static const char *const kind_names[KIND_COUNT] = {
	[KIND_DEVICE] = "device memory",
	[KIND_POOL] = "pool memory",
	[KIND_VMM] = "physical memory",
	[KIND_ARRAY] = "array memory",
	[KIND_MANAGED] = "managed memory",
	[KIND_PINNED] = "pinned host memory",
	[KIND_IMPORTED] = "imported memory",
	[KIND_GRAPH] = "graph memory",
};

static void put_amount(struct report_out *out, uint64_t bytes, uint64_t count)
{
	text_size(out, bytes);
	text_put(out, " in ");
	text_count(out, count, "allocation");
}

/* ", growing by 4 KiB a second" */
static void put_growth(struct report_out *out, const struct ledger_view *view,
	const struct ledger_growth *entry)
{
	struct report_growth growth = report_growth_of(view, entry);

	text_put(out, ", growing");
	if (growth.bytes_per_s != BYTES_NONE) {
		text_put(out, " by ");
		text_size(out, growth.bytes_per_s);
		text_put(out, " a second");
	}
}

static void put_group(struct report_out *out, const struct ledger_view *view,
	const struct leak_group *group)
{
	const char *api = report_call_name(view, group->api);
	uint64_t end_ns = view->header->end_realtime_ns;

	text_put(out, "  ");
	put_amount(out, group->bytes, group->count);
	text_put(out, " (");
	text_put(out, kind_names[group->kind]);
	if (group->kind != KIND_PINNED && group->device < view->header->device_count) {
		text_put(out, ", GPU ");
		text_number(out, group->device);
	}
	text_put(out, ") from ");
	report_site_text(out, view, group->site);
	if (api && !report_site_owner(view, group->site)) {
		text_put(out, " by ");
		text_put(out, api);
	}
	if (group->verdict == VERDICT_GROWTH && group->growth)
		put_growth(out, view, group->growth);
	else if (group->first_ns > 0 && end_ns >= group->first_ns + WORTH_TELLING_NS) {
		text_put(out, group->count > 1 ? ", first " : ", ");
		text_span(out, end_ns - group->first_ns);
		text_put(out, " before the end");
	}
	text_char(out, '\n');
}

/* What does not fit into the lines. */
static void put_rest(struct report_out *out, const struct leak_group *groups, unsigned count)
{
	uint64_t bytes = 0, allocations = 0;

	for (unsigned i = 0; i < count; i++) {
		bytes += groups[i].bytes;
		allocations += groups[i].count;
	}
	text_put(out, "  ");
	put_amount(out, bytes, allocations);
	text_put(out, " from ");
	text_count(out, count, "more place");
	text_char(out, '\n');
}

static void put_heading(struct report_out *out, const struct ledger_view *view,
	const struct leak_group *groups, unsigned count, bool alone)
{
	const struct process_identity *who = &view->header->who;
	struct report_leaks sum = { 0, 0 };

	for (unsigned i = 0; i < count; i++) {
		sum.bytes += groups[i].bytes;
		sum.count += groups[i].count;
	}
	text_put(out, "cuward: ");
	text_clean(out, who->command, sizeof(who->command));
	text_put(out, " (pid ");
	text_number(out, who->pid);
	text_put(out, ") leaked ");
	put_amount(out, sum.bytes, sum.count);
	if (view->header->leak_mode == LEAK_MARKS)
		text_put(out, " between its first and last mark");
	text_put(out, alone ? "\n" : ":\n");
}

void report_leaks_text(struct report_out *out, const struct ledger_view *view, unsigned lines)
{
	unsigned count, leaks = 0, shown;
	const struct leak_group *groups = report_leak_groups(view, &count);

	while (leaks < count && report_counts(&groups[leaks]))
		leaks++;
	if (leaks == 0 || lines == 0)
		return;
	put_heading(out, view, groups, leaks, lines == 1);
	if (lines == 1)
		return;
	shown = leaks < lines ? leaks : lines - 2;
	for (unsigned i = 0; i < shown; i++)
		put_group(out, view, &groups[i]);
	if (shown < leaks)
		put_rest(out, groups + shown, leaks - shown);
}
