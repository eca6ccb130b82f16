#!/usr/bin/env bats
# Work timed on the GPU: placed where it ran, by a clock that drifts, without changing what runs.

load ../trace/lttng.bash

setup() {
	daemon=
	unset LD_PRELOAD "${!CUWARD_@}" CUDA_VISIBLE_DEVICES
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
	cd "$BATS_TEST_TMPDIR"
}

teardown() { daemon_end; }

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
	equal trace $(($2 * $3 * 2))
}

# values EVENT: its numbers, a line each, without their names.
values() { "$B/cuward" events "$1" | sed -n "s/.*cuward:$2: { cpu_id = [0-9]* }, {\(.*\)}$/\1/p" | sed 's/ *[a-z_]* = //g; s/,/ /g'; }

# scheduled TRACE: what `forms` and others told of their work (number, name, earliest, latest, length, device) is
# what the trace tells, on that device, within 10 us or the bound that the trace itself gives.
scheduled() {
	values "$1" gpu | awk '{ print $2, $3, $4, $5 }' | sort -n >timed
	{ values "$1" launched | awk '{ print $NF, $3 }'; values "$1" launch | awk '{ print $NF, $3 }'; values "$1" copy | awk '{ print $NF, $4 }'; } | sort -n >devices
	awk -v devices=devices -v timed=timed '
		function off(x) { return x < 0 ? -x : x }
		BEGIN {
			while ((getline line <devices) > 0) { split(line, f, " "); device[f[1]] = f[2] }
			while ((getline line <timed) > 0) {
				split(line, f, " "); begin[f[1]] = f[2]; end[f[1]] = f[3]; error[f[1]] = f[4]; events++
			}
		}
		{ if (!($1 in begin)) { print "not timed: " $0; bad++; next }
		  if (device[$1] != $6) { print "on device " device[$1] ": " $0; bad++ }
		  early = $3 - begin[$1]; late = begin[$1] - $4; wrong = early > late ? early : late
		  long = off(end[$1] - begin[$1] - $5); bound = error[$1]
		  if (wrong > bound + 500 || long > bound + 1000) { print wrong, long, "beyond " bound ": " $0; bad++ }
		  if (bound > 10000) { vague++; next }
		  if (wrong > 10000 || long > 10000) { print wrong, long, "off: " $0; bad++ }
		  if (wrong > worst) worst = wrong
		  if (long > longest) longest = long }
		END { printf "%d, placed within %d ns, lengths within %d ns, %d with a bound over 10 us, %d bad\n",
			NR, worst, longest, vague, bad
		  exit !NR || events != NR || bad > 0 || vague > NR / 4 }'
}

@test "eight streams" { placed 0 8 100 2000000; }

@test "eight streams, and a clock that drifts" { placed 80 8 100 2000000; }

@test "a clock that drifts by 0.27 ms while it is timed: tied to ours again and again" { placed 90 2 1500 2000000; }

@test "every form of launch, copy and set, and their twins, on two devices" {
	for ppm in 0 80; do
		rm -rf trace
		CUWARD_SIM_CLOCK_PPM=$ppm CUWARD_SIM_DEVICES=2 CUWARD_SIM_KERNEL_NS=1000000 CUWARD_SIM_COPY_GBPS=0.016384 \
			"$B/cuward" run -q --sim --trace=trace --gpu-time -- "$B/apps/forms" 1000000 1000000 >said
		[ "$(wc -l <said)" -ge 122 ]
		scheduled trace <said
	done
	# Every call that gives work to a stream is among them, as far as the header and this driver have it.
	export LC_ALL=C
	sed -n 's/^.*X(\(cu[A-Za-z0-9_]*\),.*/\1/p' "$B/gen/driver_calls.h" | sort -u |
		comm -12 - <(nm -D --defined-only "$B/sim/libcuda.so.1" | awk '{ print $3 }' | sort -u) >known
	[ "$(wc -l <known)" -ge 500 ]
	diff <(cut -d ' ' -f 2 said | sort -u) <(sed -n 's/^\(LAUNCH\|COPY\|GRAPH_LAUNCH\)(\(cu[A-Za-z0-9_]*\),.*/\2/p' \
		"$TOP/shim/hook_launch.c" "$TOP/shim/hook_copy.c" | grep -E '^cu(Launch|Graph)|Async' |
		{ cat; echo cuLaunchCooperativeKernelMultiDevice; } | sort | comm -12 - known)
	# One call on two devices is one call and two launches.
	"$B/cuward" stats --json trace >json
	[ "$(jq -c '[(.calls[] | select(.name == "cuLaunchCooperativeKernelMultiDevice") | .count),
		(.kernels[] | select(.name == "work") | .launches, .timed)]' json)" = '[2,24,24]' ]
	[ "$(jq -c '[.devices[] | .gpu_busy_ns / 1e7 | round]' json)" = \
		"$(awk '{ ns[$6] += $5 } END { printf "[%d,%d]", ns[0] / 1e7 + 0.5, ns[1] / 1e7 + 0.5 }' said)" ]
}

