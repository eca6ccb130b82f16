#!/usr/bin/env bats
# cuward fit: which GPU has room, under which limit.

load guest
load box

setup() { box_setup; export CUWARD_SIM_DEVICES=2; }
teardown() { box_teardown; }

fit() {
	local status=0
	"$cuward" fit --json "${@:2}" >out || status=$?
	[ "$status" -eq "$1" ] || { cat out; return 1; }
}

second=GPU-51000000-0000-4000-8000-000000000001

@test "most room first: what others hold counts" {
	fit 0 1G
	told '[.gpus[] | [.index, .room_bytes, .bound_by, .fits]]' "[[0,$((16 << 30)),\"memory\",true],[1,$((16 << 30)),\"memory\",true]]"
	holder init device 0 alloc 10G say held sleep 600000
	fit 0 10G
	told '[.gpus[] | [.index, .fits]]' '[[1,true],[0,false]]'
	# The context of the holder counts too.
	told '.gpus[1].room_bytes == 16 * 1073741824 - 10 * 1073741824 - 300 * 1048576' true
	[ "$("$cuward" fit -q 10G)" = $second ]
	fit 1 17G
	[ -z "$("$cuward" fit -q 17G)" ]
	run "$cuward" fit 10G
	[ "$status" -eq 0 ]
	[[ "${lines[1]}" == *" 1  $second  16.0 GiB  memory "*" yes" ]]
	[[ "${lines[2]}" == *" 5.70 GiB  memory "*" no" ]]
}

@test "the limits that bind here" {
	CUWARD_MEMORY=0=1G fit 0 2G
	told '[.gpus[] | [.index, .room_bytes, .bound_by, .fits]]' \
		"[[1,$((16 << 30)),\"memory\",true],[0,$((1 << 30)),\"CUWARD_MEMORY\",false]]"
	CUWARD_MEMORY=1G fit 1 2G
	fit 0 100%
	run env CUWARD_MEMORY=8X "$cuward" fit 1G
	[ "$status" -eq 1 ]
	[[ "$output" == *8X* ]]
}

@test "the limit of a job around it, less what its processes hold and were promised" {
	CUWARD_JOB_MEMORY=0=1G fit 0 2G
	told '[.gpus[] | [.index, .room_bytes, .bound_by]]' "[[1,$((16 << 30)),\"memory\"],[0,$((1 << 30)),\"CUWARD_JOB_MEMORY\"]]"
	CUWARD_JOB=j holder init device 0 alloc 3G say held sleep 600000
	CUWARD_JOB=other holder init device 0 alloc 2G say held sleep 600000
	export CUWARD_JOB=j/in CUWARD_JOB_OF=j CUWARD_JOB_MEMORY=8G
	fit 1 9G
	told '[.gpus[] | [.index, .room_bytes, .bound_by]]' \
		"[[1,$((8 << 30)),\"CUWARD_JOB_MEMORY\"],[0,$((5 << 30)),\"CUWARD_JOB_MEMORY\"]]"
	"$cuward" limit set j 4G
	fit 0 4G
	told '[.gpus[] | [.index, .room_bytes]]' "[[1,$((4 << 30))],[0,$((1 << 30))]]"
	CUWARD_INNER_OF=j/in CUWARD_INNER_MEMORY=2G fit 1 3G
	told '[.gpus[] | [.index, .room_bytes, .bound_by]]' \
		"[[1,$((2 << 30)),\"CUWARD_INNER_MEMORY\"],[0,$((1 << 30)),\"CUWARD_JOB_MEMORY\"]]"
	run "$cuward" run --sim --wait=20s -m 5G -g 0 -- touch ran
	[ "$status" -eq 125 ]
	[[ "$output" == *"5.00 GiB will never be free on "*": at most 4.00 GiB of it can be yours"* ]]
	run "$cuward" run --sim --wait=0 -m 2G -g 0 -- touch ran
	[ "$status" -eq 75 ]
	[ ! -e ran ]
	run "$cuward" run -q --sim --wait=20s -m 1G -g 0 -- "$play" init device 0 alloc 1G refused 1M
	[ "$status" -eq 0 ]
	run "$cuward" run -q --sim -g auto -m 2G -- sh -c 'echo $CUDA_VISIBLE_DEVICES'
	[ "$output" = $second ]
	# Without a size of its own it wants all that the runs around it leave.
	CUWARD_INNER_OF=j/in CUWARD_INNER_MEMORY=1G "$cuward" run -q --sim --wait=20s -g 0 -- touch ran
	[ -e ran ]
	run env CUWARD_JOB_MEMORY=8X "$cuward" fit 1G
	[ "$status" -eq 1 ]
	[[ "$output" == *8X* ]]
}

@test "no GPU, and no size" {
	run env LD_LIBRARY_PATH=$PWD "$cuward" fit 1G
	[ "$status" -eq 3 ] || [ -e /dev/nvidiactl ]
	for wrong in '' none 0=1G '1G 2G' 8X; do
		run "$cuward" fit $wrong
		[ "$status" -eq 2 ]
	done
}

@test "what is used by those who are not under cuward, where NVML tells" {
	shim='' holder init device 1 alloc 6G say held sleep 600000
	fit 0 16G
	told '[.gpus[].room_bytes]' "[$((16 << 30)),$((16 << 30))]"
	LD_LIBRARY_PATH=$B/sim:$B/sim/nvml fit 0 8G
	told '[.gpus[] | [.index, .bound_by]]' '[[0,"memory"],[1,"memory"]]'
	told ".gpus[1].total_bytes - .gpus[1].room_bytes" "$("$B/sim/truth" truth device.1.physical)"
}

@test "a driver that gives no UUIDs, or the same to all: GPUs are known by their place, as in the processes" {
	for uuid in GPU-00000000-0000-0000-0000-000000000000 GPU-d1000000-0000-4000-8000-000000000000; do
		rm -rf state
		export CUWARD_SIM_UUIDS=$uuid,$uuid,$uuid CUWARD_SIM_DEVICES=3
		holder init device 0 alloc 2G device 1 alloc 1G say held sleep 600000
		fit 0 14G
		told '[.gpus[] | [.index, .used_bytes > 1073741824, .fits]]' '[[2,false,true],[1,true,true],[0,true,false]]'
		told '[.gpus[].uuid] | unique | length' 3
		[ "$("$cuward" run -q --sim -g auto -- sh -c 'echo $CUDA_VISIBLE_DEVICES')" = 2 ]
		[ "$(CUDA_VISIBLE_DEVICES=0,1 "$cuward" run -q --sim -g auto -- sh -c 'echo $CUDA_VISIBLE_DEVICES')" = 1 ]
		# Whoever sees only one of many equal ones cannot know.
		[[ $uuid == *d1* ]] || [ "$(CUDA_VISIBLE_DEVICES=1,0 "$cuward" run -q --sim --wait=20s -g auto -m 14G -- \
			sh -c 'echo $CUDA_VISIBLE_DEVICES')" = 1 ]
		kill -9 $pid
	done
}
