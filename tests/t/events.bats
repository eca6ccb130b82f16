#!/usr/bin/env bats
# The reader of traces against babeltrace2: the same events, in the same order, with the same values.

load ../trace/lttng.bash

setup() { tmp=$BATS_TEST_TMPDIR; }

teardown() { daemon_end; }

events() { "$B/cuward" events "$@"; }

# same TRACE: both print the same, and that is so many lines.
same() {
	babeltrace2 "$1" >"$tmp/theirs" 2>"$tmp/complaints"
	events "$1" >"$tmp/ours"
	diff "$tmp/theirs" "$tmp/ours" | head -n 6 >"$tmp/diff"
	cat "$tmp/diff"
	[ ! -s "$tmp/diff" ]
	[ "$(wc -l <"$tmp/ours")" -eq "$2" ]
}

@test "random fields of every kind, in both byte orders" {
	for seed in $(seq 12); do
		for order in "" --big; do
			# shellcheck disable=SC2086
			python3 "$TOP/tests/make_zoo.py" "$tmp/zoo" --seed "$seed" $order
			same "$tmp/zoo" 39
		done
	done
}

@test "the comparison can fail" {
	python3 "$TOP/tests/make_zoo.py" "$tmp/zoo" --seed 1
	events "$tmp/zoo" >"$tmp/before"
	printf '\xff' | dd of="$tmp/zoo/stream_0" bs=1 seek=120 conv=notrunc status=none
	run cmp "$tmp/before" <(events "$tmp/zoo" 2>/dev/null)
	[ "$status" -ne 0 ]
}

@test "a foreign LTTng-UST provider, its contexts, per user and per process" {
	"${CC:-cc}" -std=gnu11 -I"$TOP/tests/trace" -o "$tmp/zoo" "$TOP/tests/trace/zoo.c" -llttng-ust -ldl
	for buffers in uid pid; do
		daemon_start
		as_daemon lttng -q create test --output="$LTTNG_HOME/trace"
		as_daemon lttng -q enable-channel -u -s test --buffers-$buffers --num-subbuf 8 --subbuf-size 64k c
		as_daemon lttng -q enable-event -u -s test -c c 'zoo:*'
		as_daemon lttng -q add-context -u -s test -c c -t vpid -t vtid -t procname -t ip -t pthread_id \
			-t '$app.zoo:mood' # nobody tells it: an empty choice of a variant
		as_daemon lttng -q start test
		install -m 755 "$tmp/zoo" "$LTTNG_HOME/zoo"
		as_daemon "$LTTNG_HOME/zoo" 1000
		as_daemon lttng -q rotate test
		as_daemon "$LTTNG_HOME/zoo" 500
		daemon_stop_recording
		same "$LTTNG_HOME/trace" 4500
		run "$B/cuward" timeline "$LTTNG_HOME/trace"
		[ "$status" -eq 5 ]
		[[ $output == *"without events of cuward; 4500 of other providers"* ]]
		daemon_end
	done
}

@test "files of a limited size, old ones overwritten: the same events, the same losses" {
	"${CC:-cc}" -std=gnu11 -I"$TOP/tests/trace" -o "$tmp/zoo" "$TOP/tests/trace/zoo.c" -llttng-ust -ldl
	daemon_start
	as_daemon lttng -q create test --output="$LTTNG_HOME/trace"
	as_daemon lttng -q enable-channel -u -s test --buffers-uid --num-subbuf 4 --subbuf-size 8k \
		--tracefile-size 32768 --tracefile-count 5 c
	as_daemon lttng -q enable-event -u -s test -c c 'zoo:*'
	as_daemon lttng -q start test
	install -m 755 "$tmp/zoo" "$LTTNG_HOME/zoo"
	# How much of a burst the consumer keeps is the scheduler's; so until there are enough files.
	for _ in $(seq 100); do
		as_daemon "$LTTNG_HOME/zoo" 5000
		files=$(find "$LTTNG_HOME/trace" -name 'c_*_*' ! -name '*.idx' | wc -l)
		[ "$files" -le 2 ] || break
	done
	daemon_stop_recording
	[ "$files" -gt 2 ]
	babeltrace2 "$LTTNG_HOME/trace" >"$tmp/theirs" 2>"$tmp/warnings"
	events "$LTTNG_HOME/trace" >"$tmp/ours" 2>"$tmp/losses"
	cmp "$tmp/theirs" "$tmp/ours"
	cat "$tmp/warnings" "$tmp/losses"
	[ "$(sed -n 's/.*iscarded \([0-9]*\) event.*/\1/p' "$tmp/warnings" | awk '{ n += $1 } END { print n + 0 }')" -eq \
		"$(sed -n 's/.*: \([0-9]*\) events and .*/\1/p' "$tmp/losses" | awk '{ n += $1 } END { print n + 0 }')" ]
}

