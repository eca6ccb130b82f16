#!/usr/bin/env bats
# cuward clean, kill and env: what the dead left goes, what lives stays; one process is ended, and no other.

load guest
load box

setup() { box_setup; }
teardown() { box_teardown; }

killed_holder() {
	holder "$@"
	kill -9 $pid
	wait $pid || true
}

@test "clean: slots and ledgers of the dead, and nothing of the living" {
	killed_holder init device 0 alloc 3M say held sleep 600000
	killed_holder init device 0 alloc 3M say held sleep 600000
	dead=$pid
	holder init device 0 alloc 5M say held sh 'while [ ! -e go ]; do sleep 0.05; done' alloc 1M freeall
	# The second took over what the first left; so there are two slots, and one is dead by now.
	[ "$(find state -name '*.ledger' | wc -l)" -ge 1 ]
	kill -9 $pid
	wait $pid || true
	CUWARD_MEMORY=8M holder init device 0 alloc 5M say held sh 'while [ ! -e go ]; do sleep 0.05; done' refused 4M alloc 1M freeall
	living=$pid
	run "$cuward" clean
	echo "$output"
	[ "$status" -eq 0 ]
	[[ "$output" =~ ^"$PWD/state: "[0-9]+" slot"s?" and "[0-9]+" ledger"s?" of the dead removed"$ ]]
	"$cuward" ps --stale --json >out
	told '[.processes[] | [.pid, .state, .devices[0].used_bytes]]' "[[$living,\"alive\",$((5 * MiB))]]"
	[ "$(cd state/jobs/- && ls)" = "$(cd state/jobs/- && ls $living-*)" ]
	run "$cuward" clean
	[[ "$output" == *": 0 slots and 0 ledgers of the dead removed" ]]
	touch go
	wait $living
}

@test "clean: who is killed in a job that no run made leaves nothing" {
	for job in named named/inner; do
		CUWARD_JOB=$job holder init device 0 alloc 1M say held sleep 600000
		kill -9 $pid
		wait $pid || true
	done
	# Who takes over the slot of a dead one removes his ledger.
	[ "$(find state -name '*.ledger')" = "state/jobs/named/inner/$(basename "$(find state -name '*.ledger')")" ]
	"$cuward" clean >out
	grep -q ': 1 slot and 1 ledger of the dead removed$' out
	[ -z "$(find state -name '*.ledger')" ]
	# One that ends in order leaves nothing either, and writes its own report.
	CUWARD_JOB=named CUWARD_REPORT=$PWD/r.json LD_PRELOAD=$shim "$play" init device 0 alloc 1M
	[ -z "$(find state -name '*.ledger')" ]
	[ "$(jq -c '.processes[0] | [.job, .leaks[].bytes]' r.json)" = '["named",1048576]' ]
}

@test "clean: ledgers of a run that is dead go, those of one that lives stay" {
	"$cuward" run -q --sim -- "$play" init device 0 alloc 1M say held sleep 600000 >said 3>&- &
	run=$!
	started+=($run)
	held() { grep -qs held said; }
	eventually held
	"$cuward" ps --json >out
	guest=$(jq '.processes[0].pid' out)
	started+=($guest)
	"$cuward" clean
	[ "$(find state -name '*.ledger' | wc -l)" -eq 1 ]
	kill -9 $run $guest
	wait $run || true
	gone() { "$cuward" clean && [ -z "$(find state -name '*.ledger')" ]; }
	eventually gone
	[ -z "$(ls state/jobs)" ]
}

@test "clean: a folder that is none, and one of somebody else" {
	run "$cuward" clean
	[ "$status" -eq 0 ]
	[ ! -e state ]
	[ "$(id -u)" = 0 ] || skip "needs root"
	killed_holder init device 0 alloc 3M say held sleep 600000
	chown 12345 state
	run "$cuward" clean
	[ "$status" -eq 1 ]
	[[ "$output" == *"$PWD/state is no folder of yours"* ]]
	[ "$(find state -name '*.ledger' | wc -l)" -eq 1 ]
	chown 0 state
}

