#!/bin/bash
# record.sh [HISTORY] - put what `make bench` left in build/bench.json at the end of docs/bench.jsonl, a line a run:
# when, of which commit, by which compiler, on what, how busy that was; then the rows by name.
set -eu
cd "$(dirname "$0")/../.." || exit 1
B=${B:-$PWD/build}
history=${1:-docs/bench.jsonl}
commit=$(git rev-parse --short=10 HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain --untracked-files=no 2>/dev/null | grep -vF " $history")" ] || commit=$commit-changed
compiler=$(readelf -p .comment "$B/libcuward.so" | sed -n 's/^ *\[ *[0-9a-f]*\] *//p' | head -n 1)
cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
line=$(jq -c --arg date "$(date -u -r "$B/bench.json" +%Y-%m-%dT%H:%MZ)" --arg commit "$commit" \
	--arg compiler "$compiler" --arg cpu "${cpu:-$(uname -m)}" --argjson cores "$(nproc)" --arg kernel "$(uname -r)" '
	{ schema: 1, date: $date, version, commit: $commit, compiler: $compiler, cpu: $cpu, cores: $cores,
		kernel: $kernel, load: .load, runs, rows: [.rows[] | { key: .name, value: (
		{ unit, bare, shim, traced, added, ratio, instructions, instructions_traced, holds: .bar.holds } |
		with_entries(select(.value != null))) }] | from_entries }' "$B/bench.json")
printf '%s\n' "$line" >>"$history"
jq -r --arg where "$history, line $(wc -l <"$history")" '"\($where): \(.date) \(.commit), \(.rows | length) rows, " +
	"\([.rows[] | select(.holds == false)] | length) bars fail"' <<<"$line"
