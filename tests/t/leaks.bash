# leaks.bash - a folder with state of its own, and runs whose report is asked, for the tests of leaks; used by `load`.

leaks_setup() {
	cd "$BATS_TEST_TMPDIR"
	unset LD_PRELOAD "${!CUWARD_@}" CUDA_VISIBLE_DEVICES
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
}

# Whatever ended, however it did, its ledger was read and is gone.
leaks_teardown() {
	[ -z "$(find state -name '*.ledger' 2>/dev/null)" ]
}

# leaked STATUS OPTION... -- COMMAND...: run it, its report in r.json, its text in $output.
leaked() {
	local status=0
	rm -f r.json
	output=$(timeout 60 "$B/cuward" run --sim --report r.json "${@:2}" 2>&1) || status=$?
	[ "$status" -eq "$1" ] || {
		echo "status $status: $output"
		return 1
	}
	echo "$output"
}

# ask FILTER VALUE: of the first process of the report. ask_report: of the report.
ask() { ask_report ".processes[0] | $1" "$2"; }

ask_report() {
	local answer
	answer=$(jq -c "$1" r.json)
	[ "$answer" = "$2" ] || {
		echo "$1 is $answer, not $2"
		return 1
	}
}
