/*
 * holders.h - where in their programs those who hold memory allocated most of it, for a refusal.
 */
#ifndef CUWARD_HOLDERS_H
#define CUWARD_HOLDERS_H

#include "cuward/ledger.h"

/*
 * The line of each of them: our own as a call site; of our user's other processes as a text, from their
 * ledgers. Those of other users are private. Files are read: once for each kind of refusal.
 */
void holders_find_lines(struct ledger_holder holders[LEDGER_HOLDERS], uint8_t device,
	unsigned word_index);

#endif