@test "a trace of ours" {
	LC_ALL=C "$B/cuward" run -q --sim --trace="$tmp/trace" -- "$B/apps/train" >/dev/null 2>&1 3>&-
	same "$tmp/trace" "$(babeltrace2 "$tmp/trace" | wc -l)"
	[ "$(wc -l <"$tmp/ours")" -gt 100 ]
}

@test "events of the same time in several streams and traces, whatever their files are called" {
	for host in one two three; do
		python3 "$TOP/tests/make_ctf.py" "$TOP/tests/golden/two.events" "$tmp/traces/$host" --host $host --streams 3 --packet 2
		for file in 0:9 1:5 2:1; do
			mv "$tmp/traces/$host/channel0_${file%:*}" "$tmp/traces/$host/channel$host${file#*:}"
		done
	done
	for part in one two three ""; do
		same "$tmp/traces/$part" $([ -n "$part" ] && echo 19 || echo 57)
	done
}

@test "GPU times, several processes and GPUs, one of them killed" {
	CUWARD_SIM_DEVICES=2 CUWARD_DIR=$tmp/state "$B/cuward" run -q --sim --gpu-time --trace="$tmp/trace" -- "$B/apps/play" \
		fork '(' init device 1 alloc 10M launch child launches 200 copy free 0 ')' \
		fork '(' init device 0 alloc 30M launch other churn 100 kill 9 ')' \
		init device 0 alloc 20M launches 200 copy device 1 alloc 5M launches 100 wait 3>&-
	equal "$tmp/trace" 500
	[ "$(grep -c 'cuward:gpu:' "$tmp/ours")" -gt 50 ]
	[ "$(grep -c 'cuward:process:' "$tmp/ours")" -eq 3 ]
}

@test "snapshots of a flight recorder, each, all, and what all of them share" {
	CUWARD_DIR=$tmp/state "$B/cuward" run -q --sim --trace="$tmp/rec" -m 10M --record=on-denied -- "$B/apps/play" \
		init device 0 alloc 3M launch first refused 20M launches 1200 refused 30M launches 10 3>&-
	snapshots=("$tmp"/rec/snapshot-*)
	[ "${#snapshots[@]}" -eq 2 ]
	for part in "${snapshots[@]}" "$tmp/rec/ust"; do
		equal "$part" 5
	done
	equal "$tmp/rec" 100
}

@test "cut off or changed at any byte: what is left is told, and nothing crashes or hangs" {
	python3 "$TOP/tests/make_ctf.py" "$TOP/tests/golden/two.events" "$tmp/trace" --streams 2 --packet 3
	run -0 python3 "$TOP/tests/damage.py" "$B/cuward" "$tmp/trace" --every 29
	echo "$output"
	# Only cuts at the borders of packets, and in the metadata behind the last event, do not show.
	[[ $output =~ ^([0-9]+)\ damages,\ ([0-9]+)\ cuts ]]
	[ "${BASH_REMATCH[1]}" -gt 1000 ]
	[ "${BASH_REMATCH[2]}" -le 4 ]
}

@test "a trace that was copied, and one in pieces, is told once" {
	python3 "$TOP/tests/make_ctf.py" "$TOP/tests/golden/two.events" "$tmp/a/trace" --host box --streams 2 --packet 2
	cp -r "$tmp/a" "$tmp/b"
	diff -u "$TOP/tests/golden/two.json" <("$B/cuward" timeline --json "$tmp/a" "$tmp/b" | jq '.trace.copied_packets = 0' --indent 1)
	[ "$("$B/cuward" timeline --json "$tmp/a" "$tmp/b" | jq -c '[.trace.events, .trace.copied_packets]')" = '[19,10]' ]
	# The copy has one packet more than the first: it counts, and the rest once.
	size=$(stat -c %s "$tmp/b/trace/channel0_0")
	truncate -s $((size / 2)) "$tmp/a/trace/channel0_0"
	run "$B/cuward" timeline --json "$tmp/a" "$tmp/b"
	[ "$(sed -n '/^{/,$p' <<<"$output" | jq .trace.events)" -eq 19 ]
}

