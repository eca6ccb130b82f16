#!/usr/bin/env bats
# Names of kernels in a trace: from every kind of look-up, on drivers that tell names and on those that do not.

load ../trace/lttng.bash

setup() {
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
	unset LD_PRELOAD "${!CUWARD_SIM_@}" CUWARD_LOG CUWARD_TRACE CUDA_VISIBLE_DEVICES LTTNG_HOME
	trace=$BATS_TEST_TMPDIR/trace
	[ -e "$B/libcuward-lttng.so" ] || skip "built without LTTng"
}

# What the launches among these events are called, in order; after the number of their process with `by=process`.
launched() {
	awk -v by="${by-}" '
		function field(name,  i) { for (i = 1; i < NF; i++) if ($i == name && $(i + 1) == "=") return $(i + 2) }
		/^cuward:function:/ { f = field("process") " " field("function")
			sub(/.* name = "/, ""); sub(/"$/, ""); name[f] = $0 }
		/^cuward:launch(ed)?:/ { thread = field("thread"); process = thread - thread % 4096; f = field("function")
			called = name[process " " f]
			print (by ? process " " : "") (f == 0 ? "(graph)" : called != "" ? called : "unnamed " f) }' "$1"
}

@test "each launch has the name of its kernel, whatever the driver tells" {
	# Handles come back at once, or not; lists of kernels are known from 12.4 on, names from 12.3 on.
	times=60000 # more than there are places for
	for how in :immediate :late 12.2:immediate 11.0:late; do
		profile=${how%:*}
		rm -rf "$trace"
		CUWARD_SIM_HANDLES=${how#*:} "$B/cuward" run -q --sim${profile:+=$profile} --trace="$trace" \
			"$B/apps/named" $times 3>&- >"$BATS_TEST_TMPDIR/said"
		[ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -ge 7 ]
		times=3
		events_of "$trace" >"$BATS_TEST_TMPDIR/events"
		equal "$trace"
		launched "$BATS_TEST_TMPDIR/events" | diff "$BATS_TEST_TMPDIR/said" -
		# Each is told once, not at each look-up.
		[ "$(grep -c '^cuward:function:' "$BATS_TEST_TMPDIR/events")" -le 16 ]
		"$B/cuward" stats --json "$trace" | jq -e --argjson graphs "$(grep -c '^(graph)$' "$BATS_TEST_TMPDIR/said")" \
			'.kernels | map(.name) | index("again") != null and all(. != "") and (index("(graph)") != null) == ($graphs == 1)'
	done
}

@test "every route to the driver, from a program and a plug-in: no kernel without its name" {
	local program=$BATS_TEST_TMPDIR/matrix version include
	include=$("$TOP/tests/cuda_headers.sh")
	version=$(objdump -T /lib/*/libc.so.6 | awk '$NF == "dlsym" { v = $(NF-1); gsub(/[()]/, "", v); print v; exit }')
	for kind in '' '-shared -DPLUGIN'; do
		# shellcheck disable=SC2086
		"$CC" -w -O1 -fPIC -D_GNU_SOURCE= -D__CUDA_API_VERSION_INTERNAL -DGLIBC_DLSYM="\"$version\"" -isystem "$include" \
			$kind -o "$program${kind:+.so}" "$TOP/tests/apps/matrix.c" -L"$B/sim" -lcuda -ldl
	done
	"$CC" -w -D_GNU_SOURCE -DUNLINKED -isystem "$include" -o "$BATS_TEST_TMPDIR/unlinked" "$TOP/tests/apps/classes.c" -ldl
	cat >"$BATS_TEST_TMPDIR/guests" <<-'X'
		set -e
		for ROUTE in linked taken linkedgpa default open deep space global next dlvsym gpa1 gpa2 deepgpa entry; do
			ROUTE=$ROUTE "$1"
		done
		for how in local global deep deeplazy space; do
			ROUTE=linked "$B/apps/host" $how "$1.so"
			ROUTE=taken "$B/apps/host" $how "$1.so"
			ROUTE=linkedgpa "$B/apps/host" $how "$1.so"
		done
		for ROUTE in default open gpa2 deepgpa; do
			ROUTE=$ROUTE "$B/apps/host" local "$1.so"
		done
		"$B/apps/classes"
		"$B/apps/classes" lookup
		"$2" lookup
	X
	"$B/cuward" run -q --sim --trace="$trace" -- bash "$BATS_TEST_TMPDIR/guests" "$program" "$BATS_TEST_TMPDIR/unlinked" 3>&-
	equal "$trace" 800
	events_of "$trace" >"$BATS_TEST_TMPDIR/events"
	# 33 processes of the first kind, three of the second: how many of them launched what how often.
	by=process launched "$BATS_TEST_TMPDIR/events" | sort | uniq -c | awk '{ n[$3 " " $1]++ } END { for (k in n) print n[k], k }' |
		LC_ALL=C sort >"$BATS_TEST_TMPDIR/counts"
	diff - "$BATS_TEST_TMPDIR/counts" <<-'X'
		3 (graph) 5
		3 kernel 23
		33 kernel 26
	X
}
