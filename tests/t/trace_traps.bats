#!/usr/bin/env bats
# Traces as they come in the field: empty, lossy, without contexts, from namespaces, odd, cut off.

load ../trace/lttng.bash

setup_file() {
	trace_programs
	"${CC:-cc}" -std=gnu11 -D_GNU_SOURCE -rdynamic -o "$BATS_FILE_TMPDIR/play" "$TOP/tests/apps/play.c" -ldl
}

setup() {
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
	unset LD_PRELOAD CUWARD_LOG CUWARD_TRACE CUDA_VISIBLE_DEVICES LTTNG_HOME
	daemon=
	tmp=$BATS_TEST_TMPDIR
	trace=$tmp/trace
}

teardown() { daemon_end; }

timeline() { "$B/cuward" timeline "$@"; }
traced() { "$B/cuward" run -q --sim --trace="$trace" -- "$@" 3>&-; }

# A guest under the preload alone, as the user of the daemon; it needs what that user may read.
guest() {
	local dir=$LTTNG_HOME/guest

	mkdir -p "$dir/state"
	install -m 755 "${program:=$BATS_FILE_TMPDIR/play}" "$B/libcuward.so" "$B/libcuward-lttng.so" "$B/sim/libcuda.so.1" "$dir"
	[ "$(id -u)" != 0 ] || chown -R 65534 "$dir"
	# A machine that is busy answers late, and the first events would be missing.
	as_daemon env LD_PRELOAD="$dir/libcuward.so" LD_LIBRARY_PATH="$dir" CUWARD_TRACE=1 CUWARD_DIR="$dir/state" \
		LTTNG_UST_REGISTER_TIMEOUT=10000 "$dir/${program##*/}" "$@"
}

@test "the preload alone, no contexts: pid and start are there, no end is no error" {
	daemon_start
	daemon_record
	guest init device 0 alloc 1M alloc 2M free 0 sleep 100
	daemon_stop_recording
	run -0 timeline --json "$LTTNG_HOME/trace"
	[ "$(jq -c '.processes | length' <<<"$output")" = 1 ]
	jq -e '.processes[0] | .pid > 1 and .start_ticks > 0 and .command == "play" and .ended == "unknown"' <<<"$output"
	[ "$(jq -c '[.trace.truncated_processes, .processes[0].devices[0].peak_bytes, .processes[0].devices[0].final_bytes]' <<<"$output")" = '[0,3145728,2097152]' ]
	run -0 "$B/cuward" stats "$LTTNG_HOME/trace"
}

@test "a session of a daemon that is gone: the program runs, the trace is said to be empty" {
	daemon_start
	daemon_record
	kill -KILL "$daemon"
	run -0 guest init device 0 alloc 1M free 0
	run -3 timeline "$LTTNG_HOME/trace"
	[ "$output" = "cuward: $LTTNG_HOME/trace: the folder is empty; no trace was written here" ]
}

@test "a home with the pid and the sockets of a daemon that is gone: events arrive all the same" {
	mkdir -p "$tmp/dead/.lttng"
	sh -c 'echo $$' >"$tmp/dead/.lttng/lttng-sessiond.pid"
	python3 -c 'import socket, sys
for name in sys.argv[2:]:
    socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).bind(sys.argv[1] + "/.lttng/" + name)' \
		"$tmp/dead" client-lttng-sessiond lttng-ust-sock-8 lttng-ust-sock-9
	export LTTNG_HOME=$tmp/dead
	traced "$BATS_FILE_TMPDIR/play" init device 0 alloc 1M alloc 2M free 0 free 1
	run -0 timeline --json "$trace"
	[ "$(jq -c '.processes[0].devices[0] | [.allocs, .frees, .peak_bytes]' <<<"$output")" = '[2,2,3145728]' ]
	# One of all processes takes a daemon of its own. Root's would be of what else runs on this machine, too.
	cat >"$tmp/all.sh" <<-'X'
		set -e
		[ -z "$1" ] || { mount -t tmpfs -o mode=755 none /run && mount -t tmpfs -o mode=1777 none /dev/shm; }
		"$B/cuward" trace start -o "$tmp/all"
		"$B/cuward" run -q --sim -- "$BATS_FILE_TMPDIR/play" init device 0 alloc 4M free 0
		"$B/cuward" trace stop
	X
	if [ "$(id -u)" = 0 ]; then
		unshare -m true 2>/dev/null || skip "no mount namespaces here"
		alone="unshare -m"
	fi
	tmp=$tmp run -0 ${alone-} bash "$tmp/all.sh" ${alone:+alone} 3>&-
	[[ $output == *"of a session daemon of its own"* ]]
	run -0 timeline --json "$tmp/all"
	[ "$(jq -c '[.processes[].devices[0] | [.allocs, .frees, .peak_bytes]]' <<<"$output")" = '[[1,1,4194304]]' ]
}

