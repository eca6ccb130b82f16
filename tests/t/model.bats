#!/usr/bin/env bats
# Random calls, a third of them wrong: after each the ledger must say what the driver knows.
# beside: random calls.

load guest

setup() { guest_setup; }

teardown() { guest_teardown; }

# model OPTIONS...: under the preload; what went wrong is shown with the steps that show it.
model() {
	LD_PRELOAD=$shim timeout 600 "$B/model/model" "$@" >model.out 2>&1 || { cat model.out; return 1; }
	tail -1 model.out
}

@test "the ledger equals the driver's truth after each call" {
	model --seeds 12 --steps 20000 --rows "$TOP/tests/model/rows.tsv"
	grep -q '^12 seeds, 240000 steps, .* 122 rows, .*: 0 failed, 0 missing$' model.out
}

@test "the ledger equals the driver's truth whenever four threads rest" {
	model --seeds 6 --steps 40000 --threads 4
	grep -q '^6 seeds, .*: 0 failed, 0 missing$' model.out
}

@test "and for seeds of four threads that once differed" {
	local seed
	for seed in 1006 2008 2014 3007 3012 3038 3050; do
		model --seeds 1 --from $seed --steps 30000 --threads 4
		grep -q '^1 seeds, .*: 0 failed, 0 missing$' model.out
	done
}

@test "a wrong ledger is seen, and shown by few steps" {
	# Frees of pinned memory that the driver does and the ledger does not see.
	run env LD_PRELOAD="$shim" CUWARD_MODEL_SPOIL=1 timeout 600 "$B/model/model" --seeds 1 --steps 2000
	[ "$status" -eq 1 ]
	grep -q '^wrong after .*pinned' <<<"$output"
	grep -v '^#' <<<"$output" | grep -cE '^(alloc_host|register|free_host|unregister) ' >steps
	[ "$(cat steps)" -ge 2 ]
	[ "$(grep -cE '^[a-z_]+( [0-9]+){4}$' <<<"$output")" -le 12 ]
}

@test "every call with each of five codes: unchanged, nothing charged" {
	export CUWARD_SIM_DEVICES=2 LD_LIBRARY_PATH=$B/sim/future
	guest 0 "$B/model/faults" "$B/model/hooked"
	# All that the header declares, but for three look-ups.
	count=$(($(grep -c '^	X(' "$B/gen/driver_calls.h") - 3))
	[ "$output" = "$((count * 10)) calls, $(wc -l <"$B/model/hooked") with a policy, 0 that the driver lacks, 0 wrong" ]
	[ "$(wc -l <"$B/model/hooked")" -gt 200 ]
	[ $count -gt 600 ]
}

@test "what an older driver lacks is not supported, and changes nothing" {
	export CUWARD_SIM_DEVICES=2
	for driver in sim drivers/12.9 sim/12.2 drivers/11.8 drivers/11.2 sim/11.0; do
		export LD_LIBRARY_PATH=$B/$driver
		# But for the three look-ups.
		lacks=$(LC_ALL=C comm -23 <(sed -n 's/^\tX(\([A-Za-z0-9_]*\),.*/\1/p' "$B/gen/driver_calls.h" | LC_ALL=C sort) \
			<(nm -D --defined-only "$B/$driver/libcuda.so.1" | awk '{ print $3 }' | LC_ALL=C sort) | sed '/^cuGetProcAddress/d' | wc -l)
		count=$(($(grep -c '^	X(' "$B/gen/driver_calls.h") - 3 - lacks))
		guest 0 "$B/model/faults" "$B/model/hooked"
		[ "$output" = "$((count * 10 + lacks * 2)) calls, $(wc -l <"$B/model/hooked") with a policy, $lacks that the driver lacks, 0 wrong" ]
	done
	[ $lacks -gt 250 ]
}

@test "traced, every one of these failures is told once, and no event claims more" {
	export CUWARD_SIM_DEVICES=2 CUWARD_TRACE=1 shim=$B/model/told/libcuward.so LD_LIBRARY_PATH=$B/sim/future
	guest 0 "$B/model/faults" "$B/model/hooked"
	grep -qE '^[0-9]+ calls, [0-9]+ with a policy, 0 that the driver lacks, 0 wrong$' <<<"$output"
	grep '^not told: ' <<<"$output" | sort >untold
	sed -n 's/^\tcase CALL_\(.*\):$/not told: \1/p' "$TOP/shim/quiet.h" | sort >quiet
	[ "$(wc -l <quiet)" -gt 40 ]
	diff untold quiet
}

