/*
 * session_parts.h - what the processes behind a trace session share; see session.h.
 *
 *	cuward run --- keeper (session_keeper.c)
 *	                 |--- session daemon (lttng-sessiond)
 *	                 |--- control (session_control.c): asks the daemon, under the daemon's uid
 *	                 |--- warmer (session_wire.c): the first process to register
 *	                 `--- emitter (session_wire.c): emits our own events, under the guest's uid
 */
#ifndef CUWARD_SESSION_PARTS_H
#define CUWARD_SESSION_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "session.h"

/* Whom the daemon runs as; see session_user.c. */
struct session_user {
	bool drop;  /* we are root, the daemon must not be */
	bool reach; /* it may write where root may */
	gid_t gid;
};

/* What everybody is told at birth. */
struct session_plan {
	const char *name; /* of the LTTng session */
	const char *home; /* of the daemon; "" where it is the one that this user finds anyway */
	bool daemon;      /* it is ours: started before all others, ended after them */
	const struct session_lasting *lasting; /* NULL: the session ends when its caller does */
	const struct session_recorder *recorder; /* NULL: all is written as it comes */
	const char *trace_dir;
	bool trace_dir_made; /* by us: it goes again where the session fails to start */
	const char *folder;
	struct session_user user;
	int talk;   /* keeper <-> run */
	int events; /* run -> emitter */
};

/* A report from a child to its parent: one message of a SOCK_SEQPACKET pair. */
struct session_report {
	bool good;
	bool last; /* the keeper's: nothing is left of the session but the trace */
	struct session_result result; /* of a stop; result.warning is why where good is false */
};

enum { READY_SECONDS = 20, STOP_SECONDS = 5, ASK_SECONDS = 3, WARMERS = 3 };

/* ---- session_talk.c ---- */

bool talk_pair(int ends[2]);
void talk_send(int socket, const struct session_report *report);
/* Always true, or always false with the reason: report and leave. */
void talk_good(int socket);
void talk_bad(int socket, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* False: nothing came in time, or the other end is gone. */
bool talk_receive(int socket, struct session_report *report, int milliseconds);
/* True once the other end is gone or said that it will send nothing more. */
bool talk_ended(int socket, int milliseconds);
int64_t clock_ms(void);

/* ---- session_user.c ---- */

/* How the daemon's home and rights are arranged; home is given to the daemon. False: errno. */
bool user_choose(struct session_user *user, const char *home);
/* Become the daemon's user. False: errno. */
bool user_drop(const struct session_user *user);
#define USER_NOBODY 65534

/* ---- the processes ---- */

/* Whoever speaks to the daemon or registers with it does this first. */
void plan_environment(const struct session_plan *plan);

void keeper_main(const struct session_plan *plan) __attribute__((noreturn));
void control_main(const struct session_plan *plan, int talk) __attribute__((noreturn));
/* Is there a daemon, and what has it lost of the session of that name? One report. */
void ask_main(const struct session_plan *plan, int talk) __attribute__((noreturn));
void warmer_main(const struct session_plan *plan, int talk) __attribute__((noreturn));
void emitter_main(const struct session_plan *plan, int talk) __attribute__((noreturn));

/*
 * session_recorder.c: while the command runs, ask control for snapshots as they are due. Returns when
 * the caller wants the end, or something died.
 */
struct recorder_ends {
	int control; /* talk with it */
	bool (*broken)(void *user);
	void *user;
};
void recorder_watch(const struct session_plan *plan, const struct recorder_ends *ends,
	struct session_result *result);

/* session_images.c: the processes of the run by their ledgers. */
struct image;
struct images {
	struct image *all; /* that were ever seen */
	unsigned killed;   /* since the look before */
	uint64_t denied;   /* in all */
};
void images_look(struct images *images, const struct session_recorder *recorder);

/* What names the events of snapshots goes along with each of them. False: there is none. */
bool recorder_link(const struct session_plan *plan);

/* An event as a message for the emitter; 0 if there is no such event. */
size_t wire_put(char *buffer, size_t size, enum cuward_event which, const void *event);
#define WIRE_BYTES_MAX 16384
/* And back: traces the event. A 0 byte must follow the message. */
void wire_take(const char *message, size_t bytes);

/* ---- session_tree.c: size of all files below; for root, take those of nobody; remove ---- */

uint64_t tree_size(const char *path);
void tree_take_over(const char *path);
void tree_remove(const char *path);
/* The files of one below the other, under the same names: hard links. */
void tree_link(const char *from, const char *to);

#endif
