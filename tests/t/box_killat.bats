#!/usr/bin/env bats
# A process killed at twenty points of its calls under the limit of a user, of a group of users and of the whole GPU,
# while processes of other users allocate and free all the time: who goes on is not held up, and gets all of it.
# beside: it only takes what processor is left.

load guest
load box
load common

setup() { box_setup; common_setup; }
teardown() { box_teardown; common_teardown; }

# killed_at UID: the guest is that user's (0: as the peer), the others are of 4102 and 4103.
killed_at() {
	uid=$1 common <<-'X'
		umask 0
		export CUWARD_SIM_TRUTH=$public/truth
		touch truth
		groups_0=4200 groups_4101=4200 groups_4102=4200 groups_4103=4200
		preloaded 4101 init
		# They may hold 2M together.
		for who in 4102 4103; do
			[ $uid = 0 ] && who=0
			(exec=exec as $who env LD_PRELOAD=$public/bin/libcuward.so group 2 1 100000000 $((512 << 10)) 1 500) >/dev/null &
		done
		as 0 env LD_PRELOAD=$public/bin/libcuward.so timeout 200 killat 20 $((8 << 20)) $((2 << 20)) \
			$([ $uid = 0 ] || echo $uid 4200 $public/state-$uid)
		[ "$($B/sim/truth truth device.0.requested_high)" -le $((8 << 20)) ]
		[ "$($B/sim/truth truth device.0.requested_high)" -ge $((6 << 20)) ]
		for parent in $(jobs -p); do
			kill -STOP $parent
			kill -9 $(pgrep -P $parent) $parent
		done
	X
}

@test "under the limit of a user" {
	policy '[user root]' 'user_max = 8M'
	killed_at 0
}

@test "under the limit of the whole GPU, of another user" {
	policy '[default]' "reserve = $(((16 << 30) - (8 << 20)))"
	killed_at 4101
}

@test "under the limit of a group, of another user" {
	policy '[group 4200]' 'group_max = 8M'
	killed_at 4101
}
