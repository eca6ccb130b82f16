#!/bin/sh
# slurm-task-prolog.sh - TaskProlog=/usr/local/share/cuward/slurm-task-prolog.sh in slurm.conf: every task
# runs under cuward, the tasks of a job on a node are one job to it, and may hold together what the job asked
# for: with --export=ALL,CUWARD_JOB_MEMORY=SIZE, else with --comment=gpumem=SIZE (without either: what /etc/cuward
# allows). Slurm sets what is printed as "export NAME=VALUE". A prolog has no comment in its environment, so
# squeue is asked; where it does not answer, CUDA is refused: what was asked for is not known.
cuward=${CUWARD:-cuward}
command -v "$cuward" >/dev/null || exit 0
job=slurm-${SLURM_JOB_ID:?}
export CUWARD_JOB="$job" CUWARD_JOB_OF="$job"
export CUWARD_LABEL="slurm_job=$SLURM_JOB_ID${SLURM_JOB_ACCOUNT:+,account=$SLURM_JOB_ACCOUNT}"
comment_of_job() {
	for try in 1 2 3; do
		timeout 10 squeue -h -j "$SLURM_JOB_ID" -o %k && return
		sleep $try
	done
	echo gpumem=squeue.does.not.answer
}
if [ -z "${CUWARD_JOB_MEMORY-}" ]; then
	comment=${SLURM_JOB_COMMENT-$(comment_of_job 2>/dev/null)}
	case $comment in
	*gpumem=*)
		size=${comment#*gpumem=}
		export CUWARD_JOB_MEMORY="${size%%[!0-9A-Za-z.%]*}"
		;;
	esac
fi
exec "$cuward" env --slurm