@test "a flood of launches that do not fit into their buffers: of the memory nothing is missing" {
	daemon_start
	as_daemon lttng -q create test --output="$LTTNG_HOME/trace"
	as_daemon lttng -q enable-channel -u -s test --buffers-uid --num-subbuf 4 --subbuf-size 4k calls
	as_daemon lttng -q enable-channel -u -s test --buffers-uid --num-subbuf 8 --subbuf-size 256k rest
	as_daemon lttng -q enable-event -u -s test -c calls 'cuward:launch*,cuward:call'
	as_daemon lttng -q enable-event -u -s test -c rest 'cuward:*' --exclude 'cuward:launch*,cuward:call'
	as_daemon lttng -q start test
	install -m 755 "$B/apps/found" "$BATS_FILE_TMPDIR/found"
	program=$BATS_FILE_TMPDIR/found guest flood
	daemon_stop_recording
	run -1 timeline --json "$LTTNG_HOME/trace"
	json=$(sed -n '/^{/,$p' <<<"$output")
	[ "$(jq -c '.processes[0].devices[0] | [.allocs, .frees, .peak_bytes, .final_bytes]' <<<"$json")" = "[201,201,$((64 * 1024 + 4096)),0]" ]
	# Each launch is there, or counted as lost. What was dropped at the very end is told by no later packet.
	launched=$(jq '.processes[0].launches' <<<"$json") lost=$(jq .trace.lost_events <<<"$json")
	echo "$launched launches, $lost events lost"
	[ "$lost" -gt 1000 ]
	[ "$launched" -lt 200000 ]
	[ $((launched + lost)) -ge 100000 ]
	[ "$(jq '[.trace.losses[] | select(.stream | test("/calls_") | not)]' <<<"$json")" = '[]' ]
}

@test "addresses that come back at once, in four threads, some refused: each free finds its allocation" {
	CUWARD_SIM_REUSE=immediate "$B/cuward" run -q --sim -m 900K --trace="$trace" -- "$B/apps/threads" 4 3000 1048576 >"$tmp/said" 3>&-
	refused=$(sed -n 's/^refused //p' "$tmp/said")
	run -0 timeline --json "$trace"
	[ "$(jq '.processes[0].devices[0].denied' <<<"$output")" -eq "$refused" ]
	[ "$refused" -gt 0 ]
	[ "$(jq -c '.processes[0].devices[0] | [.allocs == .frees, .final_bytes, .peak_bytes <= 921600]' <<<"$output")" = '[true,0,true]' ]
	# Of every place: nothing is left of what it allocated, though addresses went from thread to thread.
	run -0 "$B/cuward" stats --json "$trace"
	[ "$(jq -c '[.memory[] | [.final_bytes, .final_count]] | unique' <<<"$output")" = '[[0,0]]' ]
	# No allocation without a pointer, and none that was refused.
	"$B/cuward" events "$trace" >"$tmp/events"
	[ "$(grep -c 'cuward:alloc: .*pointer = 0x0,' "$tmp/events")" -eq 0 ]
	[ "$(grep -c 'cuward:alloc: ' "$tmp/events")" -eq "$(jq '[.memory[].allocs] | add' <<<"$output")" ]
	# Some address was told as allocated again before it was told as freed, or by another thread than freed it.
	[ "$(sed -n 's/.*cuward:alloc: .*pointer = \(0x[0-9A-F]*\),.*/\1/p' "$tmp/events" | sort | uniq -d | wc -l)" -gt 10 ]
}

