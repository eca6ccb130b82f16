/*
 * log.h - what the shim says to people, on stderr, and when it may.
 *
 * Silent by default: errors are a refused configuration, everything else needs CUWARD_LOG.
 */
#ifndef CUWARD_LOG_H
#define CUWARD_LOG_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_OFF, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Remember which file descriptor 2 is, before the guest can use the number for something else. */
void log_remember_stderr(void);

/* Would a line of this level be written, if stderr is still there? */
bool log_wants(enum log_level level);

/* One line, "cuward: ..." on stderr, if the level is on and descriptor 2 is still stderr. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Is descriptor 2 still the stderr the process started with? */
bool log_stderr_is_ours(void);

/*
 * What writing may send to the process: SIGPIPE where nobody reads, SIGXFSZ at a limit of file sizes,
 * SIGTTOU from a terminal. Between these two none of our writes sends one to the guest.
 */
struct held_signals {
	sigset_t mask;
	sigset_t pending;
};

void log_hold_signals(struct held_signals *held);
void log_release_signals(const struct held_signals *held);

#endif
