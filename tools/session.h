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
	uint64_t bytes;    /* size of the trace on disk; 0 where it is not here */
	bool complete;     /* the trace is whole: stopped and flushed in time */
	unsigned snapshots;
	unsigned unwritten; /* refusals after the last snapshot that may be taken for them */
	char warning[512]; /* a sentence, empty if all went well */
};

/* net://HOST[:PORT[:PORT]]: the trace goes to a relay daemon there, and nothing of it is here. */
bool session_is_remote(const char *trace_dir);
/* What was asked for, its scheme in lower case. False: another scheme; nobody means a folder by it. */
bool session_place(const char *asked, char *place, size_t bytes);

/*
 * A flight recorder: the newest events stay in memory, and are written as a folder
 * DIR/snapshot-WHY-TIME-N when it is time. What names them is in DIR/ust all along, and in
 * `definitions` of each snapshot once the session has ended.
 */
struct session_recorder {
	bool on_denied, on_signal;
	char slots[4096];  /* the slots file of this user, and ... */
	char job[128];     /* ... whose refusals and deaths count */
	char asked[4096];  /* a file to be made: whoever wants a snapshot finds the keeper by its lock */
};
#define SNAPSHOT_PREFIX "snapshot-"
enum { SNAPSHOTS_DENIED_MAX = 16 }; /* for refusals, and as many for deaths */

bool session_start_recorder(struct session *session, const char *trace_dir, const char *folder,
	const struct session_recorder *recorder, char *why, size_t why_bytes);
/* One now, for this reason (a word). session_stop() waits for it. */
void session_snapshot(struct session *session, const char *why);

/*
 * Begin. trace_dir is an absolute path, made if it is missing, or remote; folder holds
 * libcuward-lttng.so.
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

/*
 * A session that outlives its caller (`cuward trace start`). The keeper ends it when it gets SIGTERM, or
 * when the daemon is gone. After session_ready(), or its failure, session_leave().
 */
struct session_lasting {
	const char *name;      /* of the LTTng session */
	const char *trace_dir; /* as of session_start() */
	const char *folder;
	const char *home;      /* of the daemon, "" where it is the one that this user finds anyway */
	bool daemon;           /* start one; else it is there */

	/*
	 * Called in the keeper: first of all (false: why); where nothing comes of it after that; when it
	 * records; before its end; last.
	 */
	bool (*begin)(void *user, char *why, size_t why_bytes);
	void (*failed)(void *user);
	void (*ready)(void *user);
	void (*ending)(void *user);
	void (*ended)(void *user, const struct session_result *result);
	void *user;
};

bool session_start_lasting(struct session *session, const struct session_lasting *lasting, char *why,
	size_t why_bytes);
void session_leave(struct session *session);

/*
 * Emit into somebody else's session, by session_emit(): a helper registers with its daemon.
 * session_part() waits until all is out, at most 3 s. False: no process could be started.
 */
bool session_join(struct session *session, const char *home, const char *folder, uid_t uid);
/* Waits until LTTng has it as a process of that user. */
bool session_is_joined(struct session *session);
void session_part(struct session *session);

/*
 * Is there a session daemon that answers? What it lost of the session of that name; complete is false
 * where it has none. At most 3 s. False: the warning says why.
 */
bool session_ask(const char *home, const char *name, struct session_result *result);

#endif
