#!/usr/bin/env bats
# Processes that are not under cuward, and the driver's number: ps, top, why and kill with a simulated NVML.

load guest
load box

setup() {
	box_setup
	export LD_LIBRARY_PATH=$B/sim:$B/sim/nvml
	gpu=GPU-51000000-0000-4000-8000-000000000000
}
teardown() { box_teardown; }

# bare WORD...: as holder, without cuward.
bare() { shim='' holder "$@"; }

# The driver's truth about the bytes of a GPU, or of a process on it.
driver() {
	"$B/sim/truth" truth | awk -F= -v pid="${1-}" '
		$1 ~ /^process\.[0-9]+\.pid$/ { own = $2 == pid }
		pid == "" && $1 == "device.0.physical" || own && $1 ~ /^process\.[0-9]+\.device\.0\.physical$/ { print $2 }'
}

@test "a first context among what others hold: their memory is untracked, and not what the context took" {
	bare init device 0 alloc 2G say held sleep 600000
	keep_truth=none guest 0 "$play" init device 0 alloc 1M
	ask '.devices[0].overhead_bytes' null
	ask ".devices[0].untracked_bytes | . >= 2 * $GiB and . < 3 * $GiB" true
	findings '[["untracked",1]]'
	# Where it is to be charged it is, as far as it may be its own.
	CUWARD_OVERHEAD=charge keep_truth=none guest 0 "$play" init device 0 alloc 1M
	ask '.devices[0] | [.overhead_bytes, .used_bytes]' "[$GiB,$((GiB + MiB))]"
}

@test "tracked and untracked are the driver's number; who is not under cuward is listed" {
	holder init device 0 alloc 3M say held sleep 600000
	one=$pid
	holder init device 0 alloc 5M vmm 4M say held sleep 600000
	two=$pid
	bare init device 0 alloc 700M say held sleep 600000
	export CUWARD_NVML_RESERVED=$((20 * MiB))
	"$cuward" ps --json >out
	told '[.processes[].pid]' "[$two,$one]"
	told '[.others[] | [.pid, .uid, .user, .command, .kind, .uuid, .used_bytes]]' \
		"[[$pid,$(id -u),\"$(id -un)\",\"play\",\"compute\",\"$gpu\",$(driver $pid)]]"
	told '[.gpus[] | .driver_bytes]' "[$(($(driver) + 20 * MiB))]"
	told '[.gpus[] | .used_bytes + .overhead_bytes + .untracked_bytes - .driver_bytes]' '[0]'
	told '[.gpus[] | .used_bytes]' "[$((12 * MiB))]"
	# Untracked is what the other process holds, what nobody holds, and the driver's rounding.
	told "[.gpus[] | .untracked_bytes - $(driver $pid) - 20 * $MiB | . >= 0 and . < 8 * $MiB]" '[true]'
	"$cuward" ps --by gpu >out
	grep -Eq '^GPU +NAME +PROCESSES +USED +OVERHEAD +UNTRACKED +DRIVER +TOTAL' out
	"$cuward" ps >out
	grep -Eq "^ *$pid  $(id -un)  GPU-51000000 .* not under cuward +play\$" out
	"$cuward" ps --csv >out
	grep -q "^$pid,,$pid,$(id -u),\"$(id -un)\",other,\"play\",\"\",$gpu,$(driver $pid),,,,20" out
	[ "$(awk -F, '{ print NF }' out | sort -u)" = 17 ]
	"$cuward" top --batch -n 1 >out
	grep -Eq "^ *$pid .* not under cuward" out
	"$cuward" ps --no-nvml --json >out
	told '[.others, .gpus[].driver_bytes, .gpus[].untracked_bytes]' '[null,null,null]'
}

@test "every layout of the list is read, also the one of drivers 535.43 to 535.86" {
	holder init device 0 alloc 3M say held sleep 600000
	export CUWARD_NVML_PROCESSES=0:1:$((40 * MiB)):compute,0:1:$((40 * MiB)):graphics,0:4194000:$((50 * MiB)):graphics,0:4194001:$((60 * MiB)):mps
	for layout in v1 v2 v3 v4; do
		LD_LIBRARY_PATH=$B/sim/nvml/$layout "$cuward" ps --json >out
		told '[.others[] | [.pid, .kind, .used_bytes, .uid]]' \
			"[[4194001,\"mps\",$((60 * MiB)),null],[4194000,\"graphics\",$((50 * MiB)),null],[1,\"compute\",$((40 * MiB)),0]]"
		told '.gpus[0].driver_bytes' $(($(driver) + 190 * MiB))
	done
}

