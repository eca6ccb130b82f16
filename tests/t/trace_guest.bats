#!/usr/bin/env bats
# The trace loader inside a guest, with daemons of every state of health.

load ../trace/lttng.bash

setup_file() { trace_programs; }

setup() {
	daemon=
	unset LTTNG_UST_REGISTER_TIMEOUT
	export HOME=$BATS_TEST_TMPDIR
}

teardown() { daemon_end; }

# Milliseconds that trace_start() took, from a line of emit.
took() { sed -n "s/^$1 .* ms=\([0-9]*\) .*/\1/p" <<<"$output"; }

@test "trace: every event of a cold first process arrives" {
	daemon_start
	daemon_record
	run -0 emit 2000
	[[ $output == "parent registered "* ]]
	daemon_stop_recording
	[ "$(count_of "$LTTNG_HOME/trace" alloc)" = 2000 ]
	[ "$(count_of "$LTTNG_HOME/trace" api)" = 1 ]
	events_of "$LTTNG_HOME/trace" | grep '^cuward:api: process = [0-9]* api = 1 name = "cuArray3DCreate_v2"$'
	events_of "$LTTNG_HOME/trace" | grep -c ' site = 1999 '
}

@test "trace: every field of every event arrives as it was given" {
	daemon_start
	daemon_record
	emit 1 all | tail -n +2 >"$BATS_TEST_TMPDIR/sent"
	daemon_stop_recording
	events_of "$LTTNG_HOME/trace" >"$BATS_TEST_TMPDIR/got"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/sent")" -ge 19 ]
	diff -u "$BATS_TEST_TMPDIR/sent" "$BATS_TEST_TMPDIR/got"
}

@test "trace: threads, fork, and fork in a thread keep every event" {
	daemon_start
	daemon_record
	run -0 emit 500 threads
	run -0 emit 500 fork
	[[ $output == *"child registered "* ]]
	[[ $output == *"child threads=3"* ]]
	[[ $output == *"child status=0 "* ]]
	run -0 emit 500 fork-thread
	[[ $output == *"child registered "* ]]
	[[ $output == *"child status=0 "* ]]
	daemon_stop_recording
	[ "$(count_of "$LTTNG_HOME/trace" alloc)" = $((4 * 500 + 2 * 500 + 2 * 500)) ]
}

@test "trace: a process that forks and forks again never hangs" {
	daemon_start
	daemon_record
	run -0 timeout 8 "$BATS_FILE_TMPDIR/emit" "$B" 40 fork-only
}

@test "trace: a daemon without a session is told from one that records" {
	daemon_start
	run -0 emit 10
	[[ $output == "parent failed "*"no LTTng session records our events"* ]]
}

@test "trace: without a daemon a guest loses no time" {
	export LTTNG_HOME=$BATS_TEST_TMPDIR
	run -0 emit 10
	[[ $output == "parent failed "*"no session daemon"* ]]
	[ "$(took parent)" -lt 1000 ]
}

@test "trace: a stale socket and a home that can't be written are no obstacle" {
	export LTTNG_HOME=$BATS_TEST_TMPDIR
	mkdir "$LTTNG_HOME/.lttng"
	python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).bind(sys.argv[1])' "$LTTNG_HOME/.lttng/lttng-ust-sock-8"
	run -0 emit 10
	[[ $output == "parent failed "* ]]
	[ "$(took parent)" -lt 1000 ]
	export LTTNG_HOME=/proc/1/nowhere HOME=/proc/1/nowhere
	run -0 emit 10
	[[ $output == "parent failed "* ]]
	[ "$(took parent)" -lt 1000 ]
	unset LTTNG_HOME HOME
	run -0 emit 10
	[[ $output == "parent failed "* ]]
	[ "$(took parent)" -lt 1000 ]
}

@test "trace: without a wish for it nothing of LTTng is loaded" {
	mapped() { # SETTING: libraries of LTTng in a guest that uses CUDA, and threads beside its own
		env "$1" LD_PRELOAD="$B/libcuward.so" LD_LIBRARY_PATH="$B/sim" CUWARD_DIR="$BATS_TEST_TMPDIR/state" \
			CUWARD_LOG=off CUWARD_REPORT="$BATS_TEST_TMPDIR/%p.json" LTTNG_HOME="$BATS_TEST_TMPDIR" \
			"$B/apps/play" init device 0 alloc 1M \
			sh 'echo $(grep -o "liblttng-ust.so[.0-9]*$" /proc/$PPID/maps | sort -u | wc -l) $(ls /proc/$PPID/task | wc -l)' freeall
	}
	[ "$(mapped CUWARD_TRACE=)" = "0 1" ]
	[[ $(mapped CUWARD_TRACE=1) == "1 "[1-9]* ]]
}

@test "trace: a stopped daemon costs a guest 200 ms, not 3 s, and a fork no more" {
	daemon_start
	daemon_record
	kill -STOP "$daemon"
	run -0 timeout 8 "$BATS_FILE_TMPDIR/emit" "$B" 10 fork
	[[ $output == "parent failed "* ]]
	[ "$(took parent)" -ge 190 ]
	[ "$(took parent)" -lt 1500 ]
	[[ $output == *"child failed "* ]]
	[[ $output == *"child status=0 "* ]]
	forked=$(sed -n 's/^child status=0 ms=//p' <<<"$output")
	[ "$forked" -lt 2000 ]
}

@test "trace: the guest's own time limit for registering is kept, except 0" {
	daemon_start
	kill -STOP "$daemon"
	LTTNG_UST_REGISTER_TIMEOUT=700 run -0 emit 1
	[ "$(took parent)" -ge 690 ]
	LTTNG_UST_REGISTER_TIMEOUT=0 run -0 emit 1
	[ "$(took parent)" -ge 190 ]
	[ "$(took parent)" -lt 690 ]
}

@test "trace: without liblttng-ust the guest goes on and says what is missing" {
	: >"$BATS_TEST_TMPDIR/liblttng-ust.so.1"
	LD_LIBRARY_PATH=$BATS_TEST_TMPDIR run -0 emit 10
	[[ $output == "parent failed "*"tracing needs liblttng-ust 2.13 or newer: "*"liblttng-ust.so.1"* ]]
}

@test "trace: a provider of another build is refused" {
	echo '_Bool cuward_trace_provider(void *o, unsigned l); _Bool cuward_trace_provider(void *o, unsigned l) { return o && l == 1; }' |
		${CC:-cc} -shared -fPIC -x c -o "$BATS_TEST_TMPDIR/libcuward-lttng.so" -
	run -0 "$BATS_FILE_TMPDIR/emit" "$BATS_TEST_TMPDIR" 10
	[[ $output == "parent failed "*"/libcuward-lttng.so is of another version than libcuward.so" ]]
}

@test "trace: the provider exports its one function and needs only liblttng-ust and libc" {
	exported=$(nm -D --defined-only "$B/libcuward-lttng.so" | awk '$2 == "T" { print $3 }')
	[ "$exported" = cuward_trace_provider ]
	needed=$(readelf -d "$B/libcuward-lttng.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v -E '^lib(c|dl|asan|tsan|ubsan)\.so')
	[ "$(sort -u <<<"$needed" | tr '\n' ' ')" = "liblttng-ust-common.so.1 liblttng-ust.so.1 " ] ||
		[ "$needed" = liblttng-ust.so.1 ]
}
