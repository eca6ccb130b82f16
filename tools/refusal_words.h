/*
 * refusal_words.h - what a ledger tells of a refusal, as texts; each is good until the next call.
 */
#ifndef REFUSAL_WORDS_H
#define REFUSAL_WORDS_H

#include "report.h"

const char *refusal_sentence(const struct ledger_view *view, const struct ledger_denial *denial);
const char *refusal_advice(const struct ledger_view *view, const struct ledger_denial *denial);

/* Where most of it was allocated; empty: unknown. */
const char *refusal_line(const struct ledger_view *view, const struct ledger_holder *holder);

#endif
