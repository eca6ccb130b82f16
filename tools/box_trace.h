/*
 * box_trace.h - the trace of all of a user's processes on this machine: the file that says it is on, and
 * the requests in the slots of those who run. See TRACE_FILE in cuward/ledger.h.
 */
#ifndef BOX_TRACE_H
#define BOX_TRACE_H

#include <limits.h>
#include <sys/types.h>

#include "box.h"

struct box_trace {
	uint32_t control; /* what is written into slots */
	char home[PATH_MAX]; /* of the session daemon, "" the user's own place */
	char name[64];    /* of the LTTng session */
	char dir[PATH_MAX];
	bool own_daemon;
	uint64_t start_ns; /* CLOCK_REALTIME */

	pid_t keeper; /* who keeps it; 0: nobody any more */

	/* once it ended */
	bool ended, complete;
	uint64_t lost, bytes;
	char warning[512];
};

/* The file in this folder, open. -1 without one: no trace is on. Close it. */
int box_trace_open(const char *folder);
/* What it says, and who keeps it. False: nothing that can be understood. */
bool box_trace_read(int fd, struct box_trace *trace);
bool box_trace_write(int fd, const struct box_trace *trace);
/* Make it, and keep it as long as this process lives. -1 with a sentence: somebody else does, say. */
int box_trace_keep(const char *folder, char *why, size_t why_bytes);
extern const char box_trace_is_on[]; /* this sentence */
/* It is over: nobody shall find it any more. */
void box_trace_remove(const char *folder);

/* Root's, of all users: the same in the administrator's folder, which is made where there is none. */
int box_trace_keep_common(char *why, size_t why_bytes);
void box_trace_remove_common(void);
/* The one that this user's processes follow, open: that in the folder, else root's. -1 without one. */
int box_trace_open_any(const char *folder);

/* Are this file's processes ours to ask? */
bool box_trace_may_ask(const struct slots_file *file);
/* Write the request into their slots, or take it away again. */
void box_trace_ask(const struct box_trace *trace, bool on);

/* What became of the request, process by process. */
enum reach {
	REACH_RECORDED,
	REACH_LATER,   /* at its next CUDA call; or it waits for the session just now */
	REACH_STOPPED, /* by a signal: no call will come */
	REACH_FAILED,  /* the provider or the session; `why` says it */
	REACH_OTHERS,  /* of another user */
};
enum reach box_trace_reach(const struct box_trace *trace, const struct box_process *process,
	const char **why);
const char *box_trace_word(enum reach reach);

#endif
