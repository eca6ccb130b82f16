#!/usr/bin/env bats
# Several GPUs, in whatever order the process sees them: a limit binds the GPU it names and no other.

load guest

setup() {
	guest_setup
	play=$apps/play
	export CUWARD_SIM_DEVICES=4 CUWARD_SIM_MEMORY=4G,5G,6G,7G
}

teardown() { guest_teardown; }

gpu() { echo "GPU-51000000-0000-4000-8000-00000000000$1"; }

# limits VISIBLE LIMIT EXPECTED: last digit of the UUID and limit in MiB (- none) of each device seen.
limits() {
	CUDA_VISIBLE_DEVICES=$1 CUWARD_MEMORY=$2 guest 0 "$play" init device 0
	ask '[.devices[] | [.uuid[-1:], ((.limits[0].bytes // 0) / 1048576 | tostring)] | join("=")] | join(" ")' "\"$3\""
	# What is seen is what the program itself is told.
	ask '[.devices[].total_bytes / 1073741824] | map(tostring) | join(" ")' \
		"\"$(for d in $3; do echo -n "$((${d%%=*} + 4)) "; done | sed 's/ $//')\""
}

@test "an index is the ordinal that the process sees, a UUID is the GPU" {
	limits 0,1,2,3 1M "0=1 1=1 2=1 3=1"
	limits 2,3 0=8M "2=8 3=0"
	limits 2,3 1=8M "2=0 3=8"
	limits 3,1 "$(gpu 1)=8M" "3=0 1=8"
	limits "$(gpu 3),$(gpu 0)" "1=8M" "3=0 0=8"
	limits "$(gpu 3),$(gpu 0)" "0=16M,$(gpu 0)=8M" "3=16 0=8"
	limits 1,0,1 1M "1=1 0=1" # a GPU named twice ends the list
	limits 2,9,1 1M "2=1"
	limits 1 50% "1=2560"
	limits 0,1 "0=50%,1=none" "0=2048 1=0"
}

@test "a GPU that takes the machine's memory is called integrated, with the driver's total" {
	for integrated in 0:"" 1:" (integrated)"; do
		CUWARD_SIM_INTEGRATED=${integrated%%:*} guest 0 "$play" init device 0 alloc 1M freeall
		ask '.devices[0] | [.name, .total_bytes]' "[\"Simulated GPU${integrated#*:}\",$((4 * GiB))]"
	done
}

@test "it is enforced there, and only there" {
	export CUDA_VISIBLE_DEVICES=3,1 CUWARD_MEMORY="$(gpu 1)=4M"
	guest 0 "$play" init device 0 alloc 64M device 1 alloc 4M refused 1 device 0 alloc 64M
	ask '[.devices[] | [.used_bytes, .denied]]' "[[$((128 * MiB)),0],[$((4 * MiB)),1]]"
	truth process.0.device.3.requested $((128 * MiB))
	truth process.0.device.1.requested $((4 * MiB))
}

@test "no GPU is visible" {
	for none in -1 "" 9; do
		CUDA_VISIBLE_DEVICES=$none CUWARD_MEMORY=1M guest 99 "$play" init
		[ "$output" = "play: init: error 100" ]
	done
}

@test "a GPU that is not visible is told, and an index beyond the visible ones refused" {
	CUDA_VISIBLE_DEVICES=0,1 CUWARD_MEMORY="$(gpu 3)=1M" guest 0 "$play" init device 0 alloc 2M
	findings '[["limit-unused",1]]'
	CUDA_VISIBLE_DEVICES=0,1 CUWARD_MEMORY="2=1M" guest 99 "$play" init
	[[ "${output%%$'\n'*}" == "cuward: CUWARD_MEMORY: "*2* ]]
	[[ "$output" == *"play: init: error 800" ]]
	CUDA_VISIBLE_DEVICES=0,1 CUWARD_MEMORY="0=1M,$(gpu 0)=2M" guest 99 "$play" init
	CUDA_VISIBLE_DEVICES=0,1 CUWARD_MEMORY="GPU-51=1M" guest 99 "$play" init
	[[ "$output" == *GPU-51* ]]
}

@test "the processes of a job mean the same GPU by different ordinals" {
	export CUWARD_JOB=j CUWARD_JOB_MEMORY="$(gpu 2)=8M"
	CUDA_VISIBLE_DEVICES=2 LD_PRELOAD=$shim "$play" init device 0 alloc 6M say held sleep 60000 >said 3>&- &
	for i in $(seq 100); do [ -s said ] && break; sleep 0.1; done
	status=0
	CUDA_VISIBLE_DEVICES=3,2 LD_PRELOAD=$shim "$play" init device 0 alloc 64M device 1 refused 3M alloc 2M ||
		status=$?
	kill -9 $!
	[ "$status" -eq 0 ]
	find state -name '*.ledger' -delete
}

@test "every query agrees with the limit" {
	CUDA_VISIBLE_DEVICES=1,2 CUWARD_MEMORY=1=64M guest 0 "$play" init device 1 info 64M/64M alloc 24M info 64M/40M
	CUDA_VISIBLE_DEVICES=2,1 CUWARD_MEMORY=0=64M,1=32M guest 0 \
		"$play" init device 0 info 64M/64M device 1 info 32M/32M alloc 32M info 32M/0 device 0 info 64M/64M
	# More than there is: the device's own size counts.
	CUDA_VISIBLE_DEVICES=0 CUWARD_SIM_CONTEXT_BYTES=0 CUWARD_MEMORY=100G guest 0 "$play" init device 0 info 4G/4G
}