@test "not available, failing, hanging or missing: unknown is null, and what we know stays" {
	holder init device 0 alloc 3M say held sleep 600000
	bare init device 0 alloc 5M say held sleep 600000
	CUWARD_NVML_UNKNOWN=1 "$cuward" ps --json >out
	told '[.others[] | [.pid, .used_bytes]]' "[[$pid,null]]"
	CUWARD_NVML_UNKNOWN=1 "$cuward" ps >out
	grep -Eq "^ *$pid .* unknown +none .* not under cuward" out
	alone() {
		told '[.processes[].devices[].used_bytes, .gpus[].driver_bytes, .gpus[].untracked_bytes]' "[$((3 * MiB)),null,null]"
	}
	for fails in nvmlInit_v2=9 nvmlDeviceGetCount_v2=15 nvmlDeviceGetMemoryInfo=3 nvmlDeviceGetUUID=15; do
		CUWARD_NVML_FAIL=$fails "$cuward" ps --json >out 2>err
		alone
		[ ! -s err ]
	done
	CUWARD_NVML_FAIL=nvmlDeviceGetComputeRunningProcesses_v3=4 "$cuward" ps --json >out
	told '[.others, .gpus[0].driver_bytes]' "[[],$(driver)]"
	LD_LIBRARY_PATH=$B/sim "$cuward" ps --json >out 2>err
	alone
	[ ! -s err ]
	CUWARD_NVML_HANG=nvmlDeviceGetMemoryInfo "$cuward" ps --json >out 2>err
	alone
	[ ! -s err ]
}

@test "why: outside, and a hog that is not under cuward; a GPU that nobody holds" {
	holder init device 0 alloc 300M say held launches 600000
	bare init device 0 alloc 700M say held sleep 600000
	"$cuward" why --for 0.1s --json >out
	told '[.others[] | .pid, .verdicts[].verdict]' "[$pid,\"outside\"]"
	told '[.gpus[].verdicts[].verdict]' '["one-hog"]'
	told "[.gpus[].verdicts[].evidence | startswith(\"process $pid holds \")]" '[true]'
	"$cuward" why --for 0.1s $pid >out
	[ "$(head -1 out)" = "process $pid, play of $(id -un)" ]
	grep -Eq '^  outside       NVML says that it uses [0-9.]+ [MG]iB on GPU-51000000 \(compute\); what it does is not seen$' out
	# The same without it.
	kill -9 $pid
	wait $pid || true
	"$cuward" why --for 0.1s --json >out
	told '[.others, [.gpus[].verdicts[].verdict]]' '[[],["one-hog"]]'
	"$cuward" why --for 0.1s $gpu >out
	lacks outside out
}

@test "kill: also one that is not under cuward, and shown as that" {
	bare init device 0 alloc 5M say held sleep 600000
	run "$cuward" kill $pid </dev/null
	[ "$status" -eq 1 ]
	[ "${lines[0]}" = "process $pid, play of $(id -un), not under cuward" ]
	[[ "${lines[1]}" =~ ^"  holds "[0-9.]+" MiB on GPU-51000000"$ ]]
	kill -0 $pid
	run env LD_LIBRARY_PATH=$B/sim "$cuward" kill --yes $pid
	[ "$status" -eq 1 ]
	kill -0 $pid
	run "$cuward" kill --yes $pid
	[ "$status" -eq 0 ]
	[ "${lines[-1]}" = "process $pid ended by SIGTERM" ]
	sleep 600 3>&- &
	started+=($!)
	run "$cuward" kill --yes $!
	[ "$status" -eq 1 ]
	kill -0 $!
}

@test "in a container whose pids NVML does not know nobody is taken for somebody else" {
	unshare -p -f --mount-proc true 2>/dev/null || skip "no pid namespaces here"
	cat >inside <<-'X'
		LD_PRELOAD=$1 "$2" init device 0 alloc 3M say held sleep 600000 >said 3>&- &
		until grep -q held said; do sleep 0.05; done
		# NVML tells of another process alone.
		CUWARD_SIM_TRUTH= "$3" ps --json >out
		kill -9 $!
	X
	# As on a machine: the library does not say that it is the simulated one.
	sed 's/cuward_simulated_nvml/cuward_concealed_nvml/' <"$B/sim/nvml/libnvidia-ml.so.1" >libnvidia-ml.so.1
	CUWARD_NVML_PROCESSES=0:1:$((40 * MiB)):compute LD_LIBRARY_PATH=$B/sim:$PWD \
		unshare -p -f --mount-proc sh ./inside "$shim" "$play" "$cuward"
	told '[.others, .processes[].devices[].used_bytes]' "[null,$((3 * MiB))]"
	told '[.gpus[].driver_bytes != null]' '[true]'
}