@test "no way around a limit: every call that takes memory refuses twice as much" {
	export CUWARD_SIM_DEVICES=2 CUWARD_MEMORY=64M CUWARD_PINNED=64M
	guest 0 "$B/model/refuse" "$TOP/tests/model/rows.tsv"
	[ "$output" = "29 calls refused, 0 wrong" ]
	truth process.0.device.0.requested_high $((64 * MiB))
	truth process.0.device.0.graph_reserved_high 0
	truth process.0.device.0.host.allocs 0
	# A row that nobody asks fails it.
	sed 's/^cuMemFree	release/cuMemFree	charge/' "$TOP/tests/model/rows.tsv" >rows.tsv
	guest 1 "$B/model/refuse" rows.tsv
	[[ "$output" == "cuMemFree: is charged and was not asked"* ]]
}

@test "16 threads that want more than there is never get it" {
	export CUWARD_SIM_DEVICES=2 CUWARD_MEMORY=0=8M CUWARD_LOG=off
	guest 0 "$B/model/contend" 16 100000 tight
	grep -q '^0 over the limit, 0 odd answers, 0 left, some refused$' <<<"$output"
}

@test "16 threads that want no more than there is are never refused" {
	export CUWARD_SIM_DEVICES=2 CUWARD_MEMORY=0=1G
	guest 0 "$B/model/contend" 16 100000 roomy
	grep -q '^0 over the limit, 0 odd answers, 0 left, none refused$' <<<"$output"
}

@test "threads that launch graphs with memory never get more than there is" {
	# Time between what the library asks and does, and what the driver does.
	export CUWARD_SIM_DEVICES=2 CUWARD_MEMORY=0=24M CUWARD_LOG=off CUWARD_SIM_AUTO_FREE_NS=20000 \
		CUWARD_SIM_CALL_DELAY_NS=cuGraphLaunch=20000 \
		CUWARD_SIM_RETURN_DELAY_NS=cuDeviceGetGraphMemAttribute=20000
	guest 0 "$B/model/contend" 4 5000 graphs
	grep -q '^0 over the limit, 0 odd answers, 0 left, some refused$' <<<"$output"
	export CUWARD_MEMORY=0=1G
	guest 0 "$B/model/contend" 4 1000 graphs
	grep -q '^0 over the limit, 0 odd answers, 0 left, none refused$' <<<"$output"
}

# dying DELAY ROUNDS: between what the library does and the driver does, and back.
dying() {
	export CUWARD_SIM_DEVICES=2 CUWARD_SIM_CONTEXT_BYTES=16M CUWARD_MEMORY=0=900M CUWARD_LOG=off \
		CUWARD_SIM_REUSE=never
	local before=cuMemFree_v2=$1,cuArrayDestroy=$1,cuMemFreeHost=$1,cuEventDestroy_v2=$1
	local behind=cuMemAlloc_v2=$1,cuMemAllocManaged=$1,cuMemAllocPitch_v2=$1,cuArrayCreate_v2=$1
	behind+=,cuMemAllocHost_v2=$1,cuEventCreate=$1,cuCtxDestroy_v2=$1
	CUWARD_SIM_CALL_DELAY_NS=$before CUWARD_SIM_RETURN_DELAY_NS=$behind \
		guest 0 "$B/model/dying" 3 "$2"
	grep -q '^0 different, some calls were late$' <<<"$output"
}

@test "memory of a context that another thread destroys goes with it, whatever is under way" {
	dying 30000 200
}

@test "what the driver took for a context goes to no memory that has its record by now" {
	export CUWARD_SIM_DEVICES=2 CUWARD_SIM_CONTEXT_BYTES=16M CUWARD_SIM_MODULE_BYTES=2M CUWARD_MEMORY=0=900M
	# Who asks is away for a while, so that others can get in between.
	CUWARD_SIM_CALL_DELAY_NS=cuCtxGetCurrent=1000000 CUWARD_SIM_RETURN_DELAY_NS=cuMemGetInfo_v2=20000000 \
		guest 0 "$B/model/births" 20
	[ "$output" = "0 wrong" ]
}

@test "a handle that is given out again before its end is back stands for the new one" {
	export CUWARD_SIM_DEVICES=2 CUWARD_MEMORY=0=900M,1=400M CUWARD_SIM_HANDLES=immediate
	CUWARD_SIM_RETURN_DELAY_NS=cuMemPoolDestroy=100000000,cuGreenCtxDestroy=100000000 \
		guest 0 "$B/model/reissued" 5
	[ "$output" = "0 wrong, some pools and some green contexts had the same handle" ]
}

@test "clean under valgrind" {
	"$CC" --version | grep -qi clang && skip "valgrind cannot read what this compiler writes"
	export CUWARD_SIM_DEVICES=2 CUWARD_MEMORY=0=900M,1=400M CUWARD_LOG=off
	check=(valgrind -q --error-exitcode=99 --leak-check=no)
	guest 0 "${check[@]}" "$B/model/model" --child 5 --steps 300
	grep -q '^hit cuMemAlloc_v2 ' <<<"$output"
	guest 0 "${check[@]}" "$B/model/faults" "$B/model/hooked"
	grep -q ', 0 wrong$' <<<"$output"
	! grep -q '^==' <<<"$output"
}