# Between the first event and the work, and between the work and the second event: the length is wrong by both.
@test "a thread that loses its processor on both sides of its work: the bound is that of both" {
	CUWARD_SIM_KERNEL_NS=1000000 times 21 gaps 20
	# Kernels of 1 ms, with gaps of 8 and 6.
	values trace gpu | sort -n -k 2 | sed 1d | awk '{ wrong = $4 - $3 - 1000000
			if (wrong > $5 + 1000) { print wrong, "beyond", $5; bad++ }
			if (wrong < 13900000) { print wrong, "without delay"; bad++ } }
		END { exit NR != 20 || bad }'
}

@test "one in N" {
	CUWARD_SIM_KERNEL_NS=100000 "$B/cuward" run -q --sim --trace=trace --gpu-time=10 -- \
		"$B/apps/gputime" 2 100 100000 >/dev/null
	[ "$("$B/cuward" events trace | grep -c 'cuward:gpu:')" -eq 20 ]
	[ "$("$B/cuward" events trace | grep -c 'cuward:launch[a-z]*:')" -eq 200 ]
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

@test "CUWARD_GPU_TIME=0 times nothing, and makes no event; 1 does" {
	for on in 0 1; do
		rm -rf trace calls
		CUWARD_GPU_TIME=$on CUWARD_SIM_CALL_LOG=$PWD/calls "$B/cuward" run -q --sim --trace=trace -- \
			"$B/apps/gputime" 1 20 1000 >said
		[ "$("$B/cuward" events trace | grep -c 'cuward:launch[a-z]*:')" -eq 20 ]
		[ "$("$B/cuward" events trace | grep -c 'cuward:gpu:')" -eq $((20 * on)) ]
		[ "$(grep -c ' cuEventCreate' calls)" -ge $((on * 2)) ]
		[ $on = 1 ] || [ "$(grep -c ' cuEventCreate' calls)" -eq 0 ]
	done
}

@test "without a trace there is nothing to write it to" {
	run "$B/cuward" run --sim --gpu-time -- true
	[ "$status" -eq 125 ]
	[[ "$output" == *"--trace"* ]]
	run "$B/cuward" run --sim --trace --gpu-time=often -- true
	[ "$status" -eq 125 ]
}

# waits LOG: how often the driver was asked to wait for work, by call.
waits() { awk '$3 ~ /^cu(Ctx|Stream|Event)Synchronize/ { n[$3]++ } END { for (call in n) print call, n[call] }' "$1" | sort; }

# times N: so many launches, and so many of them timed (in $timed), of `timed STORY` under --gpu-time; which waits for
# no work that the program itself does not wait for.
times() {
	local launches=$1
	rm -rf trace calls calls-untimed
	export CUWARD_SIM_MEMORY=200G
	CUWARD_SIM_CALL_LOG=$PWD/calls-untimed "$B/cuward" run -q --sim -- "$B/apps/timed" "${@:2}" >said-untimed
	CUWARD_SIM_CALL_LOG=$PWD/calls "$B/cuward" run -q --sim --trace=trace --gpu-time -- "$B/apps/timed" "${@:2}" >said
	diff said-untimed said
	[ -n "$(waits calls)" ]
	diff <(waits calls-untimed) <(waits calls)
	[ "$("$B/cuward" events trace | grep -c 'cuward:launch[a-z]*:')" -eq "$launches" ]
	timed=$("$B/cuward" events trace | grep -c 'cuward:gpu:' || true)
	"$B/cuward" timeline --json trace >json
	"$B/cuward" stats trace >stats
}

# untimed N REASON: of all work so much has no time, all for that reason; text and JSON say so. What is only captured
# is no work: $captured.
untimed() {
	[ "$(jq -c '[.processes[].gpu_untimed | to_entries[]] | map({ (.key): .value }) | add // {}' json)" = "{\"$2\":$1}" ]
	[ $((timed + $1 + ${captured:-0})) -eq "$("$B/cuward" events trace | grep -c 'cuward:launch[a-z]*:')" ]
	grep -qx "Not timed: $1 of $((timed + $1)) launches, copies and sets" stats
	grep -qx "    $1: $3" stats
}
all_timed() {
	[ "$(jq -c '[.processes[].gpu_untimed]  | unique' json)" = '[{}]' ]
	! grep -q '^Not timed' stats
}

@test "contexts that come and go" {
	times 100 contexts 100
	[ "$timed" -eq 100 ]
	all_timed
}

@test "more contexts than can be timed: the others cost nothing" {
	times 80 together 40
	[ "$timed" -eq 64 ]
	[ "$(grep -c ' cuStreamCreate ' calls)" -eq 32 ]
	untimed 16 contexts "more contexts at a time than can be timed"
}

@test "more work in flight than is timed: later work is, without anybody waiting" {
	CUWARD_SIM_KERNEL_NS=10000 times 4610 flood 4600
	echo "$timed timed"
	[ "$("$B/cuward" events trace | sed -n 's/.*cuward:gpu:.*correlation = \([0-9]*\),.*/\1/p' |
		sort -n | tail -10 | tr '\n' ' ')" = "$(seq -s " " 4601 4610) " ]
	[ "$timed" -eq $((4096 + 10)) ]
	untimed 504 pairs "all pairs of events of its context were in use"
}

@test "streams that are destroyed with work in them" {
	CUWARD_SIM_KERNEL_NS=5000000 times 50 streams 50
	[ "$timed" -eq 50 ]
	all_timed
}

@test "a context that is destroyed with work in it: another one's is timed all the same" {
	CUWARD_SIM_KERNEL_NS=5000000 times 8 abandoned
	[ "$timed" -eq 4 ]
	untimed 4 gone "its context was destroyed before it was over"
}

@test "a capture that begins while work is timed" {
	CUWARD_SIM_KERNEL_NS=2000000 times 23 capture
	[ "$(cat said)" = "2 nodes" ]
	[ "$timed" -eq 20 ]
	captured=2 untimed 1 capture "a stream was capturing"
}

@test "a driver that refuses what timing needs: the program runs as ever" {
	while read -r fault wanted reason text; do
		CUWARD_SIM_FAULT=$fault times 40 contexts 40
		[ "$timed" -eq "$wanted" ]
		untimed $((40 - wanted)) "$reason" "$text"
	done <<-'X'
		cuEventCreate:*:2 0 clock the clock of its GPU could not be read
		cuStreamCreate:1:2 39 clock the clock of its GPU could not be read
		cuEventRecord:*:999 0 clock the clock of its GPU could not be read
		cuEventQuery:*:600 0 clock the clock of its GPU could not be read
		cuEventElapsedTime_v2:*:999 0 driver the driver refused to record or to read its events
	X
}

@test "a driver whose clock goes backwards, or far too fast: not timed, and that is said" {
	local ppm
	for ppm in -2000000 9000000000000; do
		rm -rf trace
		CUWARD_SIM_CLOCK_PPM=$ppm CUWARD_SIM_KERNEL_NS=100000 "$B/cuward" run -q --sim --trace=trace --gpu-time -- \
			"$B/apps/gputime" 2 5 100000 >schedule
		"$B/cuward" stats --json trace >told
		jq -e '[.kernels[0] | .launches, .timed] == [10, 0] and .processes[0].gpu_busy_ns == null' told
		[ "$("$B/cuward" events trace | grep -c 'cuward:untimed:')" = 10 ]
		"$B/cuward" stats trace | grep '^Not timed: 10 of 10 launches'
	done
}

@test "a green context: its work is not timed, and that is said; the primary one's is" {
	CUWARD_SIM_KERNEL_NS=100000 times 10 green
	[ "$timed" -eq 5 ]
	untimed 5 green "it ran in a green context"
}

@test "a fork: parent and child are timed, each its own" {
	CUWARD_SIM_POISON_FORK=0 CUWARD_SIM_KERNEL_NS=1000000 times 30 forked 10
	[ "$timed" -eq 30 ]
	all_timed
	[ "$(jq -c '[.processes[] | [.launches, .gpu_timed, .gpu_unmatched]] | sort' json)" = '[[10,10,0],[20,20,0]]' ]
	# What a thread that lost its processor adds lies in gaps that the trace tells.
	jq -e 'all(.processes[]; .gpu_busy_ns / .launches / 1e6 > 0.999)' json
	[ "$("$B/cuward" stats --json trace | jq -c '.kernels[] | [.name, .timed, (.p50_ns / 1e5 | round)]')" = '["work",30,10]' ]
}

@test "the preload alone, its environment says so" {
	daemon_start
	daemon_record
	as_daemon mkdir -p "$LTTNG_HOME/guest/state"
	install -m 755 "$B/apps/forms" "$B/libcuward.so" "$B/libcuward-lttng.so" "$B/sim/libcuda.so.1" "$LTTNG_HOME/guest"
	as_daemon env LD_PRELOAD="$LTTNG_HOME/guest/libcuward.so" LD_LIBRARY_PATH="$LTTNG_HOME/guest" CUWARD_TRACE=1 \
		LTTNG_UST_REGISTER_TIMEOUT=10000 CUWARD_GPU_TIME=1 CUWARD_DIR="$LTTNG_HOME/guest/state" CUWARD_SIM_DEVICES=2 CUWARD_SIM_KERNEL_NS=1000000 \
		CUWARD_SIM_COPY_GBPS=0.016384 "$LTTNG_HOME/guest/forms" 1000000 1000000 >said
	daemon_stop_recording
	scheduled "$LTTNG_HOME/trace" <said
	[ "$(wc -l <said)" -ge 122 ]
}

@test "SIGKILL loses less than a second" {
	CUWARD_SIM_CALL_LOG=$PWD/calls CUWARD_SIM_KERNEL_NS=300000 "$B/cuward" run -q --sim --trace=trace --gpu-time -- \
		timeout -s KILL 3 "$B/apps/gputime" 1 1000000 2000000 >/dev/null || true
	launched=$(grep -c ' cuLaunchKernel ' calls)
	# Seconds since the first event, what, number of the launch. Each line tells the time since the one before.
	"$B/cuward" events trace | sed -n 's/^[^ ]* (+\([0-9.?]*\)) [^ ]* cuward:\([a-z_]*\):\(.*correlation = \([0-9]*\)\)\{0,1\}.*/\1 \2 \4/p' |
		awk '{ at += $1; print at, $2, $3 }' >events
	awk -v launched="$launched" '
		$2 == "launched" { began[$3] = $1; launches++; last = $1 }
		$2 == "gpu" { timed[$3] = 1 }
		END {
			for (number in began) if (began[number] < last - 1 && !timed[number]) missing++
			printf "%d launches of %d, %d of the time before the last second are not timed\n", launches, launched, missing
			exit last < 1.5 || launches < launched - 1 || missing > 0 }' events
}
