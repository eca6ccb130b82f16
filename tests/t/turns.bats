#!/usr/bin/env bats
# Waiting for memory: whose turn it is, between threads, processes and users, under every kind of limit.

load guest
load box

setup() { box_setup; }
teardown() { box_teardown; }

waiting() { [ "$("$cuward" ps --json | jq '[.processes[] | select(.waiting)] | length')" -eq "$1" ]; }

# waits NAME WORD...: in the background, as one of job j that waits; its pid in $pid, NAME into `order` when it has it.
waits() {
	CUWARD_JOB=j CUWARD_ON_LIMIT=wait=120s LD_PRELOAD=$shim "$play" init device 0 "${@:2}" sh "echo $1 >>order" \
		say "got $1" 3>&- >"said-$1" &
	pid=$!
	started+=($pid)
}

ordered() { [ "$(tr '\n' ' ' <order)" = "$1" ] || { cat order; return 1; }; }

until_go='while [ ! -e go ]; do sleep 0.02; done'

@test "threads under the limit of their process: who came first" {
	CUWARD_MEMORY=8M CUWARD_ON_LIMIT=wait=60s LD_PRELOAD=$shim timeout 60 "$apps/turns" threads >order
	ordered "0 1 2 "
}

@test "who gives back and wants it again at once does not get it before who waits" {
	export CUWARD_JOB_MEMORY=8M
	CUWARD_JOB=j LD_PRELOAD=$shim "$apps/turns" barge >barge 3>&- &
	started+=($!)
	held() { grep -q held barge; }
	eventually held
	# It keeps what it got, so that it is not there for the other again.
	waits w alloc 4M sh 'while [ ! -e over ]; do sleep 0.02; done'
	eventually waiting 1
	touch go
	ended() { [ "$(wc -l <barge)" -eq 2 ]; }
	eventually ended
	touch over
	wait $pid
	ordered "w "
	[ "$(tail -1 barge)" -le 1000 ]
}

@test "who comes with nothing queues, though it would fit; who holds something does not" {
	export CUWARD_JOB_MEMORY=8M
	CUWARD_JOB=j holder init device 0 alloc 4M alloc 4M say held sh 'while [ ! -e some ]; do sleep 0.02; done' free 0 \
		alloc 1M sh 'touch freed' sh "$until_go" freeall sleep 600000
	waits first alloc 8M sh 'sleep 0.2'
	first=$pid
	eventually waiting 1
	touch some
	freed() { [ -e freed ]; }
	eventually freed
	# 3M are left.
	waits second alloc 2M sh 'sleep 0.2'
	second=$pid
	eventually waiting 2
	# Who cannot wait takes what is there: nobody else could now.
	CUWARD_JOB=j guest 0 "$play" init device 0 alloc 1M freeall
	waiting 2
	touch go
	wait $first
	wait $second
	ordered "first second "
}

@test "who waits and is killed stands in nobody's way" {
	export CUWARD_JOB_MEMORY=8M
	CUWARD_JOB=j holder init device 0 alloc 8M say held sh "$until_go" freeall sleep 600000
	waits first alloc 8M
	first=$pid
	eventually waiting 1
	waits second alloc 6M
	second=$pid
	eventually waiting 2
	kill -9 $first
	touch go
	wait $second
	ordered "second "
	# Nor of one that comes now and cannot wait.
	rm go
	waits third alloc 8M sh 'sleep 600'
	kill -9 $pid
	CUWARD_JOB=j guest 0 "$play" init device 0 alloc 8M
}

@test "time runs out: refused, for what is so then" {
	export CUWARD_JOB_MEMORY=8M
	holder init device 0 alloc 5M say held sleep 600000
	CUWARD_ON_LIMIT=wait=1s guest 0 "$play" init device 0 alloc 1M refused 4M
	jq -e --argjson pid $pid '.processes[0].denials | length == 1 and (.[0] | .scope == "job" and .used_bytes == 6291456 and
		[.holders[] | .bytes] == [5242880, 1048576] and .holders[0].pid == $pid and .count == 1)' r.json
	waiting 0
}

@test "the order of five with three priorities, of a job and of a user" {
	for scope in JOB USER; do
		rm -rf order go state
		export CUWARD_JOB=j
		[ $scope = USER ] || export CUWARD_JOB_MEMORY=8M
		holder init device 0 say held sh 'while [ ! -e take ]; do sleep 0.02; done' alloc 8M sh 'touch taken' sh "$until_go" freeall sleep 600000
		[ $scope = JOB ] || "$cuward" limit set "$(id -un)" 8M
		touch take
		taken() { [ -e taken ]; }
		eventually taken
		rm take taken
		number=0
		pids=
		for who in 0:a 0:b 5:c -3:d 5:e; do
			CUWARD_PRIORITY=${who%:*} waits ${who#*:} alloc 8M
			pids="$pids $pid"
			number=$((number + 1))
			eventually waiting $number
		done
		touch go
		for pid in $pids; do wait $pid; done
		ordered "c e a b d "
		kill -9 "${started[0]}"
		started=()
		unset CUWARD_JOB_MEMORY
	done
}
