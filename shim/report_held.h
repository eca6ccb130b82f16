/*
 * report_held.h - libraries that keep memory until the process ends, on purpose.
 */
#ifndef CUWARD_REPORT_HELD_H
#define CUWARD_REPORT_HELD_H

#include "report.h"

/* Does the call site belong to such a library? */
bool report_is_held(const struct ledger_view *view, uint32_t site);

#endif
