#!/bin/bash
# run.sh [FILE.bats ...] - run the tests and count them: `N passed, N failed, N skipped` at the end.
#
# Without arguments: the house rules, every unit test and every tests/t/*.bats. Everything is one
# line a file; what failed is shown there, and once more, shortly, before the last line. FAILURES names
# a file to append that to. With RETRY=1 a file in which something failed gets one more run at the end,
# which counts; that it failed before is still said. SECONDS_A_FILE (900) is what a .bats file may take. Exit 1 if
# anything failed.
#
# A .bats file with a line "# beside: WHY" only wants the processor: those run one after the other at a low
# priority beside the rest.
set -u
TOP=$(cd "${TOP:-$(dirname "$0")/..}" && pwd) && export TOP
export B=${B:-$TOP/build}
export CC=${CC:-cc}
cd "$TOP" || exit 1
passed=0 failed=0 skipped=0 again=()

# A real driver on this machine must not be met by accident, nor settings of the caller.
unset LD_PRELOAD LD_LIBRARY_PATH "${!CUWARD_@}" CUDA_VISIBLE_DEVICES
export -n RETRY FAILURES SECONDS_A_FILE
log=$(mktemp) failed_log=$(mktemp) beside=$(mktemp)
trap 'rm -f "$log" "$failed_log" "$beside"' EXIT

failures() { # NAME STATUS: each failed test of the log, with the first lines of what it said
	local run=
	[ "${RETRY:-0}" = 1 ] && run=" in its first run"
	if grep -q '^not ok' "$log"; then
		awk -v name="$1$run" '
			/^ok / || /^1\.\./ { left = 0 }
			/^not ok / { left = 13; print "FAILED " name ": " $0; next }
			left-- > 0 { print substr($0, 1, 200) }' "$log"
	else
		echo "FAILED $1$run: status $2"
		tail -n 8 "$log" | cut -c 1-200
	fi
}

report() { # NAME STATUS PASSED FAILED SKIPPED SECONDS
	local bad=$4
	[ "$2" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
	[ "$bad" -gt 0 ] && { cat "$log"; failures "$1" "$2" >>"$failed_log"; }
	if [ "$bad" -gt 0 ] && [ "${RETRY:-0}" = 1 ]; then
		again+=("$7")
		echo "$1: $bad failed; run again at the end"
		return
	fi
	printf '%-42s %3d passed %3d failed %3d skipped %4ds\n' "$1" "$3" "$bad" "$5" "$6"
	passed=$((passed + $3)) failed=$((failed + bad)) skipped=$((skipped + $5))
}

run_unit() {
	local start=$SECONDS status=0
	CMOCKA_MESSAGE_OUTPUT=TAP timeout 300 "$1" >"$log" 2>&1 || status=$?
	report "${1##*/}" $status "$(grep -c '^ok' "$log")" "$(grep -c '^not ok' "$log")" 0 $((SECONDS - start)) \
		"run_unit $1"
}

run_bats() {
	local start=$SECONDS status=0 skip
	timeout "${SECONDS_A_FILE:-900}" bats --tap "$1" >"$log" 2>&1 </dev/null || status=$?
	skip=$(grep -c '^ok .*# skip' "$log")
	report "${1#tests/}" $status $(($(grep -c '^ok' "$log") - skip)) "$(grep -c '^not ok' "$log")" \
		"$skip" $((SECONDS - start)) "run_bats $1"
}

run_rules() {
	local start=$SECONDS status=0
	tests/rules.sh >"$log" 2>&1 || status=$?
	report "rules.sh" $status "$(grep -c '^ok' "$log")" "$(grep -c '^not ok' "$log")" 0 \
		$((SECONDS - start)) run_rules
}

if [ $# -eq 0 ]; then
	run_rules
	for unit in "$B"/unit/test_*; do
		[ -x "$unit" ] && [ ! -d "$unit" ] && case $unit in *.d) ;; *) run_unit "$unit" ;; esac
	done
	set -- tests/t/*.bats
fi
run_beside() { # FILE...: as run_bats for each, in a process of its own; its counters are left in a file
	renice -n 10 "$BASHPID" >/dev/null
	trap 'rm -f "$log" "$failed_log"' EXIT
	log=$(mktemp) failed_log=$(mktemp)
	passed=0 failed=0 skipped=0 again=()
	for file; do
		run_bats "$file"
	done
	{
		printf '%s\n' "$passed $failed $skipped" ${again[@]+"${again[@]}"} ""
		cat "$failed_log"
	} >"$beside"
}

mapfile -t long < <([ $# -lt 2 ] || grep -l '^# beside: ' "$@")
[ ${#long[@]} -eq 0 ] || run_beside "${long[@]}" &
for file; do
	[[ ! -e $file || " ${long[*]} " == *" $file "* ]] || run_bats "$file"
done
wait
exec 3<"$beside"
while read -r -u 3 p f s && [ -n "$p" ]; do
	case $p in run_*) again+=("$p $f") ;; *) passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s)) ;; esac
done
cat <&3 >>"$failed_log"
exec 3<&-
RETRY=0
for run in ${again[@]+"${again[@]}"}; do
	echo "again: ${run#* }"
	$run
done
echo
cat "$failed_log"
[ -z "${FAILURES:-}" ] || cat "$failed_log" >>"$FAILURES"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
