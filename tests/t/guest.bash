# guest.bash - helpers of the tests that preload libcuward.so without `cuward run`; used by `load`.

guest_setup() {
	cd "$BATS_TEST_TMPDIR"
	unset LD_PRELOAD "${!CUWARD_@}" CUDA_VISIBLE_DEVICES ROUTE PTSZ XDG_RUNTIME_DIR
	export LD_LIBRARY_PATH=$B/sim
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
	export CUWARD_SIM_TRUTH=$BATS_TEST_TMPDIR/truth
	shim=$B/libcuward.so
	apps=$B/apps
	KiB=1024 MiB=$((1 << 20)) GiB=$((1 << 30))
}

# Whatever ran to an orderly end leaves no ledger.
guest_teardown() {
	[ -z "$(find state -name '*.ledger' 2>/dev/null)" ]
}

# preloaded COMMAND...: where $EMULATOR runs programs of another machine, the library is for them.
preloaded() {
	if [ -n "${EMULATOR-}" ]; then
		"$EMULATOR" -E LD_PRELOAD="$shim" "$@"
	else
		LD_PRELOAD=$shim "$@"
	fi
}

# guest STATUS COMMAND...: run it under the preload, with a report in r.json; its output in $output.
guest() {
	local status=0
	rm -f r.json r-*.json ${keep_truth:-truth}
	output=$(CUWARD_REPORT=${report-$PWD/r.json} preloaded "${@:2}" 2>&1) || status=$?
	[ "$status" -eq "$1" ] || {
		echo "status $status of ${*:2}: $output"
		return 1
	}
}

# ask FILTER VALUE [FILE]: what the report says about the process.
ask() {
	local answer
	answer=$(jq -c ".processes[0] | $1" "${3:-r.json}")
	[ "$answer" = "$2" ] || {
		echo "$1 is $answer, not $2"
		return 1
	}
}

# truth KEY VALUE: what the simulated driver says.
truth() {
	local answer
	answer=$(${EMULATOR-} "$B/sim/truth" truth "$1")
	[ "$answer" = "$2" ] || {
		echo "truth: $1 is $answer, not $2"
		return 1
	}
}

# Charged now and at most, live allocations of a kind; allocations and frees of it.
used() { ask '.devices['"${3:-0}"'] | [.used_bytes, .peak_bytes]' "[$1,$2]"; }
denied() { ask '.devices['"${3:-0}"'] | [.denied, .denied_bytes]' "[$1,$2]"; }
kind() { ask ".memory.$1 | [.live_bytes, .live, .allocs, .frees]" "[$2,$3,$4,$5]"; }
leaks() { ask '[.leaks[] | [.verdict, .kind, .bytes, .count]]' "$1"; }
findings() { ask '[.findings[] | select(.code != "context-overhead") | [.code, .count]]' "$1"; }

# The report agrees with the driver about what is live, device by device, and in the peak.
agrees() {
	local device used peak
	while read -r device used peak; do
		truth process.0.device.$device.requested "$used"
		truth process.0.device.$device.requested_high "$peak"
	done < <(jq -r '.processes[0].devices[] | "\(.index) \(.used_bytes) \(.peak_bytes)"' r.json)
}
