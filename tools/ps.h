/*
 * ps.h - the box as a table, as JSON and as CSV.
 */
#ifndef PS_H
#define PS_H

#include <jansson.h>
#include <stdio.h>

#include "box.h"

enum ps_by { BY_PROCESS, BY_USER, BY_GPU };

void ps_table(FILE *out, const struct box *box, enum ps_by by);
void ps_csv(FILE *out, const struct box *box, enum ps_by by);
void ps_json(FILE *out, const struct box *box);

/* What it waits for, in words; empty for nothing. Good until the next call. */
const char *ps_waits(const struct box *box, const struct box_process *process);
/* How long ago it last did something: "now", "12.3 s", "unknown". */
const char *ps_activity(const struct box *box, const struct box_process *process);
/* Its pid, marked where it is that of another namespace. */
const char *ps_pid(const struct box_process *process);

/* Numbers of JSON: unknown and none are null. */
json_t *ps_bytes(uint64_t bytes);
json_t *ps_time(uint64_t realtime_ns);
json_t *ps_other(const struct box *box, const struct box_other *other);
json_t *ps_process(const struct box *box, const struct box_process *process);

#endif
