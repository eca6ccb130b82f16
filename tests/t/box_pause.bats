#!/usr/bin/env bats
# cuward pause and resume: a process or a job stands still and goes on; nobody else, whatever a slot says.

load guest
load box

setup() { box_setup; }
teardown() { box_teardown; }

state() { cut -d' ' -f3 /proc/$1/stat; }
is() { [ "$(state $1)" = "$2" ]; }
runs() { [ "$(state $1)" != T ]; }

@test "a process: it keeps what it holds, and goes on as if nothing was" {
	holder init device 0 alloc 3M say held sleep 600000
	other=$pid
	holder init device 0 alloc 4M say held sh 'while [ ! -e go ]; do sleep 0.05; done' free 0 exit 7
	run "$cuward" pause $pid
	[ "$status" -eq 0 ]
	[ "$output" = "process $pid, play of $(id -un), holds 4.00 MiB on GPU-51000000: stands still, and keeps what it holds" ]
	is $pid T
	runs $other
	touch go
	"$cuward" ps --json >out
	told "[.processes[] | select(.pid == $pid) | .devices[0].used_bytes]" "[$((4 * MiB))]"
	told "[.processes[] | [.pid, .stopped]] | sort" "$(jq -nc "[[$pid, true], [$other, false]] | sort")"
	"$cuward" ps | grep "^ *$pid " | grep -q ' stopped *play$'
	"$cuward" top --batch -n 1 | grep "^ *$pid " | grep -q ' stopped *play$'
	"$cuward" ps -o pid,waits | grep "^ *$other " | lacks stopped /dev/stdin
	run "$cuward" pause $pid
	[ "$status" -eq 0 ]
	[ "$output" = "cuward: pause: $pid: it stands still already" ]
	run "$cuward" resume $pid
	[ "$status" -eq 0 ]
	[ "$output" = "process $pid, play of $(id -un), holds 4.00 MiB on GPU-51000000: goes on" ]
	status=0
	wait $pid || status=$?
	[ "$status" -eq 7 ]
	run "$cuward" resume $other
	[ "$status" -eq 0 ]
	[ "$output" = "cuward: resume: $other: nothing there was stopped" ]
}

@test "a job, and the jobs within it; not one whose name begins the same" {
	CUWARD_JOB=train holder init device 0 alloc 1M say held sleep 600000
	one=$pid
	CUWARD_JOB=train/inner holder init device 0 alloc 2M say held sleep 600000
	two=$pid
	CUWARD_JOB=training holder init device 0 alloc 3M say held sleep 600000
	"$cuward" pause train >out
	[ "$(wc -l <out)" -eq 2 ]
	is $one T
	is $two T
	runs $pid
	# Another started meanwhile; those that stand still already are no fault.
	CUWARD_JOB=train holder init device 0 alloc 1M say held sleep 600000
	"$cuward" pause train >out
	[ "$(cut -d, -f1 out)" = "process $pid" ]
	"$cuward" resume train/inner >out
	eventually is $two S
	is $one T
	"$cuward" resume train >out
	[ "$(wc -l <out)" -eq 2 ]
	eventually is $one S
	eventually is $pid S
}

@test "whom --on-limit pause stopped goes on, and is refused once more" {
	CUWARD_MEMORY=4M CUWARD_ON_LIMIT=pause holder init device 0 alloc 3M say held alloc 2M
	eventually is $pid T
	"$cuward" limit set $pid 8M
	"$cuward" resume $pid
	wait $pid
}

@test "nobody by name, none that uses no CUDA, and not on the word of a slot" {
	sleep 600 3>&- &
	bystander=$!
	started+=($bystander)
	holder init device 0 alloc 1M say held sleep 600000
	# A number that would be this process in 32 bits is not its pid.
	for wrong in $bystander play sleep nojob 0 $((pid + (1 << 32))); do
		run "$cuward" pause $wrong
		[ "$status" -eq 1 ]
		[[ "$output" == *"uses CUDA under cuward; nobody is meant by name" ]]
	done
	for wrong in '' 'a b' '1 2' -x; do
		run "$cuward" pause $wrong
		[ "$status" -eq 2 ]
	done
	runs $bystander
	runs $pid
	# The slot of a living process, with the pid of another one.
	holder init device 0 alloc 3M say held sleep 600000
	lie $pid $bystander
	run "$cuward" pause $bystander
	echo "$output"
	[ "$status" -eq 1 ]
	[[ "$output" == *"it is gone, or not what its slot says" ]]
	runs $bystander
}

@test "somebody else's: only root" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	export CUWARD_DIR=$(mktemp -d)
	holder init device 0 alloc 3M say held sleep 600000
	cp "$cuward" "$CUWARD_DIR/cuward"
	chmod 755 "$CUWARD_DIR" "$CUWARD_DIR/cuward"
	chmod 644 "$CUWARD_DIR"/slots.0
	run setpriv --reuid 12345 --clear-groups "$CUWARD_DIR/cuward" pause $pid
	rm -r "$CUWARD_DIR"
	echo "$output"
	[ "$status" -eq 4 ]
	[ "$output" = "cuward: pause: process $pid: Operation not permitted" ]
	runs $pid
}
