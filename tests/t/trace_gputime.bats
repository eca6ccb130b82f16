#!/usr/bin/env bats
# Work timed on the GPU: placed where it ran, by a clock that drifts, without changing what runs.

setup() {
	unset LD_PRELOAD "${!CUWARD_@}" CUDA_VISIBLE_DEVICES
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
	cd "$BATS_TEST_TMPDIR"
}

# placed PPM STREAMS ROUNDS NS: every launch within 10 us of where it can have begun.
placed() {
	CUWARD_SIM_CLOCK_PPM=$1 CUWARD_SIM_KERNEL_NS=$4 "$B/cuward" run -q --sim --trace=trace --gpu-time -- \
		"$B/apps/gputime" "$2" "$3" "$4" >schedule
	[ "$(wc -l <schedule)" -eq $(($2 * $3)) ]
	"$B/cuward" events trace | sed -n 's/.*cuward:gpu:.*correlation = \([0-9]*\), begin_ns = \([0-9]*\), end_ns = \([0-9]*\), error_ns = \([0-9]*\).*/\1 \2 \3 \4/p' |
		sort -n >timed
	[ "$(wc -l <timed)" -eq $(($2 * $3)) ]
	paste -d ' ' schedule timed | awk -v ns="$4" '
		function off(x) { return x < 0 ? -x : x }
		{ early = $1 - $4; late = $4 - $2; wrong = early > late ? early : late; wrong = wrong > 0 ? wrong : 0
		  if (wrong > worst) worst = wrong
		  if (off($5 - $4 - ns) > longest) longest = off($5 - $4 - ns)
		  if (wrong > $6 + 1000) beyond++ }
		END { printf "placed within %d ns, lengths within %d ns, %d beyond their bound\n", worst, longest, beyond
		  exit worst > 10000 || longest > 10000 || beyond > 0 }'
}

@test "eight streams" { placed 0 8 100 2000000; }

@test "eight streams, and a clock that drifts" { placed 80 8 100 2000000; }

@test "one in N" {
	CUWARD_SIM_KERNEL_NS=100000 "$B/cuward" run -q --sim --trace=trace --gpu-time=10 -- \
		"$B/apps/gputime" 2 100 100000 >/dev/null
	[ "$("$B/cuward" events trace | grep -c 'cuward:gpu:')" -eq 20 ]
	[ "$("$B/cuward" events trace | grep -c 'cuward:launch:')" -eq 200 ]
	"$B/cuward" timeline trace --json | jq -e '.processes[0] | .gpu_timed == 20 and .gpu_unmatched == 0'
}

@test "a captured graph has the nodes it has without us" {
	for time in --gpu-time -v; do
		"$B/cuward" run -q --sim --trace=trace$time $time -- "$B/apps/families" captured_nodes >nodes$time
	done
	diff nodes--gpu-time nodes-v
	grep -qx "3 nodes" nodes-v
	[ "$("$B/cuward" events trace--gpu-time | grep -c 'cuward:gpu:')" -ge 1 ]
}

@test "without a trace there is nothing to write it to" {
	run "$B/cuward" run --sim --gpu-time -- true
	[ "$status" -eq 125 ]
	[[ "$output" == *"--trace"* ]]
	run "$B/cuward" run --sim --trace --gpu-time=often -- true
	[ "$status" -eq 125 ]
}
