#!/usr/bin/env bats
# The life of a guest under plain preload: forks, exec, ends, threads, closed descriptors, no room.

load guest

setup() {
	guest_setup
	play=$apps/play
}

# value FILTER FILE: of the process in that report.
value() { jq -c ".processes[0] | $1" "$2"; }

@test "a process without CUDA: no file, no output" {
	run env LD_PRELOAD=$shim CUWARD_MEMORY=1G CUWARD_LEAK=exit CUWARD_LOG=debug CUWARD_REPORT=$PWD/none.json \
		bash -c 'true; ls / >/dev/null; echo $((1 + 1))'
	[ "$status" -eq 0 ]
	[ "$output" = 2 ]
	[ ! -e state ]
	[ ! -e none.json ]
}

@test "a child that the driver refuses writes no report" {
	export CUWARD_REPORT=$PWD/r-%p.json
	LD_PRELOAD=$shim run "$play" init device 0 alloc 4M fork '(' alloc 1M ')' wait alloc 2M
	[ "$status" -eq 0 ]
	[ "$(echo r-*.json | wc -w)" -eq 1 ]
	[ "$(value '[.devices[0].used_bytes, .memory.device.live]' r-*.json)" = "[$((6 << 20)),2]" ]
}

@test "a forked child starts empty" {
	export CUWARD_REPORT=$PWD/r-%p.json CUWARD_SIM_POISON_FORK=0
	LD_PRELOAD=$shim run "$play" init device 0 alloc 4M fork '(' alloc 1M ')' wait alloc 2M
	[ "$status" -eq 0 ]
	[ "$(cat r-*.json | jq -s -c 'map(.processes[0].devices[0].used_bytes) | sort')" = \
		"[$((1 << 20)),$((6 << 20))]" ]
	[ "$(cat r-*.json | jq -s 'map(.processes[0].calls.cuInit.count) | add')" -eq 1 ]
}

@test "exec: the new image starts at nothing" {
	export CUWARD_REPORT=$PWD/r-%p.json
	LD_PRELOAD=$shim run "$play" init device 0 alloc 4M exec "$play" init device 0 alloc 1M
	[ "$status" -eq 0 ]
	[ "$(value '[.image, .devices[0].used_bytes, .memory.device.allocs]' r-*.json)" = "[1,$((1 << 20)),1]" ]
}

@test "_exit and quick_exit are orderly ends, abort is none" {
	guest 3 "$play" init device 0 alloc 4M _exit 3
	[ "$(value '[.ended, .status, .devices[0].used_bytes]' r.json)" = "[\"exit\",3,$((4 << 20))]" ]
	guest 4 "$play" init device 0 alloc 4M quick_exit 4
	[ "$(value '[.ended, .status, .devices[0].used_bytes]' r.json)" = "[\"exit\",4,$((4 << 20))]" ]
	guest 134 "$play" init device 0 alloc 4M abort
	[ ! -e r.json ]
}

@test "the leak text: at most 12 lines, nothing without a leak" {
	export CUWARD_LEAK=exit
	report= guest 0 "$play" init device 0 alloc 4M freeall
	[ -z "$output" ]
	report= guest 0 "$play" init device 0 alloc 4M
	[[ $output == *"leaked 4 MiB in 1 allocation"* ]]
	[ "$(wc -l <<<"$output")" -le 12 ]
}

@test "closed descriptors stay closed, and 2 may be a data file" {
	export CUWARD_LEAK=exit CUWARD_LOG=debug
	(
		exec 0<&- 1>&- 2>&-
		LD_PRELOAD=$shim CUWARD_REPORT=$PWD/r.json exec "$play" init device 0 alloc 4M
	)
	[ "$(value '.devices[0].used_bytes' r.json)" = $((4 << 20)) ]
	# The shell opens data.bin as 2 of a process that was started with another one.
	LD_PRELOAD=$shim python3 - 2>err <<-'P'
		import ctypes, os
		os.close(2)
		assert os.open("data.bin", os.O_CREAT | os.O_WRONLY) == 2
		driver = ctypes.CDLL("libcuda.so.1")
		context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
		assert driver.cuInit(0) == 0
		assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
		assert driver.cuCtxSetCurrent(context) == 0
		assert driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4096)) == 0
	P
	[ ! -s data.bin ]
	[ ! -s err ]
}

@test "a refused configuration: one line, and 800 from cuInit" {
	for limit in 8Q "" -1 7=8G 101%; do
		run env LD_PRELOAD=$shim "CUWARD_MEMORY=$limit" "$play" init
		echo "$limit: $output"
		[ "$status" -eq 99 ]
		[[ $output == *"init: error 800"* ]]
		[ "$(grep -c '^cuward: CUWARD_MEMORY: ' <<<"$output")" -eq 1 ]
	done
}

@test "switched off" {
	export CUWARD_DISABLE=1 CUWARD_MEMORY=1M
	guest 0 "$play" init device 0 alloc 4M
	[ ! -e r.json ]
	[ ! -e state ]
}

@test "no folder for shared state: the limit holds in private memory" {
	mkdir -m 777 open
	export CUWARD_DIR=$PWD/open CUWARD_MEMORY=8M
	guest 0 "$play" init device 0 alloc 4M refused 5M
	[ -z "$output" ]
	[ "$(value '[.devices[0].used_bytes, .devices[0].denied]' r.json)" = "[$((4 << 20)),1]" ]
	[ "$(value '[.findings[].code] - ["context-overhead"]' r.json)" = '["share-unavailable"]' ]
}