@test "a folder without metadata beside a good trace is said" {
	python3 "$TOP/tests/make_ctf.py" "$TOP/tests/golden/two.events" "$tmp/dir/good"
	python3 "$TOP/tests/make_ctf.py" "$TOP/tests/golden/gpu.events" "$tmp/dir/bad"
	rm "$tmp/dir/bad/metadata"
	run "$B/cuward" timeline --json "$tmp/dir"
	[ "$status" -eq 1 ]
	[[ $output == *"dir/bad: there are streams of a trace, but its metadata is missing"* ]]
	[ "$(sed -n '/^{/,$p' <<<"$output" | jq -c '[.trace.damaged, .trace.events]')" = '[true,19]' ]
}

@test "a million events: exact counts, little memory, and a fraction of babeltrace2's time" {
	"${CC:-cc}" -O2 -std=gnu11 -D_GNU_SOURCE -I"$TOP/include" -o "$tmp/big" "$TOP/tests/trace/big.c"
	"$tmp/big" "$tmp/trace" 1000000
	cat >"$tmp/measure.py" <<-'END'
	import resource, subprocess, sys
	with open(sys.argv[1], "w") as out:
	    subprocess.run(sys.argv[2:], stdout=out, check=True)
	used = resource.getrusage(resource.RUSAGE_CHILDREN)
	print(int((used.ru_utime + used.ru_stime) * 1000), used.ru_maxrss)
	END
	read -r ours memory < <(python3 "$tmp/measure.py" "$tmp/json" "$B/cuward" timeline --json "$tmp/trace")
	read -r theirs _ < <(python3 "$tmp/measure.py" "$tmp/dummy" babeltrace2 "$tmp/trace" -o dummy)
	echo "cuward $ours ms, $memory KiB; babeltrace2 $theirs ms"
	[ "$(jq -c '[.trace.events, .trace.damaged, (.processes | length), ([.processes[].launches] | add),
		([.processes[].devices[0].allocs] | add)]' "$tmp/json")" = "$(babeltrace2 "$tmp/trace" | awk '
		/cuward:launch(ed)?:/ { launches++ } /cuward:alloc:/ { allocs++ } /cuward:process:/ { processes++ }
		END { printf "[%d,false,%d,%d,%d]", NR, processes, launches, allocs }')" ]
	[ "$memory" -le 65536 ]
	[ $((3 * ours)) -le "$theirs" ]
	# Nor does it take more for many processes with some streams each.
	"$tmp/big" "$tmp/many" 1000000 64
	read -r _ memory < <(python3 "$tmp/measure.py" "$tmp/json" "$B/cuward" timeline --json "$tmp/many")
	echo "$memory KiB"
	[ "$(jq -c '.processes | length' "$tmp/json")" -eq 64 ]
	[ "$memory" -le 65536 ]
}

@test "--from and --to leave out what they can, and tell the same about the rest" {
	"${CC:-cc}" -O2 -std=gnu11 -D_GNU_SOURCE -I"$TOP/include" -o "$tmp/big" "$TOP/tests/trace/big.c"
	"$tmp/big" "$tmp/trace" 300000
	events "$tmp/trace" | wc -l
	whole=$("$B/cuward" timeline --json "$tmp/trace" | jq -c '.trace.to_ns')
	cut=("$B/cuward" timeline --json --from $((whole / 4))ns --to $((whole / 2))ns)
	"${cut[@]}" "$tmp/trace" | jq 'del(.trace.events, .trace.last_ns)' >"$tmp/skipped"
	# The same with a second source beside it, where nothing is left out.
	grep -v process "$TOP/tests/golden/two.events" | head -1 >"$tmp/none.events"
	"${cut[@]}" "$tmp/none.events" "$tmp/trace" | jq 'del(.trace.events, .trace.last_ns)' >"$tmp/read"
	diff "$tmp/read" "$tmp/skipped"
	[ "$("${cut[@]}" "$tmp/trace" | jq .trace.events)" -lt 280000 ]
}

@test "more streams than files may be open" {
	"${CC:-cc}" -O2 -std=gnu11 -D_GNU_SOURCE -DCPUS_MAX=300 -I"$TOP/include" -o "$tmp/big" "$TOP/tests/trace/big.c"
	"$tmp/big" "$tmp/trace" 50000 4 300
	[ "$(find "$tmp/trace" -name 'calls_*' | wc -l)" -eq 300 ]
	run -0 bash -c 'ulimit -n 64; "$1" timeline --json "$2"' x "$B/cuward" "$tmp/trace"
	[ "$(jq -c '[.trace.events, .trace.damaged]' <<<"$output")" = "[$(babeltrace2 "$tmp/trace" | wc -l),false]" ]
}
