#!/usr/bin/env bats
# A refusal explains itself in a sentence: in the log when it happens, in the trace, in the report and in ps.

load guest
load box

setup() { box_setup; me=$(id -un); }
teardown() { box_teardown; }

@test "silent by default; from warn on a sentence, once for thousands" {
	CUWARD_MEMORY=8M guest 0 "$play" init device 0 alloc 6M refused 4M
	[ -z "$output" ]
	for level in off error; do
		CUWARD_LOG=$level CUWARD_MEMORY=8M guest 0 "$play" init device 0 alloc 6M refused 4M
		[ -z "$output" ]
	done
	CUWARD_LOG=warn CUWARD_MEMORY=8M LD_PRELOAD=$shim "$play" init device 0 alloc 6M $(printf 'refused 4M %.0s' {1..3000}) 2>said
	cat said
	[ "$(wc -l <said)" -eq 1 ]
	grep -Eqx "cuward: cuMemAlloc_v2 asked for 4 MiB on GPU 0 and was refused: the limit of the process of 8 MiB \(CUWARD_MEMORY\) has 6 MiB in use, most by this process 6 MiB for [0-9]+ s at allocate \(play\+0x[0-9a-f]+\); free some of it first, or raise the limit: cuward limit set [0-9]+ SIZE" said
}

@test "a job: who holds it, of which user, for how long, from which line, and what helps" {
	export CUWARD_JOB=j CUWARD_JOB_MEMORY=8M
	holder init device 0 alloc 5M say held sleep 600000
	CUWARD_LOG=warn LD_PRELOAD=$shim "$play" init device 0 alloc 1M refused 4M 2>said
	cat said
	[ "$(wc -l <said)" -eq 1 ]
	grep -Eqx "cuward: cuMemAlloc_v2 asked for 4 MiB on GPU 0 and was refused: the limit of the job of 8 MiB \(CUWARD_JOB_MEMORY\) has 6 MiB in use, most by process $pid \(play of $me\) 5 MiB for [0-9]+ s at allocate \(play\+0x[0-9a-f]+\), this process \(play of $me\) 1 MiB for [0-9]+ s at allocate \(play\+0x[0-9a-f]+\); end a process of the job, or wait for one \(--on-limit wait\), or raise the limit: cuward limit set j SIZE" said
}

@test "the same sentence in the report, with source lines, and in ps" {
	"$cuward" run -q --sim --job-memory 8M --report r.json -- "$play" init device 0 alloc 6M refused 4M refused 4M
	jq -e --arg me "$me" '.processes[0].denials[0] | .source == "CUWARD_JOB_MEMORY" and .count == 2 and
		(.text | test("^cuMemAlloc_v2 asked for 4 MiB on GPU 0 and was refused: the limit of the job of 8 MiB \\(CUWARD_JOB_MEMORY\\) has 6 MiB in use, most by this process \\(play of " + $me + "\\) 6 MiB for [0-9]+ s at allocate, play.c:[0-9]+ \\(play\\+0x[0-9a-f]+\\); free some of it first")) and
		(.advice | test("^free some of it first, or raise the limit: cuward limit set .* SIZE$")) and
		.holders[0].user == $me and (.holders[0].line | test("^allocate, play.c:[0-9]+ ")) and .holders[0].site.line > 0' r.json
	CUWARD_MEMORY=8M holder init device 0 alloc 6M refused 4M say held sleep 600000
	"$cuward" ps --json $pid >out
	told '.processes[0].refusals[0] | .text | test("the limit of the process of 8 MiB \\(CUWARD_MEMORY\\) has 6 MiB in use, most by this process 6 MiB for [0-9]+ s at allocate, play.c:[0-9]+ .*; free some of it first, or raise the limit: cuward limit set '$pid' SIZE$")' true
	"$cuward" ps $pid >out
	grep -Eqx "    6\.00 MiB: process $pid, play of $me, for (< 1|[0-9.]+) s by now, at allocate, play\.c:[0-9]+ \(play\+0x[0-9a-f]+\)" out
	grep -qx "    free some of it first, or raise the limit: cuward limit set $pid SIZE" out
}

