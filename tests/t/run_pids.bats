#!/usr/bin/env bats
# Processes in a pid namespace of their own: the report has their pid there, and here.

load guest
load box

setup() {
	box_setup
	unshare -pf --kill-child true 2>/dev/null || skip "no pid namespaces here"
}
teardown() {
	touch go
	box_teardown
}
wait_for_go='until [ -e go ]; do sleep 0.05; done'

# begin COMMAND...: in the background, up to `say held`; $outer is the pid here of the process in there,
# which is the only one of this test.
begin() {
	rm -f said go
	"$@" >said 2>err 3>&- &
	started+=($!)
	held() { grep -q held said; }
	eventually held
	outer=$(for pid in $(pgrep -x play); do
		grep -qsz "^BATS_TEST_TMPDIR=$BATS_TEST_TMPDIR\$" "/proc/$pid/environ" && echo "$pid"
	done || true)
	[ "$(wc -w <<<"$outer")" -eq 1 ]
	[ "$(awk '/^NSpid:/ { print $NF }' "/proc/$outer/status")" -eq 1 ]
}

@test "under run, when they are gone, in whatever way" {
	for end in 'exit 0' '_exit 0' 'kill 9'; do
		rm -f r.json
		begin "$cuward" run --sim --report r.json -- sh -c 'unshare -pf --kill-child "$@"; :' - \
			"$play" init device 0 alloc 3M say held sh "$wait_for_go" $end
		touch go
		wait "${started[-1]}" || true
		ask '[.pid, .outer_pid, .memory.device.allocs]' "[1,$outer,1]"
		ask '.pid_ns == '"$(stat -L -c %i /proc/self/ns/pid)" false
	done
}

@test "several: each has its own, who is in no namespace his pid, and an inner run knows too" {
	cat >several <<-'X'
		for i in 1 2 3; do
			unshare -pf --kill-child "$1" init device 0 alloc ${i}M sh "$wait_for_go" &
		done
		"$2" run --sim --report inner.json -- sh -c 'unshare -pf --kill-child "$@"; :' - \
			"$1" init device 0 alloc 7M sh "$wait_for_go" &
		"$1" init device 0 alloc 8M sh "$wait_for_go"
		wait
	X
	export wait_for_go
	"$cuward" run --sim --history=h.jsonl --report r.json -- sh several "$play" "$cuward" 3>&- &
	started+=($!)
	all() { [ "$("$cuward" ps --csv | grep -c ',"play",')" -eq 5 ]; }
	eventually all
	"$cuward" ps --json >out
	jq -c '[.processes[] | [.outer_pid, .pid, .devices[0].used_bytes]] | sort' out >expected
	touch go
	wait $!
	jq -c '[.processes[] | [.outer_pid, .pid, .devices[0].peak_bytes]] | sort' r.json | diff expected -
	jq -es 'length == 5 and ([.[] | .outer_pid] | unique | length == 5 and all(. > 1))' h.jsonl
	told '[.processes[] | select(.pid == 1)] | length' 4
	[ "$(jq '.processes[0].outer_pid' inner.json)" = "$(jq ".processes[] | select(.devices[0].used_bytes == $((7 * MiB))) | .outer_pid" out)" ]
}

@test "its own report: as far as its /proc knows" {
	export CUWARD_REPORT=$PWD/r.json
	guest 0 "$play" init device 0 alloc 1M freeall
	jq -e '.processes[0] | .pid > 1 and .outer_pid == .pid' r.json
	rm r.json
	LD_PRELOAD=$shim begin unshare -pf --kill-child "$play" init device 0 say held sh "$wait_for_go"
	touch go
	wait "${started[-1]}"
	ask '[.pid, .outer_pid]' "[1,$outer]"
	rm r.json
	LD_PRELOAD=$shim unshare -pf --mount-proc --kill-child "$play" init device 0
	ask '[.pid, .outer_pid]' '[1,1]'
}

@test "who is stalled" {
	export CUWARD_SIM_KERNEL_NS=stuck=never
	begin "$cuward" run --sim --stall 0.3s --on-stall term --report r.json -- sh -c 'unshare -pf --kill-child "$@"; :' - \
		"$play" init device 0 alloc 1M launch stuck say held sync
	wait "${started[-1]}" || true
	[ "$(jq -c '.run.watch[] | [.pid, .outer_pid, .terminated]' r.json)" = "[1,$outer,true]" ]
}
