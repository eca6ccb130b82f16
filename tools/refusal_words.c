/*
 * refusal_words.c - the words of the report on a refusal, for `cuward ps`.
 */
#include "refusal_words.h"

#include "report_refusal.h"
#include "report_sites.h"
#include "text.h"

static struct report_out words;

static struct report_out *begin(void)
{
	words = (struct report_out){ 0 };
	return &words;
}

/* There is room for more than any of them has. */
static const char *end(void)
{
	words.buffer[words.used < sizeof(words.buffer) ? words.used : sizeof(words.buffer) - 1] = '\0';
	return words.buffer;
}

const char *refusal_sentence(const struct ledger_view *view, const struct ledger_denial *denial)
{
	report_refusal_text(begin(), view, denial);
	return end();
}

const char *refusal_advice(const struct ledger_view *view, const struct ledger_denial *denial)
{
	report_refusal_advice(begin(), view, denial);
	return end();
}

const char *refusal_line(const struct ledger_view *view, const struct ledger_holder *holder)
{
	struct report_out *out = begin();

	if (report_site(view, holder->site))
		report_site_text(out, view, holder->site);
	else
		text_clean(out, holder->line, sizeof(holder->line));
	return end();
}
