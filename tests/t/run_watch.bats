#!/usr/bin/env bats
# cuward run --stall and --idle: who waits for ever, who holds memory and does nothing; and who does not.

load guest
load box
load common

# From SIGTERM to SIGKILL are ten seconds: the other tests go on meanwhile.
setup_file() {
	cat >"$BATS_FILE_TMPDIR/deaf" <<-'X'
		trap '' TERM
		exec "$@"
	X
	(
		status=0
		export CUWARD_SIM_KERNEL_NS=stuck=never,*=0 CUWARD_DIR=$BATS_FILE_TMPDIR/state
		timeout 60 "$B/cuward" run --sim --stall 0.2s --on-stall term -- sh "$BATS_FILE_TMPDIR/deaf" \
			"$B/apps/play" init device 0 launch stuck sync 2>"$BATS_FILE_TMPDIR/out" || status=$?
		echo $status >"$BATS_FILE_TMPDIR/status"
	) 3>&- &
}

setup() { box_setup; }
teardown() { box_teardown; common_teardown; }

# watch STATUS OPTIONS -- WORDS: play the words under run; what it says in out, its report in r.json.
watch() {
	local status=0 options=() wanted=$1
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	timeout 60 "$cuward" run --sim --report r.json "${options[@]}" -- "$play" "${@:2}" >said 2>out || status=$?
	[ "$status" -eq "$wanted" ] || { echo "status $status"; cat out; return 1; }
}

found() {
	local answer
	answer=$(jq -c '[.run.watch[] | [.what, .call, .held_bytes, .terminated]]' r.json)
	[ "$answer" = "$1" ] || { echo "found $answer, not $1"; cat out; return 1; }
}

nobody() {
	found '[]'
	lacks 'stalled|idle' out
}

# in_place NAME COMMAND...: in a folder with a state of its own, beside the others; all_right waits for them.
in_place() {
	mkdir "$1"
	(
		cd "$1"
		export CUWARD_DIR=$PWD/state
		"${@:2}"
	) 3>&- &
	places+=($!)
}
all_right() {
	local place bad=0
	for place in "${places[@]}"; do
		wait $place || bad=1
	done
	[ $bad -eq 0 ]
}

# miss KERNEL WATCH-ARGUMENT...: nobody is found.
miss() { CUWARD_SIM_KERNEL_NS=$1,*=0 watch "${@:2}" && nobody; }

stalled() {
	export CUWARD_SIM_KERNEL_NS=slow=1500000000,*=0
	watch 24 --stall 0.5s --fail-on stall -- init device 0 alloc 3M launch slow sync freeall
	found "[[\"stall\",\"cuCtxSynchronize\",$((3 * MiB)),false]]"
	grep -Eq '^cuward: stalled: play \(pid [0-9]+\) has been in cuCtxSynchronize for [0-9.]+ m?s, since 20[0-9-]+ [0-9:.]+ UTC, and completed nothing, last kernel slow; it holds 3\.00 MiB$' out
	[ "$(jq -c '.run | [.command_status, .exit_status, .failed_on, .watch_count]' r.json)" = '[0,24,"stall",1]' ]
	[ "$(jq -r '.run.watch[0].kernel' r.json)" = slow ]
	[ "$(jq '.run.watch[0].pid' r.json)" = "$(jq '.processes[0].pid' r.json)" ]
}
# A copy waits as well; without --fail-on the status is the command's.
stalled_copy() {
	CUWARD_SIM_KERNEL_NS=slow=1500000000,*=0 watch 0 --stall 0.5s -- init device 0 alloc 3M launch slow copy freeall
	found "[[\"stall\",\"cuMemcpyDtoH_v2\",$((3 * MiB)),false]]"
}
# Whichever call does not return; it is not idle. One that loads or links is neither.
stalled_free() {
	export CUWARD_SIM_CALL_DELAY_NS=cuMemFree_v2=2000000000,*=0
	watch 24 --stall 0.5s --idle 0.5s --fail-on stall,idle -- init device 0 alloc 3M freeall
	[ "$(jq -c '[.run.watch[] | [.what, .call]] | unique' r.json)" = '[["stall","cuMemFree_v2"]]' ]
	grep -Eq '^cuward: stalled: play \(pid [0-9]+\) has been in cuMemFree_v2 for [0-9.]+ m?s, since 20[0-9-]+ [0-9:.]+ UTC, and completed nothing; it holds 3\.00 MiB$' out
}
# A launch that waits for room in the queue.
stalled_launch() {
	export CUWARD_SIM_QUEUE=1 CUWARD_SIM_KERNEL_NS=slow=2000000000,*=0
	watch 24 --stall 0.5s --idle 0.5s --fail-on stall,idle -- init device 0 alloc 3M launch slow launch_ex slow launch slow freeall
	[ "$(jq -c '[.run.watch[] | [.what, .call]]' r.json)" = '[["stall","cuLaunchKernelEx"],["stall","cuLaunchKernel"]]' ]
	grep -Eq '^cuward: stalled: play \(pid [0-9]+\) has been in cuLaunchKernelEx for [0-9.]+ m?s, since 20[0-9-]+ [0-9:.]+ UTC, and completed nothing; it holds 3\.00 MiB$' out
}
loading() {
	export CUWARD_SIM_CALL_DELAY_NS=cuModuleLoadData=1500000000,*=0
	watch 0 --stall 0.5s --idle 0.5s --fail-on stall,idle -- init device 0 alloc 3M launch k freeall
	nobody
}

