/*
 * ctf.h - LTTng traces as events. The only door to the format of traces.
 */
#ifndef CTF_H
#define CTF_H

#include <stdio.h>

#include "event.h"

struct ctf_dir {
	char *path;
	uint32_t session; /* keys of processes hold for a user's part of it, in whatever folder that is */
	uint32_t user;    /* 0: it is not by users */
	bool orphan;      /* streams without metadata */
	bool has_streams;
};

/* Trace directories, each once, however often it is found. */
struct ctf_dirs {
	struct ctf_dir *items;
	size_t count, capacity;
	char **sessions;
	size_t session_count, session_capacity;
	uint32_t *users; /* uids; a user's number is their place + 1 */
	size_t user_count, user_capacity;
	size_t locked; /* folders that may not be looked into */
};

enum ctf_found {
	CTF_TRACES,      /* some were added */
	CTF_EMPTY,       /* no file at all lies under path */
	CTF_NO_METADATA, /* streams, and nothing that explains them */
	CTF_NONE,        /* something else */
	CTF_LOCKED,      /* nothing of these where we may look, and folders where we may not */
};

/* Add every trace under path: itself, sub-traces of users, whole folders of traces. */
enum ctf_found ctf_find(struct ctf_dirs *dirs, const char *path);
void ctf_dirs_free(struct ctf_dirs *dirs);

/*
 * All of them as one source, merged by time, each packet once. What breaks off is told to the log,
 * sets facts.damaged, and the rest is delivered. range NULL: all; else packets that can only add
 * to counts outside of it may be left out.
 */
struct event_source *ctf_open(const struct ctf_dirs *dirs, const struct event_range *range,
	const struct trace_log *log);

/* Write all events of all traces, whosever, as babeltrace2 does. */
void ctf_write_text(const struct ctf_dirs *dirs, const struct trace_log *log, FILE *out,
	struct trace_facts *facts);

#endif