@test "clean --all works as the owner of each folder" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	killed_holder init device 0 alloc 3M say held sleep 600000
	mkdir -p victims
	cp -r state/jobs victims
	cat >inside <<-'X'
		mount -t tmpfs tmpfs /dev/shm
		[ ! -d /run/user ] || mount -t tmpfs tmpfs /run/user
		other=/dev/shm/cuward-12345
		cp -r state $other
		mv $other/slots.0 $other/slots.12345
		rm -r $other/jobs
		ln -s $PWD/victims/jobs $other/jobs
		chown -h 12345 $other $other/*
		cp -r state /dev/shm/cuward-0
		mkdir "/dev/shm/cuward-$(printf '\033[31m\nx')"
		"$1" clean --all
	X
	unshare -m sh ./inside "$cuward" >out
	cat out
	grep -Fxq '/dev/shm/cuward-0: 1 slot and 1 ledger of the dead removed' out
	# Somebody who leads root astray leads himself only.
	grep -Fxq '/dev/shm/cuward-12345: 1 slot and 0 ledgers of the dead removed' out
	# Nor does he write what he likes on root's terminal.
	grep -Fxq '/dev/shm/cuward-\x1b[31m\x0ax: 0 slots and 0 ledgers of the dead removed' out
	[ "$(find victims -name '*.ledger' | wc -l)" -eq 1 ]
}

@test "kill: shown, asked for, SIGTERM" {
	holder init device 0 alloc 3M say held sleep 600000
	other=$pid
	holder init device 0 alloc 4M say held sleep 600000
	run "$cuward" kill $pid </dev/null
	[ "$status" -eq 1 ]
	[[ "${lines[0]}" == "process $pid, play of $(id -un), started "* ]]
	[[ "${lines[1]}" == "  holds 4.00 MiB on GPU-51000000" ]]
	[[ "$output" == *"nobody is there to ask; --yes says so beforehand"* ]]
	kill -0 $pid
	# An answer is one wherever it comes from.
	for answer in n '' no 'x y'; do
		run "$cuward" kill $pid <<<"$answer"
		[ "$status" -eq 1 ]
		kill -0 $pid
	done
	run "$cuward" kill $other <<<y
	[ "$status" -eq 0 ]
	[[ "$output" == *"end it? [y/N] process $other ended by SIGTERM" ]]
	holder init device 0 alloc 3M say held sleep 600000
	other=$pid
	holder init device 0 alloc 4M say held sleep 600000
	run "$cuward" kill --yes $pid
	[ "$status" -eq 0 ]
	[ "${lines[-1]}" = "process $pid ended by SIGTERM" ]
	status=0
	wait $pid || status=$?
	[ "$status" -eq 143 ]
	kill -0 $other
}

@test "kill: at a terminal the answer counts" {
	command -v script >/dev/null || skip "needs script"
	holder init device 0 alloc 3M say held sleep 600000
	printf 'n\n' | script -qec "$cuward kill $pid" /dev/null >out || true
	grep -q 'end it? \[y/N\]' out
	kill -0 $pid
	printf 'y\n' | script -qec "$cuward kill $pid" /dev/null >out
	grep -q 'ended by SIGTERM' out
}

@test "kill: who does not listen is killed after a while" {
	cat >deaf <<-'X'
		trap '' TERM
		exec "$@"
	X
	LD_PRELOAD=$shim sh ./deaf "$play" init device 0 alloc 3M say held sleep 600000 >said 3>&- &
	pid=$!
	started+=($pid)
	held() { grep -qs held said; }
	eventually held
	run "$cuward" kill --yes --grace 0.2s $pid
	[ "$status" -eq 0 ]
	[ "${lines[-1]}" = "process $pid ended by SIGKILL, 200 ms after SIGTERM" ]
	status=0
	wait $pid || status=$?
	[ "$status" -eq 137 ]
}

@test "kill: nobody else, and nobody by name" {
	sleep 600 3>&- &
	pid=$!
	started+=($pid)
	run "$cuward" kill --yes $pid
	[ "$status" -eq 1 ]
	[[ "$output" == *"no living process with this pid uses CUDA under cuward"* ]]
	kill -0 $pid
	for wrong in sleep '' 0 -1 1x; do
		run "$cuward" kill --yes "$wrong"
		[ "$status" -eq 2 ]
	done
}

@test "kill: nobody on the word of a slot, and a liar shields nobody" {
	sleep 600 3>&- &
	bystander=$!
	started+=($bystander)
	sleep 0.05 # the clock of /proc ticks a hundred times a second
	holder init device 0 alloc 3M say held sleep 600000
	lie $pid $bystander
	run "$cuward" kill --yes $bystander
	echo "$output"
	[ "$status" -eq 1 ]
	[ "$output" = "cuward: kill: it is gone, or not what its slot says" ]
	kill -0 $bystander
	# Another one that claims more memory, so it is found first, says that it is this one.
	holder init device 0 alloc 1M say held sleep 600000
	true=$pid
	sleep 0.05
	holder init device 0 alloc 5M say held sleep 600000
	lie $pid $true
	run "$cuward" kill --yes $true
	[ "$status" -eq 0 ]
	[[ "$output" == *"  holds 1.00 MiB on "*"process $true ended by SIGTERM" ]]
	kill -0 $pid
}

@test "kill: signals go to a descriptor, never to a number" {
	holder init device 0 alloc 3M say held sleep 600000
	timeout -k 5 100 gdb -nx -batch -ex 'catch syscall kill' -ex 'catch syscall tkill' -ex 'catch syscall tgkill' \
		-ex 'catch syscall rt_sigqueueinfo' -ex 'catch syscall pidfd_send_signal' -ex run \
		-ex 'print $rsi' -ex continue -ex continue -ex continue --args "$cuward" kill --yes $pid >out 2>&1 || true
	cat out
	[ "$(grep -o '(call to syscall [a-z_]*' out | sort | uniq -c | tr -s ' ')" = " 1 (call to syscall pidfd_send_signal" ]
	grep -Fq '$1 = 15' out
	grep -Fxq "process $pid ended by SIGTERM" out
}

@test "env: for a shell it does what it says, whatever is in a value" {
	export CUWARD_MEMORY=8M CUWARD_LABEL="a='b' \$(touch pwned)"
	"$cuward" env --sh >script
	unset CUWARD_MEMORY CUWARD_LABEL
	cat >>script <<-X
		"$play" init device 0 refused 9M alloc 8M
		[ "\$CUWARD_LABEL" = "a='b' \\\$(touch pwned)" ]
	X
	sh ./script
	[ ! -e pwned ]
	LD_PRELOAD=/lib/x86_64-linux-gnu/libc.so.6 "$cuward" env --sh >script
	echo 'echo "$LD_PRELOAD"' >>script
	[ "$(LD_PRELOAD=libc.so.6 sh ./script)" = "$shim:libc.so.6" ]
}

@test "env: for docker and Slurm; every variable of the README in the table" {
	export CUWARD_MEMORY=8M
	run "$cuward" env --docker
	[[ "$output" == "-v '$shim':/usr/lib/libcuward.so:ro -e LD_PRELOAD=/usr/lib/libcuward.so"*" -e CUWARD_MEMORY='8M'"* ]]
	[ "${#lines[@]}" -eq 1 ]
	run "$cuward" env --docker --sh
	[ "$status" -eq 2 ]
	run "$cuward" env --docker
	# The folder of state is made before docker makes one that is root's; one that is no good is told.
	[[ "$output" == *" -v '$CUWARD_DIR':'$CUWARD_DIR'"* ]]
	[ "$(stat -c %a:%u "$CUWARD_DIR")" = 700:$(id -u) ]
	echo none >file
	CUWARD_DIR=$PWD/file "$cuward" env --docker >out 2>err
	[ "$(cat err)" = "cuward: env: CUWARD_DIR=$PWD/file: it is no folder" ]
	"$cuward" env --slurm >out
	grep -Fxq "export LD_PRELOAD=$shim" out
	grep -Fxq "export CUWARD_MEMORY=8M" out
	"$cuward" env >out
	grep -Fxq "CUWARD_MEMORY=8M" out
	grep -Fxq "CUWARD_LEAK=exit" out
	[ "$(grep -c '^CUWARD_' out)" -eq "$(grep -c '^	X(' "$TOP/include/cuward/settings.h")" ]
}
