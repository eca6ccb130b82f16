/*
 * ctf.h - LTTng traces as events. The only door to the format of traces.
 */
#ifndef CTF_H
#define CTF_H

#include "event.h"

struct ctf_dir {
	char *path;
	uint32_t session; /* keys of processes hold for a session, in whatever folder of it */
};

/* Trace directories, each once, however often it is found. */
struct ctf_dirs {
	struct ctf_dir *items;
	size_t count, capacity;
	char **sessions;
	size_t session_count, session_capacity;
};

enum ctf_found {
	CTF_TRACES,      /* some were added */
	CTF_EMPTY,       /* no file at all lies under path */
	CTF_NO_METADATA, /* streams, and nothing that explains them */
	CTF_NONE,        /* something else */
};

/* Add every trace under path: itself, sub-traces of users, whole folders of traces. */
enum ctf_found ctf_find(struct ctf_dirs *dirs, const char *path);
void ctf_dirs_free(struct ctf_dirs *dirs);

/*
 * Open one trace directory; name is for messages. What breaks off later is told to the log, sets
 * facts.damaged, and the rest is delivered. NULL: it cannot be opened as a whole, and why.
 */
struct event_source *ctf_open(const char *path, const char *name, const struct trace_log *log,
	char *why, size_t why_bytes);

/* A trace that does not open as a whole, one folder for each of its streams. */
struct ctf_parts {
	char *folder; /* in TMPDIR; NULL: it could not be made */
	char **paths; /* of the folders */
	char **names; /* of the streams */
	size_t count, capacity;
};

struct ctf_parts *ctf_split(const char *path);
/* Put a copy of its readable packets in place of a stream; false: there are none. */
bool ctf_salvage(const struct ctf_parts *parts, size_t part);
void ctf_parts_free(struct ctf_parts *parts);

#endif
