#!/usr/bin/env bats
# Random calls, a third of them wrong: after each the ledger must say what the driver knows.

load guest

setup() { guest_setup; }

teardown() { guest_teardown; }

# model OPTIONS...: under the preload; what went wrong is shown with the steps that show it.
model() {
	LD_PRELOAD=$shim timeout 600 "$B/model/model" "$@" >model.out 2>&1 || { cat model.out; return 1; }
	tail -1 model.out
}

@test "the ledger equals the driver's truth after each call" {
	model --seeds 12 --steps 20000 --rows "$TOP/tests/model/rows.tsv"
	grep -q '^12 seeds, 240000 steps, .* 122 rows, .*: 0 failed, 0 missing$' model.out
}

@test "the ledger equals the driver's truth whenever four threads rest" {
	model --seeds 6 --steps 40000 --threads 4
	grep -q '^6 seeds, .*: 0 failed, 0 missing$' model.out
}

@test "a wrong ledger is seen, and shown by few steps" {
	# Frees of pinned memory that the driver does and the ledger does not see.
	run env LD_PRELOAD="$shim" CUWARD_MODEL_SPOIL=1 timeout 600 "$B/model/model" --seeds 1 --steps 2000
	[ "$status" -eq 1 ]
	grep -q '^wrong after .*pinned' <<<"$output"
	grep -v '^#' <<<"$output" | grep -cE '^(alloc_host|register|free_host|unregister) ' >steps
	[ "$(cat steps)" -ge 2 ]
	[ "$(grep -cE '^[a-z_]+( [0-9]+){4}$' <<<"$output")" -le 12 ]
}
