#!/usr/bin/env bats
# cuward top: the table again and again, sorted as asked; at a terminal it fits the window.

load guest
load box

setup() { box_setup; }
teardown() { box_teardown; }

@test "batch: so many tables, which follow what happens, and no escape sequence" {
	holder init device 0 alloc 3M say held sleep 600000
	first=$pid
	holder init device 0 alloc 5M say held sh 'while [ ! -e go ]; do sleep 0.05; done' alloc 2M sh 'touch done' sleep 600000
	"$cuward" top --batch -n 2 -d 3s >out 3>&- &
	top=$!
	once() { [ "$(grep -c "^ *$first " out)" -ge 1 ]; }
	eventually once
	touch go
	wait $top
	lacks $'\033' out
	[ "$(grep -c COMMAND out)" -eq 2 ]
	grep "^ *$pid " out | grep -q ' 5.00 MiB '
	grep "^ *$pid " out | grep -q ' 7.00 MiB '
	[ "$(grep -o ' [78]\.00 MiB \| 10\.0 MiB ' out | sort -u | tr -d ' \n')" = 10.0MiB7.00MiB8.00MiB ]
}

@test "sorted by memory, pid, activity" {
	holder init device 0 alloc 3M say held sleep 600000
	first=$pid
	holder init device 0 alloc 5M say held sleep 600000
	order() { "$cuward" top --batch -n 1 -s "$1" | awk '$NF == "play" { printf "%s ", $1 }'; }
	[ "$(order memory)" = "$pid $first " ]
	[ "$(order active)" = "$pid $first " ]
	[ "$(order user)" = "$pid $first " ]
	if [ "$first" -lt "$pid" ]; then
		[ "$(order pid)" = "$first $pid " ]
	fi
}

@test "at a terminal: it fits, keys sort, q ends it" {
	command -v script >/dev/null || skip "needs script"
	holder init device 0 alloc 3M say held sleep 600000
	{ sleep 1; printf p; sleep 1; printf q; } |
		script -qec "stty rows 6 cols 40; timeout 60 $cuward top -d 0.5s" /dev/null >out
	grep -q $'\033\\[?1049h' out
	grep -q $'\033\\[?1049l' out
	sed 's/\r//g; s/\x1b\[[0-9?]*[a-zA-Z]//g' out >plain
	[ "$(wc -L <plain)" -le 79 ] # the last line is the window's width and the next table's first
	grep -q "^ *$pid " plain
}

@test "what cannot be asked" {
	run "$cuward" top </dev/null
	[ "$status" -eq 2 ]
	for wrong in '-n 0' '-n x' '-d 0' '-s size' extra; do
		run "$cuward" top --batch $wrong
		[ "$status" -eq 2 ]
	done
}
