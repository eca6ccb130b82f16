#!/usr/bin/env bats
# cuward limit: limits of running processes and jobs, live; which one binds, and where it comes from.

load guest
load box

setup() { box_setup; }
teardown() { box_teardown; }

# waiting PROCESS: a program that goes on once the file `go` is there.
go() { touch go; }
until_go='while [ ! -e go ]; do sleep 0.05; done'

finished() {
	local status=0
	wait $pid || status=$?
	[ "$status" -eq "$1" ] || { echo "status $status"; cat said; return 1; }
}

layers() {
	"$cuward" limit get "$1" --json >out
	told '[.processes[0].devices[0].limits[] | [.scope, .bytes, .source, .binds]]' "$2"
}

@test "set: lower than what was asked for, and the report says who" {
	CUWARD_MEMORY=64M CUWARD_REPORT=$PWD/r.json holder init device 0 alloc 8M say held sh "$until_go" \
		refused 9M alloc 8M
	"$cuward" limit set $pid 16M
	layers $pid "[[\"process\",$((64 * MiB)),\"CUWARD_MEMORY\",false],[\"process\",$((16 * MiB)),\"cuward limit\",true]]"
	go
	finished 0
	jq -e --argjson want $((16 * MiB)) '.processes[0].devices[0].limits == [{ scope: "process", bytes: $want,
		source: "cuward limit" }]' r.json
	jq -e --argjson want $((16 * MiB)) '.processes[0].denials[0] | .limit_bytes == $want and .scope == "process"' r.json
}

# The limits of the first process on its GPU, as ps tells them.
ps_limits() {
	"$cuward" ps --json >out
	told '[.processes[0].devices[0].limits[] | [.scope, .bytes]]' "$1"
}

@test "set lower: ps and why know it at once, before the process looks" {
	CUWARD_MEMORY=64M CUWARD_JOB=j CUWARD_JOB_MEMORY=128M holder init device 0 alloc 16M say held sleep 600000
	ps_limits "[[\"process\",$((64 * MiB))],[\"job\",$((128 * MiB))]]"
	"$cuward" limit set $pid 8M
	ps_limits "[[\"process\",$((8 * MiB))],[\"job\",$((128 * MiB))]]"
	"$cuward" ps | grep -q '8\.00 MiB process'
	"$cuward" why $pid | grep '16\.0 MiB of the process limit of 8\.00 MiB (cuward limit)'
	"$cuward" limit set j 32M
	ps_limits "[[\"process\",$((8 * MiB))],[\"job\",$((32 * MiB))]]"
	"$cuward" limit set "$(id -un)" 4M
	ps_limits "[[\"process\",$((8 * MiB))],[\"job\",$((32 * MiB))],[\"user\",$((4 * MiB))]]"
	"$cuward" ps | grep -q '4\.00 MiB user'
	"$cuward" why $pid | grep '16\.0 MiB of the user limit of 4\.00 MiB'
	layers $pid "[[\"process\",$((64 * MiB)),\"CUWARD_MEMORY\",false],[\"process\",$((8 * MiB)),\"cuward limit\",true],[\"job\",$((128 * MiB)),\"CUWARD_JOB_MEMORY\",false],[\"job\",$((32 * MiB)),\"cuward limit\",true],[\"user\",$((4 * MiB)),\"cuward limit\",true]]"
}

@test "set: where there was no limit, and higher; cleared again" {
	holder init device 0 alloc 8M say held sh "$until_go" refused 9M sh 'rm go; touch next' sh "$until_go" alloc 9M
	"$cuward" limit set $pid 16M
	go
	next() { [ -e next ]; }
	eventually next
	"$cuward" limit clear $pid
	layers $pid '[]'
	go
	finished 0
}

@test "none: what the environment asked for binds no more" {
	CUWARD_MEMORY=8M CUWARD_REPORT=$PWD/r.json holder init device 0 alloc 8M say held sh "$until_go" alloc 64M
	"$cuward" limit set $pid none
	"$cuward" limit get $pid --json >lifted
	jq -e '.processes[0].devices[0].limits[-1] == { scope: "process", bytes: null, source: "cuward limit", binds: true }' lifted
	"$cuward" limit get $pid | grep -Eqx " *$pid  GPU-51000000  process +none  cuward limit +yes"
	go
	finished 0
	jq -e '.processes[0].devices[0].limits == []' r.json
}

@test "who waits under a process limit goes on when it is raised" {
	CUWARD_MEMORY=8M CUWARD_ON_LIMIT=wait=600s holder init device 0 alloc 8M say held sh 'touch at' managed 1
	sleep 0.3
	kill -0 $pid
	"$cuward" limit set $pid 16M
	finished 0
}

@test "cuMemGetInfo tells the new limit" {
	CUWARD_MEMORY=64M holder init device 0 alloc 8M say held sh "$until_go" info 32M/24M
	"$cuward" limit set $pid 32M
	go
	finished 0
}

