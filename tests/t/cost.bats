#!/usr/bin/env bats
# What a call costs, as far as it can be counted; `make bench` measures the time.

bats_require_minimum_version 1.5.0

load guest

setup() {
	guest_setup
	[ "$(uname -m)" = x86_64 ] || skip "steps are counted on x86-64"
	export CUWARD_MEMORY=60G CUWARD_SIM_MEMORY=64G
	unset CUWARD_SIM_TRUTH
}

@test "no system call on the way of a call" {
	for what in launch launch_ex launch_cooperative mem_get_info pair_0 pair_async; do
		calls=$(LD_PRELOAD=$shim "$B/bench/steps" -s 100 "$B/bench/bench" steps $what)
		echo "$what: $calls"
		[ "$calls" = 0.00 ]
	done
	# Nor with limits of a job, and with somebody who is ready to wait.
	for what in pair_0 pair_async; do
		calls=$(CUWARD_JOB=j CUWARD_JOB_MEMORY=60G CUWARD_ON_LIMIT=wait LD_PRELOAD=$shim "$B/bench/steps" -s 100 \
			"$B/bench/bench" steps $what)
		echo "$what of a job: $calls"
		[ "$calls" = 0.00 ]
	done
}

@test "no system call in a refusal but the first of its kind" {
	calls=$(LD_PRELOAD=$shim "$B/bench/steps" -s 100 "$B/bench/bench" steps refused)
	echo "refused: $calls"
	[ "$calls" = 0.00 ]
	# Told to nobody or to the log, once.
	CUWARD_LOG=warn LD_PRELOAD=$shim "$B/bench/steps" -s 100 "$B/bench/bench" steps refused >calls 2>said
	[ "$(cat calls)" = 0.00 ]
	[ "$(grep -c 'was refused' said)" -eq 1 ]
	read -r bare _ < <("$B/bench/steps" 100 "$B/bench/bench" steps refused)
	read -r shimmed _ < <(LD_PRELOAD=$shim "$B/bench/steps" 100 "$B/bench/bench" steps refused)
	echo "refused: $bare and $shimmed instructions"
	[ "${shimmed%.*}" -le 2000 ]
}

@test "a launch costs at most 40 instructions" {
	readelf -p .comment "$shim" | grep -q GCC: || skip "the bar is for gcc"
	grep -q -- ' -O2 ' "$B/flags" || skip "the bar is for -O2"
	for what in launch launch_ex launch_cooperative; do
		read -r bare _ < <("$B/bench/steps" 100 "$B/bench/bench" steps $what)
		read -r shimmed _ < <(LD_PRELOAD=$shim "$B/bench/steps" 100 "$B/bench/bench" steps $what)
		echo "$what: $bare and $shimmed instructions"
		[ "${shimmed%.*}" -gt "${bare%.*}" ]
		[ $((${shimmed%.*} - ${bare%.*})) -le 40 ]
	done
}

@test "an allocation and its free cost at most 640 instructions" {
	readelf -p .comment "$shim" | grep -q GCC: || skip "the bar is for gcc"
	grep -q -- ' -O2 ' "$B/flags" || skip "the bar is for -O2"
	read -r bare _ < <("$B/bench/steps" 100 "$B/bench/bench" steps pair_0)
	read -r shimmed _ < <(LD_PRELOAD=$shim "$B/bench/steps" 100 "$B/bench/bench" steps pair_0)
	echo "$bare and $shimmed instructions"
	[ "${shimmed%.*}" -gt "${bare%.*}" ]
	[ $((${shimmed%.*} - ${bare%.*})) -le 640 ]
}

@test "among many live ones it costs about as many: nothing is searched" {
	readelf -p .comment "$shim" | grep -q GCC: || skip "the bar is for gcc"
	grep -q -- ' -O2 ' "$B/flags" || skip "the bar is for -O2"
	for order in lifo fifo random; do
		for live in 1000 100000; do
			read -r bare calls_bare < <("$B/bench/steps" 20 "$B/bench/bench" steps $order $live 20)
			read -r shimmed calls < <(LD_PRELOAD=$shim "$B/bench/steps" 20 "$B/bench/bench" steps $order $live 20)
			echo "$order $live: $bare and $shimmed instructions, $calls system calls"
			[ "${shimmed%.*}" -gt "${bare%.*}" ]
			[ $((${shimmed%.*} - ${bare%.*})) -le 900 ]
			[ "$calls_bare $calls" = "0.00 0.00" ]
		done
	done
	rm -r state # these were killed
}

