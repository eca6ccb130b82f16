#!/usr/bin/env bats
# cuward run with CUDA on the simulated driver: limits, leaks, ends, reports, --fail-on, nesting.

setup() {
	cd "$BATS_TEST_TMPDIR"
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
	unset LD_PRELOAD CUWARD_JOB CUWARD_MEMORY CUWARD_JOB_MEMORY CUWARD_REPORT CUWARD_LEAK
	unset CUWARD_FAIL_ON CUWARD_LABEL CUWARD_LOG CUWARD_DISABLE CUDA_VISIBLE_DEVICES
	play=$B/apps/play
	MiB=$((1 << 20))
}

teardown() {
	[ -z "$(find state -type f -not -name 'slots.*' 2>/dev/null)" ]
}

cuward() { "$B/cuward" "$@"; }

# expect STATUS TEXT COMMAND...: exit status and a part of what is said.
expect() {
	status=0
	output=$("${@:3}" 2>&1) || status=$?
	echo "status $status: $output"
	[ "$status" -eq "$1" ]
	[[ $output == *"$2"* ]]
}

# ask FILTER VALUE: of the report r.json.
ask() {
	answer=$(jq -c "$1" r.json)
	echo "$1 is $answer"
	[ "$answer" = "$2" ]
}

# played WORDS...: play them under cuward run with a report; options in $with.
played() {
	rm -f r.json
	expect "$1" "$2" "$B/cuward" run --sim --report r.json $with "$play" "${@:3}"
}

@test "a process within its limit" {
	with="-m 64M"
	played 0 "play (pid " init device 0 alloc 16M alloc 8M freeall
	[[ $output == *"exited with status 0; GPU 0: peak 24 MiB of 64 MiB"* ]]
	[[ $output != *leaked* ]]
	ask .schema 1
	ask '.processes | length' 1
	ask '.processes[0] | [.ended, .status, .signal, .complete]' '["exit",0,null,true]'
	ask '.processes[0].leaks' '[]'
	ask '.processes[0].memory.device' \
		'{"live_bytes":0,"live":0,"peak_bytes":'$((24 * MiB))',"allocs":2,"frees":2}'
	ask '.processes[0].devices[0] | [.used_bytes, .peak_bytes, .denied]' "[0,$((24 * MiB)),0]"
	ask '.processes[0].devices[0].limits' \
		'[{"scope":"process","bytes":'$((64 * MiB))',"source":"CUWARD_MEMORY"}]'
	ask '.processes[0].driver.simulated' true
	ask '.processes[0].argv[1:3]' '["init","device"]'
	ask '.run | [.command_status, .exit_status, .failed_on, .leaked, .denied]' '[0,0,null,0,0]'
	ask '[.run.settings[] | select(.name == "CUWARD_MEMORY")]' \
		'[{"name":"CUWARD_MEMORY","value":"64M","source":"command line"}]'
}

@test "a refusal" {
	with="-m 1M"
	played 0 "1 refusal (1 byte)" init device 0 alloc 1M refused 1
	ask '.processes[0].devices[0] | [.used_bytes, .denied, .denied_bytes]' "[$MiB,1,1]"
	ask '.processes[0].denials[0] | [.bytes, .api, .device, .scope, .limit_bytes, .used_bytes, .count]' \
		"[1,\"cuMemAlloc_v2\",0,\"process\",$MiB,$MiB,1]"
	played 0 "" init device 0 alloc 1M free 0 alloc 1M freeall || true
	with="-m 1M --fail-on denied"
	played 25 "" init device 0 refused 2M
	ask '.run | [.command_status, .exit_status, .failed_on]' '[0,25,"denied"]'
	with="-m 1M --fail-on denied --error-exitcode 42"
	played 42 "" init device 0 refused 2M
	played 7 "" init device 0 refused 2M exit 7
	with="-m 1M --fail-on leak"
	played 0 "" init device 0 refused 2M
}

