#!/usr/bin/env bats
# cuward timeline: the pictures and JSON of tests/golden, filters, and traces that are no good.

bats_require_minimum_version 1.5.0

setup() {
	export LC_ALL=C.UTF-8 COLUMNS=100 TZ=UTC
	unset NO_COLOR
	golden=$TOP/tests/golden
	tmp=$BATS_TEST_TMPDIR
}

timeline() {
	"$B/cuward" timeline "$@"
}

make_ctf() {
	python3 "$TOP/tests/make_ctf.py" "$@"
}

# What `timeline` prints for a golden file, and its exit status as last line.
shown() {
	local status=0
	timeline "$@" 2>&1 || status=$?
	echo "exit $status"
}

# expect STATUS TEXT ARG...: the exit status and a part of what is said.
expect() {
	run timeline "${@:3}"
	echo "$output"
	[ "$status" -eq "$1" ]
	[[ $output == *"$2"* ]]
}

@test "every golden trace is shown as it was" {
	for events in "$golden"/*.events; do
		diff -u "${events%.events}.txt" <(cd "$golden" && shown "${events##*/}")
	done
}

@test "every golden trace gives the JSON it gave" {
	for events in "$golden"/*.events; do
		timeline --json "$events" >"$tmp/json" || true
		diff -u "${events%.events}.json" "$tmp/json"
		jq -e .schema "$tmp/json" >/dev/null
	done
}

@test "a CTF trace tells the same as its text" {
	for name in two instant gpu rekeyed; do
		make_ctf "$golden/$name.events" "$tmp/$name" --host box --packet 3
		timeline --json "$tmp/$name" >"$tmp/json"
		diff -u "$golden/$name.json" "$tmp/json"
	done
}

@test "sub-traces are merged by time, each once" {
	grep -v process=2 "$golden/two.events" | grep -v thread=2 >"$tmp/one.events"
	grep -E 'process=2|thread=2' "$golden/two.events" >"$tmp/other.events"
	make_ctf "$tmp/one.events" "$tmp/dir/ust/uid/1/64-bit" --host box
	make_ctf "$tmp/other.events" "$tmp/dir/ust/uid/2/64-bit" --host box
	timeline --json "$tmp/dir" "$tmp/dir/ust/uid/1" "$tmp/dir/./ust" >"$tmp/json"
	diff -u <(jq -S 'del(.processes[].calls)' "$golden/two.json") \
		<(jq -S 'del(.processes[].calls)' "$tmp/json")
}

@test "--from and --to cut counts and spans, --pid chooses" {
	run timeline --json --from 0.2s --to 650ms "$golden/two.events"
	[ "$status" -eq 0 ]
	[ "$(jq -c '[.trace.from_ns, .trace.to_ns, .processes[0].launches, .processes[0].api_busy_ns,
		.processes[0].devices[0].memory]' <<<"$output")" = \
		'[200000000,650000000,1,350000000,[[200000000,1073741824]]]' ]
	[ "$(timeline --json --from 1970-01-01T00:00:01.2Z "$golden/two.events" |
		jq .trace.from_ns)" = 200000000 ]
	[ "$(timeline --json --pid 11 "$golden/streams.events" 2>&1)" = \
		"cuward: no process in the trace has the pid 11" ]
	[ "$(timeline --json --pid 7 "$golden/two.events" | jq '.processes | length')" -eq 2 ]
	[ "$(timeline --json --pid 50 "$golden/late.events" | jq -c '[.processes[].pid]')" = '[50]' ]
}

@test "--csv has one line a process" {
	run timeline --csv "$golden/two.events"
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq 3 ]
	[[ ${lines[2]} == '"box",7,4026532000,0,1001,"serve",200000000,1000000000,signal,137,50000000,,'* ]]
	[ "$(head -1 <<<"$output" | tr -cd , | wc -c)" -eq "$(sed -n 3p <<<"$output" | tr -cd , | wc -c)" ]
}

@test "no UTF-8, no blocks; no terminal, no color" {
	run env LC_ALL=C "$B/cuward" timeline "$golden/two.events"
	[ "$status" -eq 0 ]
	[ -z "$(grep -P '[^\x00-\x7f]|\x1b' <<<"$output")" ]
	[[ $output == *'----- limit'* ]]
}

@test "on a terminal there is color, unless NO_COLOR is set" {
	script -qec true /dev/null >/dev/null 2>&1 || skip "no terminals here"
	export TERM=xterm
	run script -qec "$B/cuward timeline $golden/two.events" /dev/null
	[[ $output == *$'\e[32m'* ]]
	run env NO_COLOR=1 script -qec "$B/cuward timeline $golden/two.events" /dev/null
	[[ $output != *$'\e['* ]]
}

@test "nothing to show: four cases, four exit statuses" {
	mkdir -p "$tmp/empty/folder" "$tmp/other"
	echo hello >"$tmp/other/file"
	: >"$tmp/none.events"
	make_ctf "$tmp/none.events" "$tmp/metadata"
	make_ctf "$tmp/none.events" "$tmp/foreign" --foreign 728
	expect 3 "the folder is empty" "$tmp/empty"
	expect 1 "the trace holds no events: 0 events in 0 streams; a program came, and its buffers could not be allocated" \
		"$tmp/metadata"
	expect 5 "without events of cuward; 728 of other providers" "$tmp/foreign"
	expect 2 "this folder holds no trace" "$tmp/other"
	expect 2 "not a trace" "$tmp/other/file"
	expect 2 "not a trace" "$B/cuward"
	expect 2 "No such file" "$tmp/missing"
}

@test "a page on standard output, and nothing else there" {
	cd "$tmp"
	"$B/cuward" timeline --html page "$golden/two.events"
	"$B/cuward" timeline --html - "$golden/two.events" | cmp - page
	"$B/cuward" timeline --perfetto trace "$golden/two.events"
	"$B/cuward" timeline --perfetto - "$golden/two.events" | cmp - trace
	[ ! -e ./- ]
	run "$B/cuward" timeline --html - --json "$golden/two.events"
	[ "$status" -eq 2 ]
	run sh -c "'$B/cuward' timeline --html - '$golden/two.events' >/dev/full"
	[ "$status" -eq 1 ]
	[ "$output" = "cuward: cannot write the output: No space left on device" ]
}

@test "folders that only somebody else may look into: not empty, and not all of it" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	local public
	public=$(mktemp -d /tmp/cuward-test-XXXXXX)
	chmod 755 "$public"
	cp "$B/cuward" "$public"
	mkdir -p "$public/locked/inside"
	chmod 700 "$public/locked/inside"
	as_other() { run setpriv --reuid 12345 --clear-groups "$public/cuward" timeline "$public/locked"; }
	as_other
	[ "$status" -eq 4 ]
	[ "$output" = "cuward: $public/locked: Permission denied" ]
	make_ctf "$golden/two.events" "$public/locked/beside"
	chmod -R a+rX "$public/locked/beside"
	as_other
	rm -r "$public"
	[ "$status" -eq 1 ]
	[[ $output == *"/locked: no permission to look into 1 of its folders"* ]]
}

@test "events of others beside ours are ignored and counted" {
	make_ctf "$golden/two.events" "$tmp/both" --foreign 728 --host box
	expect 0 "19 events (and 728 of other providers, ignored)" "$tmp/both"
}

@test "losses are told and lower the confidence" {
	make_ctf "$golden/two.events" "$tmp/lost" --lost 6
	expect 1 "! 6 events (24.0 %) were lost" "$tmp/lost"
	[[ $output == *"    6 events of $tmp/lost/channel0_0"* ]]
	[ "$(timeline --json "$tmp/lost" | jq -c '[.trace.lost_events, .trace.losses]')" = \
		"[6,[{\"stream\":\"$tmp/lost/channel0_0\",\"events\":6,\"packets\":0}]]" ]
	make_ctf "$golden/two.events" "$tmp/packets" --lost-packets 2
	expect 1 "! 2 packets of events were lost" "$tmp/packets"
}

@test "a stream that is cut off hides nothing else" {
	make_ctf "$golden/two.events" "$tmp/cut" --streams 3
	truncate -s -70 "$tmp/cut/channel0_1"
	mkdir "$tmp/scratch"
	export TMPDIR=$tmp/scratch
	expect 1 "channel0_1: the stream is cut off" "$tmp/cut"
	[[ $output == *"channel0_1: a stream breaks off after 1970-01-01 00:00:01.300000 UTC"* ]]
	[[ $output == *"! the trace is damaged"* ]]
	run timeline --json "$tmp/cut"
	[ "$(sed -n '/^{/,$p' <<<"$output" | jq -c '[.trace.damaged, .trace.events]')" = '[true,17]' ]
	rmdir "$tmp/scratch"
}

@test "missing or broken metadata is said" {
	make_ctf "$golden/two.events" "$tmp/bad"
	truncate -s 900 "$tmp/bad/metadata"
	expect 1 "metadata may be incomplete" "$tmp/bad"
	rm "$tmp/bad/metadata"
	expect 1 "its metadata is missing" "$tmp/bad"
}

@test "mistakes in text are named by line, and what came before is shown" {
	local line number=0
	while read -r line; do
		number=$((number + 1))
		{ head -9 "$golden/two.events"; echo "$line"; } >"$tmp/$number.events"
		expect 1 "$number.events:10: " "$tmp/$number.events"
		[[ $output == *"! the trace is damaged"* ]]
	done <<-'LINES'
		1000000000 nothing
		999 call thread=1
		1100000000 call thread
		1100000000 call threads=1
		1100000000 call thread=1 thread=1
		1100000000 call thread=4294967296
		1100000000 call thread=-1
		1100000000 call thread=x
		1100000000 free kind=paper
		1100000000 api name=plain
		1100000000 api name="open
		1100000000 api name="\q"
		1100000000 api name="a"b
		soon call thread=1
		%unknown 3
		%discarded many
	LINES
	[ "$number" -eq 16 ]
}

@test "leaks come from the reports beside the trace" {
	make_ctf "$golden/two.events" "$tmp/trace" --host box
	cat >"$tmp/trace/report.json" <<-'JSON'
		{ "schema": 1, "processes": [
		{ "host": "box", "pid": 7, "pid_ns": 4026531836, "image": 0, "leaks": [
		{ "verdict": "leak", "bytes": 300, "count": 2, "suppressed_by": null },
		{ "verdict": "leak", "bytes": 9, "count": 1, "suppressed_by": "rule" } ] } ] }
	JSON
	echo '{' >"$tmp/trace/broken.json"
	[ "$(timeline --json "$tmp/trace" | jq -c '[.processes[].leaks.leak]')" = \
		'[{"count":2,"bytes":300},{"count":0,"bytes":0}]' ]
}

@test "who was not recorded comes from the reports, where the trace does not tell" {
	make_ctf "$golden/two.events" "$tmp/trace" --host box
	cat >"$tmp/trace/report.json" <<-'JSON'
		{ "schema": 1, "processes": [
		{ "host": "box", "pid": 7, "pid_ns": 4026531836, "image": 0, "command": "train", "ended": "exit", "status": 0,
		"leaks": [], "trace": { "registered": false } },
		{ "host": "box", "pid": 8, "pid_ns": 4026531836, "image": 0, "uid": 5, "command": "deaf", "ended": "running",
		"status": null, "leaks": [ { "verdict": "killed", "bytes": 300, "count": 2 } ], "trace": { "registered": false } },
		{ "host": "box", "pid": 9, "pid_ns": 4026531836, "image": 0, "command": "bare", "ended": "exit", "status": 0,
		"leaks": [], "trace": { "registered": null } } ] }
	JSON
	cp "$tmp/trace/report.json" "$tmp/trace/again.json"
	jq '.processes = [range(100; 200) as $pid | .processes[1] | .pid = $pid]' "$tmp/trace/report.json" >"$tmp/many"
	expect 1 "! 1 process was not recorded (as the report beside the trace tells)" "$tmp/trace"
	timeline --json "$tmp/trace" >"$tmp/json" || true
	[ "$(jq -c '[.processes[] | [.pid, .command, .recorded]]' "$tmp/json")" = \
		'[[7,"train",true],[7,"serve",true],[8,"deaf",false]]' ]
	[ "$(jq -c '.processes[2] | [.uid, .ended, .status, .lost_events, .leaks.killed, .devices]' "$tmp/json")" = \
		'[5,"unknown",null,null,{"count":2,"bytes":300},[]]' ]
	cp "$tmp/many" "$tmp/trace/again.json"
	timeline --json "$tmp/trace" >"$tmp/json" || true
	[ "$(jq -c '[(.processes | length), .trace.unrecorded_processes]' "$tmp/json")" = '[103,101]' ]
}

@test "bad options are usage errors" {
	expect 2 "which trace?"
	expect 2 "is no time" --from yesterday "$golden/two.events"
	expect 2 "is no time" --to 1x "$golden/two.events"
	expect 2 "is no pid" --pid -1 "$golden/two.events"
	expect 2 "exclude each other" --json --csv "$golden/two.events"
}

@test "output that cannot be written is an error" {
	run bash -c "'$B/cuward' timeline '$golden/two.events' >/dev/full"
	[ "$status" -eq 1 ]
	[[ $output == *"cannot write the output"* ]]
}

@test "on a terminal it says how far it is, how fast, and how long it will take; elsewhere nothing" {
	"${CC:-cc}" -O2 -std=gnu11 -D_GNU_SOURCE -I"$TOP/include" -o "$tmp/big" "$TOP/tests/trace/big.c"
	"$tmp/big" "$tmp/trace" 300000
	# A disk so slow that there is something to tell.
	cat >"$tmp/slow.c" <<-'END'
	#include <dlfcn.h>
	#include <sys/types.h>
	#include <unistd.h>
	ssize_t pread(int file, void *to, size_t bytes, off_t at)
	{
		ssize_t (*real)(int, void *, size_t, off_t) = dlsym(RTLD_NEXT, "pread");
		usleep(bytes > 8192 ? 10000 : 0);
		return real(file, to, bytes, at);
	}
	END
	"${CC:-cc}" -D_GNU_SOURCE -shared -fPIC -o "$tmp/slow.so" "$tmp/slow.c" -ldl
	"$B/cuward" timeline --json "$tmp/trace" >"$tmp/plain"
	terminal() { run -0 timeout 60 python3 "$TOP/tests/terminal.py" "$tmp/out" "$@" "$B/cuward" timeline --json "$tmp/trace"; }
	terminal env TERM=xterm LD_PRELOAD="$tmp/slow.so"
	echo "$output"
	cmp "$tmp/plain" "$tmp/out"
	# Each line takes the place of the one before, and at the end there is none; it comes to its end.
	jq -e '.status == 0 and (.text | endswith("\r\u001b[K")) and ([.text | split("\r")[] | select(endswith("left\u001b[K"))]
		| length >= 2 and all(test("^[0-9.]+ %, 0\\.[0-9] million events, [0-9]+\\.[0-9] million/s, [0-9.]+ (ms|s|us|ns) left"))
		and ([.[] | capture("^(?<n>[0-9.]+) %").n | tonumber] | . == sort and first < last and last <= 100))' <<<"$output"
	terminal env TERM=dumb LD_PRELOAD="$tmp/slow.so"
	[ "$output" = '{"status": 0, "text": ""}' ]
	cmp "$tmp/plain" "$tmp/out"
	TERM=xterm LD_PRELOAD=$tmp/slow.so "$B/cuward" timeline --json "$tmp/trace" 2>"$tmp/said" >"$tmp/out"
	[ ! -s "$tmp/said" ]
	cmp "$tmp/plain" "$tmp/out"
}