# alive COUNT: so many processes that hold memory and do nothing.
alive() {
	while [ ${#holders[@]} -lt "$1" ]; do
		LD_PRELOAD=$shim "$apps/play" init device 0 alloc 64K say held sleep 600000 >said-${#holders[@]} 3>&- &
		holders+=($!)
		until grep -q held said-$((${#holders[@]} - 1)); do
			kill -0 $!
			sleep 0.05
		done
	done
}

@test "a start among others: a few system calls for each of them, however many; so does a look at all" {
	holders=()
	calls=()
	looks=()
	for count in 0 15 30; do
		alive $count
		calls+=("$(LD_PRELOAD=$shim "$B/bench/steps" -a "$B/bench/bench" init)")
		looks+=("$("$B/bench/steps" -a "$B/cuward" ps --no-nvml | tail -1)")
	done
	kill "${holders[@]}"
	wait "${holders[@]}" || :
	bare=$("$B/bench/steps" -a "$B/bench/bench" init)
	echo "alone $bare; with us among 0, 15, 30: ${calls[*]}"
	[ $((calls[0] - bare)) -le 300 ]
	# Of a few it is asked whether they left their slots; beyond those it's whether they hold what they say.
	[ $((calls[1] - calls[0])) -le $((15 * 2 + 5)) ]
	[ $((calls[2] - calls[1])) -le $((15 + 5)) ]
	# Whoever looks at all of them: state, slot, and ledger twice.
	echo "ps of 0, 15, 30: ${looks[*]}"
	second=$((looks[2] - looks[1]))
	[ $second -ge $((15 * 3)) ]
	[ $second -le $((15 * 14)) ]
	rm -r state # they were killed
}

@test "results of the bench are kept, a line a run" {
	mkdir left
	cp -r "$B/libcuward.so" left
	row='{"name":"launch","unit":"ns","bare":1.5,"shim":3,"traced":null,"added":1.5,"ratio":2,"instructions":39,'
	row+='"instructions_traced":null,"bar":{"of":"added","limit":"1","holds":false}}'
	echo "{\"schema\":1,\"version\":\"9.9\",\"load\":0.5,\"runs\":3,\"rows\":[$row]}" >left/bench.json
	# The others add theirs: once each, and with the last value.
	added() { B=$PWD/left bash -c '. "$TOP/tests/bench/row.sh"; bench_row "$@"' row "$@"; }
	added reader_rate M/s 30 '>20'
	run ! added page_painted ms 2500 2000
	added page_painted ms 1500.5 2000
	run ! added reader_rate M/s 19.5 '>20'
	for line in 1 2; do
		B=$PWD/left "$TOP/tests/bench/record.sh" "$PWD/history" >said
		grep -q "history, line $line: .*, 3 rows, 2 bars fail$" said
	done
	[ "$(wc -l <history)" -eq 2 ]
	[ "$(jq -s 'map([.schema, .version, .load, .runs, .cores > 0]) | unique | map(tojson) | .[0]' -r history)" = '[1,"9.9",0.5,3,true]' ]
	[ "$(jq -sc '.[1].rows' history)" = '{"launch":{"unit":"ns","bare":1.5,"shim":3,"added":1.5,"ratio":2,"instructions":39,"holds":false},"page_painted":{"unit":"ms","shim":1500.5,"holds":true},"reader_rate":{"unit":"M/s","shim":19.5,"holds":false}}' ]
	jq -e '(.date | test("^20..-..-..T..:..Z$")) and (.commit | test("^[0-9a-f]{10}(-changed)?$|^unknown")) and
		(.compiler | length > 5) and (.cpu | length > 2) and (.kernel | length > 2)' history >said
	# What is kept of the project's own runs can be read, too.
	jq -s -e 'length >= 4 and all(.[]; .rows.launch.added and .rows.pair_0.added and .commit and .schema == 1)' \
		"$TOP/docs/bench.jsonl" >said
}

# ledger LIVE: bytes that its blocks take with so many live allocations.
ledger() {
	mkfifo in
	LD_PRELOAD=$shim timeout 60 "$B/bench/bench" hold "$1" <in >said 3>&- &
	exec 9>in
	for _ in {1..300}; do
		grep -q held said && break
		sleep 0.1
	done
	find state -name '*.ledger' -exec du -B 1 {} + | awk '{ n += $1 } END { print n }'
	exec 9>&-
	wait $!
	rm in said
}

@test "a record of the ledger is a cache line" {
	empty=$(ledger 0)
	full=$(ledger 100000)
	[ $(((full - empty) / 100000)) -ge 64 ]
	[ $(((full - empty) / 100000)) -le 80 ]
}
