#!/usr/bin/env bats
# cuward timeline --perfetto: what is in the file, decoded anew: by hand, and by Perfetto's own messages.
#
# Perfetto's trace processor is in no package of PyPI or Debian 12: the package `perfetto` fetches the program from
# get.perfetto.dev when it is first used. So there are no queries in SQL here; what they would count is counted
# from the messages (perfetto_schema.py), and compared with the tables of `cuward stats`.

bats_require_minimum_version 1.5.0

setup() { tmp=$BATS_TEST_TMPDIR; }

# perfetto EVENTS ARG...: the lines of its trace in $tmp/lines.
perfetto() {
	run "$B/cuward" timeline --perfetto "$tmp/trace.pftrace" "${@:2}" "$1"
	echo "$output"
	python3 "$TOP/tests/perfetto.py" "$tmp/trace.pftrace" >"$tmp/lines"
}
lines() { jq -sc "$@" "$tmp/lines"; }

@test "processes, threads, streams and counters, the GPU's work where it ran, flows from its launch" {
	perfetto "$TOP/tests/golden/gpu.events"
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	[ "$(lines '[.[] | select(.process) | [.process, .pid]] | unique')" = '[["timed (pid 10 on box)",10]]' ]
	[ "$(lines '[.[] | select(.thread) | [.thread, .tid, .pid]]')" = '[["timed, 10",10,10]]' ]
	[ "$(lines '[.[] | select(.name) | .name] | sort')" = '["GPU 0","stream 0x50","stream 0x60"]' ]
	# name, begin, duration, and the launch that its flow comes from
	[ "$(lines '. as $all | [.[] | select(.slice and (.on as $on | $all[] | select(.track == $on) | .name))
		| . as $gpu | [.slice, .at, .ns, ($all[] | select(.slice and .flow == $gpu.flow and .on != $gpu.on) | .at)]]')" = \
		'[["fast",1250000000,250000000,1000190000],["copy",1500000000,50000000,1000290000],["slow",1100000000,200000000,1000090000]]' ]
	[ "$(lines '[.[] | select(.slice == "copy") | .bytes]')" = '[100]' ]
}

@test "by Perfetto's own messages: calls, kernels, memory and refusals are those of the tables" {
	[ -d "$TOP/build/perfetto" ] || skip "no package perfetto"
	agrees() {
		"$B/cuward" timeline --perfetto "$tmp/trace.pftrace" "$1" || [ $? = 1 ]
		"$B/cuward" stats --json "$1" >"$tmp/stats.json" || [ $? = 1 ]
		run -0 python3 "$TOP/tests/perfetto_schema.py" "$TOP/build/perfetto" "$tmp/trace.pftrace" "$tmp/stats.json"
		echo "$output"
	}
	for name in gpu two streams late lossy; do
		agrees "$TOP/tests/golden/$name.events"
	done
	CUWARD_SIM_DEVICES=2 "$B/cuward" run -q --sim --gpu-time --trace="$tmp/trace" -m 64M -- "$B/apps/play" \
		fork '(' init device 1 alloc 10M launch child launches 300 refused 100M free 0 ')' \
		init device 0 alloc 20M launches 200 refused 200M device 1 alloc 5M launches 100 copy wait 3>&-
	agrees "$tmp/trace"
	[ "$(jq -c '[.refused, .counters, .work == .arrows, .work > 100]' <<<"$output")" = \
		'[2,["GPU 0 limit","GPU 0 memory","GPU 1 limit","GPU 1 memory"],true,true]' ]
	# It can fail: one call more in the table, one byte another in the file.
	jq '.calls[0].count += 1' "$tmp/stats.json" >"$tmp/more.json"
	run -1 python3 "$TOP/tests/perfetto_schema.py" "$TOP/build/perfetto" "$tmp/trace.pftrace" "$tmp/more.json"
}

