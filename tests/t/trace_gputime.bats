#!/usr/bin/env bats
# Work timed on the GPU: placed where it ran, by a clock that drifts, without changing what runs.

setup() {
	unset LD_PRELOAD "${!CUWARD_@}" CUDA_VISIBLE_DEVICES
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
	cd "$BATS_TEST_TMPDIR"
}

# placed PPM STREAMS ROUNDS NS: every launch within 10 us of where it can have begun, and as long as it was.
# Where a thread lost its processor between an event and the launch the trace says so, and these are few.
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
		  long = off($5 - $4 - ns); bound = $6
		  if (wrong > bound + 500 || long > bound + 1000) beyond++
		  if (bound > 10000) { vague++; next }
		  if (wrong > worst) worst = wrong
		  if (long > longest) longest = long }
		END { printf "placed within %d ns, lengths within %d ns, %d beyond their bound, %d with a bound over 10 us\n",
			worst, longest, beyond, vague
		  exit worst > 10000 || longest > 10000 || beyond > 0 || vague > NR / 20 }'
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

# times N: so many launches, and so many of them timed (in $timed), of `timed STORY` under --gpu-time.
times() {
	local launches=$1
	rm -rf trace
	CUWARD_SIM_MEMORY=200G CUWARD_SIM_CALL_LOG=$PWD/calls "$B/cuward" run -q --sim --trace=trace --gpu-time -- \
		"$B/apps/timed" "${@:2}" >said
	[ "$("$B/cuward" events trace | grep -c 'cuward:launch:')" -eq "$launches" ]
	timed=$("$B/cuward" events trace | grep -c 'cuward:gpu:' || true)
}

@test "contexts that come and go" {
	times 100 contexts 100
	[ "$timed" -eq 100 ]
}

@test "more contexts than can be timed: the others cost nothing" {
	times 80 together 40
	[ "$timed" -eq 64 ]
	[ "$(grep -c ' cuStreamCreate ' calls)" -eq 32 ]
}

@test "more work in flight than is timed: later work is, without anybody waiting" {
	CUWARD_SIM_KERNEL_NS=1000000 times 4610 flood 4600
	echo "$timed timed"
	[ "$("$B/cuward" events trace | sed -n 's/.*cuward:gpu:.*correlation = \([0-9]*\),.*/\1/p' |
		sort -n | tail -10 | tr '\n' ' ')" = "4601 4602 4603 4604 4605 4606 4607 4608 4609 4610 " ]
}

@test "streams that are destroyed with work in them" {
	CUWARD_SIM_KERNEL_NS=5000000 times 50 streams 50
	[ "$timed" -eq 50 ]
}

@test "a context that is destroyed with work in it: another one's is timed all the same" {
	CUWARD_SIM_KERNEL_NS=5000000 times 8 abandoned
	[ "$timed" -ge 4 ]
}

@test "a capture that begins while work is timed" {
	CUWARD_SIM_KERNEL_NS=2000000 times 23 capture
	[ "$(cat said)" = "2 nodes" ]
	[ "$timed" -eq 20 ]
}

@test "a driver that refuses what timing needs: the program runs as ever" {
	while read -r fault wanted; do
		CUWARD_SIM_FAULT=$fault times 40 contexts 40
		[ "$timed" -eq "$wanted" ]
	done <<-'X'
		cuEventCreate:*:2 0
		cuStreamCreate:1:2 39
		cuEventRecord:*:999 0
		cuEventQuery:*:600 0
		cuEventElapsedTime_v2:*:999 0
	X
}

@test "SIGKILL loses less than a second" {
	CUWARD_SIM_CALL_LOG=$PWD/calls CUWARD_SIM_KERNEL_NS=300000 "$B/cuward" run -q --sim --trace=trace --gpu-time -- \
		timeout -s KILL 3 "$B/apps/gputime" 1 1000000 2000000 >/dev/null || true
	launched=$(grep -c ' cuLaunchKernel ' calls)
	# Seconds since the first event, what, number of the launch. Each line tells the time since the one before.
	"$B/cuward" events trace | sed -n 's/^[^ ]* (+\([0-9.?]*\)) [^ ]* cuward:\([a-z_]*\):\(.*correlation = \([0-9]*\)\)\{0,1\}.*/\1 \2 \4/p' |
		awk '{ at += $1; print at, $2, $3 }' >events
	awk -v launched="$launched" '
		$2 == "launch" { began[$3] = $1; launches++; last = $1 }
		$2 == "gpu" { timed[$3] = 1 }
		END {
			for (number in began) if (began[number] < last - 1 && !timed[number]) missing++
			printf "%d launches of %d, %d of the time before the last second are not timed\n", launches, launched, missing
			exit last < 1.5 || launches < launched - 1 || missing > 0 }' events
}
