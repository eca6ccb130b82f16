#!/usr/bin/env bats
# Limits of a whole job: enforced without over-commitment, freed by death, explained; and what else than
# a plain no a refusal can be.

load guest

setup() {
	guest_setup
	play=$apps/play
}

teardown() {
	[ -z "${job:-}" ] || kill -9 $job 2>/dev/null || true
	guest_teardown
}

# grown PROCESSES THREADS GRANTS BYTES: under the job's limit; the driver's high-water in $high.
grown() {
	rm -f truth
	output=$(CUWARD_JOB=j LD_PRELOAD=$shim timeout 120 "$apps/group" "$@")
	high=$("$B/sim/truth" truth device.0.requested_high)
	find state -name '*.ledger' -delete
}

# in_job COMMAND...: in the background, as part of job j.
in_job() {
	CUWARD_JOB=j LD_PRELOAD=$shim "$@" >said 3>&- &
	job=$!
	for i in $(seq 100); do [ -s said ] && return; sleep 0.1; done
	false
}

@test "many processes and threads: never over the limit" {
	CUWARD_JOB_MEMORY=3M grown 4 4 100000 1048576
	echo "$output, at most $high"
	[[ "$output" =~ granted\ ([0-9]+)\ refused\ ([0-9]+) ]]
	[ "${BASH_REMATCH[1]}" -ge 100000 ]
	[ "${BASH_REMATCH[2]}" -gt 0 ]
	[ "$high" -eq $((3 << 20)) ]
}

@test "where everything fits nobody is refused" {
	CUWARD_JOB_MEMORY=1G grown 4 4 500000 1048576
	[[ "$output" == *"refused 0 "* ]]
}

@test "a run's processes share, another run's do not" {
	cat >two <<-'X'
		"$1" init device 0 alloc 3M say held sleep 60000 &
		sleep 1
		"$1" init device 0 alloc 4M refused 2M
		status=$?
		kill $!
		exit $status
	X
	chmod +x two
	"$B/cuward" run -q --sim --job-memory 8M --report r.json -- sh ./two "$play"
	jq -e '[.processes[].denials[]] | length == 1' r.json
	jq -e '.processes[].denials[0] | select(. != null) | .scope == "job" and .limit_bytes == 8388608 and
		.used_bytes == 7340032 and .bytes == 2097152' r.json
	jq -e '.processes[].denials[0] | select(. != null) | [.holders[] | .bytes] == [4194304, 3145728] and
		(.holders | map(.command) == ["play", "play"])' r.json
	jq -e '[.processes[].devices[0].limits[] | [.scope, .bytes]] | unique == [["job", 8388608]]' r.json
	"$B/cuward" run -q --sim --job-memory 8M -- "$play" init device 0 alloc 7M
}

@test "a run within a run is part of its job" {
	"$B/cuward" run -q --sim --job-memory 8M -- "$play" init device 0 alloc 5M \
		sh "'$B/cuward' run -q --sim -- '$play' init device 0 alloc 2M refused 2M"
	# One that is no lower binds nobody more than the outer one.
	for pair in 8M:8192K 8M:1G 8M:none 50%:51% 0=8M:0=1G; do
		"$B/cuward" run -q --sim --job-memory ${pair%:*} -- "$play" init device 0 alloc 5M \
			sh "'$B/cuward' run -q --sim --job-memory ${pair#*:} -- '$play' init device 0 alloc 2M refused 9G \
			$([ $pair = 50%:51% ] || echo refused 2M)"
	done
	"$B/cuward" run -q --sim --job-memory none -- "$B/cuward" run -q --sim --job-memory 4M -- \
		"$play" init device 0 alloc 4M refused 1M
}