@test "a list names GPUs, the others stay" {
	CUWARD_SIM_DEVICES=2 CUWARD_MEMORY=64M holder init device 0 alloc 1M device 1 alloc 1M say held \
		sh "$until_go" device 0 refused 64M device 1 refused 5M alloc 3M
	"$cuward" limit set $pid 1=4M
	"$cuward" limit get $pid --json >out
	told '[.processes[0].devices[] | [.limits[] | select(.binds) | .bytes]]' \
		"[[$((64 * MiB))],[$((4 * MiB))]]"
	go
	finished 0
}

@test "a job: of all its processes together, and of those that start later" {
	CUWARD_JOB=j holder init device 0 alloc 6M say held sh "$until_go" refused 3M alloc 2M
	first=$pid
	CUWARD_JOB=other holder init device 0 say held sleep 600000
	"$cuward" limit set j 8M
	layers $first "[[\"job\",$((8 * MiB)),\"cuward limit\",true]]"
	layers $pid '[]'
	CUWARD_JOB=j LD_PRELOAD=$shim "$play" init device 0 alloc 2M refused 1M
	pid=$first
	go
	finished 0
}

@test "a job's limit that was taken back binds nobody who comes, though an idle one has not looked yet" {
	CUWARD_JOB=j holder init device 0 alloc 6M say held sh 'touch at; while [ ! -e look ]; do sleep 0.02; done' alloc 1M \
		sh 'touch looked' sleep 600000
	"$cuward" limit set j 8M
	touch look
	looked() { [ -e looked ]; }
	eventually looked
	"$cuward" limit clear j
	CUWARD_JOB=j LD_PRELOAD=$shim "$play" init device 0 alloc 64M
}

@test "a job's limit is taken over from those who live" {
	local i
	for i in {1..16}; do CUWARD_JOB=other holder init device 0 say held sleep 600000; done
	CUWARD_JOB=j holder init device 0 alloc 1M say held sleep 600000
	"$cuward" limit set j 8M
	kill -9 $pid
	wait $pid || true
	# The next start asks after the first 16, and does not find that slot.
	printf '\0\0\0\0' | dd of=state/slots.$UID bs=1 seek=1072 conv=notrunc status=none
	CUWARD_JOB=j LD_PRELOAD=$shim "$play" init device 0 alloc 64M
	[ "$(od -An -tu4 -j 1072 -N 4 state/slots.$UID)" -eq 16 ]
	CUWARD_JOB=j holder init device 0 alloc 1M say held sleep 600000
	"$cuward" limit set j 4M
	CUWARD_JOB=j LD_PRELOAD=$shim "$play" init device 0 alloc 2M refused 2M
}

@test "a user: of all his processes whatever their job, and of those that start later" {
	me=$(id -un)
	CUWARD_JOB=j holder init device 0 alloc 6M say held sh "$until_go" refused 3M alloc 2M
	first=$pid
	CUWARD_JOB=k holder init device 0 say held sleep 600000
	"$cuward" limit set "$me" 8M
	layers $first "[[\"user\",$((8 * MiB)),\"cuward limit\",true]]"
	layers $pid "[[\"user\",$((8 * MiB)),\"cuward limit\",true]]"
	CUWARD_REPORT=$PWD/r.json LD_PRELOAD=$shim "$play" init device 0 alloc 2M refused 1M
	jq -e --argjson want $((8 * MiB)) '.processes[0].devices[0].limits == [{ scope: "user", bytes: $want,
		source: "cuward limit" }]' r.json
	pid=$first
	go
	finished 0
	"$cuward" limit clear "$me"
	LD_PRELOAD=$shim "$play" init device 0 alloc 64M
	# A job of that name is a job.
	CUWARD_JOB=$me holder init device 0 say held sleep 600000
	"$cuward" limit set "$me" 8M
	layers $pid "[[\"job\",$((8 * MiB)),\"cuward limit\",true]]"
}

@test "the job of a run: its report says who limited it" {
	"$cuward" run -q --sim --job-memory 1G --report r.json -- "$play" init device 0 alloc 6M say held \
		sh "$until_go" refused 3M alloc 2M >said 3>&- &
	pid=$!
	started+=($pid)
	held() { grep -q held said; }
	eventually held
	"$cuward" ps --json >out
	"$cuward" limit set "$(jq -r '.processes[0].job' out)" 8M
	go
	finished 0
	jq -e --argjson want $((8 * MiB)) '.processes[0].devices[0].limits == [{ scope: "job", bytes: $want,
		source: "cuward limit" }]' r.json
}

