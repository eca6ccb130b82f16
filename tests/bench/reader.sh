#!/bin/bash
# reader.sh [MILLIONS] - how fast `cuward timeline` reads a trace, beside babeltrace2's dummy sink.
#
# The least of three runs counts, in turns. Bars: 20 million events a second with the model, 8 times
# babeltrace2, 64 MiB of memory; the page of a fifth of the events at most 5 MB, and painted within 2 s.
# babeltrace2 reads a tenth of it.
set -eu
cd "$(dirname "$0")/../.." || exit 1
B=${B:-$PWD/build}
. tests/bench/row.sh
millions=${1:-50}
work=$(mktemp -d "${TMPDIR:-/tmp}/cuward-reader-XXXXXX")
trap 'rm -rf "$work"' EXIT

"${CC:-cc}" -O2 -std=gnu11 -D_GNU_SOURCE -Iinclude -o "$work/big" tests/trace/big.c
"$work/big" "$work/all" $((millions * 1000000))
"$work/big" "$work/tenth" $((millions * 100000))
"$work/big" "$work/fifth" $((millions * 200000)) 64

ours=999 theirs=999 memory=0
least() { awk -v a="$1" -v b="$2" 'BEGIN { print a < b ? a : b }'; }
timed() { # FILE COMMAND...
	local began=$EPOCHREALTIME
	"${@:2}" >"$1"
	awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'
}
for _ in 1 2 3; do
	ours=$(least "$ours" "$(timed "$work/json" "$B/cuward" timeline --json "$work/all")")
	theirs=$(least "$theirs" "$(timed "$work/dummy" babeltrace2 "$work/tenth" -o dummy)")
done
# The last round is written whole.
jq -e --argjson asked $((millions * 1000000)) '.trace.events - $asked | . >= 0 and . < 100' "$work/json" >/dev/null
for trace in all fifth; do
	memory=$(python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:4], stdout=subprocess.DEVNULL)
print(max(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, int(sys.argv[4])))' \
		"$B/cuward" timeline "$work/$trace" "$memory")
done
status=0
row() { bench_row "$@" || { echo "$1: $3 $2, the bar $4 FAILS"; status=1; }; }
read -r rate others ratio < <(awk -v n="$millions" -v a="$ours" -v b="$theirs" 'BEGIN {
	printf "%.1f %.2f %.1f\n", n / a, n / 10 / b, (n / a) / (n / 10 / b) }')
echo "reader: $rate million events/s, babeltrace2 $others, ratio $ratio, $memory MiB"
row reader_rate "M events/s" "$rate" '>20'
row reader_ratio "x babeltrace2" "$ratio" '>8'
row reader_memory MiB "$memory" 64

# Painted is what the browser says of the first paint with something in it, after the file was opened.
command -v chromium >/dev/null || exit $status
"$B/cuward" timeline --html "$work/page.html" "$work/fifth"
page=$(stat -c %s "$work/page.html")
painted=$(timeout 120 python3 tests/browser.py "$work/page.html" \
	'eval:Math.round(Math.max(...performance.getEntriesByType("paint").map(e => e.startTime), performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd))')
awk -v n="$millions" -v size="$page" -v ms="$painted" 'BEGIN {
	printf "page of %.0f million events: %.2f MB, painted after %.0f ms\n", n / 5, size / 1e6, ms
	exit ms <= 0 }' || status=1
row page_size bytes "$page" 5000000
row page_painted ms "$painted" 2000
exit $status
