#!/bin/bash
# run.sh [FILE.bats ...] - run the tests and count them: `N passed, N failed, N skipped` at the end.
#
# Without arguments: the house rules, every unit test and every tests/t/*.bats. Output of what
# failed is shown, everything else is one line a file. Exit 1 if anything failed.
set -u
export TOP=${TOP:-$(cd "$(dirname "$0")/.." && pwd)}
export B=${B:-$TOP/build}
export CC=${CC:-cc}
cd "$TOP" || exit 1
passed=0 failed=0 skipped=0

# A real driver on this machine must not be met by accident, nor settings of the caller.
unset LD_PRELOAD LD_LIBRARY_PATH "${!CUWARD_@}" CUDA_VISIBLE_DEVICES
log=$(mktemp)
trap 'rm -f "$log"' EXIT

report() { # NAME STATUS PASSED FAILED SKIPPED SECONDS
	local bad=$4
	[ "$2" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
	[ "$bad" -gt 0 ] && cat "$log"
	printf '%-42s %3d passed %3d failed %3d skipped %4ds\n' "$1" "$3" "$bad" "$5" "$6"
	passed=$((passed + $3)) failed=$((failed + bad)) skipped=$((skipped + $5))
}

run_unit() {
	local start=$SECONDS status=0
	CMOCKA_MESSAGE_OUTPUT=TAP timeout 300 "$1" >"$log" 2>&1 || status=$?
	report "${1##*/}" $status "$(grep -c '^ok' "$log")" "$(grep -c '^not ok' "$log")" 0 $((SECONDS - start))
}

run_bats() {
	local start=$SECONDS status=0 skip
	timeout 900 bats --tap "$1" >"$log" 2>&1 </dev/null || status=$?
	skip=$(grep -c '^ok .*# skip' "$log")
	report "${1#tests/}" $status $(($(grep -c '^ok' "$log") - skip)) "$(grep -c '^not ok' "$log")" \
		"$skip" $((SECONDS - start))
}

if [ $# -eq 0 ]; then
	start=$SECONDS status=0
	tests/rules.sh >"$log" 2>&1 || status=$?
	report "rules.sh" $status "$(grep -c '^ok' "$log")" "$(grep -c '^not ok' "$log")" 0 $((SECONDS - start))
	for unit in "$B"/unit/test_*; do
		[ -x "$unit" ] && [ ! -d "$unit" ] && case $unit in *.d) ;; *) run_unit "$unit" ;; esac
	done
	set -- tests/t/*.bats
fi
for file; do
	[ -e "$file" ] && run_bats "$file"
done
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
