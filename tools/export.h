/*
 * export.h - `cuward export`: the box as Prometheus metrics.
 *
 *	cmd_export.c       options, and how often
 *	export_metrics.c   box -> text
 *	export_http.c      text -> whoever asks over HTTP
 */
#ifndef EXPORT_H
#define EXPORT_H

#include <stdbool.h>
#include <stddef.h>

struct export_order {
	unsigned processes_max; /* more are summed up, not listed */
	bool nvml;
};

/* All metrics as text, to be freed. */
char *export_metrics(const struct export_order *order, size_t *bytes);

/* Serve on ADDRESS until a signal in `ends` came; the exit status. */
int export_serve(const struct export_order *order, const char *address);

/* SIGINT and SIGTERM end what goes on; set by cmd_export.c. */
extern volatile int export_ended;

#endif
