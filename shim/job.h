/*
 * job.h - jobs of runs, and those that somebody else named: a prolog, a pod.
 */
#ifndef CUWARD_JOB_H
#define CUWARD_JOB_H

#include <stdbool.h>

#include "cuward/ledger.h"

/* In the folder of shared state: is this job, or one above it, a run's, which reads what is left? */
bool job_is_of_run(int folder, const char *job);

/* Open, below that folder, a folder for the ledgers of `job` ("" for none), made if missing. */
int job_open_folder(int folder, const char *job);

/* A process outside any run left its ledger behind when it was killed; its slot names the file. */
void job_remove_ledger(int folder, const struct process_identity *who);

#endif
