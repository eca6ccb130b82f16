#!/usr/bin/env bats
# Random programs: killed at random moments the report brackets the truth; with a known truth it is exact.
# STORMS=200 does more of it.

load leaks

setup() {
	leaks_setup
	seed=${SEED:-$RANDOM}
	ulimit -c 0
}

teardown() { leaks_teardown; }

@test "killed at a random moment: the driver's truth lies within live and in flight" {
	exact=0 inexact=0
	for n in $(seq $((seed + 1)) $((seed + ${STORMS:-30}))); do
		rm -f r.json truth
		status=0
		CUWARD_SIM_TRUTH=$PWD/truth timeout 60 "$B/cuward" run -q --sim --report r.json \
			"$B/apps/storm" kill "$n" || status=$?
		[ "$status" -eq 137 ]
		[ "$(jq '.processes | length' r.json)" -eq 1 ]
		[ "$(jq -c '.processes[0] | [.ended, .status, .complete, ([.leaks[].verdict] | unique - ["killed"])]' r.json)" = \
			'["signal",137,false,[]]' ]
		read -r live flying calls < <(jq -r '.processes[0] | [([.memory[].live_bytes] | add), .in_flight.bytes,
			.in_flight.allocs + .in_flight.frees] | @tsv' r.json)
		true=$("$B/sim/truth" truth process.0.device.0.requested)
		echo "seed $n: live $live, in flight $flying in $calls calls, truth $true"
		[ "$live" -le "$true" ]
		[ "$true" -le $((live + flying)) ]
		[ "$calls" -le 4 ]
		if [ "$calls" -eq 0 ]; then [ "$live" -eq "$true" ]; exact=$((exact + 1)); else inexact=$((inexact + 1)); fi
	done
	# Both kinds of moments were met.
	echo "$exact exact, $inexact in flight"
	[ $((exact + inexact)) -eq "${STORMS:-30}" ]
	[ "$inexact" -gt 0 ]
}

@test "killed between the driver's work and its answer, which alone tells how rows are padded" {
	# What the rows before needed says nothing, something, or the wrong thing about the last.
	for widths in 100 "512 100" "100 700" "500 100" "100 70000"; do
		rm -f r.json truth pid
		rows=0
		for width in $widths; do rows=$((rows + (width + 511) / 512 * 5120)); done
		last=$(((${widths##* } + 511) / 512 * 5120))
		export CUWARD_SIM_TRUTH=$PWD/truth CUWARD_SIM_RETURN_DELAY_NS=cuMemAllocPitch_v2=60000000000
		"$B/cuward" run -q --sim --report r.json sh -c 'echo $$ >pid; exec "$@"' - \
			"$B/apps/storm" pitch $widths &
		for i in $(seq 600); do
			[ "$("$B/sim/truth" truth process.0.device.0.requested 2>/dev/null)" = $rows ] && break
			sleep 0.05
		done
		kill -9 "$(cat pid)"
		status=0
		wait $! || status=$?
		[ "$status" -eq 137 ]
		said=$(jq -c '.processes[0] | [.memory.device.live_bytes, .in_flight.allocs]' r.json)
		flying=$(jq '.processes[0].in_flight.bytes' r.json)
		echo "$widths: live and in flight $said, $flying bytes; in truth $last"
		[ "$said" = "[$((rows - last)),1]" ]
		[ "$last" -le "$flying" ]
		# Once the padding is known it is not guessed.
		[ "$widths" != "100 700" ] || [ "$flying" -eq "$last" ]
	done
}

@test "killed while a context dies: what it owns is in flight" {
	# The way, its call, what is live for certain, what may be gone.
	for way in destroy:cuCtxDestroy_v2:4096:8192 reset:cuDevicePrimaryCtxReset_v2:8192:4096 \
		release:cuDevicePrimaryCtxRelease_v2:8192:4096; do
		IFS=: read -r way call live flying <<<"$way"
		rm -f r.json truth pid said
		export CUWARD_SIM_TRUTH=$PWD/truth CUWARD_SIM_RETURN_DELAY_NS=$call=60000000000
		"$B/cuward" run --sim --report r.json sh -c 'echo $$ >pid; exec "$@"' - "$B/apps/storm" context $way >said 2>&1 &
		for i in $(seq 600); do
			grep -qs now said && # the same is live on the way up
				[ "$("$B/sim/truth" truth process.0.device.0.requested 2>/dev/null)" = $live ] && break
			sleep 0.05
		done
		kill -9 "$(cat pid)"
		wait $! || [ $? -eq 137 ]
		said=$(jq -c '.processes[0] | [.memory.device.live_bytes, .devices[0].used_bytes, (.leaks | map(.bytes) | add),
			.in_flight.frees, .in_flight.bytes]' r.json)
		echo "$way: $said $(cat said)"
		[ "$said" = "[$live,$live,$live,1,$flying]" ]
		grep -q "holding $((live / 1024)) KiB in " said
	done
}

@test "random programs with a known truth: verdicts are exact" {
	for n in $(seq $((seed + 1)) $((seed + ${STORMS:-20}))); do
		rm -f r.json known
		timeout 60 "$B/cuward" run -q --sim --report r.json "$B/apps/storm" known "$n" known || true
		read -r how <known
		verdict=leak
		case $how in kill | abort) verdict=killed ;; esac
		said=$(jq -r '.processes[0].leaks | map("\(.native[0].function) \(.kind) \(.count) \(.bytes) \(.verdict)") | sort[]' r.json)
		echo "seed $n, $how: $said"
		[ "$said" = "$(tail -n +2 known | sed "s/\$/ $verdict/" | LC_ALL=C sort)" ]
		[ "$(jq '.processes[0].in_flight | add' r.json)" -eq 0 ]
		[ "$(jq '[.processes[0].memory[] | select(.allocs - .frees != .live)] | length' r.json)" -eq 0 ]
	done
}
