#!/usr/bin/env bats
# cuward stats: its tables, and what it finds, each with a program that shows it and one that nearly does.

bats_require_minimum_version 1.5.0

setup() {
	export LC_ALL=C.UTF-8 TZ=UTC
	golden=$TOP/tests/golden
	tmp=$BATS_TEST_TMPDIR
}

# Times of ns are whole numbers, also where awk is mawk.
awk() { command awk -v CONVFMT=%.0f -v OFMT=%.0f "$@"; }
stats() { "$B/cuward" stats "$@"; }

# A process from 1 s to 11 s; what it does comes on stdin, as lines of events by time.
story() {
	cat <<-'END'
	%source box
	1000000000 process process=1 pid=10 uid=1000 pid_ns=1 start_ticks=5 command="story"
	1000000000 device process=1 device=0 uuid="GPU-aa" name="H200" total_bytes=8589934592 limit_bytes=4294967296
	1000000000 thread thread=1 process=1 tid=10 name="story"
	1000000000 function process=1 function=1 name="kernel"
	1000000000 api process=1 api=1 name="cuMemAlloc_v2"
	END
	cat
	echo '11000000000 process_end process=1 how=exit ended_ns=11000000000'
}

# found CODE...: exactly these findings, whatever they say.
found() {
	stats --json "$tmp/story.events" >"$tmp/json"
	jq -r '.findings[].text' "$tmp/json"
	[ "$(jq -r '[.findings[].code] | join(" ")' "$tmp/json")" = "$*" ]
}

# Work all the time, so that there is no gap: a call of 40 ms each 50 ms.
busy='for (i = 0; i < 200; i++) print 1050000000 + i * 50000000, "call thread=1 api=9 duration_ns=40000000"'

@test "tables have every value of the trace" {
	run -0 stats --json "$golden/gpu.events"
	[ "$(jq -c '.kernels[0] | [.name, .launches, .timing, .timed, .ns, .p50_ns, .queued_ns, .streams]' <<<"$output")" = \
		'["fast",1,"gpu",1,250000000,250000000,249800000,1]' ]
	[ "$(jq -c '.copies[0] | [.direction, .count, .bytes, .gpu_ns, .bytes_per_second]' <<<"$output")" = \
		'["dtoh",1,100,50000000,2000]' ]
	[ "$(jq -c '.processes[0] | [.pid, .wall_ns, .gpu_busy_ns, .launches, .dtoh_bytes, .limit_bytes]' <<<"$output")" = \
		'[10,1000000000,450000000,2,100,null]' ]
	# A kernel's streams are those of all processes.
	sed -e '/^1500000000 launch/p' -e '/^1500000000 launch/{s/thread=1/thread=2/;s/0x5500/0x1/;s/^15/16/}' \
		-e '/^1200000000 thread/a 1300000000 function process=2 function=1 name="gemm"' \
		"$golden/two.events" >"$tmp/both.events"
	run -0 stats --json "$tmp/both.events"
	[ "$(jq -c '.kernels[0] | [.name, .launches, .streams]' <<<"$output")" = '["gemm",2,2]' ]
	run -0 stats --json "$golden/two.events"
	[ "$(jq -c '.devices[0] | [.uuid, .processes, .gpu_busy_ns, .longest_gap_ns, .peak_bytes, .held_by]' <<<"$output")" = \
		'["GPU-aa",2,null,150000000,1610612736,[1,2]]' ]
	[ "$(jq -c '[.memory[] | [.pid, .peak_bytes, .final_bytes]]' <<<"$output")" = '[[7,1073741824,0],[7,536870912,536870912]]' ]
	[ "$(jq -c '[.findings[].code]' <<<"$output")" = '["idle-gap","refused"]' ]
}

