/*
 * ctf.h - LTTng traces as events. The only door to the format of traces.
 */
#ifndef CTF_H
#define CTF_H

#include "event.h"

/* Trace directories, each once, however often it is found. */
struct ctf_dirs {
	char **paths;
	size_t count, capacity;
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
 * All of them, merged by time. What cannot be read is told to the log and sets facts.damaged; the
 * rest is delivered.
 */
struct event_source *ctf_open(const struct ctf_dirs *dirs, const struct trace_log *log);

#endif