@test "a lower limit of a run within a run: both apply" {
	# inner LIMIT WORD...: within what called it; its report in inner.json.
	printf '%s\n' '#!/bin/bash' "exec '$B/cuward' run -q --sim --job-memory \$1 --report inner.json -- '$play' init device 0 \"\${@:2}\"" >inner
	chmod +x inner
	outer() { "$B/cuward" run -q --sim --job-memory "$1" -- "$play" init device 0 "${@:2}"; }
	# Its own, though the outer one leaves more: all its processes together.
	outer 8M alloc 1M sh "./inner 4M alloc 3M refused 2M alloc 1M sh \"'$play' init device 0 refused 1K\""
	jq -e '.processes | map(select(.devices[0].peak_bytes > 0))[0] |
		([.devices[0].limits[] | [.scope, .bytes, .source]] ==
		[["job", 8388608, "CUWARD_JOB_MEMORY"], ["job", 4194304, "CUWARD_INNER_MEMORY"]]) and
		([.denials[] | [.scope, .limit_bytes, .used_bytes, .source]] ==
		[["job", 4194304, 3145728, "CUWARD_INNER_MEMORY"]])' inner.json
	jq -e '.processes | map(select(.devices[0].peak_bytes == 0))[0].denials[0] |
		.limit_bytes == 4194304 and .used_bytes == 4194304' inner.json
	# The outer one's, though its own leaves more.
	rm inner.json
	outer 8M alloc 5M sh "./inner 4M alloc 2M refused 2M alloc 1M"
	jq -e '.processes[0].denials[0] | [.limit_bytes, .used_bytes, .source] ==
		[8388608, 7340032, "CUWARD_JOB_MEMORY"]' inner.json
	# Which is lower may depend on the GPU.
	outer 50% sh "./inner 4M alloc 4M refused 1M" alloc 1G
	# A third one would be one too many, unless the others keep to it.
	outer 8M sh "./inner 4M sh \"./inner 6M alloc 4M refused 1M\""
	run outer 8M sh "./inner 4M sh \"./inner 2M\""
	[ "$status" -ne 0 ]
	[[ $output == *"no more than two limits of jobs can apply"* ]]
}

@test "a lower limit of a run within a run: contended, waited for, never passed" {
	export CUWARD_SIM_TRUTH=$PWD/truth
	"$B/cuward" run -q --sim --job-memory 8M -- "$B/cuward" run -q --sim --job-memory 3M -- \
		"$apps/group" 3 2 60000 $((512 << 10)) >out
	[ "$(awk '{ print ($2 >= 60000) ($4 > 0) }' out)" = 11 ]
	[ "$("$B/sim/truth" truth device.0.requested_high)" -le $((3 << 20)) ]
	[ "$("$B/sim/truth" truth device.0.requested_high)" -ge $((2 << 20)) ]
	# One that waits gets what another of the same run frees.
	"$B/cuward" run -q --sim --job-memory 8M -- "$B/cuward" run -q --sim --job-memory 4M --on-limit wait=20s -- bash -c \
		"'$play' init device 0 alloc 3M say held sleep 300 freeall & sleep 0.1; '$play' init device 0 alloc 2M; status=\$?; wait; exit \$status"
}

@test "who lost the variable is bound as the others are, and another job's is not" {
	CUWARD_JOB_MEMORY=8M in_job "$play" init device 0 alloc 4M say held sleep 600000
	CUWARD_JOB=j guest 0 "$play" init device 0 refused 5M alloc 4M
	CUWARD_JOB=other guest 0 "$play" init device 0 alloc 64M
	# One that a run within has for itself is not the outer one's.
	kill -9 $job
	CUWARD_JOB_MEMORY=8M CUWARD_JOB_OF=j/inner
	export CUWARD_JOB_MEMORY CUWARD_JOB_OF
	CUWARD_JOB=j/inner LD_PRELOAD=$shim "$play" init device 0 alloc 4M say held sleep 600000 >said 3>&- &
	job=$!
	for i in $(seq 100); do ! grep -q held said || break; sleep 0.1; done
	unset CUWARD_JOB_MEMORY CUWARD_JOB_OF
	CUWARD_JOB=j guest 0 "$play" init device 0 alloc 64M
	kill -9 $job
	find state -name '*.ledger' -delete
}