@test "a leak" {
	with="--fail-on leak"
	played 23 "leaked 24 MiB in 2 allocations:" init device 0 alloc 16M alloc 8M alloc 1M free 2
	[[ $output == *"  24 MiB in 2 allocations (device memory, GPU 0) from allocate, play.c:"* ]]
	ask '.processes[0].leaks | length' 1
	ask '.processes[0].leaks[0] | [.verdict, .kind, .api, .device, .bytes, .count]' \
		"[\"leak\",\"device\",\"cuMemAlloc_v2\",0,$((24 * MiB)),2]"
	ask '.processes[0].leaks[0].native[0].module' '"play"'
	hash=$(jq -r '.processes[0].leaks[0].hash' r.json)
	played 23 "" init device 0 alloc 16M
	ask '.processes[0].leaks[0].hash' "\"$hash\""
	played 23 "pinned host memory" init device 0 host 1M
	ask '.processes[0].leaks[0] | [.kind, .device]' '["pinned",null]'
	ask '.processes[0].devices[0].used_bytes' 0
	played 3 "leaked" init device 0 alloc 1M exit 3
	ask '.run | [.command_status, .exit_status]' '[3,3]'
}

@test "how much is a failure" {
	with="--fail-on leak:2M"
	played 0 "leaked" init device 0 alloc 1M
	played 23 "leaked" init device 0 alloc 1M alloc 1M
	with="--fail-on leak,denied -m 4M"
	played 23 "" init device 0 alloc 1M refused 4M
	with="--fail-on denied,leak:1G -m 4M"
	played 25 "" init device 0 alloc 1M refused 4M
	with="--leak off --fail-on leak"
	played 0 "exited" init device 0 alloc 1M
	[[ $output != *leaked* ]]
	ask '.processes[0].leaks[0].verdict' '"held"'
	export CUWARD_FAIL_ON=leak
	with=
	played 23 "" init device 0 alloc 1M
	with="--stack none"
	played 23 "from an unknown place by cuMemAlloc_v2" init device 0 alloc 1M
	ask '.processes[0].leaks[0].native' '[]'
}

@test "every way to end" {
	with="--fail-on leak"
	for end in "_exit 0" "exit 0" "quick_exit 0"; do
		played 23 "leaked 1 MiB" init device 0 alloc 1M $end
		ask '.processes[0] | [.ended, .status, .complete]' '["exit",0,true]'
	done
	for signal in 9 15 2; do
		played $((128 + signal)) "was killed by signal $signal, holding 1 MiB in 1 allocation" \
			init device 0 alloc 1M kill $signal
		ask '.processes[0] | [.ended, .status, .signal, .complete]' \
			"[\"signal\",$((128 + signal)),$signal,false]"
		ask '.processes[0].leaks[0].verdict' '"killed"'
		ask '.processes[0].devices[0].used_bytes' $MiB
		ask '.run | [.leaked, .failed_on]' '[0,null]'
	done
	ulimit -c 0
	played 134 "signal 6" init device 0 alloc 1M abort
	played 139 "signal 11" init device 0 alloc 1M segv
}

@test "one process, two images" {
	with=
	played 0 "executed another program" init exec "$play" init device 0 alloc 1M
	ask '[.processes[] | [.image, .ended]]' '[[0,"exec"],[1,"exit"]]'
	ask '.processes[0].pid == .processes[1].pid' true
	ask '[.processes[].leaks | length]' '[0,1]'
}

@test "children" {
	with="-m 4M"
	played 0 "" fork '(' init device 0 alloc 1M kill 9 ')' fork '(' init device 0 alloc 3M freeall ')' wait
	ask '[.processes[] | .ended] | sort' '["exit","unknown"]'
	ask '.processes[] | select(.ended == "unknown") | [.status, .leaks[0].verdict]' '[null,"killed"]'
	[[ $output == *"ended, it is not known how, holding 1 MiB"* ]]
}

@test "what still runs is told, and cleaned up later" {
	with=
	played 0 "is still running, holding 3 MiB in 1 allocation" \
		fork '(' init device 0 alloc 3M say up sleep 800 ')' sleep 400
	ask '.processes[0] | [.ended, .status, .end_time, .leaks[0].verdict]' \
		'["running",null,null,"killed"]'
	[ "$(find state -name '*.ledger' | wc -l)" -eq 1 ]
	sleep 1
	cuward run -q true
	[ "$(find state -name '*.ledger' | wc -l)" -eq 0 ]
}