@test "percentiles, errors by code, sites at the peak and at the end" {
	story >"$tmp/story.events" < <(awk 'BEGIN {
		for (i = 1; i <= 1000; i++)
			print 1000000000 + i * 1000000, "call thread=1 api=9 duration_ns=" i * 1000, i % 10 ? "" : "result=" (i % 20 ? 2 : 700)
		print 3000000000, "alloc thread=1 api=1 kind=device device=0 pointer=0x1000 bytes=1000 live_bytes=1000 site=1"
		print 3000000001, "alloc thread=1 api=1 kind=device device=0 pointer=0x2000 bytes=500 live_bytes=1500 site=2"
		print 3000000002, "free thread=1 api=2 kind=device device=0 pointer=0x1000 bytes=1000 live_bytes=500"
		print 3000000003, "alloc thread=1 api=1 kind=device device=0 pointer=0x1000 bytes=300 live_bytes=800 site=3"
		print 3000000004, "site process=1 site=1 frames=\"main (a.c:1)\"" }')
	run -0 stats --json "$tmp/story.events"
	[ "$(jq -c '.calls[] | select(.name == "9") | [.count, .errors, .codes["2"], .codes["700"], .shortest_ns, .longest_ns]' \
		<<<"$output")" = '[1000,100,50,50,1000,1000000]' ]
	jq -e '.calls[] | select(.name == "9") | (.p50_ns / 500000 - 1 | fabs) < 0.032 and
		(.p95_ns / 950000 - 1 | fabs) < 0.032 and (.p99_ns / 990000 - 1 | fabs) < 0.032' <<<"$output"
	[ "$(jq -c '[.memory[] | [.site, .peak_bytes, .peak_count, .final_bytes, .final_count, .allocs]]' <<<"$output")" = \
		'[["main (a.c:1)",1000,1,0,0,1],[null,500,1,500,1,1],[null,0,0,300,1,1]]' ]
}

@test "an address that is handed out again before its free is told is not mistaken" {
	story >"$tmp/story.events" <<-'END'
	1999999999 thread thread=2 process=1 tid=11 name="other"
	2000000000 alloc thread=2 api=1 kind=device device=0 duration_ns=10 pointer=0x1000 bytes=100 live_bytes=100 site=1
	2000000500 alloc thread=1 api=1 kind=device device=0 duration_ns=10 pointer=0x1000 bytes=300 live_bytes=300 site=2
	2000000600 free thread=2 api=2 kind=device device=0 duration_ns=200 pointer=0x1000 bytes=100 live_bytes=300
	END
	run -0 stats --json "$tmp/story.events"
	[ "$(jq -c '[.memory[] | [.final_bytes, .allocs]]' <<<"$output")" = '[[300,1],[0,1]]' ]
}

@test "--csv: the table's name in each line, as many fields as headings" {
	run -0 stats --csv "$golden/two.events"
	printf '%s\n' "$output" >"$tmp/csv"
	python3 -c '
import csv, sys
tables, columns = {}, None
for row in csv.reader(open(sys.argv[1], newline="")):
    if row[0] == "table":
        columns = row
    else:
        assert len(row) == len(columns), row
        tables.setdefault(row[0], []).append(dict(zip(columns, row)))
assert [len(tables[t]) for t in ("processes", "devices", "kernels", "findings")] == [2, 1, 1, 2], tables
assert tables["processes"][1]["command"] == "serve" and tables["processes"][1]["gpu_busy_ns"] == ""
assert tables["kernels"][0]["grid"] == "[1,0,0]" or tables["kernels"][0]["grid"].startswith("[1,")
' "$tmp/csv"
}

