#!/usr/bin/env bats
# Names of kernels in a trace: from every kind of look-up, on drivers that tell names and on those that do not.

load ../trace/lttng.bash

setup() {
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
	unset LD_PRELOAD "${!CUWARD_SIM_@}" CUWARD_LOG CUWARD_TRACE CUDA_VISIBLE_DEVICES LTTNG_HOME
	trace=$BATS_TEST_TMPDIR/trace
	[ -e "$B/libcuward-lttng.so" ] || skip "built without LTTng"
}

# What the launches among these events are called, in order.
launched() {
	awk '
		/^cuward:function:/ { for (i = 1; i < NF; i++) if ($i == "function") f = $(i + 2)
			sub(/.* name = "/, ""); sub(/"$/, ""); name[f] = $0 }
		/^cuward:launch(ed)?:/ { for (i = 1; i < NF; i++) if ($i == "function") f = $(i + 2)
			print f in name ? name[f] : f == 0 ? "(graph)" : "unnamed " f }' "$1"
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
		launched "$BATS_TEST_TMPDIR/events" | diff "$BATS_TEST_TMPDIR/said" -
		# Each is told once, not at each look-up.
		[ "$(grep -c '^cuward:function:' "$BATS_TEST_TMPDIR/events")" -le 16 ]
		"$B/cuward" stats --json "$trace" | jq -e --argjson graphs "$(grep -c '^(graph)$' "$BATS_TEST_TMPDIR/said")" \
			'.kernels | map(.name) | index("again") != null and all(. != "") and (index("(graph)") != null) == ($graphs == 1)'
	done
}
