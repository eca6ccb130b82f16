#!/usr/bin/env bats
# cuward run --trace with CUDA on the simulated driver: what is in the trace, whatever the ends.

load ../trace/lttng.bash

setup_file() {
	"${CC:-cc}" -std=gnu11 -D_GNU_SOURCE -rdynamic -o "$BATS_FILE_TMPDIR/play" \
		"$TOP/tests/apps/play.c" -ldl
}

setup() {
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
	unset LD_PRELOAD CUWARD_LOG CUWARD_TRACE CUDA_VISIBLE_DEVICES LTTNG_HOME
	trace=$BATS_TEST_TMPDIR/trace
}

traced() { "$B/cuward" run -q --sim --trace="$trace" -- "$@" 3>&-; }
play() { traced "$BATS_FILE_TMPDIR/play" "$@"; }

@test "run --trace: allocations, frees and the end are in the trace with their values" {
	play init device 0 alloc 1M alloc 2M free 0 free 1
	[ "$(count_of "$trace" alloc)" = 2 ]
	[ "$(count_of "$trace" free)" = 2 ]
	events_of "$trace" | grep '^cuward:alloc: .* bytes = 2097152 live_bytes = 3145728 '
	events_of "$trace" | grep '^cuward:free: .* bytes = 1048576 live_bytes = 2097152$'
	events_of "$trace" | grep '^cuward:process: .* command = "play" '
	events_of "$trace" | grep '^cuward:process_end: .* how = 1 status = 0 live_bytes = 0 live_count = 0 denied = 0$'
	events_of "$trace" | grep '^cuward:api: .* name = "cuMemAlloc_v2"$'
}

@test "run --trace: a killed process gets its end and what it held" {
	run -137 play init device 0 alloc 1M kill 9
	[ "$(count_of "$trace" alloc)" = 1 ]
	events_of "$trace" | grep '^cuward:process_end: .* how = 2 status = 137 live_bytes = 1048576 live_count = 1 '
	events_of "$trace" | grep '^cuward:leak: .* verdict = 5 .* bytes = 1048576 count = 1 '
}

@test "run --trace: a forked child is a process of its own" {
	play fork '(' init device 0 alloc 1M free 0 ')' init device 0 alloc 2M free 0 wait
	[ "$(count_of "$trace" alloc)" = 2 ]
	[ "$(count_of "$trace" process)" = 2 ]
	[ "$(count_of "$trace" process_end)" = 2 ]
	[ "$(events_of "$trace" | sed -n 's/^cuward:process: process = \([0-9]*\) .*/\1/p' | sort -u | wc -l)" = 2 ]
}

@test "run --trace: 100 processes at once keep every event" {
	cat >"$BATS_TEST_TMPDIR/crowd" <<-'END'
	for i in $(seq 100); do "$1" init device 0 alloc 1M alloc 2M alloc 3M freeall & done
	wait
	END
	traced sh "$BATS_TEST_TMPDIR/crowd" "$BATS_FILE_TMPDIR/play"
	events_of "$trace" | cut -d: -f2 | sort | uniq -c >"$BATS_TEST_TMPDIR/counts"
	for expected in "300 alloc" "300 free" "100 process" "100 process_end" "100 thread"; do
		grep -E "^ *$expected$" "$BATS_TEST_TMPDIR/counts"
	done
	! grep lost "$BATS_TEST_TMPDIR/counts"
}
