#!/usr/bin/env bats
# What `cuward stats` finds and adds up in real traces: programs in which something stands out, near misses, and one
# whose every number is known.

bats_require_minimum_version 1.5.0

# Each story is a process of one session. CUWARD_MEMORY binds each; 400 us are slow, beside what a traced call takes.
setup_file() {
	unset LD_PRELOAD "${!CUWARD_@}" CUDA_VISIBLE_DEVICES
	export CUWARD_DIR=$BATS_FILE_TMPDIR/state found=$B/apps/found
	cd "$BATS_FILE_TMPDIR"
	cat >plain <<-'X'
		for story in refused fitting leak tidy errors mishaps pause pauses growth waves; do "$found" $story; done
		export CUWARD_SIM_CALL_DELAY_NS=cuMemAlloc_v2=400000,cuMemcpyHtoD_v2=400000
		for story in small large crumbs slices; do "$found" $story; done
		export CUWARD_SIM_CALL_DELAY_NS=cuCtxSynchronize=3000000
		for story in waits few-waits; do "$found" $story; done
	X
	"$B/cuward" run -q --sim -m 64M --trace=plain.trace -- sh -e plain 3>&-
	cat >timed <<-'X'
		export CUWARD_SIM_CALL_DELAY_NS=cuLaunchKernel=3000000
		CUWARD_SIM_KERNEL_NS=50000 "$found" launches
		CUWARD_SIM_KERNEL_NS=6000000 "$found" launches
	X
	"$B/cuward" run -q --sim --gpu-time --trace=timed.trace -- sh -e timed 3>&-
	"$B/cuward" run -q --sim --trace=tables.trace -- "$found" tables 3>&-
	for trace in plain timed tables; do
		"$B/cuward" stats --json $trace.trace >$trace.json || true
	done
}

setup() { cd "$BATS_FILE_TMPDIR"; }

# codes TRACE NUMBER: what is found in the process of that number, without its words.
codes() { jq -r --argjson n "$2" '[.findings[] | select(.process == $n).code] | join(" ")' "$1.json"; }

@test "each finding in a program that shows it, and none in one that nearly does" {
	[ "$(jq '.processes | length' plain.json)" -eq 16 ]
	n=0
	while read -r story wanted; do
		n=$((n + 1))
		echo "$story: $(jq -r --argjson n $n '.findings[] | select(.process == $n) | "\(.code): \(.text)"' plain.json)"
		[ "$(codes plain $n)" = "$wanted" ]
	done <<-'X'
		refused refused
		fitting
		leak leak
		tidy
		errors errors
		mishaps
		pause idle-gap
		pauses
		growth growth
		waves
		small small-allocations
		large
		crumbs small-copies
		slices
		waits sync-bound
		few-waits
	X
	[ "$n" -eq 16 ]
}

@test "a process is over when it ends, not with the last one of its trace" {
	jq -e '[.processes | sort_by(.start_ns) | . as $p | range(1; length) | $p[.].start_ns >= $p[. - 1].last_ns] | all' plain.json
	jq -e '.processes[] | select(.process == 1) | .wall_ns == .last_ns - .start_ns' plain.json
}

@test "what a process holds to its end it holds no longer" {
	cd "$BATS_TEST_TMPDIR"
	"$B/cuward" run -q --sim --leak off --trace=trace -- sh -c '"$1" init device 0 alloc 50M; "$1" init device 0 alloc 60M;
		"$1" init device 0 alloc 40M' x "$B/apps/play" 3>&-
	run -0 "$B/cuward" stats --json trace
	[ "$(jq -c '.devices[0].peak_bytes, [.processes[] | [.peak_bytes, .final_bytes]]' <<<"$output")" = \
		"$(jq -nc '62914560, [[52428800, 52428800], [62914560, 62914560], [41943040, 41943040]]')" ]
}

@test "launch-bound, and not where kernels run long" {
	[ "$(jq -c '[.processes[] | .launches]' timed.json)" = '[100,100]' ]
	[ "$(codes timed 1)" = launch-bound ]
	[ "$(codes timed 2)" = "" ]
	# The events around a kernel happen before its launch and behind it: what is known of it is little.
	[[ "$(jq -r '.findings[].text' timed.json)" == "launching takes "*", and the GPU is busy "*" % at least, "*" % at most: "* ]]
}

@test "what is found says how much" {
	text() { jq -r --arg code "$1" '.findings[] | select(.code == $code).text' plain.json; }
	[[ "$(text refused)" == "1 request was refused, the largest of 10.0 MiB while 60.0 MiB of 64.0 MiB were in use"* ]]
	[ "$(text leak)" = "64.0 KiB in 1 allocation were never freed" ]
	[[ "$(text errors)" == "150 of "*" calls failed ("*" %)" ]]
	[[ "$(text small-allocations)" == "1001 allocations of 4.05 KiB on average; "* ]]
	[[ "$(text small-copies)" == "1000 copies of 64 B on average take "* ]]
	[[ "$(text sync-bound)" == *", in 100 calls of "* ]]
	[[ "$(text idle-gap)" == "no CUDA call was made for "*" ms ("*" % of its time), from "* ]]
	[[ "$(text growth)" == "memory on GPU 0 grows all the time, from "*" MiB a second" ]]
	# The same in the text, with number and name of the process.
	"$B/cuward" stats plain.trace >plain.txt || true
	grep -qx "  #1 found: $(text refused)" plain.txt
	grep -qx "  #3 found: $(text leak)" plain.txt
}