@test "stalled in a synchronise, a copy, a free or a launch: a sentence, 24, and the command goes on" {
	in_place a stalled
	in_place b stalled_copy
	in_place c stalled_free
	in_place d loading
	in_place e stalled_launch
	all_right
}

@test "stalled, near misses: a wait shorter than T, a loop of waits, none at all" {
	in_place a miss slow=400000000 0 --stall 2s --fail-on stall -- init device 0 alloc 3M launch slow sync freeall
	in_place b miss slow=150000000 0 --stall 1.2s --fail-on stall -- init device 0 alloc 3M \
		$(printf 'launch slow sync %.0s' {1..13}) freeall
	in_place c miss a=0 0 --stall 0.3s --fail-on stall -- init device 0 alloc 3M sleep 1000 freeall
	all_right
}

# We ended it: with --fail-on that is what the status says, a shell in between or not.
ended_and_failed() {
	watch 24 --stall 0.4s --on-stall term --fail-on stall -- init device 0 alloc 3M launch stuck sync
	found "[[\"stall\",\"cuCtxSynchronize\",$((3 * MiB)),true]]"
}
ended_in_shell() {
	status=0
	"$cuward" run --sim --stall 0.4s --on-stall term --fail-on stall --error-exitcode 7 -- \
		sh -c '"$@"; exit $?' - "$play" init device 0 alloc 3M launch stuck sync >said 2>out || status=$?
	[ "$status" -eq 7 ]
}

@test "stalled, term: SIGTERM, and the report is there" {
	export CUWARD_SIM_KERNEL_NS=stuck=never,*=0
	in_place a ended_and_failed
	in_place b ended_in_shell
	watch 143 --stall 0.4s --on-stall term -- init device 0 alloc 3M launch stuck sync
	found "[[\"stall\",\"cuCtxSynchronize\",$((3 * MiB)),true]]"
	grep -q '; SIGTERM is sent, SIGKILL follows in 10 s$' out
	[ "$(jq -c '.processes[0] | [.ended, .signal, .memory.device.live_bytes, .leaks[].verdict]' r.json)" = "[\"signal\",15,$((3 * MiB)),\"killed\"]" ]
	all_right
}

# Twice idle, with calls in between, is told twice.
idle_twice() {
	watch 0 --idle 0.4s -- init device 0 alloc 3M launches 200 sleep 1000 alloc 1M launches 200 sleep 1000 freeall
	found "[[\"idle\",\"cuLaunchKernel\",$((3 * MiB)),false],[\"idle\",\"cuLaunchKernel\",$((4 * MiB)),false]]"
}