@test "buffers that are too small: what was dropped is counted, by stream" {
	daemon_start
	as_daemon lttng -q create test --output="$LTTNG_HOME/trace"
	as_daemon lttng -q enable-channel -u -s test --buffers-uid --num-subbuf 4 --subbuf-size 4k c
	as_daemon lttng -q enable-event -u -s test -c c 'cuward:*'
	as_daemon lttng -q start test
	emit 300000 >/dev/null
	daemon_stop_recording
	run -1 timeline --json "$LTTNG_HOME/trace"
	json=$(sed -n '/^{/,$p' <<<"$output")
	# What was dropped at the very end is told by no later packet.
	lost=$(jq .trace.lost_events <<<"$json") read=$(jq .trace.events <<<"$json")
	echo "$read read, $lost lost"
	[ "$lost" -gt 1000 ]
	[ $((read + lost)) -ge 200000 ]
	[ $((read + lost)) -le 300003 ]
	[ "$(jq '[.trace.losses[].events] | add' <<<"$json")" -eq "$lost" ]
	[ "$lost" -eq "$(babeltrace2 "$LTTNG_HOME/trace" 2>&1 >/dev/null |
		sed -n 's/.*discarded \([0-9]*\) event.*/\1/p' | awk '{ n += $1 } END { print n + 0 }')" ]
	run timeline "$LTTNG_HOME/trace"
	[[ $output == *"were lost: counts and sums are too low"* ]]
	[[ $output == *" events of $LTTNG_HOME/trace/ust/uid/"*"/c_"* ]]
}

@test "buffers that find no shared memory: not an empty summary, but why" {
	[ "$(id -u)" = 0 ] || skip "mounting needs root"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	record_in_small() { # by way of a session's own path
		mount -t tmpfs -o size=256k,mode=777 none "$tmp/small" && daemon_start &&
			as_daemon lttng -q create test --output="$trace" --shm-path="$tmp/small" &&
			as_daemon lttng -q enable-channel -u -s test --buffers-uid --num-subbuf 4 --subbuf-size 1M c &&
			as_daemon lttng -q enable-event -u -s test -c c 'cuward:*' && as_daemon lttng -q start test &&
			CUWARD_LOG=warn guest init device 0 alloc 1M free 0 && daemon_stop_recording
		status=$?
		daemon_end
		return $status
	}
	export -f record_in_small as_daemon daemon_start daemon_stop_recording daemon_end guest
	mkdir -m 777 "$tmp/small" "$trace"
	export tmp trace BATS_FILE_TMPDIR B
	chmod -R go+rX "$BATS_TEST_TMPDIR" "$BATS_RUN_TMPDIR"
	run -0 unshare -m bash -c record_in_small
	[[ $output == *"cuward: no trace: no LTTng session records our events: "*"no shared memory for its buffers"* ]]
	run -1 timeline "$trace"
	[[ $output == *"0 events in 0 streams; a program came, and its buffers could not be allocated"* ]]
	run -1 timeline --json "$trace"
	[[ $output == *"0 events in 0 streams"* ]]
}

@test "two processes of one pid in two pid namespaces stay apart" {
	unshare -p -f true 2>/dev/null || skip "no pid namespaces here"
	traced sh -c 'unshare -p -f sh -c "\"$1\" init device 0 alloc 1M free 0; :" x "$1" &
		unshare -p -f sh -c "\"$1\" init device 0 alloc 2M free 0; :" x "$1"; wait' x "$BATS_FILE_TMPDIR/play"
	run timeline --json "$trace"
	[ "$(jq -c '[.processes[].pid] | unique | length' <<<"$output")" = 1 ]
	[ "$(jq -c '[.processes[].pid_ns] | unique | length' <<<"$output")" = 2 ]
	[ "$(jq -c '[.processes[].devices[0].peak_bytes] | sort' <<<"$output")" = '[1048576,2097152]' ]
}

@test "metadata that was lost is guessed from the streams" {
	traced "$BATS_FILE_TMPDIR/play" init device 0 alloc 1M alloc 2M free 0 free 1
	events_of "$trace" >"$tmp/before"
	[ "$(wc -l <"$tmp/before")" -gt 10 ]
	find "$trace" -name metadata -delete
	run -1 "$B/cuward" events "$trace"
	[[ $output == *"its metadata is missing; it was guessed from them"* ]]
	diff "$tmp/before" <("$B/cuward" events "$trace" 2>/dev/null |
		sed 's/.*\(cuward:[a-z_]*:\) { cpu_id = [0-9]* }, {\(.*\) }$/\1\2/; s/,\( [a-z_]* = \)/\1/g')
	run -1 timeline --json "$trace"
	[ "$(sed -n '/^{/,$p' <<<"$output" | jq -c '[.trace.damaged, .processes[0].command, .processes[0].devices[0].peak_bytes]')" = '[true,"play",3145728]' ]
	# Nothing of ours is found in what is none.
	find "$trace" -name 'memory_*' -o -name 'calls_*' -o -name 'process_*' | while read -r stream; do
		head -c 84 "$stream" >"$tmp/head"
		{ cat "$tmp/head"; head -c 4012 /dev/urandom; } >"$stream"
	done
	run -1 timeline "$trace"
	[[ $output == *"without it nothing can be read"* ]]
}

