#!/usr/bin/env bats
# cuward run --record: the newest events stay in memory, and a snapshot is written when it is time.

load ../trace/lttng.bash

setup_file() {
	"${CC:-cc}" -std=gnu11 -D_GNU_SOURCE -rdynamic -o "$BATS_FILE_TMPDIR/play" "$TOP/tests/apps/play.c" -ldl
	"${CC:-cc}" -std=gnu11 -D_GNU_SOURCE -O1 -o "$BATS_FILE_TMPDIR/flood" "$TOP/tests/apps/flood.c" -ldl
}

setup() {
	unset LD_PRELOAD "${!CUWARD_@}" CUDA_VISIBLE_DEVICES LTTNG_HOME
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
	cd "$BATS_TEST_TMPDIR"
	rec=$BATS_TEST_TMPDIR/rec
}

teardown() {
	[ -z "${pid:-}" ] || kill -9 "$pid" 2>/dev/null || true
	wait || true
}

record() { "$B/cuward" run --sim --trace=rec --report r.json --record="$@" 3>&-; }
play() { record "$1" ${limit:+-m $limit} -- "$BATS_FILE_TMPDIR/play" "${@:2}"; }
json() { run "$B/cuward" timeline --json "$@"; }

told() {
	local answer
	answer=$(jq -c "$1" <<<"$output")
	[ "$answer" = "$2" ] || {
		echo "$1 is $answer, not $2: ${output:0:3000}"
		return 1
	}
}

# Snapshots by their reasons, in order.
reasons() { jq -r '.run.trace.snapshots[]' r.json | sed 's/.*snapshot-\([a-z]*\)-.*/\1/' | tr '\n' ' '; }

@test "nothing happened: nothing is left, nothing is said" {
	play on-denied,on-leak,on-signal init device 0 alloc 1M launch first free 0 2>said
	[ ! -e rec ]
	[ "$(jq -c .run.trace r.json)" = '{"dir":null}' ]
	[ "$(jq -c '.processes[0].trace.dir' r.json)" = null ]
	! grep -q -e rec/ -e trace said
}

@test "a refusal: the snapshot alone tells what led to it, with every name" {
	limit=10M play on-denied init device 0 alloc 3M launch first refused 20M 2>said
	[ "$(reasons)" = "denied " ]
	snapshot=$(jq -r '.run.trace.snapshots[0]' r.json)
	grep -q "^cuward: recorded $snapshot$" said
	mv "$snapshot" alone
	json alone
	[ "$status" = 0 ]
	told '[.kernels[].name]' '["first"]'
	told '[.processes[] | .command, .ended, (.devices[0] | .peak_bytes, .denied, .denied_bytes)]' \
		"[\"play\",\"exit\",$((3 << 20)),1,$((20 << 20))]"
	run "$B/cuward" timeline alone
	[ "$status" = 0 ]
}

@test "a leak and a fatal signal, at the end" {
	play on-leak init device 0 alloc 2M launch leaky
	[ "$(reasons)" = "leak " ]
	json rec
	told '[.kernels[].name]' '["leaky"]'
	told '.processes[0] | [.ended, .leaks.leak.bytes, .devices[0].final_bytes]' "[\"exit\",$((2 << 20)),$((2 << 20))]"
	rm -rf rec r.json
	run -134 play on-leak,on-signal init device 0 alloc 2M launch fatal abort
	[ "$(reasons)" = "signal " ]
	json rec
	[ "$status" = 0 ]
	told '[.kernels[].name]' '["fatal"]'
	told '.processes[0] | [.ended, .status]' '["signal",134]'
}

@test "a process of the tree that is killed while the others go on" {
	cat >tree <<-'END'
	"$1" init device 0 alloc 1M launch killed sleep 200 kill 9
	"$1" init device 0 launch later sh 'until ls rec/snapshot-signal* 2>/dev/null; do sleep 0.05; done >/dev/null'
	"$1" exec "$1" init device 0 launch executed
	END
	record on-signal -- timeout 60 sh tree "$BATS_FILE_TMPDIR/play"
	[ "$(reasons)" = "signal " ]
	json "$(jq -r '.run.trace.snapshots[0]' r.json)"
	told '[.kernels[].name] | contains(["killed"])' true
	told '[.kernels[].name] | contains(["executed"])' false
}

