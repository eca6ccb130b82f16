/*
 * events_text.h - events as text, one a line, for tests and bug reports.
 *
 *	# comment
 *	%source NAME                  events that follow were recorded on host NAME
 *	%discarded N                  the tracer dropped N events about here
 *	TIME_NS EVENT FIELD=VALUE...  times never decrease
 *
 * FIELD is a name of the schema in cuward/events.h; a field that is left out is 0 or "". Numbers
 * are decimal or 0x hex; kind, direction, scope, how, verdict and what may be words. Strings are
 * quoted, with \" \\ \n \t \xHH for what cannot stand in them. The first mistake ends the reading.
 */
#ifndef EVENTS_TEXT_H
#define EVENTS_TEXT_H

#include <stdio.h>

#include "event.h"

/* Read events from file, which is closed with the source; name is for messages. NULL: no memory. */
struct event_source *events_text_open(FILE *file, const char *name, const struct trace_log *log);

/* Write one event; every field, in the order of the schema. */
void events_text_write(FILE *file, const struct event *event);

#endif