@test "how long two processes had a GPU at the same time; not where one follows the other" {
	# together BEGIN_NS: the first one's kernel ends at 2.5 s, the second one's begins then.
	together() {
		story <<-END
		1000000000 process process=2 pid=11 uid=1000 pid_ns=1 start_ticks=6 command="other"
		1000000000 device process=2 device=0 uuid="GPU-aa" name="H200" total_bytes=8589934592 limit_bytes=4294967296
		1000000000 thread thread=2 process=2 tid=11 name="other"
		2500000000 launch thread=1 api=2 device=0 duration_ns=500000000 function=1 stream=1 correlation=1
		$(($1 + 300000000)) launch thread=2 api=2 device=0 duration_ns=300000000 function=1 stream=1 correlation=1
		3000000000 gpu process=1 correlation=1 begin_ns=2000000000 end_ns=2500000000
		3000000000 gpu process=2 correlation=1 begin_ns=$1 end_ns=$(($1 + 300000000))
		10000000000 process_end process=2 how=exit ended_ns=10000000000
		END
	}
	for timed in yes no; do # by what ran there, or by the calls where nobody timed it
		together 2400000000 | { [ $timed = yes ] && cat || grep -v ' gpu '; } >"$tmp/story.events"
		run -0 stats --json "$tmp/story.events"
		[ "$(jq -c '.devices[0] | [.uuid, .processes, .gpu_busy_ns, .shared_ns]' <<<"$output")" = \
			"[\"GPU-aa\",2,$([ $timed = yes ] && echo 700000000 || echo null),100000000]" ]
		run -0 stats "$tmp/story.events"
		[[ $(grep -A 1 '^ *UUID .* SHARED  GAPS' <<<"$output") == *"  100 ms  "* ]]
		together 2500000000 | { [ $timed = yes ] && cat || grep -v ' gpu '; } >"$tmp/story.events"
		[ "$(stats --json "$tmp/story.events" | jq .devices[0].shared_ns)" = 0 ]
	done
}

@test "names of C++ kernels are readable" {
	story >"$tmp/story.events" <<-'END'
	1500000000 function process=1 function=2 name="_Z6kernelIfEvPT_i"
	2000000000 launch thread=1 api=2 device=0 duration_ns=1000 function=2 stream=1 correlation=1
	END
	run -0 stats "$tmp/story.events"
	[[ $output == *"void kernel<float>(float*, int)"* ]]
	run -0 stats --json "$tmp/story.events"
	[ "$(jq -r '.kernels[0].name' <<<"$output")" = _Z6kernelIfEvPT_i ]
}

@test "a process that traced on its own has no end, and that is no error" {
	story </dev/null | grep -v process_end >"$tmp/story.events"
	run -0 stats "$tmp/story.events"
	[[ $output == *"Ends were not recorded: only \`cuward run\` does that."* ]]
	[[ $output != *"! "* ]]
	run -0 stats --json "$tmp/story.events"
	[ "$(jq -c '[.processes[0].ended, .processes[0].status, .trace.truncated_processes]' <<<"$output")" = '["unknown",null,0]' ]
	# Under `cuward run` it is one.
	sed -i 's/command=/job="j1" command=/' "$tmp/story.events"
	run -1 stats "$tmp/story.events"
	[[ $output == *"! the end of 1 process was not recorded"* ]]
}

@test "found: launch-bound; not where kernels run long" {
	launches() {
		awk -v run="$1" 'BEGIN { for (i = 1; i <= 1000; i++) {
			t = 1000000000 + i * 9000000
			print t, "launch thread=1 api=2 device=0 duration_ns=7000000 function=1 stream=1 correlation=" i
			print t + 1, "gpu process=1 correlation=" i " begin_ns=" t - 1000000 - run " end_ns=" t - 1000000 } }' | story
	}
	launches 100000 >"$tmp/story.events"
	found launch-bound
	launches 6000000 >"$tmp/story.events"
	found
}

@test "found: sync-bound; not where the GPU is busy, nor for one wait" {
	waits() {
		awk -v run="$1" 'BEGIN { for (i = 1; i <= 1000; i++) {
			t = 1000000000 + i * 9900000
			print t - 9000000, "launch thread=1 api=2 device=0 duration_ns=1000 function=1 stream=1 correlation=" i
			print t, "sync thread=1 api=3 device=0 duration_ns=8000000 handle=1"
			print t, "gpu process=1 correlation=" i " begin_ns=" t - run " end_ns=" t } }' | sort -s -n -k 1,1 | story
	}
	waits 1000000 >"$tmp/story.events"
	found sync-bound
	waits 9500000 >"$tmp/story.events"
	found
	echo "10999999999 sync thread=1 api=3 device=0 duration_ns=9900000000 handle=1" | story >"$tmp/story.events"
	found
}

