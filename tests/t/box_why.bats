#!/usr/bin/env bats
# cuward why: each verdict from a program that shows it, and not from one that nearly does.

load guest
load box

setup() { box_setup; }
teardown() { box_teardown; }

# why STATUS WORD...: the answer as JSON in out.
why() {
	local status=0
	"$cuward" why --json "${@:2}" >out || status=$?
	[ "$status" -eq "$1" ] || { cat out; return 1; }
}

# verdicts [PID]: of a process, without the activity of others.
verdicts() { told "[.processes[] | select(.pid == ${2-$pid}) | .verdicts[].verdict]" "$1"; }
evidence() {
	jq -r ".processes[] | select(.pid == $pid) | .verdicts[] | select(.verdict == \"$1\") | .evidence" out >is
	grep -Eq "$2" is || { cat is; return 1; }
}

@test "busy: launches alone" {
	holder init device 0 say held launches 600000
	why 0 --for 1s
	verdicts '["busy"]'
	evidence busy '^[0-9]+ CUDA calls in 1\.00 s$'
}

@test "idle-holding, and only quiet" {
	holder init device 0 alloc 3M say held sleep 600000
	why 0 --for 0.3s
	verdicts '["quiet"]'
	sleep 1
	why 1 --for 0.3s --idle 1s
	verdicts '["idle-holding"]'
	evidence idle-holding '^it holds 3\.00 MiB, made no CUDA call in 300 ms, and its last allocation or wait was [0-9.]+ s ago$'
	# Idle without holding anything is nobody's fault.
	holder init device 0 alloc 3M freeall say held sleep 600000
	sleep 1
	why 1 --for 0.3s --idle 1s
	verdicts '["quiet"]'
}

@test "stuck: a kernel that never ends; a long one is not, nor is one that is waited for again and again" {
	CUWARD_SIM_KERNEL_NS=stuck=never,*=0 holder init device 0 launch stuck say held sync
	sleep 1
	why 0 --for 0.3s
	verdicts '["busy"]'
	why 1 --for 0.3s --stuck 1s
	verdicts '["stuck"]'
	evidence stuck '^a thread has been in cuCtxSynchronize for [0-9.]+ s, last kernel stuck and made no other call'
	CUWARD_SIM_KERNEL_NS=again=200000000 LD_PRELOAD=$shim sh -c 'echo $$ >pid; exec "$1" init device 0 $2' - "$play" \
		"$(printf 'launch again sync %.0s' {1..300})" >/dev/null 3>&- &
	started+=($!)
	pid=$!
	works() { "$cuward" ps --csv | grep -q "^$pid,"; }
	eventually works
	sleep 1
	why 1 --for 1s --stuck 1s
	verdicts '["busy"]'
}