@test "nested runs: both limits and both reports" {
	expect 23 "" "$B/cuward" run -q --sim -m 2M --fail-on leak --report outer.json \
		"$B/cuward" run -q -m 1G --report inner.json "$play" init device 0 alloc 1M refused 2M
	for report in outer inner; do
		cp $report.json r.json
		ask '.processes | length' 1
		ask '.processes[0].devices[0].limits[0].bytes' $((2 * MiB))
		ask '.run.leaked' 1
	done
	ask '.processes[0].job | split("/") | length' 2
	ask '.run.exit_status' 0
}

@test "limits that name GPUs" {
	with="-m 0=1M"
	played 0 "1 refusal" init device 0 refused 2M
	with="-m GPU-ffff=1M"
	played 0 "a limit had no effect, its GPU is not visible: GPU-ffff" init device 0 alloc 2M
	with="-m 77=1M"
	played 125 "no GPU has this index" init
	with="-m 31=1M"
	played 99 "CUDA was refused: CUWARD_MEMORY: GPU 31 is not visible" init
	ask '.processes' '[]'
}

@test "labels and version" {
	with="--label team=a --label run=7"
	played 0 "" init
	ask '.processes[0].labels' '{"team":"a","run":"7"}'
	[ "$(jq -r '.processes[0].version' r.json)" = "$(cuward --version | cut -d' ' -f2)" ]
}

@test "switched off" {
	export CUWARD_DISABLE=1
	with="-m 1M"
	played 0 "CUWARD_DISABLE=1: nothing is enforced" init device 0 alloc 2M
	[[ $output == *"no process used CUDA"* ]]
}

@test "a run that is killed leaves nothing for good" {
	"$B/cuward" run -q --sim "$play" init device 0 alloc 1M say up sleep 30000 >said &
	wrapper=$!
	for i in $(seq 50); do [ -s said ] && break; sleep 0.1; done
	child=$(pgrep -P $wrapper)
	kill -KILL $wrapper $child
	wait $wrapper || true
	[ "$(find state -name '*.ledger' | wc -l)" -eq 1 ]
	cuward run -q true
	[ "$(find state -name '*.ledger' | wc -l)" -eq 0 ]
}

@test "no room for the books: nothing is said to be fine that is not known" {
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	mkdir -m 700 state
	cat >script <<-'X'
		mount -t tmpfs -o size=64k,mode=700 none state
		run() { status=0; "$B/cuward" run --sim -m 4M "$@" >said 2>&1 || status=$?; }
		is() { [ "$status" -eq "$1" ] && grep -Eqx "$2" said || { echo "status $status"; cat said; exit 1; }; }
		room() { mount -o "remount,size=$1" none "$PWD/state"; }
		run -- "$play" init device 0 refused 5M alloc 3M
		is 0 "cuward: there is no room in $PWD/state: No space left on device; what processes do may not be recorded"
		is 0 "cuward: 1 process could not be recorded, for there was no room in $PWD/state: what was done there is not known"
		! grep -q 'no process' said || exit 1
		run -- true
		is 0 'cuward: no process used CUDA'
		for option in '--fail-on leak' '--fail-on denied' '--report r.json'; do
			run $option -- touch never
			is 125 "cuward: cannot use the folder $PWD/state: No space left on device; without it there is no report"
		done
		# It gets full meanwhile.
		room 1m
		run --report r.json --fail-on leak -- sh -c 'dd if=/dev/zero of=state/fill bs=1k count=2000 2>/dev/null
			"$0" init device 0 alloc 3M; "$0" init device 0 alloc 3M' "$play"
		is 125 "cuward: 2 processes could not be recorded, for there was no room in $PWD/state: what was done there is not known"
		[ "$(jq -c '[.run.unknown_processes, .run.exit_status, .run.failed_on, .processes]' r.json)" = '[2,125,null,[]]' ] || exit 1
		rm state/fill
		run --fail-on leak -- "$play" init device 0 alloc 3M
		is 23 'cuward: play .pid [0-9]+. leaked 3 MiB in 1 allocation:'
		# Nothing stays, and who has no run leaves no mark.
		room 64k
		LD_PRELOAD=$B/libcuward.so "$B/cuward" doctor >/dev/null 2>&1
		LD_PRELOAD=$B/libcuward.so LD_LIBRARY_PATH=$B/sim "$play" init device 0 alloc 3M
		[ -z "$(find state -type f -not -name 'slots.*')" ] || exit 1
		[ ! -e never ]
	X
	export play
	unshare -m bash ./script
}
