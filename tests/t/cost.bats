#!/usr/bin/env bats
# What a call costs, as far as it can be counted; `make bench` measures the time.

load guest

setup() {
	guest_setup
	[ "$(uname -m)" = x86_64 ] || skip "steps are counted on x86-64"
	export CUWARD_MEMORY=60G CUWARD_SIM_MEMORY=64G
	unset CUWARD_SIM_TRUTH
}

@test "no system call on the way of a call" {
	for what in launch launch_ex launch_cooperative mem_get_info pair_0 pair_async; do
		calls=$(LD_PRELOAD=$shim "$B/bench/steps" -s 100 "$B/bench/bench" steps $what)
		echo "$what: $calls"
		[ "$calls" = 0.00 ]
	done
}

@test "a launch costs at most 40 instructions" {
	readelf -p .comment "$shim" | grep -q GCC: || skip "the bar is for gcc"
	grep -q -- ' -O2 ' "$B/flags" || skip "the bar is for -O2"
	for what in launch launch_ex launch_cooperative; do
		read -r bare _ < <("$B/bench/steps" 100 "$B/bench/bench" steps $what)
		read -r shimmed _ < <(LD_PRELOAD=$shim "$B/bench/steps" 100 "$B/bench/bench" steps $what)
		echo "$what: $bare and $shimmed instructions"
		[ "${shimmed%.*}" -gt "${bare%.*}" ]
		[ $((${shimmed%.*} - ${bare%.*})) -le 40 ]
	done
}

@test "an allocation and its free cost at most 640 instructions" {
	readelf -p .comment "$shim" | grep -q GCC: || skip "the bar is for gcc"
	grep -q -- ' -O2 ' "$B/flags" || skip "the bar is for -O2"
	read -r bare _ < <("$B/bench/steps" 100 "$B/bench/bench" steps pair_0)
	read -r shimmed _ < <(LD_PRELOAD=$shim "$B/bench/steps" 100 "$B/bench/bench" steps pair_0)
	echo "$bare and $shimmed instructions"
	[ "${shimmed%.*}" -gt "${bare%.*}" ]
	[ $((${shimmed%.*} - ${bare%.*})) -le 640 ]
}

# ledger LIVE: bytes that its blocks take with so many live allocations.
ledger() {
	mkfifo in
	LD_PRELOAD=$shim timeout 60 "$B/bench/bench" hold "$1" <in >said 3>&- &
	exec 9>in
	for _ in {1..300}; do
		grep -q held said && break
		sleep 0.1
	done
	find state -name '*.ledger' -exec du -B 1 {} + | awk '{ n += $1 } END { print n }'
	exec 9>&-
	wait $!
	rm in said
}

@test "a record of the ledger is a cache line" {
	empty=$(ledger 0)
	full=$(ledger 100000)
	[ $(((full - empty) / 100000)) -ge 64 ]
	[ $(((full - empty) / 100000)) -le 80 ]
}
