/*
 * log.c - lines on stderr. The guest may have closed descriptor 2 and opened a data file in its
 * place: a line is written only while 2 is still the file it was when the process started.
 */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "settings.h"
#include "uncancelled.h"

static struct {
	bool known;
	dev_t device;
	ino_t inode;
} at_start;

void log_remember_stderr(void)
{
	struct stat status;

	if (fstat(STDERR_FILENO, &status) != 0)
		return;
	at_start.device = status.st_dev;
	at_start.inode = status.st_ino;
	at_start.known = true;
}

bool log_stderr_is_ours(void)
{
	struct stat status;

	return at_start.known && fstat(STDERR_FILENO, &status) == 0 &&
		status.st_dev == at_start.device && status.st_ino == at_start.inode;
}

static void signals_of_writing(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGPIPE);
	sigaddset(set, SIGXFSZ);
	sigaddset(set, SIGTTOU);
}

void log_hold_signals(struct held_signals *held)
{
	sigset_t set;

	signals_of_writing(&set);
	sigpending(&held->pending);
	pthread_sigmask(SIG_BLOCK, &set, &held->mask);
}

/* Take back what our writes raised; one that was pending before is the guest's. */
void log_release_signals(const struct held_signals *held)
{
	const struct timespec now = { 0 };
	int saved = errno;
	sigset_t raised;

	sigemptyset(&raised);
	if (!sigismember(&held->pending, SIGPIPE))
		sigaddset(&raised, SIGPIPE);
	if (!sigismember(&held->pending, SIGXFSZ))
		sigaddset(&raised, SIGXFSZ);
	while (sigtimedwait(&raised, NULL, &now) > 0 || errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &held->mask, NULL);
	errno = saved;
}

static enum log_level wanted_level(void)
{
	static const char *const words[] = { "off", "error", "warn", "info", "debug" };
	const char *wanted = settings_get(SETTING_log);

	for (int level = LOG_OFF; level <= LOG_DEBUG; level++) {
		if (strcmp(wanted, words[level]) == 0)
			return level;
	}
	return LOG_ERROR;
}

bool log_wants(enum log_level level)
{
	return level <= wanted_level();
}

void log_line(enum log_level level, const char *format, ...)
{
	int saved = errno;
	char text[1024] = "cuward: ";
	size_t used = strlen(text);
	struct held_signals held;
	va_list arguments;
	int count;
	UNCANCELLED_HERE;

	if (level <= wanted_level() && log_stderr_is_ours()) {
		va_start(arguments, format);
		count = vsnprintf(text + used, sizeof(text) - used - 1, format, arguments);
		va_end(arguments);
		if (count > 0)
			used += (size_t)count < sizeof(text) - used - 1 ? (size_t)count : sizeof(text) - used - 2;
		text[used++] = '\n';
		log_hold_signals(&held);
		if (write(STDERR_FILENO, text, used) < 0)
			used = 0; /* nobody listens */
		log_release_signals(&held);
	}
	errno = saved;
}
