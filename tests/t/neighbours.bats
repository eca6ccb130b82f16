#!/usr/bin/env bats
# Several processes on one GPU: what each is told of itself while the others come, allocate, free, end and are killed.

load guest

setup() {
	guest_setup
	play=$apps/play
	# 1 GiB, in blocks of 2 MiB; contexts cost nothing, so that figures are round.
	export CUWARD_SIM_MEMORY=1G CUWARD_SIM_CONTEXT_BYTES=0 keep_truth=none
	rm -f truth
	pids=()
}

teardown() {
	kill -9 "${pids[@]}" 2>/dev/null || true
	wait
	find state -name '*.ledger' -delete
}

# actor NAME [VARIABLE=VALUE...]: a process that plays the words it is told, one line at a time.
actor() {
	local name=$1
	shift
	mkfifo "$name.in"
	# shellcheck disable=SC2016
	env "$@" CUWARD_REPORT="$PWD/$name.json" LD_PRELOAD="$shim" "$play" init device 0 stdin <"$name.in" >"$name.out" 2>&1 3>&- &
	pids+=($!)
	declare -g "pid_$name=$!"
	exec {fd}>"$name.in"
	declare -g "fd_$name=$fd"
}

# tell NAME WORD...: and wait until it did that.
tell() {
	local name=$1 fd="fd_$1" pid="pid_$1" mark=$RANDOM-$SECONDS
	shift
	echo "$* say done-$mark" >&"${!fd}"
	for i in $(seq 300); do
		! grep -q "done-$mark" "$name.out" || return 0
		kill -0 "${!pid}" 2>/dev/null || break
		sleep 0.05
	done
	echo "$name: $*: $(tail -n 3 "$name.out")"
	return 1
}

# ends NAME: in order.
ends() {
	local fd="fd_$1" pid="pid_$1"
	echo "exit 0" >&"${!fd}"
	wait "${!pid}"
	eval "exec ${!fd}>&-"
}

killed() {
	local fd="fd_$1" pid="pid_$1"
	kill -9 "${!pid}"
	wait "${!pid}" || true
	eval "exec ${!fd}>&-"
}

@test "what each is told is right at every step, whoever came first and went first" {
	for order in "a b c" "b c a" "c a b" "a c b"; do
		rm -rf state truth ./*.in ./*.out
		read -r first second third <<<"$order"
		for name in $order; do
			actor $name CUWARD_MEMORY=256M
			tell $name info 256M/256M
		done
		tell $first alloc 100M info 256M/156M
		tell $second info 256M/256M alloc 256M info 256M/0 refused 1
		tell $first info 256M/156M
		tell $third alloc 50M info 256M/206M
		# One ends, one is killed: the others' own figures stay, and go on.
		ends $first
		tell $second info 256M/0
		tell $third info 256M/206M alloc 6M info 256M/200M
		killed $second
		tell $third info 256M/200M free 0 info 256M/250M alloc 250M info 256M/0
		# Who comes later begins with all of his own.
		mv $first.out $first.before
		rm $first.in
		actor $first CUWARD_MEMORY=256M
		tell $first info 256M/256M alloc 1M info 256M/255M
		tell $third info 256M/0 free 1 free 2 info 256M/256M
		ends $first
		ends $third
	done
}

@test "without a limit it is the driver's figure, and that falls and rises with the others" {
	actor a
	actor b
	tell a info 1G/1G
	tell b alloc 512M info 1G/512M
	tell a info 1G/512M alloc 256M info 1G/256M
	tell b info 1G/256M
	ends b
	tell a info 1G/768M
	actor c
	tell c alloc 768M info 1G/0
	tell a info 1G/0
	killed c
	tell a info 1G/768M freeall info 1G/1G
}

@test "while the limit binds, what is free does not grow because somebody else freed" {
	actor a CUWARD_MEMORY=256M
	actor b CUWARD_MEMORY=256M
	tell b alloc 200M
	tell a info 256M/256M alloc 100M info 256M/156M
	for step in "free 0" "alloc 128M" "alloc 128M" "free 1" "alloc 100M" "free 2"; do
		# shellcheck disable=SC2086
		tell b $step
		tell a info 256M/156M
	done
	killed b
	tell a info 256M/156M
	ends a
	mv a.json r.json
	used $((100 * MiB)) $((100 * MiB))
}

@test "where the GPU itself is fuller than the limit, free is what it has left, and grows with that" {
	actor a CUWARD_MEMORY=512M
	actor b
	tell b alloc 900M
	tell a info 512M/124M
	tell a alloc 100M info 512M/24M
	tell b free 0
	# 412 MiB are left under the limit, 924 on the GPU.
	tell a info 512M/412M
	# A free of its own is never less than it was, and free with what is held fits the total.
	tell b alloc 900M
	tell a info 512M/24M freeall info 512M/124M
}

@test "under a job's limit free is what the others of the job leave" {
	actor a CUWARD_JOB=j CUWARD_JOB_MEMORY=300M
	actor b CUWARD_JOB=j CUWARD_JOB_MEMORY=300M CUWARD_MEMORY=200M
	actor c CUWARD_JOB=k CUWARD_JOB_MEMORY=300M
	tell a info 300M/300M alloc 150M info 300M/150M
	tell b info 200M/150M alloc 100M info 200M/50M refused $((50 * MiB + 1))
	tell c info 300M/300M alloc 300M info 300M/0
	tell a info 300M/50M
	ends a
	tell b info 200M/100M alloc 100M info 200M/0 refused 1
	killed b
	actor d CUWARD_JOB=j CUWARD_JOB_MEMORY=300M
	tell d info 300M/300M alloc 300M refused 1
	tell c info 300M/0
}
