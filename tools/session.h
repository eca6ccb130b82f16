/*
 * session.h - the private LTTng session behind `cuward run --trace`.
 *
 * session_start() returns at once; a keeper child starts a session daemon of our own, sets up the
 * session and warms the buffers, while the caller prepares the guest. The caller stays free of
 * threads and of LTTng libraries. If the caller is killed, the keeper ends the session in order.
 *
 *	session_start -> session_ready -> (guest runs with session_environment) -> session_emit ...
 *	-> session_stop
 *
 * The keeper is one more child of the caller (session.keeper): a waitpid(-1) may meet it, and may
 * reap it. It lives in a session of its own, so no terminal signal reaches it.
 */
#ifndef CUWARD_SESSION_H
#define CUWARD_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cuward/events.h"

struct session_variable {
	const char *name;
	const char *value;
};

struct session {
	pid_t keeper;
	int talk;   /* to the keeper, -1 once it is gone */
	int events; /* to the helper that emits for us, -1 once it is gone */
	char home[40];
	struct session_variable environment[4]; /* last: name is NULL */
};

struct session_result {
	uint64_t lost;     /* events LTTng discarded */
	uint64_t bytes;    /* size of the trace on disk */
	bool complete;     /* the trace is whole: stopped and flushed in time */
	char warning[512]; /* a sentence, empty if all went well */
};

/*
 * Begin. trace_dir is an absolute path, made if it is missing; folder holds libcuward-lttng.so.
 * False: why is one sentence; nothing is left behind. The caller exits with EXIT_CUWARD.
 */
bool session_start(struct session *session, const char *trace_dir, const char *folder, char *why,
	size_t why_bytes);

/* Wait (bounded) until the session records and its buffers are there. False: as above. */
bool session_ready(struct session *session, char *why, size_t why_bytes);

/* What the guest needs in its environment: LTTNG_HOME and so on, ended by a NULL name. */
const struct session_variable *session_environment(const struct session *session);

/* Emit a struct event_* on behalf of an ended process. False: it could not be written. */
bool session_emit(struct session *session, enum cuward_event which, const void *event);

/*
 * Stop and destroy the session, end the daemon, remove its home; at most about 7 s. The trace then
 * belongs to the caller. Also right after a failed session_ready(), or to give up before it.
 */
void session_stop(struct session *session, struct session_result *result);

#endif