@test "what helps: less, where it never fits; to free, where nobody else holds any of it; else to wait" {
	helps() { # WANTED WORD...
		CUWARD_LOG=warn LD_PRELOAD=$shim "$play" init device 0 "${@:2}" 2>said
		[ "$(sed 's/.*; \(.*\), or raise the limit: cuward limit set .* SIZE$/\1/' said)" = "$1" ] || { cat said; return 1; }
	}
	CUWARD_MEMORY=8M helps "ask for less: so much never fits" alloc 1M refused 9M
	CUWARD_MEMORY=8M helps "free some of it first" alloc 1M refused 8M
	export CUWARD_JOB=j CUWARD_JOB_MEMORY=8M
	helps "ask for less: so much never fits" refused 9M
	helps "free some of it first" alloc 1M refused 8M
	holder init device 0 alloc 1M say held sleep 600000
	helps "ask for less: so much never fits" refused 9M
	helps "end a process of the job, or wait for one (--on-limit wait)" refused 8M
	helps "end a process of the job, or wait for one (--on-limit wait)" alloc 2M refused 6M
}

@test "host memory, and a limit of the user that was set live" {
	CUWARD_LOG=warn CUWARD_PINNED=2M run env LD_PRELOAD=$shim "$play" init device 0 host 1M host 4M
	[ "${lines[0]}" = "cuward: cuMemAllocHost_v2 asked for 4 MiB and was refused: the limit of the process of 2 MiB (CUWARD_PINNED) has 1 MiB in use; ask for less: so much never fits" ]
	holder init device 0 alloc 6M say held sleep 600000
	"$cuward" limit set "$me" 8M
	CUWARD_LOG=warn LD_PRELOAD=$shim "$play" init device 0 refused 4M 2>said
	grep -Eq "the limit of the user of 8 MiB \(cuward limit\) has 6 MiB in use, most by process $pid .*; end a process of the user" said
}

@test "names that steer a terminal or end a string do neither" {
	export CUWARD_JOB_MEMORY=8M
	cp "$play" $'evil\e[31m"\\'
	play=$PWD/$'evil\e[31m"\\' holder init device 0 alloc 5M say held sleep 600000
	CUWARD_LOG=warn CUWARD_REPORT=$PWD/r.json LD_PRELOAD=$shim "$play" init device 0 refused 4M 2>said
	lacks $'\e' said
	grep -Fq "process $pid (evil?[31m\"\\ of $me) 5 MiB" said
	jq -e '.processes[0].denials[0] | (.text | contains("(evil?[31m\"\\ of ")) and .holders[0].command == "evil\u001b[31m\"\\"' r.json
	CUWARD_MEMORY=1M holder init device 0 refused 4M say held sleep 600000
	"$cuward" ps $pid >out
	lacks $'\e' out
}

@test "in the trace: of many equal ones one" {
	[ -e "$B/libcuward-lttng.so" ] && command -v lttng-sessiond >/dev/null || skip "no LTTng"
	export HOME=$PWD
	"$cuward" run -q --sim -m 8M --trace=trace -- "$play" init device 0 alloc 6M refused 4M refused 4M refused 4M
	babeltrace2 trace 2>/dev/null | grep cuward:denied >events
	[ "$(wc -l <events)" -eq 3 ]
	[ "$(grep -c 'text = ""' events)" -eq 2 ]
	head -1 events | grep -q 'text = "cuMemAlloc_v2 asked for 4 MiB on GPU 0 and was refused: the limit of the process of 8 MiB (CUWARD_MEMORY) has 6 MiB in use, most by this process 6 MiB'
	"$cuward" stats trace --json >out
	told '[.findings[] | select(.code == "refused") | .text | test("3 requests were refused.*cuMemAlloc_v2 asked for 4 MiB")]' '[true]'
}