@test "who lost the variable is bound too when he was there before who has it" {
	CUWARD_JOB=j in_job "$play" init device 0 alloc 64M freeall alloc 4M say held sh 'while [ ! -e go ]; do sleep 0.02; done' \
		refused 5M alloc 4M say over
	first=$job
	CUWARD_JOB=other LD_PRELOAD=$shim "$play" init device 0 say up sh 'while [ ! -e go ]; do sleep 0.02; done' alloc 64M \
		>said-other 3>&- &
	other=$!
	CUWARD_JOB=j CUWARD_JOB_MEMORY=8M LD_PRELOAD=$shim "$play" init device 0 say up sleep 600000 >said-2 3>&- &
	job=$!
	for i in $(seq 300); do grep -q up said-2 && grep -q up said-other && break; sleep 0.1; done
	touch go
	wait $first
	wait $other
	[ "$(tail -1 said)" = over ]
	kill -9 $job
	find state -name '*.ledger' -delete
}

@test "what is free is what the job leaves" {
	in_job "$play" init device 0 alloc 3M say held sleep 60000
	export CUWARD_JOB_MEMORY=8M CUWARD_MEMORY=7M CUWARD_JOB=j
	LD_PRELOAD=$shim "$apps/play" init device 0 info 7M/5M alloc 1M info 7M/4M
	find state -name '*.ledger' -newer said -delete
	kill -9 $job
	wait $job || true
	LD_PRELOAD=$shim "$apps/play" init device 0 alloc 6M info 7M/1M
	find state -name '*.ledger' -delete
}

@test "what a killed process held is free at once" {
	export CUWARD_JOB_MEMORY=8M
	in_job "$play" init device 0 alloc 8M say held sleep 60000
	CUWARD_JOB=j LD_PRELOAD=$shim "$play" init device 0 refused 1M
	kill -9 $job
	wait $job || true
	CUWARD_JOB=j LD_PRELOAD=$shim "$play" init device 0 alloc 8M
	find state -name '*.ledger' -delete
}

@test "who ends with memory holds it until he is gone, and then nobody does" {
	# A handler that was registered before ours runs after it, for as long as it likes.
	"${CC:-cc}" -shared -fPIC -x c -o late.so - <<-'X'
		#include <stdlib.h>
		#include <unistd.h>
		static void late(int status, void *unused)
		{
			(void)status, (void)unused;
			if (getenv("LATE") && access("late", F_OK) != 0 && write(1, "late\n", 5) == 5)
				while (access("go", F_OK) != 0)
					usleep(1000);
		}
		__attribute__((constructor)) static void start(void) { on_exit(late, NULL); }
	X
	export CUWARD_JOB_MEMORY=8M
	LATE=1 in_job env LD_PRELOAD="$shim:$PWD/late.so" "$play" init device 0 alloc 6M
	[ "$(cat said)" = late ]
	CUWARD_JOB=j LD_PRELOAD=$shim "$play" init device 0 refused 4M alloc 2M freeall
	"$B/cuward" ps --json | jq -e '[.processes[] | [.state, .devices[0].used_bytes]] == [["alive", 6291456]]'
	touch go
	wait $job
	CUWARD_JOB=j LD_PRELOAD=$shim "$play" init device 0 alloc 8M freeall
	"$B/cuward" ps --json | jq -e '.processes == []'
	find state -name '*.ledger' -delete
}

