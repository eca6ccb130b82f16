#!/usr/bin/env bats
# The simulated driver, on its own: small programs run on it directly.

setup_file() {
	export apps=$BATS_FILE_TMPDIR sim=$B/sim
	include=$("$TOP/tests/cuda_headers.sh")
	for source in "$TOP"/tests/apps/sim_*.c; do
		cc -std=gnu11 -Wall -Wextra -D__CUDA_API_VERSION_INTERNAL -isystem "$include" \
			-o "$apps/$(basename "$source" .c)" "$source" -L"$sim" -lcuda -ldl -lpthread
	done
}

setup() {
	export LD_LIBRARY_PATH=$sim
	truth=$BATS_TEST_TMPDIR/truth
	log=$BATS_TEST_TMPDIR/log
}

# A value out of the truth file.
truth() {
	"$sim/truth" "$truth" "$1"
}

@test "before cuInit each call answers as a real driver does" {
	for profile in . 12.2 11.0 future; do
		LD_LIBRARY_PATH=$sim/$profile "$B/apps/before_init" "$TOP/tests/sim/driver_facts.tsv" >"$log"
		[ "$(wc -l <"$log")" -gt 370 ]
		awk -F'\t' '!/^#/ { print $1, $7 }' "$TOP/tests/sim/driver_facts.tsv" |
			awk 'NR == FNR { want[$1] = $2; next } want[$1] != $2 { print; bad = 1 } END { exit bad }' - "$log"
	done
}

@test "profiles export what the table says" {
	names() { nm -D --defined-only "$1" | awk '$2 == "T" { print $3 }' | LC_ALL=C sort; }
	[ "$(names "$sim/12.2/libcuda.so.1")" = \
		"$(awk -F'\t' '$5 == "y" { print $1 }' "$TOP/tests/sim/driver_facts.tsv" | LC_ALL=C sort)" ]
	[ "$(names "$sim/12.2/libcuda.so.1" | wc -l)" -eq 592 ]
	[ "$(names "$sim/libcuda.so.1" | wc -l)" -eq "$(grep -vc '^#\|	future	\|	newer	' "$TOP/tests/sim/driver_facts.tsv")" ]
	# And whatever the header declares.
	diff <(names "$sim/future/libcuda.so.1") <({
		awk -F'\t' '!/^#/ { print $1 }' "$TOP/tests/sim/driver_facts.tsv"
		sed -n 's/^\tX(\([A-Za-z0-9_]*\),.*/\1/p' "$B/gen/driver_calls.h"
	} | LC_ALL=C sort -u)
	# Those between follow from the versions: what was measured of 12.2 and 13.0 does too.
	brought() {
		awk -F'\t' -v by="$1" '!/^#/ && ($4 <= by || $4 == 999999) && $5 != "future" { print $1 }' \
			"$TOP/tests/sim/driver_facts.tsv" | LC_ALL=C sort
	}
	diff <(names "$sim/12.2/libcuda.so.1") <(brought 12020)
	diff <(names "$sim/libcuda.so.1") <(brought 13000)
	count=0
	for driver in "$B"/drivers/*.*; do
		diff <(names "$driver/libcuda.so.1") <(brought $(tr . 0 <<<"${driver##*/}")0)
		count=$((count + 1))
	done
	[ $count -eq 20 ]
	readelf -d "$sim/libcuda.so.1" | grep -q 'SYMBOLIC'
	readelf -d "$sim/libcuda.so.1" | grep -q 'SONAME.*\[libcuda.so.1\]'
	[ "$(readelf -d "$sim/libcuda.so.1" | grep -c NEEDED)" -eq 1 ]
}

@test "memory" {
	CUWARD_SIM_MEMORY=512M "$apps/sim_memory"
	CUWARD_SIM_MEMORY=512M CUWARD_SIM_REUSE=never "$apps/sim_memory"
	CUWARD_SIM_MEMORY=512M CUWARD_SIM_REENTER=1 "$apps/sim_memory"
}

@test "few addresses" {
	(ulimit -v 4000000 && "$apps/sim_copy")
	(ulimit -v 4000000 && "$apps/sim_graph")
}

@test "several at once in one process, each in its own namespace" {
	CUWARD_SIM_TRUTH=$truth "$apps/sim_spaces"
	[ "$(truth process.2.device.0.device.bytes)" -eq 100 ]
	[ "$(truth device.0.requested_high)" -eq 300 ]
	[ "$(truth device.0.requested)" -eq 0 ]
}

@test "contexts" {
	CUWARD_SIM_DEVICES=2 "$apps/sim_context"
}

@test "streams and time" {
	CUWARD_SIM_KERNEL_NS=slow=20000000,endless=never "$apps/sim_stream"
	CUWARD_SIM_QUEUE=2 CUWARD_SIM_KERNEL_NS=slow=20000000,endless=never timeout 60 "$apps/sim_stream" queue
}

@test "pools" {
	CUWARD_SIM_KERNEL_NS=slow=20000000 "$apps/sim_pool"
}

@test "copies, with readable memory and without" {
	"$apps/sim_copy"
	CUWARD_SIM_UNREADABLE=1 "$apps/sim_copy"
}

@test "threads" {
	CUWARD_SIM_TRUTH=$truth "$apps/sim_threads"
	[ "$(truth process.0.device.0.requested)" -eq 0 ]
	[ "$(truth process.0.device.0.device.live)" -eq 0 ]
	[ "$(truth process.0.device.0.pool.live)" -eq 0 ]
	[ "$(truth process.0.device.0.pool.allocs)" -gt 1000 ]
	[ "$(truth process.0.device.0.physical)" -eq $((300 * 1048576)) ]
}

