#!/usr/bin/env bats
# cuward timeline on events as text: the pictures and JSON in tests/golden, filters, exit codes.

setup() {
	export LC_ALL=C.UTF-8 COLUMNS=100 TZ=UTC
	unset NO_COLOR
	golden=$TOP/tests/golden
}

timeline() {
	"$B/cuward" timeline "$@"
}

# What `timeline` prints for a golden file, and its exit status as last line.
shown() {
	local status=0
	timeline "$@" 2>&1 || status=$?
	echo "exit $status"
}

@test "every golden trace is shown as it was" {
	for events in "$golden"/*.events; do
		diff -u "${events%.events}.txt" <(cd "$golden" && shown "${events##*/}")
	done
}

@test "every golden trace gives the JSON it gave" {
	for events in "$golden"/*.events; do
		diff -u "${events%.events}.json" <(timeline --json "$events" 2>/dev/null | jq -S .)
	done
}