@test "killed in the middle: nothing is lost, nothing is passed" {
	export CUWARD_JOB_MEMORY=12M CUWARD_JOB=j
	for i in $(seq 15); do
		LD_PRELOAD=$shim "$apps/group" 2 3 100000000 1048576 >/dev/null 3>&- &
		job=$!
		sleep 0.$((RANDOM % 3 + 1))
		kill -STOP $job # it makes no more children
		children=$(pgrep -P $job)
		kill -9 $children $job
		wait $job || true
		for child in $children; do
			while grep -qs '^State:.[^ZX]' /proc/$child/status; do sleep 0.01; done
		done
		# They are killed, and dead when the kernel is done with them.
		CUWARD_ON_LIMIT=wait=30s LD_PRELOAD=$shim timeout 60 \
			"$play" init device 0 alloc 12M refused 1 freeall
	done
	[ "$("$B/sim/truth" truth device.0.requested_high)" -eq $((12 << 20)) ]
	find state -name '*.ledger' -delete
}

@test "killed at twenty points of a call: peers go on at once, and get all of it" {
	CUWARD_JOB_MEMORY=8M CUWARD_JOB=j LD_PRELOAD=$shim timeout 120 "$apps/killat" 20 $((8 << 20))
	[ "$("$B/sim/truth" truth device.0.requested_high)" -eq $((8 << 20)) ]
	find state -name '*.ledger' -delete
}

@test "the same while peers allocate and free all the time" {
	export CUWARD_JOB_MEMORY=8M CUWARD_JOB=j
	LD_PRELOAD=$shim "$apps/group" 2 2 100000000 $((512 << 10)) 1 500 >/dev/null 3>&- &
	job=$!
	LD_PRELOAD=$shim timeout 120 "$apps/killat" 20 $((8 << 20)) $((2 << 20))
	kill -STOP $job
	kill -9 $(pgrep -P $job) $job
	[ "$("$B/sim/truth" truth device.0.requested_high)" -le $((8 << 20)) ]
	find state -name '*.ledger' -delete
}

@test "standing still at twenty points of a call: nobody hangs, nothing is passed" {
	CUWARD_JOB_MEMORY=8M CUWARD_JOB=j LD_PRELOAD=$shim timeout 200 "$apps/killat" stop 20 $((8 << 20))
	[ "$("$B/sim/truth" truth device.0.requested_high)" -le $((8 << 20)) ]
	find state -name '*.ledger' -delete
}

@test "waiting: until another process gives back" {
	export CUWARD_JOB_MEMORY=8M
	in_job "$play" init device 0 alloc 6M say held sleep 1500 freeall say freed sleep 60000
	CUWARD_JOB=j CUWARD_ON_LIMIT=wait=60s guest 0 "$play" init device 0 alloc 4M
	[ "$(cat said)" = $'held\nfreed' ]
	kill -9 $job
	find state -name '*.ledger' -delete
}

@test "waiting: the higher priority first, though it came later" {
	waiting() { [ "$("$B/cuward" ps --json | jq '[.. | objects | select(has("waiting")) | .waiting | select(.)] | length')" -eq "$1" ]; }
	export CUWARD_JOB_MEMORY=8M CUWARD_JOB=j
	in_job "$play" init device 0 alloc 8M say held sh 'while [ ! -e go ]; do sleep 0.02; done'
	pids=
	for priority in 0 5; do
		CUWARD_PRIORITY=$priority CUWARD_ON_LIMIT=wait=120s LD_PRELOAD=$shim \
			"$play" init device 0 alloc 8M sh "echo $priority >>order" 3>&- &
		pids="$pids $!"
		for i in $(seq 300); do waiting $((priority / 5 + 1)) && break; sleep 0.1; done
		waiting $((priority / 5 + 1))
	done
	touch go
	for pid in $job $pids; do wait $pid; done
	job=
	[ "$(tr '\n' ' ' <order)" = "5 0 " ]
	for wrong in 21 -21 x; do
		run env CUWARD_PRIORITY=$wrong LD_PRELOAD=$shim "$play" init
		[ "$status" -eq 99 ]
	done
	find state -name '*.ledger' -delete
}

