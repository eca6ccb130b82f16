#!/usr/bin/env bats
# cuward run --trace: a private session, what is in the trace, and what lies beside it.

setup() {
	[ -e "$B/libcuward-lttng.so" ] || skip "built without LTTng"
	command -v lttng-sessiond >/dev/null || skip "no lttng-sessiond"
	cd "$BATS_TEST_TMPDIR"
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
	unset LD_PRELOAD CUWARD_JOB CUWARD_MEMORY CUWARD_REPORT CUWARD_TRACE LTTNG_HOME
	play=$B/apps/play
}

teardown() {
	[ -z "$(find state -type f -not -name 'slots.*' 2>/dev/null)" ]
}

cuward() { "$B/cuward" "$@"; }

@test "a trace of a process that leaks" {
	cuward run --sim -m 4M --trace=trace --report r.json "$play" \
		init device 0 alloc 3M alloc 1M free 0 refused 4M 2>said
	grep -qx "cuward: trace in $PWD/trace" said
	babeltrace2 trace >events
	[ "$(grep -c 'cuward:process:' events)" -eq 1 ]
	[ "$(grep -c 'cuward:alloc:' events)" -eq 2 ]
	[ "$(grep -c 'cuward:free:' events)" -eq 1 ]
	[ "$(grep -c 'cuward:denied:' events)" -eq 1 ]
	# These two are written by cuward run, after the process is gone.
	grep 'cuward:leak:' events | grep -q 'bytes = 1048576, count = 1'
	grep 'cuward:process_end:' events | grep -q 'live_bytes = 1048576, live_count = 1, denied = 1'
	[ "$(jq -c '.run.trace | [.dir, .lost, .complete]' r.json)" = "[\"$PWD/trace\",0,true]" ]
	[ "$(jq -c '.processes[0].trace' r.json)" = "{\"dir\":\"$PWD/trace\",\"registered\":true,\"lost\":0}" ]
	[ "$(jq -c .processes trace/report.json)" = "$(jq -c .processes r.json)" ]
}

@test "the end of a process that is killed" {
	status=0
	cuward run -q --sim --trace=trace "$play" init device 0 alloc 1M kill 9 || status=$?
	[ $status -eq 137 ]
	babeltrace2 trace | grep 'cuward:process_end:' | grep -q 'how = .*status = 137'
	babeltrace2 trace | grep -c 'cuward:leak:' | grep -qx 1
}

@test "the default folder, and a command without CUDA" {
	cuward run --sim --trace true 2>said
	grep -q "cuward: no process used CUDA" said
	folder=$(echo cuward-trace-*)
	[[ $folder =~ ^cuward-trace-[0-9]{8}T[0-9]{6}Z-[0-9]+$ ]]
	[ "$(jq -c .processes "$folder/report.json")" = "[]" ]
}

@test "a folder that cannot be made" {
	touch file
	status=0
	cuward run --trace=file/trace touch ran 2>said || status=$?
	[ $status -eq 125 ]
	grep -q "^cuward: --trace: " said
	[ ! -e ran ]
}

@test "the status of the command is kept" {
	status=0
	cuward run -q --sim --trace=trace --fail-on leak "$play" init device 0 alloc 1M || status=$?
	[ $status -eq 23 ]
	status=0
	cuward run -q --trace=other sh -c 'exit 9' || status=$?
	[ $status -eq 9 ]
}

@test "call sites are named in the trace, each once" {
	"$B/cuward" run -q --sim --trace=trace -- "$B/apps/train" >/dev/null 2>&1
	"$B/cuward" events trace >events
	[ "$(grep -c 'cuward:site:' events)" -eq "$(sed -n 's/.*cuward:alloc:.* site = \([1-9][0-9]*\),.*/\1/p;s/.*cuward:denied:.* site = \([1-9][0-9]*\),.*/\1/p' events | sort -u | wc -l)" ]
	[ "$("$B/cuward" stats trace --json | jq '[.. | .site? // empty | strings | select(startswith("train+0x"))] | length > 0')" = true ]
}
