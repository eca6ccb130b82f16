/*
 * cuward.h - the subcommands of `cuward`, one row each.
 *
 * X(name, summary): int cmd_<name>(int argc, char **argv) lives in cmd_<name>.c and returns the
 * exit status; argv[0] is "cuward name". A row without a summary is not shown in the help.
 */
#ifndef CUWARD_TOOLS_CUWARD_H
#define CUWARD_TOOLS_CUWARD_H

#include "cuward/events.h"

#define CUWARD_COMMANDS(X) \
	X(advise, "what reports say about the next run: limit, how many fit, batch") \
	X(clean, "remove what dead processes left: slots and ledgers") \
	X(doctor, "what is enforced on this machine, and what is not") \
	X(env, "variables that put programs under cuward: shells, Docker, Slurm") \
	X(events, "") \
	X(explain, "one page on any code or message of cuward") \
	X(export, "Prometheus metrics: once, into a file, or over HTTP") \
	X(fit, "which GPU has room for so much") \
	X(kill, "end a process that holds GPU memory, with care") \
	X(leaks, "leaks of a report in another form, or against an earlier one") \
	X(limit, "limits of running processes, and where each comes from") \
	X(mark, "name this moment in a process that runs with --leak marks") \
	X(pause, "stop a process or a job that uses the GPU, until it is resumed") \
	X(preflight, "") \
	X(ps, "who holds GPU memory here, against which limit, and who is idle") \
	X(queue, "who waits for GPU memory, and for whom some is kept") \
	X(release, "end what reserve keeps") \
	X(report, "who used how much: the history of processes that have ended") \
	X(reserve, "keep GPU memory for somebody, for a while") \
	X(resume, "let a stopped process or job go on") \
	X(run, "run a command under limits, leak check and trace") \
	X(stats, "tables of a trace: processes, kernels, calls, copies, memory") \
	X(timeline, "what the processes of a trace did on the GPUs, over time") \
	X(top, "who holds GPU memory here, live") \
	X(trace, "one trace of all your CUDA processes here, running ones included") \
	X(why, "is it normal, whose is it, is it doing anything, and how we know")

#define X(name, summary) int cmd_##name(int argc, char **argv);
CUWARD_COMMANDS(X)
#undef X

#endif