@test "waiting: time runs out, or it is for nothing" {
	export CUWARD_MEMORY=4M
	start=$SECONDS
	CUWARD_ON_LIMIT=wait=1s guest 0 "$play" init device 0 alloc 4M refused 1M
	denied 1 $MiB
	[ $((SECONDS - start)) -ge 1 ]
	# More than the limit can never come; and alone over a job's limit nobody is waited for.
	CUWARD_ON_LIMIT=wait=600s guest 0 timeout 60 "$play" init device 0 alloc 4M refused 5M
	CUWARD_MEMORY=none CUWARD_JOB=j CUWARD_JOB_MEMORY=4M CUWARD_ON_LIMIT=wait=600s guest 0 \
		timeout 60 "$play" init device 0 alloc 3M refused 2M
	find state -name '*.ledger' -delete
}

# behind NAME [SIZE]: so much, else 8 MiB, of job NAME held, and given back after a second and a half.
behind() {
	CUWARD_JOB=$1 LD_PRELOAD=$shim "$play" init device 0 alloc "${2:-8M}" say held sleep 1500 freeall sleep 60000 \
		>said-$1 3>&- &
	job="${job-} $!"
	for i in $(seq 100); do [ -s said-$1 ] && return; sleep 0.1; done
	false
}

@test "waiting: who waits for another limit is not in the way" {
	export CUWARD_JOB_MEMORY=8M
	in_job "$play" init device 0 alloc 8M say held sleep 60000
	CUWARD_JOB=j CUWARD_ON_LIMIT=wait=60s LD_PRELOAD=$shim "$play" init device 0 say up alloc 4M >up 3>&- &
	job="$job $!"
	CUWARD_JOB=k CUWARD_MEMORY=1M CUWARD_ON_LIMIT=wait=60s LD_PRELOAD=$shim \
		"$play" init device 0 alloc 1M say up alloc 1M >up2 3>&- &
	job="$job $!"
	for i in $(seq 100); do [ -s up ] && [ -s up2 ] && break; sleep 0.1; done
	behind k 7M
	CUWARD_JOB=k CUWARD_ON_LIMIT=wait=20s guest 0 "$play" init device 0 alloc 4M
	kill -9 $job
	find state -name '*.ledger' -delete
}

@test "waiting: who is stopped is not in the way, and comes first again" {
	export CUWARD_JOB_MEMORY=8M
	behind k
	CUWARD_JOB=k CUWARD_ON_LIMIT=wait=60s LD_PRELOAD=$shim \
		"$play" init device 0 say up alloc 4M say got sleep 60000 >up 3>&- &
	first=$!
	job="$job $first"
	for i in $(seq 100); do [ -s up ] && break; sleep 0.1; done
	sleep 0.3
	# Whoever is stopped in the middle of asking keeps what he asks for: not now.
	for i in $(seq 50); do
		kill -STOP $first
		"$B/cuward" ps --json | jq -e "[.processes[] | select(.pid == $first) | .devices[].used_bytes] | add // 0 == 0" && break
		kill -CONT $first
		sleep 0.1
	done
	CUWARD_JOB=k CUWARD_ON_LIMIT=wait=20s guest 0 "$play" init device 0 alloc 6M
	kill -CONT $first
	for i in $(seq 100); do [ "$(cat up)" = $'up\ngot' ] && break; sleep 0.1; done
	[ "$(cat up)" = $'up\ngot' ]
	kill -9 $job
	find state -name '*.ledger' -delete
}

@test "waiting: a thread that is cancelled does not wait for ever" {
	CUWARD_MEMORY=4M CUWARD_ON_LIMIT=wait=2s in_job "$apps/impatient" cancel
	[ "$(cat said)" = cancelled ]
	"$B/cuward" ps --json | jq -e '[.. | objects | select(has("waiting")) | .waiting] == [null]'
	kill -9 $job
	find state -name '*.ledger' -delete
}

