#!/bin/bash
# box.sh - what limits of several processes cost, and looking at a full box.
#
# Bars: a million contended grants by 4 processes of 4 threads at 100,000 a second, never over the limit by
# the driver's truth; where all fits nobody is refused in 5 million; the limit of a job, of a user, of a group of
# users or of a whole GPU adds at most 80 ns to a pair with 64 live processes (the latter two as root, where
# namespaces can be made); `cuward ps` over 300 processes takes at most 50 ms. Exit 1 if one fails.
set -eu
cd "$(dirname "$0")/../.." || exit 1
export B=${B:-$PWD/build} TOP=$PWD
unset "${!CUWARD_@}" LD_PRELOAD CUDA_VISIBLE_DEVICES
work=$(mktemp -d /dev/shm/cuward-box-XXXXXX)
started=()
finish() {
	[ ${#started[@]} -eq 0 ] || kill -9 "${started[@]}" 2>/dev/null || true
	wait 2>/dev/null
	rm -rf "$work"
}
trap finish EXIT
export CUWARD_DIR=$work/state CUWARD_SIM_TRUTH=$work/truth CUWARD_JOB=bench CUWARD_SIM_MEMORY=64G
export LD_LIBRARY_PATH=$B/sim
shim=$B/libcuward.so
. tests/bench/row.sh
failed=0

# row NAME UNIT VALUE BAR
row() {
	local verdict=holds

	bench_row "$@" || verdict=FAILS failed=1
	printf '%-34s %14s %-12s %-10s %s\n' "$1" "$3" "$2" "$4" $verdict
}

# grown LIMIT GRANTS: granted, refused and milliseconds into these.
grown() {
	rm -rf "$CUWARD_SIM_TRUTH" "$CUWARD_DIR"
	read -r _ granted _ refused _ ms <<<"$(CUWARD_JOB_MEMORY=$1 LD_PRELOAD=$shim timeout 300 "$B/apps/group" 4 4 "$2" 1048576)"
}

grown 3M 1000000
row contended_grants "a second" $((granted * 1000 / ms)) '>100000'
row contended_over bytes $(($("$B/sim/truth" "$CUWARD_SIM_TRUTH" device.0.requested_high) - (3 << 20))) 0
row contended_refused "" "$refused" '>1'
grown 1G 5000000
row roomy_refused "of 5000000" "$refused" 0
unset CUWARD_SIM_TRUTH # it has 256 places

# holders COUNT: so many processes of the job with some memory, asleep.
holders() {
	local i
	for i in $(seq "$1"); do
		LD_PRELOAD=$shim "$B/apps/play" init device 0 alloc 64K say held sleep 600000 >"$work/said-$i" &
		started+=($!)
		[ $((i % 10)) -ne 0 ] || until grep -qs held "$work/said-$i"; do sleep 0.01; done
	done
	for i in $(seq "$1"); do
		until grep -qs held "$work/said-$i"; do sleep 0.01; done
	done
}

least() { awk -v a="$1" -v b="$2" 'BEGIN { print a < b ? a : b }'; }
pair() { LD_PRELOAD=$shim timeout 300 "$B/bench/bench" time 0 | awk '$1 == "pair_0" { print $2 }'; }

rm -rf "$CUWARD_DIR"
holders 63
alone=1e9 together=1e9
for _ in 1 2 3; do
	alone=$(least $alone "$(CUWARD_MEMORY=60G pair)")
	together=$(least $together "$(CUWARD_MEMORY=60G CUWARD_JOB_MEMORY=60G pair)")
done
added() { awk -v a="$alone" -v b="$together" 'BEGIN { printf "%.1f", b - a }'; }
row job_pair_of_64_added ns "$(added)" 80

# Who starts now has the limit that was set for all of this user.
"$B/cuward" limit set "$(id -un)" 60G
together=1e9
for _ in 1 2 3; do together=$(least $together "$(CUWARD_MEMORY=60G pair)"); done
row user_pair_of_64_added ns "$(added)" 80
"$B/cuward" limit clear "$(id -un)"

# of_all NAME POLICY...: the same under a limit of all users, where 63 processes of four users are.
of_all() {
	policy "${@:2}"
	common 2>"$work/errors" <<-'X'
		export CUWARD_SIM_MEMORY=64G groups_0=4200 groups_4101=4200 groups_4102=4200 groups_4103=4200
		for i in $(seq 63); do
			(exec=exec preloaded $((i % 4 ? 4100 + i % 4 : 0)) init device 0 alloc 64K say held sleep 600000) >"said-$i" &
			[ $((i % 10)) -ne 0 ] || until grep -qs held "said-$i"; do sleep 0.01; done
		done
		for i in $(seq 63); do
			until grep -qs held "said-$i"; do sleep 0.01; done
		done
		for _ in 1 2 3; do
			as 0 env LD_PRELOAD="$public/bin/libcuward.so" "$B/bench/bench" time 0 | awk '$1 == "pair_0" { print $2 }'
		done | sort -g | head -1 >together
	X
	together=$(cat "$public/together")
	[ -n "$together" ] || { echo "$1: nothing was measured"; cat "$work/errors"; exit 1; }
	row "$1" ns "$(added)" 80
}
skip() { echo "limits of all users: $1"; return 1; }
play=$B/apps/play cuward=$B/cuward apps=$B/apps
. tests/t/common.bash
if common_setup; then
	of_all gpu_pair_of_64_added '[default]' 'reserve = 4G'
	of_all group_pair_of_64_added '[group 4200]' 'group_max = 60G'
	common_teardown
fi

holders 237
ms=1e9
for _ in 1 2 3 4 5 6 7 8 9 10; do
	began=$EPOCHREALTIME
	"$B/cuward" ps >"$work/ps"
	ms=$(least $ms "$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", (b - a) * 1000 }')")
done
[ "$(grep -c play "$work/ps")" -ge 300 ]
row ps_of_300 ms "$ms" 50
exit $failed
