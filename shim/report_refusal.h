/*
 * report_refusal.h - a refusal in a sentence: what was asked for, whose limit, who holds it, what helps.
 */
#ifndef CUWARD_REPORT_REFUSAL_H
#define CUWARD_REPORT_REFUSAL_H

#include "report.h"

/* On one line, without an end of it. */
void report_refusal_text(struct report_out *out, const struct ledger_view *view,
	const struct ledger_denial *denial);

/* Only what helps. */
void report_refusal_advice(struct report_out *out, const struct ledger_view *view,
	const struct ledger_denial *denial);

/* A holder by name; one of the process that was refused itself has only the place in the ledger. */
struct ledger_holder report_holder(const struct ledger_view *view, const struct ledger_holder *holder);

#endif
