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

@test "who is just being killed is not said to run on" {
	for i in 1 2 3 4 5; do
		cuward run --sim -- timeout -s KILL 0.3 "$B/apps/gputime" 4 100000 1000000 >/dev/null 2>said || true
		grep -qx "cuward: gputime (pid [0-9]*) ended, it is not known how.*" said
	done
	cuward run --sim -- sh -c '"$1" init device 0 alloc 1M say held sleep 3000 >said & until grep -q held said; do sleep 0.1; done' \
		sh "$play" 2>said.run
	grep -qx "cuward: play (pid [0-9]*) is still running, holding 1 MiB in 1 allocation; GPU 0: peak 1 MiB" said.run
	wait_for_end() { ! grep -qsz "CUWARD_DIR=$PWD/state" /proc/[0-9]*/environ; }
	for i in $(seq 100); do
		[ "$(pgrep -cf "$play init device 0 alloc 1M say held sleep 3000")" -eq 0 ] && break
		sleep 0.1
	done
	"$B/cuward" clean >/dev/null || true
}

@test "an event takes at most 48 bytes" {
	cuward run -q --sim -m 384M --trace=trace "$B/apps/train" >/dev/null 2>&1
	events=$("$B/cuward" timeline --json trace | jq .trace.events)
	[ "$events" -ge 200 ]
	python3 - trace "$events" <<-'END'
	import glob, struct, sys
	content = packets = 0
	for path in glob.glob(sys.argv[1] + "/ust/uid/*/64-bit/*_[0-9]*"):
	    data = open(path, "rb").read()
	    at = 0
	    while at < len(data):
	        magic, begin, end, used, size = struct.unpack_from("<I28x4Q", data, at)  # in bits
	        assert magic == 0xC1FC1FC1 and size
	        content += used // 8 - 84
	        packets += 1
	        at += size // 8
	print("%d bytes in %d packets, %.1f an event" % (content, packets, content / int(sys.argv[2])))
	assert content / int(sys.argv[2]) <= 48
	END
}
