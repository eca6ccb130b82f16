/*
 * settings.h - every setting of the shim, one row each.
 *
 * X(name, environment, default, help). The shim reads them all once, at the first CUDA call of the
 * process; `cuward run` turns its options into the same variables, prints them with --dry-run, and
 * the README's table is checked against these rows.
 */
#ifndef CUWARD_SETTINGS_H
#define CUWARD_SETTINGS_H

#define CUWARD_SETTINGS(X) \
	X(memory, "CUWARD_MEMORY", "none", \
	  "limit of each process on each GPU: SIZE, N%, none, or a list 0=2G,GPU-uuid=4G") \
	X(job_memory, "CUWARD_JOB_MEMORY", "none", \
	  "limit of all processes of one run together, on each GPU") \
	X(managed, "CUWARD_MANAGED", "charge", \
	  "managed memory: charge it to the limit, ignore it, or SIZE, a limit of its own") \
	X(pinned, "CUWARD_PINNED", "none", \
	  "limit of pinned and registered host memory of each process: SIZE or none") \
	X(imported, "CUWARD_IMPORTED", "ignore", \
	  "memory imported from another process: ignore it, or charge it to the limit too") \
	X(pools, "CUWARD_POOLS", "live", \
	  "stream-ordered memory: charge what is live, or what its pools keep reserved") \
	X(overhead, "CUWARD_OVERHEAD", "show", \
	  "what contexts and modules take: show it, charge it, or charge SIZE a context") \
	X(on_limit, "CUWARD_ON_LIMIT", "deny", \
	  "what a refusal does: deny, wait[=T], pause, kill") \
	X(priority, "CUWARD_PRIORITY", "0", \
	  "whose turn it is among those that wait: -20 to 20, a step is worth a minute of waiting") \
	X(leak, "CUWARD_LEAK", "exit", \
	  "what counts as a leak: exit, growth, marks, off; without cuward run also a text at exit") \
	X(suppressions, "CUWARD_SUPPRESSIONS", "", \
	  "file of leaks that do not count, in LeakSanitizer's syntax") \
	X(stack, "CUWARD_STACK", "addr", \
	  "how much of the call site is kept: none, addr, native, python, full") \
	X(report, "CUWARD_REPORT", "", \
	  "write a JSON report to this file (%p pid, %t start time, %h host, %u user)") \
	X(trace, "CUWARD_TRACE", "0", \
	  "1: emit LTTng tracepoints to the session daemon that LTTNG_HOME or the user has") \
	X(gpu_time, "CUWARD_GPU_TIME", "0", \
	  "time kernels and copies on the GPU, one in N; 0: none. With CUWARD_TRACE only") \
	X(label, "CUWARD_LABEL", "", \
	  "K=V pairs, comma separated, carried into reports and traces") \
	X(log, "CUWARD_LOG", "error", \
	  "what the shim says on stderr: off, error, warn, info, debug") \
	X(job_of, "CUWARD_JOB_OF", "", \
	  "id of the job that CUWARD_JOB_MEMORY limits; cuward run sets it") \
	X(inner_memory, "CUWARD_INNER_MEMORY", "none", \
	  "limit of a run within a run, beside CUWARD_JOB_MEMORY; cuward run sets it") \
	X(inner_of, "CUWARD_INNER_OF", "", \
	  "id of the job that CUWARD_INNER_MEMORY limits; cuward run sets it") \
	X(job, "CUWARD_JOB", "", \
	  "id of the job this process belongs to; cuward run sets it, nested runs append /id") \
	X(dir, "CUWARD_DIR", "", \
	  "where shared state lives; default $XDG_RUNTIME_DIR/cuward, else /dev/shm/cuward-UID") \
	X(disable, "CUWARD_DISABLE", "0", \
	  "1: pure pass-through, nothing is counted or enforced")

#endif
