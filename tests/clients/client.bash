# client.bash - run an unmodified program bare and under cuward, and compare what happened.
#
#	bare NAME COMMAND...    on the simulated driver alone
#	warded NAME COMMAND...  under cuward run --sim --trace --report; options in $with
#
# Neither may take longer than $patience seconds: 124 is the status then. Both leave NAME.out,
# NAME.err and NAME.calls (the driver's log: pid tid symbol result caller) and set $status; warded
# also leaves NAME.json (the report), NAME.trace and NAME.timeline, in which each kernel has a name.

client_setup() {
	[ -e "$B/libcuward-lttng.so" ] || skip "built without LTTng"
	command -v lttng-sessiond >/dev/null || skip "no lttng-sessiond"
	cd "$BATS_TEST_TMPDIR"
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
	sim=$B/sim
	profile=
	with=
	patience=120
	MiB=$((1 << 20))
}

client_teardown() {
	[ -z "$(find state -type f -not -name 'slots.*' 2>/dev/null)" ]
}

# Where a toolkit lies, in $toolkit; without one the test is skipped.
toolkit() {
	toolkit=$("$TOP/tests/clients/toolkit.sh")
	[ "$toolkit" != none ] || skip "there is no CUDA toolkit"
}

# use_profile 12.2: a driver of that version.
use_profile() {
	profile==$1
	sim=$B/sim/$1
}

bare() {
	local name=$1
	shift
	status=0
	CUWARD_SIM_CALL_LOG=$name.calls LD_LIBRARY_PATH=$sim:$LD_LIBRARY_PATH \
		timeout -k 10 $patience "$@" >$name.out 2>$name.err 3>&- || status=$?
	echo "bare: status $status"
	tail -n 20 $name.err
}

warded() {
	local name=$1
	shift
	status=0
	CUWARD_SIM_CALL_LOG=$name.calls timeout -k 10 $patience "$B/cuward" run --sim$profile $with --trace=$name.trace \
		--report $name.json -- "$@" >$name.out 2>$name.err 3>&- || status=$?
	echo "warded: status $status"
	tail -n 20 $name.err
	# A trace without events is an error.
	[ "$(jq '.processes | length' $name.json)" -gt 0 ] || return 0
	timeout -k 10 $patience "$B/cuward" timeline --json $name.trace >$name.timeline
	all_named $name
}

# What the program itself wrote to stderr, without cuward's lines and with addresses made alike.
words_of() {
	sed '/^cuward: /d; /^  [0-9.]* [A-Za-z]* in [0-9]* allocations* (/d; s/0x[0-9a-f]*/0x/g' "$1.err"
}

# ask FILE FILTER VALUE: what jq finds there.
ask() {
	answer=$(jq -c "$2" "$1")
	echo "$1: $2 is $answer"
	[ "$answer" = "$3" ]
}

# symbol count errors, from the driver's log and from a report.
logged() {
	awk '{ n[$3]++; e[$3] += $4 != 0 } END { for (s in n) print s, n[s], e[s] }' $1.calls | sort
}
reported() {
	jq -r '.processes[].calls | to_entries[] | "\(.key) \(.value.count) \(.value.errors)"' $1.json | sort
}

# ... and from a report, without what cuward refused: that the driver never saw.
passed_on() {
	jq -r '.processes[] | .denials as $denials | .calls | to_entries[] | .key as $name
		| ([$denials[] | select(.api == $name).count] | add // 0) as $refused
		| select(.value.count > $refused)
		| "\($name) \(.value.count - $refused) \(if .value.errors then .value.errors - $refused else null end)"
		' $1.json | sort
}

# What libcuward.so asks the driver on its own account.
own_queries='^(cuCtxGetCurrent|cuCtxGetDevice|cuDevice[A-Za-z]*|cuDriverGetVersion|cuMemGetInfo|cuPointerGetAttribute|cuGraphGetNodes|cuGraphNodeGetType)(_v[0-9])? '

# went_through WARDED: each call went through cuward, and the driver saw those that were not
# refused, own queries of cuward apart.
went_through() {
	[ -z "$(awk '$5 != "libcuward.so"' $1.calls)" ]
	diff <(passed_on $1 | grep -Ev "$own_queries") <(logged $1 | grep -Ev "$own_queries")
}

# same_calls BARE WARDED: and they are those of the bare run.
same_calls() {
	diff <(logged $1) <(reported $2)
	went_through $2
}

# calls_of WARDED SYMBOL: how often, by the report.
calls_of() { jq ".processes[0].calls.\"$2\".count // 0" $1.json; }

# ... and by the driver's log.
calls_seen() { awk -v s=$2 '$3 == s' $1.calls | wc -l; }

# Queries that frameworks make around everything are counted, errors and all, and not traced.
traced_errors='[.processes[].calls | to_entries[] |
	select(.key | test("^cu(PointerGetAttributes?|StreamQuery|EventQuery)$") | not) | .value.errors] | add'

# Each kernel that was launched has a name, not only a number; so it is after every run.
all_named() {
	ask $1.timeline '[.kernels[] | select(.name == "" or (.name | startswith("kernel@"))) | .launches]' '[]'
	ask $1.timeline '[[.kernels[].launches], [.processes[].launches] | add // 0] | .[0] == .[1]' true
}

# Whole, nothing lost, one process that ended well and got every name it asked for from us, but those
# of graphics, which have no hook.
whole() {
	ask $1.json '[.processes[] | [.ended, .complete, .trace.lost, .dropped_records]]' \
		'[["exit",true,0,0]]'
	ask $1.json '[.processes[].coverage | .unhooked[] | select(test("GL|EGL|Egl|VDPAU") | not)]' '[]'
	ask $1.json '[.processes[].coverage | .looked_up == .hooked + .passed_through]' '[true]'
	ask $1.json '.run.trace | [.lost, .complete]' '[0,true]'
	ask $1.timeline '.trace | [.lost_events, .damaged, .truncated_processes]' '[0,false,0]'
	# The trace tells what the driver answered; a refusal is an event of its own.
	ask $1.timeline '[.processes[] | [.ended, .complete, .errors + ([.devices[].denied] | add)]]' \
		"[[\"exit\",true,$(jq "$traced_errors" $1.json)]]"
}

# both COMMAND...: bare and warded, with the same output, words and calls, and status 0.
both() {
	bare bare "$@"
	[ $status -eq 0 ]
	warded ward "$@"
	[ $status -eq 0 ]
	diff bare.out ward.out
	diff <(words_of bare) <(words_of ward)
	same_calls bare ward
	whole ward
}

# settled WARDED: all memory was given back and nothing is left.
settled() {
	ask $1.json '[.processes[].memory[] | .live_bytes, .live] | add' 0
	ask $1.json '[.processes[].devices[].used_bytes] | add' 0
	ask $1.json '[.processes[].leaks[]]' '[]'
	ask $1.json '[.processes[].memory[] | .allocs - .frees] | add' 0
}