@test "found: many small allocations; not of large ones, nor of few" {
	allocations() { # COUNT BYTES
		awk -v count="$1" -v bytes="$2" "BEGIN { $busy
			for (i = 0; i < count; i++) {
				t = 1000000000 + i * 1000000
				print t, \"alloc thread=1 api=1 kind=device device=0 duration_ns=400000 pointer=0x1000 bytes=\" bytes \" live_bytes=\" bytes
				print t + 1, \"free thread=1 api=4 kind=device device=0 duration_ns=200000 pointer=0x1000 bytes=\" bytes \" live_bytes=0\" } }" |
			sort -s -n -k 1,1 | story
	}
	allocations 2000 4096 >"$tmp/story.events"
	found small-allocations
	allocations 2000 4194304 >"$tmp/story.events"
	found
	allocations 900 4096 >"$tmp/story.events"
	found
}

@test "found: many small copies; not of large ones" {
	copies() {
		awk -v bytes="$1" "BEGIN { $busy
			for (i = 0; i < 2000; i++)
				print 1000000000 + i * 1000000, \"copy thread=1 api=5 direction=htod device=0 duration_ns=300000 stream=1 bytes=\" bytes }" |
			sort -s -n -k 1,1 | story
	}
	copies 64 >"$tmp/story.events"
	found small-copies
	copies 65536 >"$tmp/story.events"
	found
}

@test "found: an idle gap; not a short one" {
	awk "BEGIN { $busy }" | awk '$1 < 5000000000 || $1 > 8000000000' | story >"$tmp/story.events"
	found idle-gap
	[[ $(jq -r '.findings[0].text' "$tmp/json") == "no CUDA call was made for 3.0"*" s (30."*" % of its time), from 3."*" s on" ]]
	awk "BEGIN { $busy }" | awk '$1 < 5000000000 || $1 > 6500000000' | story >"$tmp/story.events"
	found
}

@test "found: growth; not where it comes and goes, nor where it stops" {
	memory() { # what of i, the number of the step from 0 to 199, is the level in MiB
		awk "BEGIN { $busy; for (i = 0; i < 200; i++) {
			level = $1; print 1000000000 + i * 50000000, \"alloc thread=1 api=1 kind=device device=0 pointer=0x1000 bytes=1 live_bytes=\" level * 1048576 } }" |
			sort -s -n -k 1,1 | story
	}
	memory '100 + i + i % 7' >"$tmp/story.events"
	found growth
	[[ $(jq -r '.findings[0].text' "$tmp/json") == *"GPU 0 grows all the time, from 1"*" MiB to 2"*" MiB: 2"*" MiB a second" ]]
	memory '100 + i % 20 * 5' >"$tmp/story.events"
	found
	memory '100 + (i < 120 ? i : 120)' >"$tmp/story.events"
	found
}

@test "found: failing calls; not one in a thousand" {
	errors() {
		awk "BEGIN { for (i = 0; i < 20000; i++)
			print 1000000000 + i * 499000, \"call thread=1 api=9 duration_ns=400000 result=\" (i % $1 ? 0 : 1) }" | story
	}
	errors 50 >"$tmp/story.events"
	found errors
	errors 150 >"$tmp/story.events"
	found
}

@test "found in a real program: a refusal and a leak" {
	LC_ALL=C "$B/cuward" run -q --sim -m 64M --trace="$tmp/trace" -- "$B/apps/play" init device 0 alloc 60M alloc 10M \
		>/dev/null 2>&1 3>&- || true
	"$B/cuward" stats --json "$tmp/trace" >"$tmp/json" || true
	[ "$(jq -c '[.findings[].code]' "$tmp/json")" = '["refused","leak"]' ]
	[[ $(jq -r '.findings[0].text' "$tmp/json") == "1 request was refused, the largest of 10.0 MiB while 60.0 MiB of 64.0 MiB were in use; "*" asked for 10 MiB on GPU 0 and was refused: the limit of the process of 64 MiB ("* ]]
}

@test "bad options are usage errors" {
	run -2 stats
	run -2 stats --json --csv "$golden/two.events"
	run -2 stats "$tmp/missing"
}
