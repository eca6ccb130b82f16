/*
 * ps.h - the box as a table, as JSON and as CSV.
 */
#ifndef PS_H
#define PS_H

#include <jansson.h>
#include <stdio.h>

#include "box.h"

enum ps_by { BY_PROCESS, BY_USER, BY_GPU };

/* A row of the table of processes: one and a GPU (NULL: it uses none), or one not under cuward. */
struct ps_row {
	const struct box *box;
	const struct box_process *process;
	const struct box_hold *hold;
	const struct box_other *other;
};

typedef const char *ps_cell(const struct ps_row *row);
typedef const char *ps_gpu_cell(const struct box_gpu *gpu);

struct ps_column {
	const char *name;    /* for -o */
	const char *heading; /* as table_column() takes it */
	ps_cell *cell;       /* its text is good until the next row */
};

struct ps_choice {
	const struct ps_column *columns[16];
	unsigned count;
	ps_gpu_cell *gpu_trend; /* NULL: no such column of GPUs */
};

/* ps_columns.c: the usual columns; those of a list "pid,user,...". False: name is none of them. */
void ps_usual(struct ps_choice *choice);
bool ps_choose(struct ps_choice *choice, const char *list, char name[32]);
/* "pid, user, ...": all there are. */
const char *ps_column_names(void);

void ps_table(FILE *out, const struct box *box, enum ps_by by, const struct ps_choice *choice);
void ps_csv(FILE *out, const struct box *box, enum ps_by by);
void ps_json(FILE *out, const struct box *box, bool refusals);

/* ps_refusals.c: what limits refused it, in words and as an array (null: it cannot be read). */
void ps_refusals(FILE *out, const struct box *box, const struct box_process *process);
json_t *ps_refusals_json(const struct box *box, const struct box_process *process);

/* Bytes, or "unknown". */
const char *ps_amount(uint64_t bytes);
/* What it waits for, in words; empty for nothing. Good until the next call. */
const char *ps_waits(const struct box *box, const struct box_process *process);
/* How long ago that was, in whole seconds. */
const char *ps_age(const struct box *box, uint64_t then_ns);
/* How long ago it last did something: "now", "12.0 s", "unknown". */
const char *ps_activity(const struct box *box, const struct box_process *process);
/* Its pid, marked where it is that of another namespace. */
const char *ps_pid(const struct box_process *process);

/* Numbers of JSON: unknown and none are null. */
json_t *ps_bytes(uint64_t bytes);
/* Whatever is no UTF-8 or steers a terminal is spelled out. */
json_t *ps_text(const char *text);
json_t *ps_time(uint64_t realtime_ns);
json_t *ps_other(const struct box *box, const struct box_other *other);
json_t *ps_process(const struct box *box, const struct box_process *process);

#endif