@test "a process that nobody could see is missed neither, its slot being another's by then" {
	# The keeper, which looks 50 times a second, stands still while it lives.
	cat >tree <<-'END'
	play=$1
	"$play" init device 0 launch first
	file=$(find state -name .recorder)
	keeper=$(awk -v inode=":$(stat -c %i "$file")$" '$2 == "POSIX" && $6 ~ inode { print $5 }' /proc/locks)
	[ -n "$keeper" ] && kill -STOP "$keeper" || exit 1
	eval "$2"
	"$play" init device 0 launch second
	kill -CONT "$keeper"
	until ls rec/snapshot-* 2>/dev/null; do sleep 0.05; done >/dev/null
	END
	record on-signal -- timeout 60 sh tree "$BATS_FILE_TMPDIR/play" '"$play" init device 0 alloc 1M launch killed kill 9'
	[ "$(reasons)" = "signal " ]
	json "$(jq -r '.run.trace.snapshots[0]' r.json)"
	told '[.kernels[].name] | contains(["killed"])' true
	rm -rf rec r.json
	record on-denied -m 10M -- timeout 60 sh tree "$BATS_FILE_TMPDIR/play" '"$play" init device 0 refused 20M launch refused'
	[ "$(reasons)" = "denied " ]
	json "$(jq -r '.run.trace.snapshots[0]' r.json)"
	told '[.processes[].devices[0].denied] | add' 1
}

@test "memory is bounded: the newest stay, names of all, and the end is there" {
	record on-signal -- "$BATS_FILE_TMPDIR/flood" 600000 2>said || [ $? = 137 ]
	[ "$(reasons)" = "signal " ]
	snapshot=$(jq -r '.run.trace.snapshots[0]' r.json)
	[ "$(du -sb "$snapshot/ust" | cut -f1)" -le $((36 << 20)) ]
	json "$snapshot"
	told '.trace.events < 600000' true
	told '.trace.events > 10000' true
	# Told long before the flood, that kernel's launch is gone; the last ones are there.
	told '[.kernels[] | select(.launches > 0) | .name]' '["flood"]'
	told '.trace.lost_packets' 0
	[ "$status" = 0 ]
	"$B/cuward" events "$snapshot" | grep 'cuward:launch' | tail -1 | grep -q ' grid_x = 600000, '
}

@test "refusals that come together share a snapshot, and there is an end to it" {
	limit=10M play on-denied init device 0 refused 20M refused 21M refused 22M sleep 1500 refused 23M
	[ "$(reasons)" = "denied denied " ]
	[ "$(jq .run.trace.refusals_without r.json)" = 0 ]
	json rec
	[ "$status" = 0 ]
	told '.processes[0].devices[0].denied' 4
}

@test "cuward trace snapshot: now, by pid or by job" {
	record on-signal -- "$BATS_FILE_TMPDIR/play" init device 0 alloc 1M launch early say held launches 60000 >said 2>&1 &
	for _ in $(seq 400); do grep -q held said && break; sleep 0.05; done
	pid=$("$B/cuward" ps --json | jq '.processes[0].pid')
	job=$("$B/cuward" ps --json | jq -r '.processes[0].job')
	run -0 "$B/cuward" trace snapshot "$pid"
	[[ $output == "recorded $rec/snapshot-asked-"*-0 ]]
	first=${output#recorded }
	# The program goes on, and its names come within a second.
	for _ in $(seq 100); do
		json "$first"
		[ "$(jq -c '[.kernels[].name] | sort' <<<"$output")" = '["again","early"]' ] && break
		sleep 0.1
	done
	told '[.kernels[].name] | sort' '["again","early"]'
	told '.processes[0].devices[0].peak_bytes' $((1 << 20))
	run -0 "$B/cuward" trace snapshot "$job"
	[[ $output == "recorded $rec/snapshot-asked-"*-1 ]]
	kill "$pid"
	wait || true
	[ "$(reasons)" = "asked asked signal " ]
	json "$first"
	told '[.kernels[].name] | sort' '["again","early"]'
	run -1 "$B/cuward" trace snapshot "$pid"
	[[ $output == *"no process of this pid or job uses CUDA under cuward" ]]
	[ -z "$(find state -name .recorder)" ]
}

@test "a run without a recorder has no snapshots, and what is no list is refused" {
	"$B/cuward" run -q --sim -- "$BATS_FILE_TMPDIR/play" init device 0 say held sleep 60000 >said 3>&- &
	for _ in $(seq 400); do grep -q held said && break; sleep 0.05; done
	pid=$("$B/cuward" ps --json | jq '.processes[0].pid')
	run -1 "$B/cuward" trace snapshot "$pid"
	[[ $output == *"it was not started with cuward run --record" ]]
	kill "$pid"
	wait || true
	for bad in on-denial on-denied,,on-leak on-leak, ''; do
		run -125 "$B/cuward" run --record="$bad" true
		[[ $output == *"is no list of on-denied, on-leak, on-signal"* ]]
	done
	run -125 "$B/cuward" run --record=on-leak --trace=net://127.0.0.1 true
	[[ $output == "cuward: --record: a flight recorder writes to a folder, not to net://127.0.0.1" ]]
}
