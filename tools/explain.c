/*
 * explain.c - the pages of `cuward explain`. Codes are those of events.h and why.h;
 * tests/t/box_explain.bats sees to it that none is missing.
 */
#include "explain.h"

const struct explain_page explain_pages[] = {
	/* ---- findings ---- */
	{ "double-free", "finding",
		"Memory was freed that had been freed before. The driver answers with an error, and if "
		"the address "
		"was handed out again in between, somebody else's memory is gone.\n"
		"The report names both places. One owner should free; set the pointer to 0 behind it." },
	{ "invalid-free", "finding",
		"A free of a pointer that the driver never handed out here: not initialized, of another "
		"process, "
		"or of another family (cudaFree of host memory), which stays live then.\n"
		"The report names the place, and where it was allocated if it was here." },
	{ "interior-free", "finding",
		"A free of a pointer into the middle of an allocation. The driver refuses it and the "
		"memory stays.\n"
		"Keep the pointer that the allocation returned; the report names both places." },
	{ "free-after-shutdown", "finding",
		"Memory was freed after the driver had shut down, mostly by a destructor of a global "
		"object. It does no harm, "
		"since the driver gives everything back, but shows that the order of the end is not "
		"settled.\n"
		"Free before main() returns." },
	{ "context-reclaimed", "finding",
		"A context was destroyed while memory made in it was live; that memory went with it.\n"
		"Usual for programs that leave everything to the context. If it surprises you: free "
		"before cuCtxDestroy or "
		"cudaDeviceReset." },
	{ "pool-not-destroyed", "finding",
		"Memory pools made with cuMemPoolCreate were live at the end.\n"
		"cuMemPoolDestroy gives them back." },
	{ "records-dropped", "finding",
		"Some allocations are counted but not remembered one by one: the shared folder was "
		"full. Limits and sums "
		"are exact, the list of leaks is not complete.\n"
		"Make room in the shared folder (CUWARD_DIR), 64 MiB hold a million allocations; "
		"`cuward clean` helps." },
	{ "limit-unused", "finding",
		"A limit names a GPU by a UUID that the process does not see, so that part has no effect.\n"
		"Compare with nvidia-smi -L and CUDA_VISIBLE_DEVICES." },
	{ "limit-refused", "finding",
		"A limit could not be understood or not be kept, so CUDA was not allowed to start: a "
		"limit never fails open.\n"
		"The line on stderr and `refusal` say which; `cuward limit check` tries one." },
	{ "share-unavailable", "finding",
		"The shared folder could not be used. Limits of this process hold; other processes and "
		"`cuward ps` do not see "
		"it, and its report may lack call sites.\n"
		"`cuward doctor` says why." },
	{ "trace-unavailable", "finding",
		"A trace was asked for and no session took the events.\n"
		"Is lttng-sessiond installed, and does a session exist? `cuward doctor` looks; `cuward "
		"run --trace` makes a session." },
	{ "deepbind", "finding",
		"A library was opened with RTLD_DEEPBIND: it finds its own symbols first, and calls of "
		"its that are linked to the "
		"driver may get around cuward.\n"
		"What goes through cuGetProcAddress or dlsym is seen all the same. `untracked` tells if "
		"something was missed." },
	{ "namespace", "finding",
		"A library was opened with dlmopen in a namespace of its own, where nothing is preloaded.\n"
		"Its CUDA calls may not be seen; `untracked` tells if something was missed." },
	{ "context-overhead", "finding",
		"Contexts, modules and heaps took GPU memory that no call asks for by name. It is shown "
		"apart from what is "
		"charged.\n"
		"--overhead charge counts it to the limit, --overhead SIZE a fixed amount a context." },
	{ "untracked", "finding",
		"The driver gives out more than all processes seen here asked for: processes that do "
		"not run under cuward, "
		"graphics, or calls that got around it.\n"
		"nvidia-smi lists processes; start them under cuward, or leave room for them." },
	{ "pool-reserved", "finding",
		"Pools or graphs keep memory that was freed, to hand it out again quickly. Nobody else "
		"can use it.\n"
		"Lower the pool's release threshold or trim it; CUWARD_POOLS=reserved charges what is "
		"kept." },
	{ "green-context", "finding",
		"A green context was destroyed before the streams made in it.\n"
		"Destroy the streams first." },
	{ "unknown-format", "finding",
		"The size of an array was guessed: its format is one that this version does not know.\n"
		"Sums may differ from what the driver holds; a newer cuward may know it." },
	{ "too-few-marks", "finding",
		"Under --leak marks at least two marks are needed, since growth between them is what "
		"counts.\n"
		"Call cuward_mark() or `cuward mark PID NAME` once after warming up and once later." },
	{ "nvml-unlimited", "finding",
		"The program looked up nvmlDeviceGetMemoryInfo. NVML, and nvidia-smi, show the whole "
		"GPU and what all processes hold: no limit is in its numbers.\n"
		"cuMemGetInfo and cuDeviceTotalMem show the limit; let the program size itself by those." },
	{ "objects-live", "finding",
		"Streams, events, modules or other objects were never destroyed. They hold little "
		"memory each.\n"
		"`objects` in the report counts them by kind." },
	/* ---- leaks ---- */
	{ "leak", "leak",
		"Nobody freed this before the end, and no context that was destroyed owned it.\n"
		"The call site says who allocated it. What is meant to live as long as the process can "
		"be suppressed "
		"(--suppressions, `cuward leaks --gen-suppressions`)." },
	{ "growth", "leak",
		"What is live of this call site rose for the whole run (--leak growth), or between the "
		"first and the last mark.\n"
		"A cache that fills levels off; this did not. Look at what is kept there." },
	{ "held", "leak",
		"Live at the end, but so by design: a caching allocator or a library keeps it.\n"
		"It never counts as a leak." },
	{ "context", "leak",
		"Live when its context was destroyed, or its primary context was still there at the end.\n"
		"It never counts as a leak; freeing it is cleaner." },
	{ "imported", "leak", "Memory of another process that was opened and not closed.\n"
		"cuIpcCloseMemHandle; the exporter cannot give it back before." },
	{ "killed", "leak", "What a process held when it was killed or while it is running.\n"
		"It never counts as a leak: there was no end at which it could have been freed." },
	/* ---- why ---- */
	{ "busy", "why",
		"The process makes CUDA calls, or waits for the GPU for less than --stuck.\nNothing is "
		"to be done." },
	{ "quiet", "why",
		"No CUDA call while `cuward why` looked, but the last one is not long ago.\n"
		"Look again with a longer --for." },
	{ "waiting", "why", "An allocation waits until memory is free (--on-limit wait).\n"
		"`cuward ps` shows who holds it; `cuward limit set` gives more." },
	{ "idle-holding", "why",
		"The process holds memory and has done nothing for longer than --idle.\n"
		"A notebook that was forgotten? Ask its owner; `cuward kill PID` shows what would be "
		"lost." },
	{ "stuck", "why",
		"A thread has been waiting for the GPU for longer than --stuck and did nothing else: a "
		"kernel that never ends, a "
		"collective whose partner died, or one very long kernel.\n"
		"gdb -p PID shows where; compute-sanitizer or cuda-gdb what the kernel does." },
	{ "stopped", "why",
		"A signal stopped the process; --on-limit pause does so at a refusal.\n"
		"cuward resume PID lets it go on, and it tries again." },
	{ "growing", "why",
		"What the process holds rose again and again while we looked, and never fell.\n"
		"At the start that is usual. Later: run it with --leak growth." },
	{ "orphan", "why",
		"The process that started this one is gone: a dead notebook server, a data loader whose "
		"parent was killed, or "
		"a job that was meant to outlive its shell.\n"
		"`cuward kill PID`, if nobody waits for it." },
	{ "near-limit", "why",
		"Nine tenths of a limit are used, by the process or by all whom it counts; the next "
		"allocations may be refused. What is kept for others counts as used.\n"
		"`cuward limit get PID` shows every limit and where it comes from." },
	{ "unseen", "why",
		"The ledger of the process cannot be read, so what it does now is not known.\n"
		"As root more is seen." },
	{ "one-hog", "why", "One process holds more than half of what is in use on the GPU.\n"
		"`cuward limit set PID SIZE` keeps it from taking more; user_max or process_max in "
		"/etc/cuward for good." },
	{ "many", "why", "Several processes share the GPU and none holds more than half.\n"
		"If it is full all the same, limits of each (process_max) or a queue (--on-limit wait) "
		"help." },
	{ "nobody", "why", "No process under cuward holds anything there.\n"
		"Others may: where NVML is, `cuward ps` lists them." },
	{ "outside", "why",
		"A process uses the GPU that does not run under cuward, or that you may not see: NVML "
		"tells of it.\n"
		"What it does is not seen, and no limit binds it. Start it under cuward; `cuward kill PID` ends "
		"it." },
	/* ---- whose limit refused ---- */
	{ "process", "limit",
		"The limit of this process refused: CUWARD_MEMORY, `cuward limit set`, or process_max "
		"in /etc/cuward.\n"
		"The report's `limits` names the source." },
	{ "job", "limit",
		"All processes of the run together were over: --job-memory, `cuward limit set JOB`, or "
		"job_max in /etc/cuward.\n"
		"`holders` in the report says who held it." },
	{ "user", "limit",
		"All processes of the user together were over user_max in /etc/cuward.\n"
		"`cuward ps --by user` shows the sum, `holders` in the report who held it." },
	{ "group", "limit",
		"All users of a group together were over its group_max in /etc/cuward.\n"
		"`holders` in the report says who held it: uid, pid, command." },
	{ "gpu", "limit",
		"All users together would have filled the GPU so far that what is reserved were not free: "
		"`reserve` in /etc/cuward.\n"
		"`cuward limit get` shows it, `holders` in the report who held most. What is kept for a user "
		"or a group counts as used for everybody else." },
	/* ---- what leaves little room ---- */
	{ "promised", "room",
		"`cuward run --wait` or --gpu auto let others in, and what they asked for is theirs while their "
		"runs live, taken or not.\n"
		"`cuward queue` lists them (admitted), and what they hold of it." },
	{ "reserve", "room",
		"Memory is kept from you: by `reserve` in /etc/cuward, or by `cuward reserve` for a while.\n"
		"`cuward queue` lists what is kept for a while, with ids for `cuward release`." },
	{ "queue", "room",
		"Somebody waits for this GPU and comes first.\n"
		"`cuward queue` shows the turns; `cuward run --wait` takes the next one. A minute of waiting "
		"counts as much as a step of --priority." },
	/* ---- what --fail-on knows besides a leak ---- */
	{ "denied", "run",
		"A limit refused memory; the summary of `cuward run` counts it. --fail-on denied exits with "
		"25.\n"
		"`denials` in the report, and `cuward ps PID` while the process lives, say whose limit it was "
		"and who held it." },
	{ "stall", "run",
		"A thread of the process was in one call for --stall, and nothing else was allocated or waited "
		"for; --fail-on stall exits with 24.\n"
		"`run.watch` in the report says which call and kernel. --on-stall term ends the process." },
	{ "idle", "run",
		"The process held GPU memory and made no CUDA call for --idle; --fail-on idle exits with 24.\n"
		"`run.watch` in the report says since when. --on-idle term ends the process." },
	/* ---- exit statuses ---- */
	{ "0", "exit status", "All is fine, and nothing was found that somebody should look at." },
	{ "1", "exit status",
		"A command other than run found something, or its input was damaged." },
	{ "2", "exit status",
		"The command line cannot be understood.\n`cuward COMMAND --help`." },
	{ "3", "exit status",
		"What is needed is not available here: a library, a folder, memory." },
	{ "4", "exit status",
		"No permission.\nThe process or the file belongs to somebody else; root may." },
	{ "23", "exit status",
		"`cuward run`: the command succeeded, and leaked (--fail-on leak)." },
	{ "24", "exit status",
		"`cuward run`: the command succeeded, and stalled or idled (--fail-on stall, idle)." },
	{ "25", "exit status",
		"`cuward run`: the command succeeded, and a limit refused it memory (--fail-on denied)." },
	{ "75", "exit status", "`cuward run`: it waited for memory for too long." },
	{ "125", "exit status",
		"`cuward run` itself failed: the command was not started, its report cannot be written, "
		"or a process could not be recorded though --fail-on asked.\nThe line on stderr says why." },
	{ "126", "exit status", "`cuward run`: the command was found and is not executable." },
	{ "127", "exit status", "`cuward run`: the command was not found." },
};

const size_t explain_count = sizeof(explain_pages) / sizeof(explain_pages[0]);
