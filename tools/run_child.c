/*
 * run_child.c - start the command, forward signals to it, wait for it.
 *
 * All signals that can be forwarded are blocked in `run` and taken one by one with sigwaitinfo. The
 * command gets the mask and the dispositions that `run` was started with.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc_state.h"

static sigset_t mask_before, waited;
static struct sigaction child_before;

/* Never forwarded: what stops us together with the command, and what our own faults raise. */
static void choose_signals(void)
{
	static const int others[] = { SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGSEGV, SIGBUS,
		SIGILL, SIGFPE, SIGTRAP, SIGSYS };

	sigfillset(&waited);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		sigdelset(&waited, others[i]);
}

/* A closed standard descriptor would be given to the next file we open, and be written to. */
void run_child_guard_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			open("/dev/null", O_RDWR | O_CLOEXEC);
}

void run_child_block(void)
{
	struct sigaction standard = { .sa_handler = SIG_DFL };

	choose_signals();
	/* Where SIGCHLD is ignored nobody can wait for a child. */
	sigaction(SIGCHLD, &standard, &child_before);
	sigprocmask(SIG_BLOCK, &waited, &mask_before);
}

/* In the child; only returns if the command cannot be executed. */
static void execute(struct run *run, int report)
{
	int error;

	sigaction(SIGCHLD, &child_before, NULL);
	sigprocmask(SIG_SETMASK, &mask_before, NULL);
	execvp(run->argv[0], run->argv);
	error = errno;
	if (write(report, &error, sizeof(error)) < 0)
		_exit(EXIT_NOT_EXECUTABLE);
	_exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

/* The pipe closes when the command is executed; before that it may bring the error. */
static int wait_for_exec(struct run *run, int from)
{
	int error = 0;
	ssize_t got;

	do
		got = read(from, &error, sizeof(error));
	while (got < 0 && errno == EINTR);
	close(from);
	if (got <= 0)
		return 0;
	waitpid(run->child, NULL, 0);
	run_fail("%s: %s", run->argv[0], strerror(error));
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

int run_child_start(struct run *run)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return run_fail("cannot make a pipe: %s", strerror(errno));
	run->child = fork();
	if (run->child == 0) {
		close(ends[0]);
		execute(run, ends[1]);
	}
	close(ends[1]);
	if (run->child < 0) {
		close(ends[0]);
		return run_fail("cannot start a process: %s", strerror(errno));
	}
	return wait_for_exec(run, ends[0]);
}

/* Has the command ended? */
static bool reap(struct run *run)
{
	siginfo_t info = { .si_pid = 0 };
	int status;

	/* Once it is reaped there is nobody left to have a name. */
	if (waitid(P_PID, (id_t)run->child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
		proc_comm(run->child, run->comm);
	if (waitpid(run->child, &status, WNOHANG) != run->child)
		return false;
	run->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	run->status = run->signal ? 128 + run->signal : WEXITSTATUS(status);
	return true;
}

/*
 * What the terminal sends goes to the whole foreground group, so the command has it already. What a
 * process sends to us is meant for the command.
 */
static void forward(const struct run *run, const siginfo_t *info)
{
	if (info->si_code <= 0)
		kill(run->child, info->si_signo);
}

/* The next signal; false: none came within so long. 0 is for ever. */
static bool next_signal(siginfo_t *info, uint64_t ns)
{
	struct timespec time = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };

	return (ns ? sigtimedwait(&waited, info, &time) : sigwaitinfo(&waited, info)) > 0;
}

void run_child_wait(struct run *run)
{
	uint64_t period = run_watch_period(run);
	siginfo_t info;

	while (!reap(run)) {
		if (next_signal(&info, period) && info.si_signo != SIGCHLD)
			forward(run, &info);
		run_pids_look();
		if (period)
			run_watch_look(run);
	}
	if (period)
		run_watch_end(run);
}
