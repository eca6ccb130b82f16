#!/bin/sh
# slurm-task-prolog.sh - TaskProlog=/usr/local/share/cuward/slurm-task-prolog.sh in slurm.conf: every task
# runs under cuward, the tasks of a job on a node are one job to it, and may hold together what the job asked
# for with --comment=gpumem=SIZE (without it: what /etc/cuward allows). Slurm sets what is printed as
# "export NAME=VALUE".
cuward=${CUWARD:-cuward}
command -v "$cuward" >/dev/null || exit 0
job=slurm-${SLURM_JOB_ID:?}
export CUWARD_JOB="$job" CUWARD_JOB_OF="$job"
export CUWARD_LABEL="slurm_job=$SLURM_JOB_ID${SLURM_JOB_ACCOUNT:+,account=$SLURM_JOB_ACCOUNT}"
case ${SLURM_JOB_COMMENT:-} in
*gpumem=*)
	size=${SLURM_JOB_COMMENT#*gpumem=}
	export CUWARD_JOB_MEMORY="${size%%[!0-9A-Za-z.%]*}"
	;;
esac
exec "$cuward" env --slurm