@test "a job within a job: the limit is the outer one's" {
	CUWARD_JOB=a/b CUWARD_JOB_OF=a CUWARD_JOB_MEMORY=1G holder init device 0 alloc 1M say held sleep 600000
	run "$cuward" limit set a/b 8M
	[ "$status" -eq 1 ]
	[[ "$output" == *"the limit is that of a job around it"* || "$output" == *"its limit is that of a job around it"* ]]
	"$cuward" limit set a 8M
	layers $pid "[[\"job\",$((1 << 30)),\"CUWARD_JOB_MEMORY\",false],[\"job\",$((8 * MiB)),\"cuward limit\",true]]"
}

@test "a lower limit of a run within a job: both bind" {
	CUWARD_JOB=a/b CUWARD_JOB_OF=a CUWARD_JOB_MEMORY=1G CUWARD_INNER_OF=a/b CUWARD_INNER_MEMORY=8M \
		holder init device 0 alloc 1M say held sleep 600000
	layers $pid "[[\"job\",$((1 << 30)),\"CUWARD_JOB_MEMORY\",true],[\"job\",$((8 * MiB)),\"CUWARD_INNER_MEMORY\",true]]"
	"$cuward" ps --json | jq -e --argjson want "[{\"scope\":\"job\",\"bytes\":$((1 << 30))},{\"scope\":\"job\",\"bytes\":$((8 * MiB))}]" \
		'.processes[0].devices[0].limits == $want'
}

@test "check: a text, and a process that holds more already" {
	holder init device 0 alloc 8M say held sleep 600000
	"$cuward" limit check 8G
	"$cuward" limit check $pid 8M
	run "$cuward" limit check $pid 4M
	[ "$status" -eq 1 ]
	[[ "$output" == "$pid holds 8.00 MiB on GPU-"*", more than 4.00 MiB: "* ]]
	run "$cuward" limit check 8X
	[ "$status" -eq 1 ]
	[[ "$output" == *8X* ]]
	# No number is taken for another one.
	run "$cuward" limit check $((pid + (1 << 32))) 4M
	[ "$output" = "cuward: limit: $((pid + (1 << 32))): no process with this pid uses CUDA under cuward" ]
}

@test "check: a job and a user hold what all their processes do" {
	CUWARD_JOB=one holder init device 0 alloc 8M say held sleep 600000
	CUWARD_JOB=one/two holder init device 0 alloc 5M say held sleep 600000
	holder init device 0 alloc 2M say held sleep 600000
	for what in "one 13" "$(id -un) 15"; do
		"$cuward" limit check ${what}M
		run "$cuward" limit check ${what% *} $((${what#* } - 1))M
		[ "$status" -eq 1 ]
		[[ "$output" == "${what% *} holds ${what#* }.0 MiB on GPU-51000000, more than $((${what#* } - 1)).0 MiB: "* ]]
	done
}

@test "a process that is not there, and lines that say nothing" {
	run "$cuward" limit set 1 8M
	[ "$status" -eq 1 ]
	run "$cuward" limit get nojob
	[ "$status" -eq 1 ]
	for line in '' 'set' 'set 1' 'set 1 8X' 'clear' 'frobnicate' 'get 1 2' 'set 1 2 3'; do
		run "$cuward" limit $line
		[ "$status" -eq 2 ]
	done
}

@test "the dead's slot is not written to" {
	holder init device 0 alloc 8M say held sleep 600000
	kill -9 $pid
	wait $pid || true
	before=$(md5sum <state/slots.$(id -u))
	run "$cuward" limit set $pid 4M
	[ "$status" -eq 1 ]
	[ "$(md5sum <state/slots.$(id -u))" = "$before" ]
}

@test "without permission" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	holder init device 0 alloc 8M say held sleep 600000
	chmod 755 . .. ../.. state 2>/dev/null || true
	chmod 644 state/slots.0
	run setpriv --reuid 12345 --clear-groups --inh-caps=-all "$cuward" limit set $pid 4M
	[ "$status" -eq 4 ]
	"$cuward" limit get $pid --json >out
	told '.processes[0].devices[0].limits' '[]'
}

# refused_within MS WHAT: set a limit of WHAT (pid, job or user) under a process that allocates all the time; so long it
# takes until one of its requests is refused. A busy machine may be late: the least of five.
refused_within() {
	local try what ms least=1000000
	for try in 1 2 3 4 5; do
		CUWARD_JOB=j holder init device 0 alloc 8M say held churn 60000
		case $2 in pid) what=$pid ;; job) what=j ;; user) what=$(id -un) ;; esac
		began=$EPOCHREALTIME
		"$cuward" limit set "$what" 8M
		finished 99
		ms=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%d", (b - a) * 1000 }')
		[ "$ms" -ge "$least" ] || least=$ms
		[ "$least" -gt "$1" ] || break
	done
	echo "$2: $least ms"
	[ "$least" -le "$1" ]
}

@test "a limit that is set binds within a second: of a process, of a job, of a user" {
	refused_within 1000 pid
	refused_within 1000 job
	refused_within 1000 user
}
