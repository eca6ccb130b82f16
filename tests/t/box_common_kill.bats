#!/usr/bin/env bats
# Three users under one limit of the GPU, stopped and killed in the middle: never over it, and the room is there
# again at once.
# beside: it only takes what processor is left.

load guest
load box
load common

setup() { box_setup; common_setup; }
teardown() { box_teardown; common_teardown; }

@test "killed in the middle: nothing is lost, nothing is passed" {
	policy '[default]' "reserve = $(((16 << 30) - (12 << 20)))" '[user 4101]' 'reserve = 2M'
	common <<-'X'
		export CUWARD_SIM_TRUTH=$public/truth
		umask 0
		touch truth
		preloaded 4101 init
		for round in $(seq 8); do
			pids=
			for uid in 4101 4102 4103; do
				(exec=exec as $uid env LD_PRELOAD=$public/bin/libcuward.so group 2 2 100000000 1048576) >out-$uid 2>&1 &
				pids="$pids $!"
			done
			sleep 0.$((RANDOM % 5 + 3))
			# They make no more children.
			kill -STOP $pids
			children=$(for pid in $pids; do pgrep -P $pid; done)
			for child in $children; do [ $((RANDOM % 4)) -ne 0 ] || kill -STOP $child; done
			kill -9 $children $pids
			wait $pids || true
			for child in $children; do
				while grep -qs '^State:.[^ZX]' /proc/$child/status; do sleep 0.01; done
			done
			preloaded 4101 init device 0 alloc 12M refused 1M freeall
			preloaded 4102 init device 0 alloc 10M refused 1M freeall
		done
		# The driver notices a death later than we do: for that long it counts both, the dead and the living.
		[ "$($B/sim/truth truth device.0.requested_high)" -le $((24 << 20)) ]
	X
}
