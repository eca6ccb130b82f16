/*
 * outer_pid.h - pids of other pid namespaces as we see them.
 */
#ifndef OUTER_PID_H
#define OUTER_PID_H

#include <sys/types.h>

#include "cuward/ledger.h"

/* The pid of this process in our namespace; 0 where it cannot be seen from here, or not be told. */
pid_t outer_pid(const struct process_identity *who);

/*
 * Each process of an inner namespace that has this pid there and was started then; who has them, and its
 * namespace, 0 where we may not know.
 */
typedef void outer_pid_tell(void *to, const struct process_identity *who, pid_t pid);
void outer_pid_each(uint32_t pid, uint64_t start_ticks, outer_pid_tell *tell, void *to);

/* Look anew at the next question: processes come and go. */
void outer_pid_forget(void);

#endif
