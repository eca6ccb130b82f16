#!/bin/bash
# run.sh - what cuward costs: the same calls bare, under the shim and traced, in turns; one table.
#
# A figure is the median of several processes, of each of which the least of its rounds counts: what
# disturbs a round only ever adds to it. The three columns take turns, so that a slow minute of the
# machine hits all of them. `added` is shim less bare, `ratio` shim by bare; `instr.` and `traced` are the
# instructions that the shim adds, without and with a session, counted one step at a time: they are exact. Bars
# are below, next to their rows; exit 1 if one does not hold.
#
# The table is left as JSON in build/bench.json, to which the other benches add their figures (row.sh); record.sh keeps
# it. RUNS=N processes a figure (default 3); QUICK=1 leaves out a million live allocations.
set -eu
cd "$(dirname "$0")/../.." || exit 1
B=${B:-$PWD/build}
bench=$B/bench/bench steps=$B/bench/steps starts=$B/bench/starts
shim=$B/libcuward.so
runs=${RUNS:-3}
sizes="1000 100000"
[ -n "${QUICK-}" ] || sizes="$sizes 1000000"
export CUWARD_SIM_MEMORY=64G CUWARD_DIR
unset LD_PRELOAD LD_LIBRARY_PATH "${!CUWARD_MEMORY@}" CUWARD_JOB CUWARD_TRACE CUWARD_REPORT
work=$(mktemp -d /dev/shm/cuward-bench-XXXXXX)
holders=()
trap '[ ${#holders[@]} -eq 0 ] || kill "${holders[@]}" 2>/dev/null || :; rm -rf "$work"' EXIT
CUWARD_DIR=$work/state
tracing=
[ ! -e "$B/libcuward-lttng.so" ] || ! command -v lttng-sessiond >/dev/null || tracing=yes

# ---- the three columns ----

bare() { LD_LIBRARY_PATH=$B/sim timeout 300 "$@"; }
shim() { LD_LIBRARY_PATH=$B/sim LD_PRELOAD=$shim CUWARD_MEMORY=60G timeout 300 "$@"; }
traced() {
	[ -n "$tracing" ] || return 0
	rm -rf "$work/trace"
	BENCH_PART=20 timeout 300 "$B/cuward" run -q --sim -m 60G --leak off --trace="$work/trace" -- "$@"
	rm -rf "$work/trace"
}

# collect LABEL COMMAND...: a turn of each column; lines `column LABEL+name value` into $work/values.
collect() {
	local column
	for column in bare shim traced; do
		$column "${@:2}" | sed "s/^/$column $1/" >>"$work/values"
	done
}

# median COLUMN NAME: "" where there is none.
median() {
	awk -v c="$1" -v n="$2" '$1 == c && $2 == n { print $3 }' "$work/values" | sort -g |
		awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
}

# ---- the table ----

failed=0
load=$(cut -d' ' -f1 /proc/loadavg)
: >"$work/rows"
: >"$work/instructions"

# row NAME UNIT FIGURE BAR: FIGURE (added, shim, bare, instructions) is held against BAR, an upper limit, or a
# lower one with a leading >.
row() {
	local bare shim traced instructions instructions_traced added ratio value= verdict= bar=${4-}
	bare=$(median bare "$1") shim=$(median shim "$1") traced=$(median traced "$1")
	read -r instructions instructions_traced < <(awk -v n="$1" '$1 == n { print $2, $3 }' "$work/instructions") || :
	[ -n "$shim" ] || return 0
	added=$(awk -v x="$bare" -v y="$shim" 'BEGIN { if (x != "") printf "%.2f", y - x }')
	ratio=$(awk -v x="$bare" -v y="$shim" 'BEGIN { if (x > 0) printf "%.2f", y / x }')
	[ -z "${3-}" ] || value=${!3}
	if [ -n "$bar" ] && [ -n "$value" ]; then
		verdict=$(awk -v v="$value" -v bar="$bar" 'BEGIN { lower = sub(/^>/, "", bar)
			print (lower ? v > bar + 0 : v <= bar + 0) ? "holds" : "FAILS" }')
		[ "$verdict" = holds ] || failed=1
	fi
	printf '%-26s %10s %10s %10s %9s %6s %6s %6s  %-10s %-16s %s\n' "$1" "${bare:--}" "$shim" "${traced:--}" \
		"${added:--}" "${ratio:--}" "${instructions:--}" "${instructions_traced:--}" "$2" \
		"${bar:+$3 ${bar/#[0-9]/<=${bar:0:1}}}" "$verdict"
	printf '%s\t' "$1" "$2" "$bare" "$shim" "$traced" "$added" "$ratio" "$instructions" "${3-}" "$bar" \
		"$verdict" "$instructions_traced" >>"$work/rows"
	echo >>"$work/rows"
}