@test "few descriptors: the limit holds" {
	export CUWARD_MEMORY=8M
	(
		exec 3>&- 4>&-
		ulimit -n 5
		LD_PRELOAD=$shim CUWARD_REPORT=$PWD/r.json exec "$play" init device 0 alloc 4M refused 5M
	)
	[ "$(value '[.devices[0].used_bytes, .devices[0].denied]' r.json)" = "[$((4 << 20)),1]" ]
}

@test "a full file system: sums exact, records dropped and said" {
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	mkdir small
	unshare -m sh -c "mount -t tmpfs -o size=200k,mode=700 none small && CUWARD_DIR='$PWD/small' \
		CUWARD_MEMORY=1G CUWARD_REPORT='$PWD/r.json' LD_PRELOAD='$shim' \
		'$apps/threads' 2 30000 100000000"
	[ "$(value '[.memory.device.live_bytes, .memory.pool.live_bytes, .devices[0].used_bytes]' r.json)" = "[0,0,0]" ]
	unshare -m sh -c "mount -t tmpfs -o size=64k,mode=700 none small && CUWARD_DIR='$PWD/small' \
		CUWARD_MEMORY=1G CUWARD_REPORT='$PWD/s.json' LD_PRELOAD='$shim' '$play' init device 0 alloc 1M"
	[ "$(value '.memory.device.live_bytes' s.json)" = $((1 << 20)) ]
}

@test "threads come and go" {
	guest 0 "$apps/churn" 5000
	[ "$(value '[.calls.cuMemAlloc_v2.count, .calls.cuMemFree_v2.count, .memory.device.live]' r.json)" = \
		"[5000,5000,0]" ]
}

@test "what the program sees of itself is what it sees without us" {
	"$apps/self" >bare
	LD_PRELOAD=$shim CUWARD_MEMORY=1G "$apps/self" >shimmed
	diff bare shimmed
}

@test "look-ups: every way in, and none where there is no driver" {
	for way in so1 so "absolute $B/sim/libcuda.so.1" deepbind dlmopen global next lookup dlvsym; do
		# shellcheck disable=SC2086
		run env CUWARD_MEMORY=32M LD_PRELOAD=$shim "$apps/ways" $way
		echo "$way: $output"
		[ "$output" = "answer 2" ]
		# shellcheck disable=SC2086
		[ "$("$apps/ways" $way)" = "answer 0" ]
	done
	[ "$(LD_PRELOAD=$shim "$apps/ways" absent)" = "absent" ]
}

@test "a handler that jumps out of a call does not take the limit along" {
	export CUWARD_SIM_KERNEL_NS=endless=never
	for where in here deep deeper up; do
		[ "$(timeout 20 "$apps/jump" $where)" = "answer 0" ]
		[ "$(CUWARD_MEMORY=32M LD_PRELOAD=$shim timeout 20 "$apps/jump" $where)" = "answer 2" ]
	done
}

# What it asks for there goes straight to the driver: our own work may be half done.
@test "a handler that calls the driver inside a call" {
	export CUWARD_SIM_KERNEL_NS=endless=500000000
	for stack in "" other; do
		[ "$("$apps/jump" nested $stack)" = $'inside 0\nanswer 0' ]
		[ "$(CUWARD_MEMORY=32M LD_PRELOAD=$shim timeout 20 "$apps/jump" nested $stack)" = \
			$'inside 0\nanswer 2' ]
	done
}

@test "a handler that forks inside a call: it goes on in both" {
	export CUWARD_SIM_KERNEL_NS=endless=500000000 CUWARD_SIM_QUEUE=1
	unset CUWARD_SIM_TRUTH # the driver loses it in a child
	for call in sync launch; do
		[ "$(timeout 20 "$apps/jump" forks $call)" = $'child 0 3\nparent 0 0' ]
		[ "$(CUWARD_MEMORY=32M LD_PRELOAD=$shim timeout 20 "$apps/jump" forks $call)" = $'child 0 3\nparent 0 2' ]
	done
}

@test "calls that fail are counted, launches as well" {
	CUWARD_SIM_FAULT=cuLaunchKernel:2:719 guest 99 "$play" init device 0 launch a launch b
	ask '.calls.cuLaunchKernel' '{"count":2,"errors":1}'
	CUWARD_SIM_FAULT=cuLaunchKernelEx:1:719 guest 99 "$play" init device 0 launch a launch_ex b
	ask '[.calls.cuLaunchKernel, .calls.cuLaunchKernelEx]' '[{"count":1,"errors":0},{"count":1,"errors":1}]'
	ask '.calls.cuModuleLoadData' '{"count":2,"errors":0}'
}

@test "before cuInit each call answers as it does without us, with and without a limit" {
	for how in "" pointers; do
		for profile in . 12.2 11.0; do
			# shellcheck disable=SC2086
			LD_LIBRARY_PATH=$B/sim/$profile "$apps/before_init" "$TOP/tests/sim/driver_facts.tsv" $how >bare
			[ "$(wc -l <bare)" -gt 370 ]
			for limit in none 1G; do
				# shellcheck disable=SC2086
				CUWARD_MEMORY=$limit LD_LIBRARY_PATH=$B/sim/$profile guest 0 \
					"$apps/before_init" "$TOP/tests/sim/driver_facts.tsv" $how
				diff bare - <<<"$output"
			done
		done
	done
	[ ! -e r.json ]
}