@test "in a call that does not return: not idle, and stuck after a while, whichever it is; one that works is not" {
	local kind call
	for pair in alloc:cuMemFree_v2 host:cuMemFreeHost vmm:cuMemRelease; do
		kind=${pair%:*} call=${pair#*:}
		CUWARD_SIM_CALL_DELAY_NS=$call=600000000000,*=0 holder init device 0 alloc 3M $kind 2M say held free 1
		why 0 --for 0.3s --idle 0.1s
		verdicts '["busy"]'
		evidence busy "^a thread has been in $call for at least [0-9.]+ m?s, since when is not known: .* --for 30.0 s would tell\$"
		why 1 --for 0.8s --stuck 0.5s
		verdicts '["stuck"]'
		evidence stuck "^a thread has been in $call for at least [0-9.]+ m?s and made no other call"
		"$cuward" ps | grep "^ *$pid " | grep -q " in $call *play$"
		"$cuward" ps --json >out
		told ".processes[] | select(.pid == $pid) | .synchronizing" "{\"call\":\"$call\",\"for_ns\":null,\"kernel\":null}"
		kill -9 $pid
	done
	CUWARD_SIM_CALL_DELAY_NS=cuMemFree_v2=50000000,*=0 holder init device 0 say held churn 600000
	why 0 --for 0.8s --stuck 0.5s
	verdicts '["busy"]'
	evidence busy 'CUDA calls in 800 ms$'
	kill -9 $pid
	CUWARD_SIM_CALL_DELAY_NS=cuModuleLoadData=600000000000,*=0 holder init device 0 alloc 3M say held launch k
	why 0 --for 0.8s --stuck 0.5s --idle 0.1s
	verdicts '["busy"]'
	evidence busy '^a thread has been in cuModuleLoadData for at least [0-9.]+ m?s$'
}

@test "stuck in a launch: the queue is full, and the device hangs; not in one that waits a while, and not after one" {
	local name
	export CUWARD_SIM_QUEUE=2 CUWARD_SIM_KERNEL_NS=stuck=never,slow=100000000,*=0
	for name in launch launch_ex; do
		call=cuLaunchKernel
		[ $name = launch ] || call=cuLaunchKernelEx
		holder init device 0 alloc 3M launch first sync launch stuck launch stuck say held $name stuck
		why 0 --for 0.3s --idle 0.1s
		verdicts '["busy"]'
		evidence busy "^a thread has been in $call for at least [0-9.]+ ms, since when is not known: .* --for 30.0 s would tell\$"
		why 1 --for 0.8s --stuck 0.5s --idle 0.1s
		verdicts '["stuck"]'
		evidence stuck "^a thread has been in $call for at least [0-9.]+ m?s and made no other call"
		"$cuward" ps | grep "^ *$pid " | grep -q " in $call *play$"
		kill -9 $pid
	done
	# A kernel whose name is known since somebody waited for it.
	CUWARD_SIM_CALL_DELAY_NS=cuLaunchKernelEx=600000000000,*=0 holder init device 0 launch named sync say held launch_ex again
	why 1 --for 0.8s --stuck 0.5s
	evidence stuck '^a thread has been in cuLaunchKernelEx for at least [0-9.]+ m?s, last kernel named and made no other call'
	"$cuward" ps --json >out
	told ".processes[] | select(.pid == $pid) | .synchronizing" '{"call":"cuLaunchKernelEx","for_ns":null,"kernel":"named"}'
	kill -9 $pid
	# The last launch has returned, whatever the device does.
	holder init device 0 alloc 3M launch stuck launch stuck say held sleep 600000
	sleep 0.5
	why 1 --for 0.8s --stuck 0.5s --idle 0.1s
	verdicts '["idle-holding"]'
	kill -9 $pid
	# Each waits for a tenth of a second, again and again.
	holder init device 0 alloc 3M say held $(printf 'launch slow %.0s' {1..900})
	why 0 --for 0.8s --stuck 0.5s
	verdicts '["busy"]'
	evidence busy '^[0-9]+ CUDA calls in 800 ms$'
}

@test "growing: allocating and never freeing; not churning, and not a program that has grown" {
	holder init device 0 say held grow 600000
	why 1 --for 1s
	verdicts '["busy","growing"]'
	evidence growing '^it rose [0-9]+ times from [0-9.]+ [KM]iB to [0-9.]+ [KMG]iB in 1\.00 s and never fell$'
	kill -9 $pid
	holder init device 0 say held churn 600000
	why 0 --for 1s
	verdicts '["busy"]'
	kill -9 $pid
	holder init device 0 alloc 1M alloc 1M alloc 1M alloc 1M say held launches 600000
	why 0 --for 1s
	verdicts '["busy"]'
}

@test "orphan: who started it is gone" {
	cat >parent <<-'X'
		"$1" init device 0 alloc 1M say held launches 600000 >said 3>&- &
		echo $! >pid
		[ "$2" = stay ] || { until grep -q held said; do sleep 0.05; done; exit; }
		wait
	X
	LD_PRELOAD=$shim sh ./parent "$play" stay 3>&- &
	started+=($!)
	held() { grep -qs held said; }
	eventually held
	pid=$(cat pid)
	started+=($pid)
	why 0 --for 0.3s
	verdicts '["busy"]'
	rm said
	LD_PRELOAD=$shim sh ./parent "$play" go 3>&- &
	parent=$!
	wait $parent
	pid=$(cat pid)
	started+=($pid)
	why 1 --for 0.3s
	verdicts '["busy","orphan"]'
	evidence orphan "^process $parent that started it is gone; [0-9]+ is its parent now\$"
}

@test "stopped" {
	holder init device 0 alloc 1M say held launches 600000
	kill -STOP $pid
	stopped() { why 1 --for 0.1s && verdicts '["quiet","stopped"]'; }
	eventually stopped
	evidence stopped "^its state is T; .cuward resume $pid. lets it go on\$"
	kill -CONT $pid
	# In the middle of a call it is as well: nobody knows what becomes of that.
	CUWARD_MEMORY=4M CUWARD_ON_LIMIT=pause LD_PRELOAD=$shim "$play" init device 0 alloc 3M alloc 2M >/dev/null 3>&- &
	started+=($!)
	paused=$!
	is_paused() { grep -q '^State:.T' /proc/$paused/status; }
	eventually is_paused
	why 1 --for 0.2s --stuck 0.1s
	verdicts '["quiet","stopped"]' $paused
	why 0 --for 1s $pid
	verdicts '["busy"]'
}

@test "waiting for memory" {
	CUWARD_JOB=j CUWARD_JOB_MEMORY=10M holder init device 0 alloc 8M say held launches 600000
	CUWARD_JOB=j CUWARD_JOB_MEMORY=10M CUWARD_ON_LIMIT=wait=600s holder init device 0 say held alloc 4M
	waits() { why 0 --for 0.1s && verdicts '["waiting"]'; }
	eventually waits
	evidence waiting '^it waits for 4\.00 MiB$'
}

@test "a GPU: one hog, many, nobody" {
	holder init device 0 alloc 6M say held launches 600000
	first=$pid
	holder init device 0 alloc 5M say held launches 600000
	why 0 --for 0.1s
	told '[.gpus[].verdicts[] | [.verdict, .fault, .evidence]]' \
		"[[\"one-hog\",false,\"process $first holds 6.00 MiB of the 11.0 MiB that 2 processes hold\"]]"
	holder init device 0 alloc 5M say held launches 600000
	why 0 --for 0.1s
	told '[.gpus[].verdicts[] | [.verdict, .evidence]]' \
		'[["many","3 processes hold 16.0 MiB together, and none of them more than 6.00 MiB"]]'
	CUWARD_SIM_DEVICES=2 holder init device 0 say held launches 600000
	second=GPU-51000000-0000-4000-8000-000000000001
	why 0 --for 0.1s $second
	told '[.gpus[] | [.uuid, .verdicts[].verdict]]' "[[\"$second\",\"nobody\"]]"
	# As programs count them; one that nobody has used yet is there, too.
	CUWARD_SIM_DEVICES=3 why 0 --for 0.1s 1
	told '[.gpus[] | [.uuid, .verdicts[].verdict]]' "[[\"$second\",\"nobody\"]]"
	CUDA_VISIBLE_DEVICES=1,0 CUWARD_SIM_DEVICES=3 why 0 --for 0.1s 1
	told '[.gpus[].verdicts[].verdict]' '["many"]'
	CUWARD_SIM_DEVICES=3 why 0 --for 0.1s 2
	told '[.gpus[] | [.uuid, .verdicts[].verdict]]' "[[\"${second%1}2\",\"nobody\"]]"
	CUWARD_SIM_DEVICES=3 run "$cuward" why 3
	[ "$status" -eq 1 ]
	[ "$output" = "cuward: why: 3: no process that we see, and no GPU; \`cuward ps\` lists them" ]
}

@test "of one process only, as text, and of none" {
	holder init device 0 alloc 6M say held launches 600000
	first=$pid
	holder init device 0 alloc 5M say held launches 600000
	why 0 --for 0.1s $first
	told '[.processes[].pid]' "[$first]"
	told '.gpus' '[]'
	run "$cuward" why --for 0.1s $first
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "process $first, play of $(id -un)" ]
	[[ "${lines[1]}" == "  busy          "*" CUDA calls in 100 ms" ]]
	[ "${#lines[@]}" -eq 2 ]
	[ "$(CUWARD_DIR=$PWD/none "$cuward" why --for 0.1s)" = "no process that we see uses a GPU" ]
	run "$cuward" why 1
	[ "$status" -eq 1 ]
	run "$cuward" why GPU-99
	[ "$status" -eq 1 ]
	run "$cuward" why --for never
	[ "$status" -eq 2 ]
}
