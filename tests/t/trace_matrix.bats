#!/usr/bin/env bats
# A traced guest under six daemons, with eight ways of living, in five surroundings: 240 cells. Whatever the
# trace meets, the guest's status and output are those of the bare run, and what was not recorded is said.
# tests/trace/cells.sh has what a cell is and when it is fine.

bats_require_minimum_version 1.5.0

setup_file() {
	work=$(mktemp -d /tmp/cwm-XXXXXX)
	export work
	unset LD_PRELOAD LD_LIBRARY_PATH "${!CUWARD_@}" "${!LTTNG_@}" CUDA_VISIBLE_DEVICES
	"$TOP/tests/trace/cells.sh" prepare "$work" 3>&-
}

teardown_file() { "$TOP/tests/trace/cells.sh" clean "$work"; }

# cells COUNT DAEMON AROUND...: all of them are fine.
cells() {
	"$TOP/tests/trace/cells.sh" row "$work" "${@:2}" 3>&- >"$BATS_TEST_TMPDIR/rows" || true
	grep -v '^ok ' "$BATS_TEST_TMPDIR/rows" || true
	[ "$(grep -c '^ok ' "$BATS_TEST_TMPDIR/rows")" -eq "$1" ]
	[ "$(wc -l <"$BATS_TEST_TMPDIR/rows")" -eq "$1" ]
	# Nobody is left behind, by whatever way it was started.
	for _ in $(seq 100); do
		grep -qlsz "CUWARD_DIR=$work/cells/" /proc/[0-9]*/environ || return 0
		sleep 0.1
	done
	grep -lsz "CUWARD_DIR=$work/cells/" /proc/[0-9]*/environ
	false
}

@test "no daemon" { cells 32 none nothing home missing incompatible; }

@test "a session of ours" { cells 32 ours nothing home missing incompatible; }

@test "somebody else's daemon, stopped" { cells 32 stopped nothing home missing incompatible; }

@test "somebody else's daemon, killed" { cells 32 killed nothing home missing incompatible; }

@test "a stale socket" { cells 32 stale nothing home missing incompatible; }

@test "another user's daemon" { cells 32 other nothing home missing incompatible; }

@test "a small /dev/shm, with each of them" {
	unshare -m sh -c 'mount -t tmpfs -o size=64k none /dev/shm' 2>/dev/null || skip "no mount namespaces here"
	for daemon in none ours stopped killed stale other; do
		cells 8 $daemon shm
	done
}