@test "idle: it holds memory and makes no call" {
	in_place a idle_twice
	watch 24 --idle 0.5s --fail-on stall,idle -- init device 0 alloc 3M launches 200 sleep 1300 freeall
	found "[[\"idle\",\"cuLaunchKernel\",$((3 * MiB)),false]]"
	grep -Eq '^cuward: idle: play \(pid [0-9]+\) holds 3\.00 MiB and has made no CUDA call for [0-9.]+ m?s, since 20[0-9-]+ [0-9:.]+ UTC; among its last calls was cuLaunchKernel$' out
	[ "$(jq -c '.run | [.exit_status, .failed_on]' r.json)" = '[24,"idle"]' ]
	all_right
}

@test "idle, near misses: a phase shorter than T, nothing held, launches, a wait, memory waited for" {
	in_place a miss a=0 0 --idle 3s --fail-on idle -- init device 0 alloc 3M sleep 400 launch a sleep 400 launch a sleep 400 freeall
	in_place b miss a=0 0 --idle 0.3s --fail-on idle -- init device 0 alloc 3M freeall sleep 1000
	in_place c miss a=0 0 --idle 0.5s --fail-on idle -- init device 0 alloc 3M launches 1500 freeall
	in_place d miss slow=1200000000 0 --idle 0.4s --fail-on idle -- init device 0 alloc 3M launch slow sync freeall
	in_place e miss a=0 99 -m 4M --on-limit wait=1s --idle 0.4s --fail-on idle -- init device 0 alloc 3M alloc 2M
	all_right
}

# Who was stopped by somebody is left alone.
stopped() {
	cat >script <<-'X'
		"$@" &
		sleep 0.2
		kill -STOP $!
		sleep 1.5
		kill -CONT $!
		wait
	X
	"$cuward" run --sim --report r.json --idle 0.8s --on-idle term -- sh ./script "$play" init device 0 \
		alloc 3M sleep 100 launches 500 freeall 2>out
	found '[]'
}

@test "idle, term: of a tree only the process concerned; not one that was stopped" {
	in_place a stopped
	watch 0 --idle 0.4s --on-idle term -- fork '(' init device 0 alloc 5M launches 100 sleep 60000 ')' wait init device 0 alloc 1M freeall
	found "[[\"idle\",\"cuLaunchKernel\",$((5 * MiB)),true]]"
	[ "$(jq -c '[.processes[] | [.ended, .memory.device.peak_bytes]] | sort' r.json)" = "[[\"exit\",$MiB],[\"unknown\",$((5 * MiB))]]" ]
	all_right
}

@test "what cannot be asked; ten minutes where only --fail-on asks" {
	for wrong in '--stall never' '--idle 0' '--on-stall kill' '--on-idle pause' '--fail-on stalled'; do
		run "$cuward" run $wrong true
		[ "$status" -eq 125 ]
	done
	miss a=0 0 --fail-on stall,idle -- init device 0 alloc 3M sleep 300 freeall
}

@test "also where all users meet" {
	common_setup
	common <<-'X'
		status=0
		as 4101 cuward run --idle 0.4s --on-idle term --fail-on idle --report state-4101/r.json -- \
			play init device 0 alloc 3M sleep 60000 2>said || status=$?
		[ "$status" -eq 24 ] || { cat said; exit 1; }
		[ -s /run/cuward/slots/slots.4101 ]
		told state-4101/r.json '.run.watch | length == 1 and .[0].terminated'
	X
}

@test "whom SIGTERM does not end is killed" {
	ended() { [ -e "$BATS_FILE_TMPDIR/status" ]; }
	eventually ended
	cat "$BATS_FILE_TMPDIR/out"
	[ "$(cat "$BATS_FILE_TMPDIR/status")" -eq 137 ]
	[ "$(grep -c 'stalled:' "$BATS_FILE_TMPDIR/out")" -eq 1 ]
}