# note COLUMN NAME VALUE: a figure that is measured here.
note() { echo "$1 $2 $3" >>"$work/values"; }

# ---- measuring ----

for _ in $(seq "$runs"); do
	export CUWARD_SIM_REUSE=immediate
	collect "" "$bench" time 0
	for size in $sizes; do
		collect "" "$bench" time "$size"
		CUWARD_SIM_REUSE=never collect fresh_ "$bench" time "$size"
	done
	for threads in 1 2 4; do
		collect "" "$bench" threads $threads
	done
done

# What a call site costs, against none (the column `bare`): the address, ten native frames from the call
# to what called main, ten lines of Python.
stacked() { CUWARD_STACK=$1 shim "${@:2}" | awk '{ print $2 }'; }
for _ in $(seq "$runs"); do
	none=$(stacked none "$bench" stack 4)
	for stack in addr native; do
		note bare stack_$stack "$none"
		note shim stack_$stack "$(stacked $stack "$bench" stack 4)"
	done
	note bare stack_python "$(stacked none python3 tests/bench/stack.py)"
	note shim stack_python "$(stacked python python3 tests/bench/stack.py)"
done

# Instructions of 100 calls, and system calls: none may be on the way.
by_gcc=
! readelf -p .comment "$shim" | grep -q GCC: || by_gcc=instructions
# Stepping is slow: of what is traced, or among many others, 20 calls.
counted() { # ROW WHAT LIVE
	local x y z calls_bare calls_shim calls_traced times=100
	[ "$3" -eq 0 ] || times=20
	read -r x calls_bare < <(bare "$steps" $times "$bench" steps "${@:2}" $times)
	read -r y calls_shim < <(shim "$steps" $times "$bench" steps "${@:2}" $times)
	note bare "$1_system_calls" "$calls_bare"
	note shim "$1_system_calls" "$calls_shim"
	if [ "$3" -eq 0 ] && read -r z calls_traced < <(traced "$steps" 20 "$bench" steps "${@:2}" 20); then
		note traced "$1_system_calls" "$calls_traced"
	fi
	awk -v n="$1" -v x="$x" -v y="$y" -v z="${z-}" 'BEGIN { print n, y - x, z == "" ? "" : z - x }' \
		>>"$work/instructions"
}
single="launch launch_ex launch_cooperative mem_get_info pair_0 pair_async refused"
for what in $single; do
	counted $what $what 0
done
for size in $sizes; do
	for order in lifo fifo random; do
		CUWARD_SIM_REUSE=immediate counted pair_${order}_$size $order "$size"
		CUWARD_SIM_REUSE=never counted fresh_pair_${order}_$size $order "$size"
	done
done
rm -rf "$CUWARD_DIR" # those were killed

# Bytes a record: what a hundred thousand live allocations add to the ledger.
ledger_blocks() {
	local blocks
	mkfifo "$work/in"
	shim "$bench" hold "$1" <"$work/in" >"$work/said" &
	exec 9>"$work/in"
	until grep -qs held "$work/said"; do sleep 0.05; done
	[ -n "$(find "$CUWARD_DIR" -name '*.ledger')" ]
	blocks=$(find "$CUWARD_DIR" -name '*.ledger' -exec du -B 1 {} + | awk '{ n += $1 } END { print n }')
	exec 9>&-
	wait $!
	rm "$work/in"
	echo "$blocks"
}
empty=$(ledger_blocks 0)
full=$(ledger_blocks 100000)
note shim record $(((full - empty) / 100000))

# Starting: milliseconds each. In the column `traced` one session is there for all of them.
for _ in $(seq "$runs"); do
	collect "" "$starts" start_true 200 /bin/true
	collect "" "$starts" start_init 50 "$bench" init
	collect "" "$starts" -a start_100_at_once 100 "$bench" init
	collect "" "$starts" -a start_300_at_once 300 "$bench" init
done
# ... and among 300 that are there and hold memory.
for i in $(seq 300); do
	LD_LIBRARY_PATH=$B/sim LD_PRELOAD=$shim CUWARD_MEMORY=60G \
		"$B/apps/play" init device 0 alloc 64K say held sleep 600000 >"$work/said-$i" &
	holders+=($!)
	[ $((i % 10)) -ne 0 ] || until grep -qs held "$work/said-$i"; do sleep 0.01; done