@test "streams that were emptied or cut off: what is lost is said, and that nobody knows how much" {
	local calls
	traced "$BATS_FILE_TMPDIR/play" init device 0 alloc 1M launch k launch k free 0
	run -0 timeline --json "$trace"
	jq -e '.trace.lost_events_is_exact and .processes[0].launches == 2' <<<"$output"
	for calls in $(find "$trace" -name 'calls_*' -size +0 -not -name '*.idx'); do
		truncate -s 0 "$calls"
	done
	run -1 --separate-stderr timeline --json "$trace"
	[[ $stderr == *"calls_"*": it is empty, and its index tells of packets in it: they are lost"* ]]
	jq -e '.trace | .damaged and (.lost_events_is_exact | not)' <<<"$output"
	jq -e '.processes[0].launches == 0 and .processes[0].devices[0].peak_bytes == 1048576' <<<"$output"
}

@test "harmless oddities are no failure, and stdout stays the same" {
	python3 "$TOP/tests/make_ctf.py" "$TOP/tests/golden/two.events" "$trace" --host box --streams 2
	timeline "$trace" >"$tmp/before"
	mkdir "$trace/index"
	printf '\xc1\xf1\xdc\xc1' >"$trace/index/channel0_0.idx"
	: >"$trace/channel0_7"
	echo text >"$trace/notes.txt"
	echo '{ "schema": 1 }' >"$trace/report.json"
	: >"$trace/.hidden"
	ln -s /nowhere "$trace/dangling"
	sed -i '1a /* a comment */ env { nothing = 0; empty = ""; };\ntypealias integer { size = 8; } := unused_t;\nevent { name = "other:none"; id = 99; stream_id = 0; loglevel = 3; };' "$trace/metadata"
	timeline "$trace" >"$tmp/after"
	diff "$tmp/before" "$tmp/after"
}

@test "300 processes with few descriptors: every one is there, or is named" {
	cat >"$tmp/crowd" <<-'END'
	i=0
	while [ $i -lt 30 ]; do
		for j in 1 2 3 4 5 6 7 8 9 10; do "$1" init device 0 alloc 1M freeall & done
		wait
		i=$((i + 1))
	done
	END
	(ulimit -n 256 && traced sh "$tmp/crowd" "$BATS_FILE_TMPDIR/play")
	run timeline --json "$trace"
	sed -n '/^{/,$p' <<<"$output" >"$tmp/json"
	# A daemon that is short of descriptors takes no more guests: who is left out is told.
	[ "$(jq '[.processes[] | select(.pid != null)] | length' "$tmp/json")" -eq 300 ]
	[ "$(jq '[.processes[] | if .recorded then .devices[0].allocs else 1 end] | add' "$tmp/json")" -eq 300 ]
	[ "$(jq .trace.unrecorded_processes "$tmp/json")" -eq "$(jq .run.trace.unrecorded_processes "$trace/report.json")" ]
}

@test "processes that the daemon does not take in time are named, and told as not recorded" {
	cat >"$tmp/deaf" <<-'END'
	"$1" init device 0 alloc 1M freeall
	kill -STOP $(cat $LTTNG_HOME/.lttng/lttng-sessiond.pid)
	"$1" init device 0 alloc 2M alloc 1M
	kill -CONT $(cat $LTTNG_HOME/.lttng/lttng-sessiond.pid)
	"$1" init device 0 alloc 3M freeall
	END
	export LTTNG_UST_REGISTER_TIMEOUT=500
	run -0 --separate-stderr "$B/cuward" run --sim --trace="$trace" -- sh "$tmp/deaf" "$BATS_FILE_TMPDIR/play" 3>&-
	[ -z "$output" ]
	[[ $stderr == *"cuward: trace: 1 of 3 processes that used CUDA could not be recorded"* ]]
	[ "$(jq -c '[.run.trace.unrecorded_processes, [.processes[].trace.registered]]' "$trace/report.json")" = '[1,[true,false,true]]' ]
	run -1 timeline "$trace"
	[[ $output == *"! 1 process was not recorded (the process could not register with the session daemon)"* ]]
	run timeline --json "$trace"
	json=$(sed -n '/^{/,$p' <<<"$output")
	[ "$(jq -c '[.trace.unrecorded_processes, .trace.lost_events, .trace.truncated_processes]' <<<"$json")" = '[1,0,0]' ]
	[ "$(jq -c '[.processes[] | select(.recorded | not) | [.command, .pid > 1, .ended, .lost_events, .leaks.leak.bytes]]' <<<"$json")" = '[["play",true,"exit",null,3145728]]' ]
}