@test "graphs" {
	"$apps/sim_graph"
}

@test "memory mapped by hand, with readable memory and without" {
	"$apps/sim_vmm"
	CUWARD_SIM_UNREADABLE=1 "$apps/sim_vmm"
}

@test "memory of two processes" {
	CUWARD_SIM_TRUTH=$truth "$apps/sim_ipc"
	[ "$(truth process.1.device.0.requested_high)" -eq 0 ]
	[ "$(truth process.0.device.0.vmm.high)" -eq 2097152 ]
	CUWARD_SIM_UNREADABLE=1 "$apps/sim_ipc"
}

@test "green contexts, linking, shared pools, external memory, graph updates" {
	"$apps/sim_more"
	CUWARD_SIM_UNREADABLE=1 "$apps/sim_more"
}

@test "values, semaphores, nodes of every type, tiles, checkpoints" {
	CUWARD_SIM_KERNEL_NS=slow=3000000000 "$apps/sim_values"
	CUWARD_SIM_UNREADABLE=1 CUWARD_SIM_KERNEL_NS=slow=3000000000 "$apps/sim_values"
}

@test "modules" {
	"$apps/sim_module"
}

@test "fork" {
	"$apps/sim_fork"
	CUWARD_SIM_TRUTH=$truth "$apps/sim_fork"
}

@test "visible devices" {
	export CUWARD_SIM_DEVICES=3 CUWARD_SIM_MEMORY=1G,2G
	export CUWARD_SIM_UUIDS=GPU-aaaa0000-0000-0000-0000-000000000001,GPU-aaab0000-0000-0000-0000-000000000002
	seen() { CUDA_VISIBLE_DEVICES=$1 "$apps/sim_hold" | awk '{ print $1, $2 }' | tr '\n' ' '; }
	[ "$("$apps/sim_hold" | wc -l)" -eq 3 ]
	[ "$(seen 2,0)" = "0 0000:03:00.0 1 0000:01:00.0 " ]
	[ "$(seen 1,1)" = "0 0000:02:00.0 " ]
	[ "$(seen 0,-1,1)" = "0 0000:01:00.0 " ]
	[ "$(seen 0,7,1)" = "0 0000:01:00.0 " ]
	[ "$(seen GPU-aaab)" = "0 0000:02:00.0 " ]
	[ "$(seen GPU-aaa)" = "cuInit 100 " ]
	[ "$(seen MIG-1)" = "cuInit 100 " ]
	[ "$(seen "")" = "cuInit 100 " ]
	[ "$("$apps/sim_hold" | awk '{ print $4 }' | tr '\n' ' ')" = "1073741824 2147483648 2147483648 " ]
}

@test "the call log names the variant and its caller" {
	CUWARD_SIM_CALL_LOG=$log CUWARD_SIM_KERNEL_NS=slow=20000000,endless=never "$apps/sim_stream"
	grep -qE '^[0-9]+ [0-9]+ cuLaunchKernel_ptsz 0 sim_stream$' "$log"
	grep -qE '^[0-9]+ [0-9]+ cuStreamQuery 600 sim_stream$' "$log"
	run awk 'NF != 5' "$log"
	[ -z "$output" ]
}

@test "faults leave everything as it was" {
	export CUWARD_SIM_CALL_LOG=$log
	CUWARD_SIM_FAULT=cuMemAlloc_v2:1:2 run "$apps/sim_hold" 100 </dev/null
	[ "$output" = refused ]
	CUWARD_SIM_FAULT=cuMemAlloc_v2:2:2 run "$apps/sim_hold" 100 <<<""
	[ "${lines[0]}" = ready ]
	CUWARD_SIM_FAULT='cuInit:*:999' run "$apps/sim_hold"
	[ "$output" = "cuInit 999" ]
	CUWARD_SIM_FAULT=cuNoSuchCall:1:1 run "$apps/sim_hold"
	[ "$status" -eq 134 ]
}

@test "truth survives SIGKILL, and the device gets its memory back" {
	export CUWARD_SIM_TRUTH=$truth CUWARD_SIM_MEMORY=1G
	mkfifo "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
	"$apps/sim_hold" 500000000 <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out" 3>&- &
	holder=$!
	exec 8>"$BATS_TEST_TMPDIR/in" 9<"$BATS_TEST_TMPDIR/out"
	read -r line <&9
	[ "$line" = ready ]
	[ "$(truth device.0.requested)" -eq 500000000 ]
	[ "$(truth device.0.physical)" -eq $((300 * 1048576 + 239 * 2097152)) ]
	run "$apps/sim_hold" 500000000 <<<""
	[ "$status" -ne 0 ]
	kill -KILL "$holder"
	wait "$holder" || true
	exec 8>&- 9<&-
	[ "$(truth device.0.requested)" -eq 0 ]
	[ "$(truth process.0.alive)" -eq 0 ]
	[ "$(truth process.0.device.0.device.bytes)" -eq 500000000 ]
	run "$apps/sim_hold" 500000000 <<<""
	[ "${lines[0]}" = ready ]
	[ "${lines[1]}" = "free $((1024 * 1048576 - 300 * 1048576))" ]
}

@test "calls after the end answer 4, or stop the program" {
	CUWARD_SIM_DEINIT=1 "$apps/sim_exit"
	CUWARD_SIM_DEINIT=abort run "$apps/sim_exit"
	[ "$status" -eq 134 ]
}
