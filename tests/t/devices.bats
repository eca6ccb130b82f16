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

# ---- every form of CUDA_VISIBLE_DEVICES ----

# Of these two begin alike.
uuids=GPU-a1000000-0000-4000-8000-000000000000,GPU-a1000000-0000-4000-8000-000000000001
uuids+=,GPU-b2000000-0000-4000-8000-000000000002,GPU-c3000000-0000-4000-8000-000000000003
third=GPU-b2000000-0000-4000-8000-000000000002

# shows VISIBLE GPU...: the program sees these, in this order; GPU 2 is held to 4 MiB, the others are not.
shows() {
	local script=() used=(0 0 0 0) seen=("${@:2}") i n

	for i in "${!seen[@]}"; do
		n=${seen[$i]}
		if [ "$n" -eq 2 ]; then
			script+=(device "$i" refused $((4 * MiB + 1)) alloc 4M refused 1)
			used[2]=$((4 * MiB))
		else
			script+=(device "$i" alloc $((16 + n))M)
			used[n]=$(((16 + n) * MiB))
		fi
	done
	echo "CUDA_VISIBLE_DEVICES='$1'"
	CUDA_VISIBLE_DEVICES=$1 guest 0 "$play" init "${script[@]}"
	ask '[.devices[].uuid[-1:] | tonumber]' "[$(IFS=,; echo "${seen[*]}")]"
	ask '[.devices[] | select(.limits != []) | [.uuid, .limits[0].bytes, .used_bytes, .denied]]' \
		"$([[ " ${seen[*]} " != *" 2 "* ]] && echo '[]' || echo "[[\"$third\",$((4 * MiB)),$((4 * MiB)),2]]")"
	findings "$([[ " ${seen[*]} " != *" 2 "* ]] && echo '[["limit-unused",1]]' || echo '[]')"
	for n in 0 1 2 3; do
		truth process.0.device.$n.requested "${used[$n]}"
	done
}

# blind VISIBLE: the program sees none.
blind() {
	echo "CUDA_VISIBLE_DEVICES='$1'"
	CUDA_VISIBLE_DEVICES=$1 guest 99 "$play" init
	[ "$output" = "play: init: error 100" ]
}

@test "whatever form the list has, a limit stays with its GPU" {
	export CUWARD_SIM_UUIDS=$uuids CUWARD_MEMORY=$third=4M
	shows 0,1,2,3 0 1 2 3
	shows 2 2
	shows 3,2,1,0 3 2 1 0
	shows "$third" 2
	shows "GPU-c3000000-0000-4000-8000-000000000003,$third" 3 2
	shows GPU-b2,GPU-c 2 3
	shows gpu-B2000000-0000-4000-8000-000000000002,1 2 1
	shows 1,GPU-b2,0 1 2 0
	shows GPU-b2,GPU-c3,3,1 2 3       # GPU 3 a second time ends the list
	shows 2,2,1 2
	shows 1,GPU-b2,2,0 1 2
	shows 3,2,-1,1 3 2                # nor does anything behind -1 count
	shows 2,nonsense,1 2
	shows 2,GPU-a1,1 2                # of two GPUs
	shows 2,GPU-,1 2
	shows 2,MIG-b2000000-0000-4000-8000-000000000002,1 2
	shows ' 3 ,	2 ' 3 2
	shows 2,,1 2
	shows 2, 2
	shows 0,1,-1,2 0 1
	shows 0002 2
	shows 2,99999999999999999999,1 2
	for list in '' ' ' , -1 -1,2 nonsense GPU- GPU-a1 GPU-d4 MIG-1 MIG-b2000000-0000-4000-8000-000000000002 \
		4 2x 2.0 ,2 "$third"0; do
		blind "$list"
	done
}

@test "a limit by part of a UUID, by ordinal, of each GPU its own" {
	export CUWARD_SIM_UUIDS=$uuids
	CUWARD_MEMORY=gpu-B2=4M shows GPU-c,2,0 3 2 0
	CUWARD_MEMORY=1=4M shows GPU-c,2,0 3 2 0
	CUWARD_MEMORY=0=4M shows 2,GPU-c 2 3
	# Several, in another order than they are seen: each finds its own.
	export CUWARD_MEMORY=GPU-c3=3M,GPU-a1000000-0000-4000-8000-000000000001=1M,$third=2M
	CUDA_VISIBLE_DEVICES=GPU-b2,0,3,1 guest 0 "$play" init device 0 alloc 2M refused 1 device 1 alloc 1G \
		device 2 alloc 3M refused 1 device 3 alloc 1M refused 1 device 0 free 0 alloc 2M refused 1
	ask '[.devices[] | [(.limits[0].bytes // 0), .used_bytes, .denied]]' \
		"[[$((2 * MiB)),$((2 * MiB)),2],[0,$GiB,0],[$((3 * MiB)),$((3 * MiB)),1],[$MiB,$MiB,1]]"
	# "GPU-a1" is two of those that are visible here, and one of those there.
	CUDA_VISIBLE_DEVICES=1,0 CUWARD_MEMORY=GPU-a1=1M guest 99 "$play" init
	[[ "$output" == *"cuward: CUWARD_MEMORY: "*GPU-a1* ]]
	CUDA_VISIBLE_DEVICES=2,1 CUWARD_MEMORY=GPU-a1=1M guest 0 "$play" init device 0 alloc 2M device 1 refused 1048577
	truth process.0.device.2.requested $((2 * MiB))
	truth process.0.device.1.requested 0
}

@test "a part of a GPU has a limit of its own" {
	export CUWARD_SIM_UUIDS=MIG-aa000000-0000-4000-8000-000000000000,MIG-bb000000-0000-4000-8000-000000000001
	export CUWARD_MEMORY=MIG-bb000000-0000-4000-8000-000000000001=4M
	CUDA_VISIBLE_DEVICES=MIG-bb,MIG-aa guest 0 "$play" init device 0 refused 5M alloc 4M device 1 alloc 5M
	ask '[.devices[] | [.used_bytes, .denied]]' "[[$((4 * MiB)),1],[$((5 * MiB)),0]]"
	truth process.0.device.1.requested $((4 * MiB))
	CUDA_VISIBLE_DEVICES=MIG-aa,2 guest 0 "$play" init device 0 alloc 5M device 1 alloc 6M
	findings '[["limit-unused",1]]'
	# Processes of a job that see one each do not meet.
	export CUWARD_JOB=j CUWARD_JOB_MEMORY=4M
	unset CUWARD_MEMORY
	CUDA_VISIBLE_DEVICES=MIG-aa LD_PRELOAD=$shim "$play" init device 0 alloc 4M say held sleep 60000 >said 3>&- &
	for i in $(seq 100); do [ -s said ] && break; sleep 0.1; done
	status=0
	CUDA_VISIBLE_DEVICES=MIG-bb LD_PRELOAD=$shim "$play" init device 0 alloc 4M refused 1 || status=$?
	CUDA_VISIBLE_DEVICES=MIG-aa LD_PRELOAD=$shim "$play" init device 0 refused 1 || status=$?
	kill -9 $!
	[ "$status" -eq 0 ]
	find state -name '*.ledger' -delete
}

@test "the order of the GPUs is the driver's, or the bus's" {
	export CUWARD_SIM_UUIDS=$uuids CUWARD_SIM_FASTEST=2,3 CUWARD_MEMORY=$third=4M
	for order in '' FASTEST_FIRST nonsense; do
		export CUDA_DEVICE_ORDER=$order
		shows 0,1 2 3
		shows 3,0 1 2
		shows GPU-b2,2 2 0
		CUWARD_MEMORY=0=4M shows 0,2 2 0
	done
	export CUDA_DEVICE_ORDER=PCI_BUS_ID
	shows 0,2 0 2
	shows 2,3,1 2 3 1
	CUWARD_MEMORY=0=4M shows 2,0 2 0
}

@test "the program itself says late which GPUs it wants" {
	export CUWARD_SIM_UUIDS=$uuids CUWARD_MEMORY=$third=4M CUDA_VISIBLE_DEVICES=0
	guest 0 "$play" putenv CUDA_VISIBLE_DEVICES=3,GPU-b2 init device 0 alloc 5M device 1 refused 5M
	truth process.0.device.3.requested $((5 * MiB))
	truth process.0.device.2.requested 0
	# Afterwards it changes nothing: neither for the driver nor for the limit.
	guest 0 "$play" putenv CUDA_VISIBLE_DEVICES=2 init putenv CUDA_VISIBLE_DEVICES=0,1 device 0 refused 5M alloc 4M
	truth process.0.device.2.requested $((4 * MiB))
}

@test "NVML shows the whole GPU: the report of a limited program says that it asked" {
	export LD_LIBRARY_PATH=$B/sim:$B/sim/nvml
	ask_nvml='n = ctypes.CDLL("libnvidia-ml.so.1")'
	use_cuda='ctypes.CDLL("libcuda.so.1").cuInit(0)'
	for order in "$ask_nvml; n.nvmlDeviceGetMemoryInfo; $use_cuda" \
		"$use_cuda; $ask_nvml; getattr(n, \"nvmlDeviceGetMemoryInfo_v2\", 0)"; do
		CUWARD_MEMORY=1G guest 0 python3 -c "import ctypes; $order"
		findings '[["nvml-unlimited",1]]'
		CUWARD_JOB_MEMORY=1G guest 0 python3 -c "import ctypes; $order"
		findings '[["nvml-unlimited",1]]'
		guest 0 python3 -c "import ctypes; $order"
		findings '[]'
	done
	# Other questions are none of this.
	CUWARD_MEMORY=1G guest 0 python3 -c "import ctypes; $use_cuda; $ask_nvml; n.nvmlInit_v2; n.nvmlDeviceGetCount_v2"
	findings '[]'
	"$B/cuward" explain nvml-unlimited >page
	grep -q cuMemGetInfo page
}

@test "GPUs without a UUID of their own are told apart" {
	export CUWARD_MEMORY=1=4M
	unset CUDA_VISIBLE_DEVICES
	for odd in CUWARD_SIM_FAULT=cuDeviceGetUuid:*:999,cuDeviceGetUuid_v2:*:999 \
		CUWARD_SIM_UUIDS=00000000000000000000000000000000,00000000000000000000000000000000 \
		CUWARD_SIM_UUIDS=aaaaaaaabbbbccccddddeeeeeeeeeeee,aaaaaaaabbbbccccddddeeeeeeeeeeee \
		CUWARD_SIM_FAULT=cuDeviceGetUuid:*:999,cuDeviceGetUuid_v2:*:999,cuDeviceGetPCIBusId:*:999; do
		export CUWARD_SIM_DEVICES=2
		guest 0 env "$odd" "$play" init device 0 alloc 64M device 1 refused 5M alloc 4M refused 1
		ask '[.devices[] | [.used_bytes, .denied]]' "[[$((64 * MiB)),0],[$((4 * MiB)),2]]"
		truth process.0.device.1.requested $((4 * MiB))
	done
	# In another order they are the same to a job's processes.
	export CUWARD_SIM_DEVICES=4 CUWARD_SIM_FAULT=cuDeviceGetUuid:*:999,cuDeviceGetUuid_v2:*:999
	export CUWARD_JOB=j CUWARD_JOB_MEMORY=8M CUWARD_MEMORY=none
	CUDA_VISIBLE_DEVICES=2,3 LD_PRELOAD=$shim "$play" init device 0 alloc 6M say held sleep 60000 >said 3>&- &
	for i in $(seq 100); do [ -s said ] && break; sleep 0.1; done
	status=0
	CUDA_VISIBLE_DEVICES=3,2 LD_PRELOAD=$shim "$play" init device 0 alloc 8M device 1 refused 3M alloc 2M || status=$?
	kill -9 $!
	[ "$status" -eq 0 ]
	find state -name '*.ledger' -delete
}

@test "more GPUs than are looked after: a limit of all of them is refused, none is not" {
	export CUWARD_SIM_DEVICES=40 CUWARD_SIM_MEMORY=1G
	uuid() { printf 'GPU-51000000-0000-4000-8000-%012x' "$1"; }
	for limit in 4M 50% "$(uuid 39)=4M" "$(uuid 1)=8M,$(uuid 32)=4M"; do
		CUWARD_MEMORY=$limit guest 99 "$play" init
		[[ "$output" == "cuward: CUWARD_MEMORY: more than 32 GPUs are visible"*"play: init: error 800" ]]
	done
	CUWARD_JOB=j CUWARD_JOB_MEMORY=4M guest 99 "$play" init
	CUWARD_MEMORY=none guest 0 "$play" init device 39 alloc 5M device 1 alloc 5M
	CUWARD_MEMORY=$(uuid 1)=4M guest 0 "$play" init device 1 refused 5M device 39 alloc 5M
	# Of those that are seen it can be kept.
	CUDA_VISIBLE_DEVICES=39,1 CUWARD_MEMORY=4M guest 0 "$play" init device 0 refused 5M device 1 refused 5M
	truth process.0.device.39.requested 0
	find state -name '*.ledger' -delete
}

@test "under run, too: limits of the command line mean what the program sees" {
	export CUWARD_SIM_UUIDS=$uuids
	run_on() { "$B/cuward" run -q --sim --report r.json "$@"; }
	rm -f r.json
	run_on -g GPU-b2,0 -m 0=4M -- "$play" init device 0 refused 5M alloc 4M device 1 alloc 5M
	ask '[.devices[] | [.uuid[-1:], .used_bytes, .denied]]' "[[\"2\",$((4 * MiB)),1],[\"0\",$((5 * MiB)),0]]"
	rm -f r.json
	CUDA_VISIBLE_DEVICES=3,2 run_on -m "$third=4M" --job-memory 0=8M -- "$play" init \
		device 0 alloc 8M refused 1 device 1 refused 5M alloc 4M
	ask '[.devices[] | [.uuid[-1:], .used_bytes, .denied]]' "[[\"3\",$((8 * MiB)),1],[\"2\",$((4 * MiB)),1]]"
}
