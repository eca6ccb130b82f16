#!/usr/bin/env bats
# Limits of all users together while processes of several users take memory as fast as they can, under
# leases: never passed by the driver's truth, and nobody is refused what fits.

load guest
load box
load common

setup() { box_setup; common_setup; }
teardown() { box_teardown; common_teardown; }

gpu_of() { policy '[default]' "reserve = $(((16 << 30) - $1))"; }

# together LIMIT COMMAND...: as 4101 and 4102 at the same time, each its lines of "granted N refused M"; in between
# the GPU has at most LIMIT requested, and at least `least`.
together() {
	limit=$1 least=$2 first=$3 second=$4 common <<-'X'
		umask 0
		export CUWARD_SIM_TRUTH=$public/truth
		touch truth
		groups_4101=4200 groups_4102=4200
		preloaded 4101 init
		preloaded 4102 init
		racer() {
			(exec="exec ${in_time-}" as $1 env LD_PRELOAD=$public/bin/libcuward.so timeout 100 group ${@:2}) >said-$1 &
		}
		in_time=${far_future:+unshare --time --monotonic 100000 --fork --kill-child --}
		racer 4101 $first
		in_time=
		racer 4102 $second
		wait %1
		wait %2
		cat said-*
		high=$($B/sim/truth truth device.0.requested_high)
		echo "limit $limit high $high"
		[ $high -le $limit ]
		[ $high -ge $least ]
	X
}

refused_of() { sed -n "s/.* refused \([0-9]*\) .*/\1/p" "$public/said-$1"; }

@test "the whole GPU: contended by two users, never over" {
	gpu_of $((4 << 20))
	together $((4 << 20)) $((4 << 20)) "2 2 200000 $((512 << 10))" "2 2 200000 $((512 << 10))"
	[ "$(refused_of 4101)" -gt 0 ]
	[ "$(refused_of 4102)" -gt 0 ]
}

@test "a group of users: contended, never over" {
	policy '[group 4200]' 'group_max = 4M'
	together $((4 << 20)) $((4 << 20)) "2 2 200000 $((512 << 10))" "2 2 200000 $((512 << 10))"
	[ "$(refused_of 4101)" -gt 0 ]
	[ "$(refused_of 4102)" -gt 0 ]
}

# What one leases beyond what it holds is in the other's way for a millisecond; then it fits.
@test "where all of it fits exactly nobody is refused" {
	gpu_of $((8 << 20))
	together $((8 << 20)) $((6 << 20)) "1 1 3000 $((2 << 20)) 1 200" "1 1 1000 $((6 << 20)) 1 700"
	[ "$(refused_of 4101)" -eq 0 ]
	[ "$(refused_of 4102)" -eq 0 ]
}

@test "where there is room nobody is refused, whatever is leased" {
	gpu_of $((64 << 20))
	together $((64 << 20)) $((2 << 20)) "2 2 100000 $((512 << 10))" "2 2 100000 $((512 << 10))"
	[ "$(refused_of 4101)" -eq 0 ]
	[ "$(refused_of 4102)" -eq 0 ]
}

@test "in a time namespace, whose clock is a day ahead" {
	unshare --time --monotonic 100000 true 2>/dev/null || skip "no time namespaces here"
	gpu_of $((4 << 20))
	far_future=1 together $((4 << 20)) $((4 << 20)) "2 2 200000 $((512 << 10))" "2 2 200000 $((512 << 10))"
}

# tardy LIMIT PAIRS: 4101 to 4103 at the same time under both limits, both of them LIMIT, and each loses the processor
# where it hurts most.
tardy() {
	policy '[default]' "reserve = $(((16 << 30) - $1))" '[group 4200]' "group_max = $1"
	limit=$1 pairs=$2 common <<-'X'
		umask 0
		export CUWARD_SIM_TRUTH=$public/truth
		touch truth
		groups_4101=4200 groups_4102=4200 groups_4103=4200
		preloaded 4101 init
		pids=
		for uid in 4101 4102 4103; do
			(exec=exec as $uid env LD_PRELOAD=$public/bin/libcuward.so timeout 100 tardy 2 2 $pairs $((512 << 10))) >said-$uid &
			pids="$pids $!"
		done
		for pid in $pids; do wait $pid; done
		cat said-*
		high=$($B/sim/truth truth device.0.requested_high)
		echo "limit $limit high $high"
		[ $high -le $limit ]
		[ $high -ge $((4 << 20)) ]
	X
}

@test "stopped at any moment, under both limits: never over" {
	tardy $((10 << 20)) 40000
	cat "$public"/said-* | grep -qv 'refused 0 '
}

@test "stopped at any moment, where there is room: nobody is refused" {
	tardy $((64 << 20)) 50000
	[ "$(refused_of 4101) $(refused_of 4102) $(refused_of 4103)" = "0 0 0" ]
}
