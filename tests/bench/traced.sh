#!/bin/bash
# traced.sh - what a traced launch costs above a bare tracepoint with the same fields and two looks at the clock,
# both in one process and one session, in turns; and the bytes of its event. Exit 1 if a bar does not hold.
#
# RUNS=N processes (default 5); of a process the least of its rounds counts, of the processes the median.
set -eu
cd "$(dirname "$0")/../.." || exit 1
TOP=$PWD B=${B:-$PWD/build}
bats_require_minimum_version() { :; }
. tests/trace/lttng.bash
. tests/bench/row.sh
command -v lttng-sessiond >/dev/null || { echo "traced.sh: no LTTng here"; exit 0; }
unset LD_PRELOAD "${!CUWARD_@}" LTTNG_HOME
daemon=
trap daemon_end EXIT
rounds=60 runs=${RUNS:-5}

daemon_start
guest=$LTTNG_HOME/guest
as_daemon mkdir -p "$guest/state"
install -m 755 "$B/bench/traced" "$B/libcuward.so" "$B/libcuward-lttng.so" "$B/sim/libcuda.so.1" "$guest"
as_daemon lttng -q create bench --output="$LTTNG_HOME/trace"
for provider in cuward bare; do
	as_daemon lttng -q enable-channel -u -s bench --buffers-uid --num-subbuf 32 --subbuf-size 1M $provider
	as_daemon lttng -q enable-event -u -s bench -c $provider "$provider:*"
done
as_daemon lttng -q start bench
for _ in $(seq "$runs"); do
	as_daemon env LD_LIBRARY_PATH="$guest" timeout 60 "$guest/traced" $rounds | sed 's/^/without /'
	as_daemon env LD_LIBRARY_PATH="$guest" LD_PRELOAD="$guest/libcuward.so" CUWARD_TRACE=1 \
		CUWARD_DIR="$guest/state" timeout 60 "$guest/traced" $rounds | sed 's/^/traced /'
done >"$LTTNG_HOME/values"
as_daemon lttng -q stop bench
as_daemon lttng -q destroy bench

# median WHICH WHAT
median() { awk -v a="$1" -v b="$2" '$1 == a && $2 == b { print $3 }' "$LTTNG_HOME/values" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
launched=$("$B/cuward" events "$LTTNG_HOME/trace" | grep -c ' cuward:launched: ')
packets=$(find "$LTTNG_HOME/trace" -name 'cuward_*' -path '*/ust/*' -type f -not -path '*/index/*' -printf '%s\n' | awk '{ n += $1 } END { print n }')
failed=0
row() { # NAME UNIT VALUE BAR WHAT
	local verdict=holds
	bench_row "$1" "$2" "$3" "$4" || verdict=FAILS failed=1
	printf '%-26s %8s %-6s at most %s: %s\n' "$5" "$3" "$2" "$4" $verdict
}
without=$(median without launch) traced=$(median traced launch) bare=$(median traced tracepoint)
figure() { awk "BEGIN { printf \"%.1f\", $1 }"; }
printf 'a launch %.1f ns, traced %.1f ns; two looks at the clock and a bare tracepoint %.1f ns\n' "$without" "$traced" "$bare"
row traced_launch_above ns "$(figure "$traced - $without - $bare")" 30 "traced launch above it"
row traced_event bytes "$(figure "$packets / $launched")" 48 "an event"
wanted=$((runs * rounds * 2000))
[ "$launched" -eq $wanted ] || { echo "$launched of $wanted launches are in the trace"; failed=1; }
exit $failed
