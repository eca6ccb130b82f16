#!/bin/bash
# run.sh - the cost of cuward: the same calls bare and under the shim, interleaved, one table.
#
#	bars:  what must hold (launch +8 ns and 40 instructions; pair +45, 180, 500 ns; 0 system calls;
#	       call sites: address +5, 10 native frames +60, 10 lines of Python +1500 ns;
#	       2 threads 3 M pairs/s; /bin/true +0.2 ms; run --trace true 1.5 s)
#
# Figures are printed, and left as JSON in build/bench/results.json. Exit 1 if a bar does not hold.
set -eu
cd "$(dirname "$0")/../.." || exit 1
B=${B:-$PWD/build}
bench=$B/bench/bench steps=$B/bench/steps
shim=$B/libcuward.so
export CUWARD_SIM_REUSE=${CUWARD_SIM_REUSE:-immediate} CUWARD_SIM_MEMORY=64G
export CUWARD_DIR
CUWARD_DIR=$(mktemp -d /dev/shm/cuward-bench-XXXXXX)
trap 'rm -rf "$CUWARD_DIR"' EXIT
unset LD_PRELOAD LD_LIBRARY_PATH CUWARD_MEMORY CUWARD_JOB
live=${LIVE:-1000000}
failed=0
results=$B/bench/results.json
printf '{' >"$results"

bare() { LD_LIBRARY_PATH=$B/sim "$@"; }
shimmed() { LD_LIBRARY_PATH=$B/sim LD_PRELOAD=$shim CUWARD_MEMORY=60G "$@"; }

# row NAME BARE SHIM UNIT BAR VALUE: bars are upper limits of VALUE, or lower ones with a leading >.
row() {
	local verdict=
	if [ -n "$5" ]; then
		verdict=$(awk -v v="$6" -v bar="$5" 'BEGIN { lower = sub(/^>/, "", bar)
			print (lower ? v >= bar + 0 : v <= bar + 0) ? "holds" : "FAILS" }')
		[ "$verdict" = FAILS ] && failed=1
	fi
	printf '%-22s %10s %10s %10s %-12s %8s %s\n' "$1" "$2" "$3" "$6" "$4" "$5" "$verdict"
	printf '%s"%s": {"bare": %s, "shim": %s, "value": %s, "unit": "%s"}' \
		"$([ -s "$results" ] && [ "$(cat "$results")" != '{' ] && echo ', ')" \
		"$1" "${2:-null}" "${3:-null}" "$6" "$4" >>"$results"
}

# Least of several interleaved runs of every figure.
collect() { # FILE COMMAND...
	"${@:2}" >>"$1"
}
least() { awk -v n="$2" '$1 == n && (m == "" || $2 < m) { m = $2 } END { print m }' "$1"; }

printf '%-22s %10s %10s %10s %-12s %8s\n' "" bare shim added unit bar
a=$(mktemp) b=$(mktemp) fresh_a=$(mktemp) fresh_b=$(mktemp)
for _ in 1 2 3; do
	collect "$a" bare "$bench" time "$live"
	collect "$b" shimmed "$bench" time "$live"
done
export CUWARD_SIM_REUSE=never
for _ in 1 2; do
	collect "$fresh_a" bare "$bench" time "$live"
	collect "$fresh_b" shimmed "$bench" time "$live"
done
export CUWARD_SIM_REUSE=immediate
compare() { # NAME BAR [FILE FILE LABEL]
	local x y
	x=$(least "${3:-$a}" "$1") y=$(least "${4:-$b}" "$1")
	row "${5:-$1}" "$x" "$y" "ns/call" "$2" "$(awk -v x="$x" -v y="$y" 'BEGIN { printf "%.2f", y - x }')"
}
compare launch 8
compare pair_0 45
compare "pair_lifo_$live" 180
compare "pair_random_$live" 500
compare "pair_random_$live" 500 "$fresh_a" "$fresh_b" "pair_random_fresh"
compare pair_async 90
compare mem_get_info ""

for what in launch pair; do
	read -r x _ < <(bare "$steps" 100 "$bench" steps $what)
	read -r y calls < <(shimmed "$steps" 100 "$bench" steps $what)
	bar=
	[ $what = launch ] && readelf -p .comment "$shim" | grep -q GCC: && bar=40
	row "${what}_instructions" "$x" "$y" instructions "$bar" "$(awk -v x="$x" -v y="$y" 'BEGIN { print y - x }')"
	row "${what}_syscalls" "" "$calls" "a call" 0 "$calls"
done

# What a call site costs, against none: the least of interleaved runs each.
stacked() { LD_LIBRARY_PATH=$B/sim LD_PRELOAD=$shim CUWARD_MEMORY=60G CUWARD_STACK=$1 "${@:2}"; }
c=$(mktemp -d)
for _ in 1 2 3 4 5; do
	for stack in none addr native; do collect "$c/$stack" stacked $stack "$bench" stack 8; done
	for stack in none python; do collect "$c/py-$stack" stacked $stack python3 tests/bench/stack.py; done
done
compare pair_deep 5 "$c/none" "$c/addr" stack_addr
compare pair_deep 60 "$c/none" "$c/native" stack_native
compare pair_python 1500 "$c/py-none" "$c/py-python" stack_python
rm -rf "$c"

for threads in 1 2 4; do
	y=$(shimmed "$bench" threads $threads | awk '{ print $2 }')
	x=$(bare "$bench" threads $threads | awk '{ print $2 }')
	bar=
	[ $threads = 2 ] && bar='>3'
	row "threads_$threads" "$x" "$y" "M pairs/s" "$bar" "$y"
done

# A process that never calls CUDA: 300 of them, in milliseconds each.
starts() { local t=$EPOCHREALTIME; for _ in {1..300}; do /bin/true; done
	awk -v a="$t" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", (b - a) * 1000 / 300 }'; }
x=9999 y=9999
for _ in 1 2 3; do
	x=$(printf '%s\n%s\n' "$x" "$(starts)" | sort -n | head -1)
	y=$(printf '%s\n%s\n' "$y" "$(LD_PRELOAD=$shim; export LD_PRELOAD; starts)" | sort -n | head -1)
done
row true "$x" "$y" "ms" 0.2 "$(awk -v x="$x" -v y="$y" 'BEGIN { printf "%.3f", y - x }')"

if [ -e "$B/libcuward-lttng.so" ]; then
	trace=$(mktemp -d)
	t=$EPOCHREALTIME
	"$B/cuward" run -q --trace="$trace/t" true
	y=$(awk -v a="$t" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f\n", b - a }')
	row run_trace_true "" "$y" s 1.5 "$y"
	rm -rf "$trace"
fi
printf '}\n' >>"$results"
rm -f "$a" "$b" "$fresh_a" "$fresh_b"
exit $failed