done
for i in $(seq 300); do
	until grep -qs held "$work/said-$i"; do sleep 0.01; done
done
for _ in $(seq "$runs"); do
	for column in bare shim; do
		$column "$starts" -a start_among_300 20 "$bench" init | sed "s/^/$column /" >>"$work/values"
	done
done
kill "${holders[@]}"
wait "${holders[@]}" 2>/dev/null || :
holders=()
rm -rf "$CUWARD_DIR"
collect "start_true_system_calls " "$steps" -a /bin/true
collect "start_init_system_calls " "$steps" -a "$bench" init
linear() { awk -v a="$(median shim "start_300_at_once$1")" -v b="$(median shim "start_100_at_once$1")" 'BEGIN { printf "%.2f", a / b }'; }
note shim start_linear "$(linear "")"
note shim start_linear_cpu "$(linear _cpu)"
if [ -n "$tracing" ]; then
	began=$EPOCHREALTIME
	"$B/cuward" run -q --trace="$work/trace" true
	note shim run_trace_true "$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", b - a }')"
fi

# ---- telling ----

printf '%-26s %10s %10s %10s %9s %6s %6s %6s  %-10s %-16s\n' "" bare shim traced added ratio instr. traced unit bar
row launch ns added 8
row launch_ex ns
row launch_cooperative ns
row mem_get_info ns
row pair_0 ns added 45
row pair_async ns added 90
row refused ns added 300
for size in $sizes; do
	for order in lifo fifo random; do
		limit=180
		[ $size -lt 1000000 ] || [ $order != random ] || limit=500
		row pair_${order}_$size ns added $limit
		row fresh_pair_${order}_$size ns added $((limit > 300 ? limit : 300))
	done
done
row stack_addr ns added 5
row stack_native ns added 60
row stack_python ns added 1500
for threads in 1 2 4; do
	bar=
	[ $threads != 2 ] || bar='>3'
	row threads_$threads Mpairs/s shim "$bar"
done
for what in $single; do
	row ${what}_system_calls "a call" shim 0
done
for size in $sizes; do
	for order in lifo fifo random; do
		row pair_${order}_${size}_system_calls "a pair" shim 0
		row fresh_pair_${order}_${size}_system_calls "a pair" shim 0
	done
done
row start_true_system_calls "in all"
row start_init_system_calls "in all"
row record bytes shim 80
row start_true ms added 0.2
row start_init ms added 2
for count in 100 300; do
	row start_${count}_at_once ms added 2
	row start_${count}_at_once_cpu ms added 2
	row start_${count}_at_once_cpu_worst ms added 2
done
row start_among_300_cpu ms added 2
row start_among_300_cpu_worst ms added 2
row start_linear "x of 100" shim 1.5
row start_linear_cpu "x of 100" shim 1.5
row run_trace_true s shim 1.5

# A launch in instructions: only what gcc made is held to it.
if [ -n "$by_gcc" ]; then
	count=$(awk '$1 == "launch" { print $2 }' "$work/instructions")
	[ "$count" -le 40 ] || { echo "launch: $count instructions more, the bar is 40"; failed=1; }
fi

jq -Rn --arg version "$("$B/cuward" --version | sed 's/^[^0-9]*//')" --argjson runs "$runs" \
	--argjson load "$load" '
	def number: if . == "" then null else tonumber end;
	{ schema: 1, version: $version, load: $load, runs: $runs, rows: [ inputs | split("\t") | {
		name: .[0], unit: .[1], bare: (.[2] | number), shim: (.[3] | number), traced: (.[4] | number),
		added: (.[5] | number), ratio: (.[6] | number), instructions: (.[7] | number),
		instructions_traced: (.[11] | number),
		bar: (if .[9] == "" then null else { of: .[8], limit: .[9], holds: (.[10] == "holds") } end) } ] }
	' "$work/rows" >"$B/bench.json"

figure() { jq -r --arg n "$1" --arg f "$2" '[.rows[] | select(.name == $n)][0][$f] // "-"' "$B/bench.json"; }
echo
echo "A line for docs/bench.md:"
echo "| $(jq -r .version "$B/bench.json") | $(date -u +%Y-%m-%d) | MACHINE | $(figure launch added) | $(figure launch instructions) | $(figure pair_0 added) | $(figure pair_async added) | $(figure pair_random_1000000 added) | $(figure threads_2 shim) | $(figure start_true added) | $(figure start_init added) | $(figure start_300_at_once added) |"
exit $failed