@test "tables: copies by direction and by what the host's memory is" {
	[ "$(jq -c '[.copies[] | [.direction, .host_memory, .count, .bytes]]' tables.json)" = \
		'[["htod","pageable",7,47104],["htod","pinned",4,62464],["dtoh","pageable",3,9216],["dtoh","pinned",3,21504],["dtod","none",3,27648],["htoh","pageable",3,6144],["set","none",3,49152]]' ]
	"$B/cuward" stats tables.trace >tables.txt
	grep -q '^  htod       pageable         7  46.0 KiB  6.57 KiB ' tables.txt
	grep -q '^  dtoh       pinned           3  21.0 KiB  7.00 KiB ' tables.txt
	"$B/cuward" stats --csv tables.trace >tables.csv
	grep -q '^copies,"htod","pinned",4,62464,' tables.csv
}

@test "tables: a process, its devices, its user, when and how it ended, bytes by direction" {
	[ "$(jq -c '.processes[0] | [.user, .uid, .command, .ended, .status, .launches, .errors, .syncs]' tables.json)" = \
		"[\"$(id -un)\",$(id -u),\"found\",\"exit\",0,9,1,3]" ]
	[ "$(jq -c '.processes[0] | [.htod_bytes, .dtoh_bytes, .dtod_bytes, .htoh_bytes, .peer_bytes, .set_bytes, .unknown_bytes]' tables.json)" = \
		'[109568,30720,27648,6144,0,49152,0]' ]
	[ "$(jq -c '.processes[0] | [.peak_bytes, .final_bytes, .limit_bytes, .denied, .leaks]' tables.json)" = '[2162688,0,null,0,0]' ]
	[ "$(jq -c '[.processes[0].devices, .devices[0].held_by]' tables.json)" = '[["GPU-51000000-0000-4000-8000-000000000000"],[1]]' ]
	jq -e '.processes[0] | .start_ns >= 0 and .last_ns - .start_ns == .wall_ns and .wall_ns > 90e6 and
		.api_busy_ns > 0 and .api_busy_ns <= .api_ns and .sync_ns > 0 and .gpu_busy_ns == null' tables.json
	# The limit of the others, and what the refused one held at most.
	[ "$(jq -c '.processes[0] | [.peak_bytes, .limit_bytes, .denied]' plain.json)" = "[$((60 * 1048576 + 65536)),$((64 << 20)),1]" ]
	"$B/cuward" stats tables.trace >tables.txt
	grep -qE "^  1 +[0-9]+ +9 +107 KiB +30.0 KiB +27.0 KiB +6.00 KiB +0 B +48.0 KiB +0 B +2.06 MiB +0 B +none +0 +0$" tables.txt
	grep -qE "^  1 +[0-9]+ +[^ ]+ +$(id -un) +found +0 +0 ns +[0-9.]+ [mu]?s +exit 0 +[0-9.]+ m?s " tables.txt
	"$B/cuward" stats --csv tables.trace | python3 -c '
import csv, sys
tables, heads = {}, None
for row in csv.reader(sys.stdin):
    if row[0] == "table":
        heads = row
    else:
        tables.setdefault(row[0], []).append(dict(zip(heads, row)))
one = tables["processes"][0]
assert one["htod_bytes"] == "109568" and one["limit_bytes"] == "" and one["devices"].startswith("[\"GPU-51"), one
assert [g["uuid"][:6] for g in tables["gaps"]] == ["GPU-51"] * 5, tables["gaps"]
assert sum(int(c["share_ppm"]) for c in tables["calls"]) > 999900, tables["calls"]
assert [k["name"] for k in sorted(tables["kernels"], key=lambda k: k["name"])] == ["first", "second"]
'
}

@test "tables: idle gaps, calls and kernels with their shares" {
	jq -e '[.gaps[].ns] | length == 5 and (sort | reverse) == . and .[2] > 29e6 and .[3] < 29e6' tables.json
	jq -e '.devices[0] as $d | .gaps[0] | .to_ns - .from_ns == .ns and .ns == $d.longest_gap_ns and .from_ns == $d.longest_gap_at_ns' tables.json
	# Busy and idle together are the time from the first piece of work to the last.
	jq -e '.devices[0] | .gaps >= 5 and .gaps_ns >= 90e6 and .gaps_ns + .api_busy_ns <= .span_ns' tables.json
	jq -e '([.calls[].ns] | add) as $all | all(.calls[]; . as $c | $c.share_ppm == ($c.ns * 1e6 / $all | floor)) and
		([.calls[].share_ppm] | add) <= 1000000' tables.json
	[ "$(jq -c '[.calls[] | select(.name == "cuMemcpyHtoD_v2", .name == "cuMemcpyAsync", .name == "cuLaunchKernel") |
		[.name, .count, .errors, .codes]] | sort' tables.json)" = \
		'[["cuLaunchKernel",9,0,{}],["cuMemcpyAsync",3,0,{}],["cuMemcpyHtoD_v2",6,1,{"1":1}]]' ]
	[ "$(jq -c '[.kernels[] | [.name, .launches, .streams, .grid, .block]] | sort' tables.json)" = \
		'[["first",6,2,[1,1,1],[32,1,1]],["second",3,1,[2,1,1],[32,1,1]]]' ]
	jq -e '([.kernels[].share_ppm] | add) >= 999998' tables.json
	"$B/cuward" stats tables.trace >tables.txt
	grep -qE '^ +SHARE +COUNT +TIME .* ERRORS +CODES +CALL$' tables.txt
	grep -qE '^ +[0-9.]+ % +6 .* 1 +1x 1 +cuMemcpyHtoD_v2$' tables.txt
	grep -qE '^ +[23][0-9.]+ m?s +[0-9.]+ % +[0-9.]+ [mu]s +[0-9.]+ ms +GPU-51' tables.txt
}