@test "pause: the process stops, and tries again when it is continued" {
	export CUWARD_JOB_MEMORY=8M
	in_job "$play" init device 0 alloc 8M say held sleep 60000
	CUWARD_JOB=j CUWARD_ON_LIMIT=pause LD_PRELOAD=$shim "$play" init device 0 alloc 4M say got 3>&- >other &
	paused=$!
	for i in $(seq 100); do
		[[ "$(ps -o stat= $paused)" == T* ]] && break
		sleep 0.1
	done
	[[ "$(ps -o stat= $paused)" == T* ]]
	kill -9 $job
	wait $job || true
	kill -CONT $paused
	wait $paused
	[ "$(cat other)" = got ]
	find state -name '*.ledger' -delete
}

@test "pause: a retry that fails is the same refusal" {
	CUWARD_MEMORY=4M CUWARD_ON_LIMIT=pause CUWARD_REPORT=$PWD/r.json LD_PRELOAD=$shim \
		"$play" init device 0 alloc 4M refused 1M 3>&- &
	job=$!
	for i in $(seq 100); do
		[[ "$(ps -o stat= $job)" == T* ]] && break
		sleep 0.1
	done
	kill -CONT $job
	wait $job
	denied 1 $MiB
	ask '[.denials[].count]' '[1]'
}

@test "kill: the report is written, then SIGTERM" {
	status=0
	CUWARD_MEMORY=4M CUWARD_ON_LIMIT=kill CUWARD_REPORT=$PWD/r.json LD_PRELOAD=$shim \
		"$play" init device 0 alloc 3M alloc 2M say never >out || status=$?
	[ "$status" -eq 143 ]
	[ ! -s out ]
	ask '[.ended, .status, .signal]' '["signal",143,15]'
	denied 1 $((2 * MiB))
	ask '[.leaks[].verdict]' '["killed"]'
	find state -name '*.ledger' -delete
}

@test "kill: ten seconds to end in order, whatever signals come" {
	CUWARD_MEMORY=4M CUWARD_ON_LIMIT=kill guest 7 "$apps/impatient" term
	find state -name '*.ledger' -delete
}

@test "a job whose limit is said to be that of another one: its own it stays" {
	export CUWARD_JOB_MEMORY=8M CUWARD_JOB_OF=elsewhere
	CUWARD_JOB=j guest 0 "$play" init device 0 alloc 7M refused 2M
	guest 0 "$play" init device 0 alloc 7M refused 2M
	CUWARD_JOB=a/b CUWARD_JOB_OF=a/bc guest 0 "$play" init device 0 alloc 7M refused 2M
	find state -name '*.ledger' -delete
}

@test "a process limit's refusal names the lines that hold the memory" {
	CUWARD_MEMORY=8M guest 0 "$play" init device 0 alloc 6M alloc 1M managed 512K refused 2M
	ask '.denials[0].holders | map([.bytes, .site.function])' \
		"[[$((7 * MiB)),\"allocate\"],[$((512 * KiB)),\"allocate\"]]"
	# It is a holder as any other: by name, and since when.
	jq -e --arg me "$(id -un)" '.processes[0] | . as $p | .uid == '"$(id -u)"' and (.denials[0].holders | length == 2 and
		all(.pid == $p.pid and .uid == $p.uid and .user == $me and .command == "play" and
		.since >= $p.start_time and .since <= $p.end_time and (.line | test("^allocate \\(play"))))' r.json
}

@test "settings of limits that are none" {
	for setting in JOB_MEMORY=8X ON_LIMIT=never ON_LIMIT=wait=soon; do
		run env "CUWARD_$setting" LD_PRELOAD=$shim "$play" init
		[ "$status" -eq 99 ]
		[[ "${lines[0]}" == "cuward: CUWARD_${setting%%=*}: "* ]]
		run env "CUWARD_$setting" "$B/cuward" run --sim -- true
		[ "$status" -eq 125 ]
	done
}
