#!/usr/bin/env bats
# cuward run --history, cuward report, cuward advise: what ended processes used, and what follows from it.

load guest
load box

setup() {
	box_setup
	export XDG_STATE_HOME=$PWD/own
	GiB=$((1 << 30))
}
teardown() { box_teardown; }

under() { "$cuward" run --sim -q "${@:1}"; }

# report COMMAND WORD...: as JSON in out.
reported() { "$cuward" report --json "$@" >out; }

# entry USER COMMAND START END PEAK [MORE]: a process of a report; MORE is merged in, MORE.device into its device.
entry() {
	local more=${6:-"{}"}
	jq -n --arg user "$1" --arg command "$2" --arg from "$3" --arg to "$4" --argjson peak "$5" --argjson more "$more" '
		{ host: "h", pid: (($from + $command + $user) | explode | add), pid_ns: 1, image: 0, user: $user, command: $command,
		  job: "", labels: {}, start_time: $from, end_time: $to, ended: "exit", status: 0,
		  devices: [ { index: 0, uuid: "GPU-1", total_bytes: 17179869184, limits: [], used_bytes: 0, peak_bytes: $peak,
		    denied: 0, denied_bytes: 0, untracked_bytes: null, overhead_peak_bytes: 314572800 } + ($more.device // {}) ],
		  leaks: [], findings: [] } + ($more | del(.device))'
}
# report_of FILE: the processes on stdin as a report.
report_of() { jq -s '{ schema: 1, run: {}, processes: . }' >"$1"; }

@test "a run appends a line a process; none without being asked" {
	under -- "$play" init device 0 alloc 3M freeall
	[ ! -e own ]
	run "$cuward" report
	[ "$status" -eq 3 ]
	[[ "$output" == *"there is no history"* ]]
	under --history -m 8M -- "$play" fork '(' init device 0 alloc 5M freeall ')' wait init device 0 alloc 3M refused 9M freeall
	CUWARD_HISTORY=1 under -- "$play" init device 0 alloc 1M
	file=own/cuward/history.jsonl
	[ "$(wc -l <$file)" -eq 3 ]
	[ "$(stat -c %a own/cuward $file | tr '\n' ' ')" = "700 600 " ]
	jq -c '[.ended, .user, .command, .leaked_bytes, .devices[0].peak_bytes, .devices[0].wanted_bytes]' $file | LC_ALL=C sort >lines
	diff lines - <<-X
		["exit","$(id -un)","play",0,$((3 * MiB)),$((12 * MiB))]
		["exit","$(id -un)","play",0,$((5 * MiB)),null]
		["exit","$(id -un)","play",$MiB,$MiB,null]
	X
	jq -se 'all(has("argv") or has("leaks") or has("calls") | not)' $file
	[ "$(wc -L <$file)" -lt 4096 ]
	reported
	told '[.by, (.rows[] | .user, .processes, .peak_bytes, .denied, .leaked_bytes, .failed)]' \
		"[\"user\",\"$(id -un)\",3,$((5 * MiB)),1,$MiB,0]"
	# What a run within a run tells, the outer one tells again: it counts once.
	rm -r own
	export CUWARD_HISTORY=$PWD/all.jsonl
	under -- "$cuward" run --sim -q -- "$play" init device 0 alloc 3M freeall
	[ "$(wc -l <all.jsonl)" -eq 2 ]
	reported
	told '[.rows[].processes]' '[1]'
	# A history that cannot be written is told, and does not matter.
	CUWARD_HISTORY=/proc/no/file "$cuward" run --sim "$play" init device 0 exit 3 2>err || status=$?
	[ "$status" -eq 3 ]
	grep -q 'the history /proc/no/file cannot be written' err
}

@test "many runs at once write whole lines; a large file is put aside" {
	export CUWARD_HISTORY=$PWD/h.jsonl
	for i in $(seq 8); do
		under -- "$play" init device 0 alloc 1M freeall 3>&- &
		runs[i]=$!
	done
	wait "${runs[@]}"
	[ "$(jq -s length h.jsonl)" -eq 8 ]
	truncate -s 33M h.jsonl
	under -- "$play" init device 0 alloc 1M freeall
	[ "$(jq -s length h.jsonl)" -eq 1 ]
	[ "$(stat -c %s h.jsonl.1)" -eq $((33 * MiB)) ]
}

@test "by user, command, job and hour" {
	{
		entry ann train 2025-01-31T10:30:00.000Z 2025-01-31T12:15:00.000Z $((4 * GiB)) '{"job": "j1", "device": {"denied": 2}}'
		entry bob eval 2025-01-31T12:00:00.000Z 2025-01-31T12:30:00.000Z $((2 * GiB)) '{"status": 1, "ended": "signal"}'
		entry ann eval 2025-01-31T23:00:00.000Z 2025-02-01T00:00:00.000Z $GiB \
			'{"leaks": [{"verdict": "leak", "bytes": 5, "suppressed_by": null}, {"verdict": "held", "bytes": 7}, {"verdict": "leak", "bytes": 9, "suppressed_by": "x"}]}'
		entry ann still 2025-01-31T10:30:00.000Z '' $((4 * GiB)) '{"end_time": null, "ended": "running"}'
	} | report_of r.json
	reported r.json
	told '[.rows[] | [.user, .processes, .time_ns / 60000000000, .peak_bytes, .peak_byte_seconds / 3600 / 1073741824, .denied, .leaked_bytes, .failed]]' \
		"[[\"ann\",2,165,$((4 * GiB)),8,2,5,0],[\"bob\",1,30,$((2 * GiB)),1,0,0,1]]"
	reported --by command r.json
	told '[.rows[] | [.command, .processes, .failed]]' '[["train",1,0],["eval",2,1]]'
	reported --by job r.json
	told '[.rows[] | [.job, .processes]]' '[["j1",1],["none",2]]'
	reported --by hour r.json
	told '[.rows[] | [.hour, .processes, .time_ns / 60000000000, .peak_byte_seconds / 3600 / 1073741824]]' \
		'[["2025-01-31T10:00Z",1,30,2],["2025-01-31T11:00Z",1,60,4],["2025-01-31T12:00Z",2,45,2],["2025-01-31T23:00Z",1,60,1]]'
	run "$cuward" report r.json
	echo "$output"
	[ "$(tr -s ' ' <<<"${lines[0]}")" = "USER PROCESSES TIME PEAK PEAK x TIME REFUSALS LEAKED FAILED" ]
	[ "$(tr -s ' ' <<<"${lines[1]}")" = "ann 2 2 h 45 m 4.00 GiB 8.00 GiB h 2 5 B 0" ]
	# Only what ran lately, and of that only the time since then.
	entry ann train "$(date -u -d '-3 hours' +%FT%T.000Z)" "$(date -u -d '-1 hours' +%FT%T.000Z)" $GiB | report_of late.json
	reported --since 90m r.json late.json
	told '[.rows[] | [.user, .processes, (.time_ns / 60000000000 | round)]]' '[["ann",1,30]]'
	reported --since 30m r.json late.json
	told '.rows' '[]'
	reported --since 9000d .
	told '[.rows[].processes]' '[3,1]'
}

@test "what cannot be read is told, and the rest counts" {
	entry ann train 2025-01-31T10:00:00.000Z 2025-01-31T11:00:00.000Z $GiB >h.json
	jq -c . h.json >h.jsonl
	printf '{"host": "h", "cut' >>h.jsonl
	run "$cuward" report h.jsonl
	[ "$status" -eq 1 ]
	[[ "$output" == *"h.jsonl: a line is no process"* ]]
	[ "$(grep -c '^ann  ' <<<"$output")" -eq 1 ]
	echo '{"schema": 2, "processes": []}' >new.json
	for wrong in new.json no.such.json h.json; do
		run "$cuward" report $wrong
		[ "$status" -eq 1 ]
		run "$cuward" advise $wrong
		[ "$status" -eq 1 ]
	done
	# Numbers that are none, times that never were.
	entry ann odd 0000-00-00T00:00:00Z 9999-99-99T99:99:99Z '"x"' '{"devices": [{"total_bytes": -1, "peak_bytes": "7", "limits": 5}, 3], "leaks": {}}' | report_of odd.json
	entry ann long 1971-01-01T00:00:00.000Z 2500-01-01T00:00:00.000Z $GiB | report_of long.json
	run "$cuward" report odd.json
	[ "$status" -eq 0 ]
	reported --by hour long.json
	told '.rows | length <= 8785' true
	run "$cuward" advise odd.json
	[ "$status" -eq 0 ]
	[ "$output" = "No process in there used GPU memory." ]
	for wrong in '--by week' '--since ever' '--since 0'; do
		run "$cuward" report $wrong h.jsonl
		[ "$status" -eq 2 ]
	done
	run "$cuward" advise
	[ "$status" -eq 2 ]
	echo text >text
	run "$cuward" advise text nothing
	[ "$status" -eq 1 ]
	[ "${lines[0]}" = "cuward: advise: nothing: No such file or directory" ]
	run "$cuward" advise text
	[ "${lines[0]}" = "cuward: advise: text: this is no JSON" ]
}

@test "advise: a limit, how many fit, and what is not known" {
	limit='"limits": [{"scope": "process", "bytes": 8589934592, "source": "CUWARD_MEMORY"}]'
	{
		entry ann train 2025-01-31T10:00:00.000Z 2025-01-31T11:00:00.000Z $((5 * GiB)) "{\"device\": {$limit}}"
		entry ann train 2025-01-31T12:00:00.000Z 2025-01-31T13:00:00.000Z $((4 * GiB)) "{\"device\": {$limit}}"
		entry ann small 2025-01-31T12:00:00.000Z 2025-01-31T13:00:00.000Z $((100 * MiB)) '{"device": {"overhead_peak_bytes": null}}'
		entry ann nothing 2025-01-31T12:00:00.000Z 2025-01-31T13:00:00.000Z 0
	} | report_of r.json
	"$cuward" advise --json r.json >out
	told '[.commands[] | [.command, .processes, .peak_bytes, .suggested, .fit, .overhead_bytes, .batch]]' \
		"[[\"train\",2,$((5 * GiB)),\"5.5G\",2,$((300 * MiB)),null],[\"small\",1,$((100 * MiB)),\"128M\",128,null,null]]"
	# What is suggested is a limit, and enough.
	for suggested in $(jq -r '.commands[].suggested' out); do
		"$cuward" limit check "$suggested"
	done
	"$cuward" advise r.json >out
	cat out
	[ "$(head -1 out)" = "train: 2 processes, at most 5.00 GiB on one GPU" ]
	grep -Fxq '  limit    -m 5.5G: a tenth more than its peak' out
	grep -Fxq '           it ran under 8.00 GiB (CUWARD_MEMORY), and used 62.5 % of it' out
	grep -Fxq '  fit      2 such processes at once on a GPU of 16.0 GiB, each with 300 MiB for contexts and modules' out
	[ "$(grep -c '^  unknown  what contexts and modules take was not measured' out)" -eq 1 ]
	# A peak above another run's limit is no part of that.
	{
		entry ann train 2025-01-31T10:00:00.000Z 2025-01-31T11:00:00.000Z $((2 * GiB)) "{\"device\": {$limit}}"
		entry ann train 2025-01-31T12:00:00.000Z 2025-01-31T13:00:00.000Z $((10 * GiB))
	} | report_of mixed.json
	"$cuward" advise mixed.json >out
	grep -Fxq '  limit    -m 11G: a tenth more than its peak' out
	grep -Fxq '           it ran under 8.00 GiB (CUWARD_MEMORY), and used 25.0 % of it' out
	# Refused: the peak is the limit's, and the need is what it asked for, at least.
	entry ann train 2025-01-31T10:00:00.000Z 2025-01-31T11:00:00.000Z $((7 * GiB)) \
		"{\"status\": 1, \"ended\": \"signal\", \"device\": {$limit, \"denied\": 3}, \"denials\": [{\"device\": 0, \"bytes\": $((4 * GiB)), \"used_bytes\": $((6 * GiB))}, {\"device\": 9, \"bytes\": 5, \"used_bytes\": 5}]}" | report_of d.json
	"$cuward" advise --json d.json >out
	told '[.commands[] | [.need_bytes, .suggested, .denied, .cut_short, .fit]]' "[[$((10 * GiB)),\"11G\",3,1,1]]"
	"$cuward" advise d.json >out
	grep -Fxq '  limit    -m 11G: a tenth more than it asked for' out
	grep -q '^  unknown  it was refused memory 3 times' out
	grep -q '^  unknown  1 run did not end by itself' out
}

@test "advise: batches, from labels" {
	for size in 8 16 32; do
		entry ann train 2025-01-31T1${size:0:1}:00:00.000Z 2025-01-31T20:00:00.000Z $((GiB + size * 100 * MiB)) "{\"labels\": {\"batch\": \"$size\"}}"
	done | report_of b.json
	"$cuward" advise --json b.json >out
	# 16 GiB less 300 MiB less 1 GiB, by 100 MiB.
	told '.commands[0].batch' "{\"base_bytes\":$GiB,\"each_bytes\":$((100 * MiB)),\"largest_seen\":32,\"max\":150}"
	"$cuward" advise b.json >out
	grep -Fxq '  batch    about 1.00 GiB, and 100 MiB for each of the batch; the GPU takes up to 150 (largest seen: 32)' out
	# One size tells nothing, nor does a run that was refused.
	{
		entry ann train 2025-01-31T10:00:00.000Z 2025-01-31T20:00:00.000Z $GiB '{"labels": {"batch": "8"}}'
		entry ann train 2025-01-31T11:00:00.000Z 2025-01-31T20:00:00.000Z $((2 * GiB)) '{"labels": {"batch": "64"}, "device": {"denied": 1}}'
	} | report_of one.json
	"$cuward" advise --json one.json >out
	told '.commands[0].batch' null
	"$cuward" advise one.json >out
	grep -q '^  batch    not known' out
	# For real, with labels on the command line.
	for size in 4 8; do
		under --report batch$size.json --label batch=$size -m 64M -- "$play" init device 0 alloc 2M alloc ${size}M freeall
	done
	"$cuward" advise --json batch4.json batch8.json >out
	told '.commands[0] | [.batch.base_bytes, .batch.each_bytes, .batch.max]' "[$((2 * MiB)),$MiB,62]"
}