@test "three threads, equal times, no duration: nothing is lost, counters belong to the process" {
	cat >"$tmp/odd.events" <<-'END'
	%source box
	1000 process process=1 pid=10 uid=1000 pid_ns=1 start_ticks=5 command="odd"
	1000 device process=1 device=0 uuid="GPU-aa" name="H200" total_bytes=1000000 limit_bytes=8192
	1000 api process=1 api=1 name="cuMemAlloc_v2"
	1000 thread thread=1 process=1 tid=10 name="a"
	1000 thread thread=2 process=1 tid=11 name="b"
	1000 thread thread=3 process=1 tid=12 name="c"
	2000 alloc thread=1 api=1 kind=device device=0 duration_ns=0 bytes=4096 live_bytes=4096 pointer=0x1000
	2000 free thread=2 api=2 kind=device device=0 duration_ns=0 bytes=4096 live_bytes=0 pointer=0x1000
	2000 alloc thread=3 api=1 kind=device device=0 duration_ns=0 bytes=100 live_bytes=100 pointer=0x1000
	2000 launch thread=1 api=3 device=0 duration_ns=0 function=1 stream=0x50 correlation=1
	2000 denied thread=1 api=1 scope=process device=0 bytes=9000 limit_bytes=8192 used_bytes=100
	3000 process_end process=1 how=exit
	END
	perfetto "$tmp/odd.events"
	[ "$status" -eq 0 ]
	[ "$(lines '[.[] | select(.slice) | [.slice, .at, .ns]]')" = \
		'[["cuMemAlloc_v2",2000,0],["call 2",2000,0],["cuMemAlloc_v2",2000,0],["call 3",2000,0]]' ]
	[ "$(lines '[.[] | select(.counter) | .name]')" = '["GPU 0 limit","GPU 0 memory"]' ]
	[ "$(lines '(.[] | select(.name == "GPU 0 memory") | .track) as $memory | [.[] | select(.on == $memory) | [.at, .value]]')" = \
		'[[2000,4096],[2000,0],[2000,100],[3000,0]]' ]
	[ "$(lines '[.[] | select(.thread) | .tid]')" = '[10,11,12]' ]
	[ "$(lines '[.[] | select(.instant) | [.instant, .at]]')" = '[["refused",2000]]' ]
	# The process's own track is the parent of the counters, and no thread's.
	[ "$(lines 'first(.[] | select(.process) | .track) as $p | [.[] | select(.counter) | .parent == $p] | all')" = true ]
}

@test "two processes of one pid stay apart" {
	perfetto "$TOP/tests/golden/two.events"
	[ "$status" -eq 0 ]
	[ "$(lines '[.[] | select(.process) | .pid] | unique | length')" = 2 ]
	[ "$(lines '[.[] | select(.thread) | .pid] | unique | length')" = 2 ]
	[ "$(lines '[.[] | select(.process) | .process] | unique')" = '["serve (pid 7 on box)","train (pid 7 on box)"]' ]
	perfetto "$TOP/tests/golden/late.events" --pid 50
	[ "$(lines '[.[] | select(.process) | .process] | unique')" = '["late (pid 50 on box)"]' ]
}

@test "work that overlaps goes to a sibling" {
	{
		head -5 "$TOP/tests/golden/gpu.events"
		for i in 1 2 3; do
			echo "200000000$i launch thread=1 api=2 device=0 duration_ns=1 function=1 stream=0x50 correlation=$i"
		done
		echo "5000000000 gpu process=1 correlation=1 begin_ns=3000000000 end_ns=3000000500 error_ns=1"
		echo "5000000000 gpu process=1 correlation=2 begin_ns=3000000400 end_ns=3000000900 error_ns=1"
		echo "5000000000 gpu process=1 correlation=3 begin_ns=3000000600 end_ns=3000000800 error_ns=1"
	} >"$tmp/overlap.events"
	perfetto "$tmp/overlap.events"
	[ "$(lines '[.[] | select(.name) | .name]')" = '["GPU 0","stream 0x50","stream 0x50 (2)"]' ]
	[ "$(lines '(.[] | select(.name == "stream 0x50") | .track) as $t | [.[] | select(.on == $t) | .at]')" = '[3000000000,3000000600]' ]
}

@test "a file that cannot be written is said, and none is left half" {
	run "$B/cuward" timeline --perfetto "$tmp/missing/x" "$TOP/tests/golden/two.events"
	[ "$status" -eq 1 ]
	[[ $output == *"cannot write $tmp/missing/x: No such file or directory"* ]]
	run "$B/cuward" timeline --perfetto "$tmp/none" "$tmp/missing"
	[ "$status" -eq 2 ]
	[ -z "$(ls "$tmp" | grep none)" ]
}
