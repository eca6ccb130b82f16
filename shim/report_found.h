/*
 * report_found.h - what a ledger tells of leaks, marks, refusals and faults, in the JSON report.
 */
#ifndef CUWARD_REPORT_FOUND_H
#define CUWARD_REPORT_FOUND_H

#include "json.h"
#include "report.h"

void report_put_leaks(struct json *json, const struct ledger_view *view);
void report_put_marks(struct json *json, const struct ledger_view *view);
void report_put_denials(struct json *json, const struct ledger_view *view);

void report_put_faults(struct json *json, const struct ledger_view *view);

/* objects: live ones by kind. */
void report_put_findings(struct json *json, const struct ledger_view *view,
	const uint64_t objects[OBJECT_COUNT]);

#endif
