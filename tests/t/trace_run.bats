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
	events_of "$trace" | grep '^cuward:process_end: .* how = 1 status = 0 live_bytes = 0 live_count = 0 denied = 0 ended_ns = [1-9][0-9]*$'
	events_of "$trace" | grep '^cuward:api: .* name = "cuMemAlloc_v2"$'
}

@test "run --trace: what is switched off has no event; what runs beside it has its own" {
	traced sh -c "CUWARD_DISABLE=1 \$0 init device 0 alloc 1M freeall; \$0 init device 0 alloc 2M; :" "$BATS_FILE_TMPDIR/play"
	[ "$(events_of "$trace" | grep -c '^cuward:process: ')" = 1 ]
	[ "$(count_of "$trace" alloc) $(count_of "$trace" free)" = "1 0" ]
	events_of "$trace" | grep '^cuward:alloc: .* bytes = 2097152 '
	rm -r "$trace"
	CUWARD_DISABLE=1 play init device 0 alloc 1M freeall
	[ -d "$trace" ]
	[ "$(events_of "$trace" | grep -c '^cuward:')" = 0 ]
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

# A thread of liblttng-ust that opens something just then aborts all the same: that is rare, so one in three counts.
@test "run --trace: who closes every descriptor ends as he would, with all events" {
	for _ in 1 2 3; do
		rm -rf "$trace"
		run --separate-stderr play init device 0 alloc 1M sleep 300 closeall alloc 2M free 0 free 1 exit 7
		[ "$status" != 7 ] || break
	done
	[ "$status,$stderr" = 7, ]
	[ "$(count_of "$trace" alloc) $(count_of "$trace" free)" = "2 2" ]
	events_of "$trace" | grep '^cuward:process_end: .* how = 1 status = 7 live_bytes = 0 '
}

# On a busy machine a process may not register in time: then it is named, and nothing else is missing.
@test "run --trace: 100 processes at once keep every event, or are named" {
	cat >"$BATS_TEST_TMPDIR/crowd" <<-'END'
	for i in $(seq 100); do "$1" init device 0 alloc 1M alloc 2M alloc 3M freeall & done
	wait
	END
	traced sh "$BATS_TEST_TMPDIR/crowd" "$BATS_FILE_TMPDIR/play"
	events_of "$trace" | cut -d: -f2 | sort | uniq -c | tee "$BATS_TEST_TMPDIR/counts"
	counted() { awk -v event="$1" '$2 == event { n = $1 } END { print n + 0 }' "$BATS_TEST_TMPDIR/counts"; }
	there=$(counted device)
	[ "$(counted process)" -eq 100 ]
	[ $((there + $(counted lost))) -eq 100 ]
	[ "$there" -gt 0 ]
	[ "$(counted thread)" -eq "$there" ]
	[ "$(counted alloc)" -eq $((3 * there)) ]
	[ "$(counted free)" -eq $((3 * there)) ]
	[ "$(counted process_end)" -eq 100 ]
}
