#!/usr/bin/env bats
# Forty processes of three users under common limits, killed, stopped, forked and restarted at random:
# never over a limit by the driver's truth, and nothing is lost. SECONDS_OF_CHAOS says for how long (8);
# `make check-chaos SECONDS=N` is minutes of it.

load guest
load box
load common

setup() { box_setup; common_setup; }
teardown() { box_teardown; common_teardown; }

@test "chaos" {
	export all=$((40 << 20)) each=$((20 << 20)) job=$((8 << 20)) seconds=${SECONDS_OF_CHAOS:-8}
	policy '[default]' "reserve = $(((16 << 30) - all))" "user_max = $each"
	cp "$apps/chaos" "$public/bin"
	common <<-'X'
		umask 0
		export CUWARD_SIM_TRUTH=$public/truth
		head -c 4096 /dev/zero >told
		touch truth
		for uid in 4101 4102 4103; do preloaded $uid init; done
		timeout $((seconds + 100)) chaos $seconds 40 "$public/bin/libcuward.so" "$public" $all $each $job 4101 4102 4103
		# What ps said while all stood still: nobody had more than that by the driver's truth, and at most one
		# request each was under way, if any.
		sort -k 1,1 held >truths
		jq -r '.processes[] | select(.state == "alive") | "\(.pid) \(.devices[0].used_bytes // 0)"' held.json | sort -k 1,1 >said
		join -a 1 truths said | awk '{ if ($3 < $2 || $3 > $2 + 2097152) { wrong++; print "truth", $2, "said", $3, "of", $1 }; same += $3 == $2 }
			END { print NR, "processes, ps says the same of", same; exit wrong || same < NR / 2 || NR < 30 }'
		# Without a hand on any file: all is there for whoever comes, and the sums are 0.
		for uid in 4101 4102 4103; do preloaded $uid init device 0 alloc $each refused 1 freeall; done
		cuward ps --json >after
		told after '[.processes[] | select(.state == "alive")] == []'
		[ "$("$B/sim/truth" truth device.0.requested)" = 0 ]
	X
}
