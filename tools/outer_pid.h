/*
 * outer_pid.h - pids of other pid namespaces as we see them.
 */
#ifndef OUTER_PID_H
#define OUTER_PID_H

#include <sys/types.h>

#include "cuward/ledger.h"

/* The pid of this process in our namespace; 0 where it cannot be seen from here, or not be told. */
pid_t outer_pid(const struct process_identity *who);

/* Look anew at the next question: processes come and go. */
void outer_pid_forget(void);

#endif
