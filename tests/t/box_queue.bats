#!/usr/bin/env bats
# cuward run --wait, --gpu auto; queue, reserve, release: whose turn it is, and who may not.

load guest
load box

setup() { box_setup; export CUWARD_SIM_TRUTH=; unset CUWARD_SIM_TRUTH; }
teardown() { box_teardown; }

first=GPU-51000000-0000-4000-8000-000000000000
second=GPU-51000000-0000-4000-8000-000000000001

# soon COMMAND...: true within half a minute.
soon() {
	local i
	for i in $(seq 600); do
		"$@" && return
		sleep 0.05
	done
	false
}

# run_in_background WORD...: cuward run with these; its pid in $pid.
run_in_background() {
	"$cuward" run --sim "$@" 3>&- &
	pid=$!
	started+=($pid)
}

# full SIZE [GPU]: somebody who was let in and holds so much, until the file `end` is there; his run's pid in
# $holder.
full() {
	rm -f end said
	run_in_background -q --wait -m "$1" -g "${2:-0}" -- "$play" init device 0 alloc "$1" say held \
		sh 'while [ -e said ] && [ ! -e end ]; do sleep 0.02; done' freeall >said
	soon grep -q held said
	holder=$pid
}

waiting() { [ "$("$cuward" queue --json | jq '.waiting | length')" -eq "$1" ]; }

# waits NAME OPTION...: one who waits for 12 GiB and then writes NAME into `order`; it is known when he waits.
waits() {
	local before
	before=$("$cuward" queue --json | jq '.waiting | length')
	run_in_background -q --wait -m 12G "${@:2}" -- sh -c "echo $1 >>order"
	soon waiting $((before + 1))
}

# ends PID STATUS
ends() {
	local status=0
	wait "$1" || status=$?
	[ "$status" -eq "$2" ] || { echo "status $status"; return 1; }
}

@test "20 who wait, of 3 priorities: each in his turn" {
	full 10G
	pids=()
	for i in $(seq 20); do
		waits "$((i % 3)).$i" --priority $((i % 3))
		pids+=($pid)
	done
	"$cuward" queue --json >out
	told '[.waiting[] | .position] == [range(1; 21)]' true
	told '[.waiting[] | .priority]' '[2,2,2,2,2,2,2,1,1,1,1,1,1,1,0,0,0,0,0,0]'
	told '.admitted | map([.asked_bytes, .held_bytes])' "[[$((10 * GiB)),$((10 * GiB))]]"
	touch end
	for pid in "${pids[@]}"; do ends $pid 0; done
	for priority in 2 1 0; do
		for i in $(seq 20); do [ $((i % 3)) -ne $priority ] || echo "$priority.$i"; done
	done >want
	diff want order
	[ -z "$(ls state/queue)" ]
}

@test "room at once: no word, no wait; too much for ever: refused at once" {
	run "$cuward" run --sim --wait -m 16G -- true
	[ "$status" -eq 0 ]
	[ "$output" = "cuward: no process used CUDA" ]
	"$cuward" run -q --sim --wait -m 16G --report r.json -- "$play" init
	jq -e '.run.waited_ns | . > 0 and . < 30000000000' r.json
	"$cuward" run -q --sim -m 16G --report s.json -- "$play" init
	jq -e '.run | has("waited_ns") and .waited_ns == null' s.json
	"$cuward" run --sim --wait=90s --priority 2 -g auto -m 1G --dry-run -- true >plan
	grep -qx -- '--wait: 1 m 30 s' plan
	grep -qx -- '--priority: 2  (command line)' plan
	grep -qx -- '--gpu: auto  (command line)' plan
	lacks CUDA_VISIBLE_DEVICES= plan
	grep -qx '  CUWARD_PRIORITY=2  (command line)' plan
	run "$cuward" run --sim --wait -m 17G -- touch never
	[ "$status" -eq 125 ]
	[ "$output" = "cuward: --wait: 17.0 GiB will never be free on $first: at most 16.0 GiB of it can be yours" ]
	run "$cuward" run --sim --wait -- touch never
	[ "$status" -eq 125 ]
	[[ "$output" == "cuward: --wait: for how much?"* ]]
	for wrong in --wait=soon --priority=21 --priority=x; do
		run "$cuward" run --sim $wrong -m 1G -- touch never
		[ "$status" -eq 125 ]
	done
	run env LD_LIBRARY_PATH=$PWD "$cuward" run --wait -m 1G -- touch never
	[ "$status" -eq 125 ] || [ -e /dev/nvidiactl ]
	[ ! -e never ]
}

@test "75 after T, a line each time the place changes, and the place is gone" {
	full 10G
	waits other --priority 1
	status=0
	"$cuward" run --sim --wait=1s -m 8G -- touch never 2>words || status=$?
	[ "$status" -eq 75 ]
	grep -q "^cuward: waiting for 8.00 GiB on $first: place 2 in the queue$" words
	grep -q '^cuward: waited .* in vain; place 2 in the queue' words
	[ "$(grep -c waiting words)" -eq 1 ]
	[ ! -e never ]
	"$cuward" queue --csv | tr -d '\r' >csv
	[ "$(sed -n '1p' csv)" = "position,state,uid,user,pid,priority,waited_ns,asked_bytes,gpus,any,job,command" ]
	[ "$(wc -l <csv)" -eq 3 ]
	grep -q "^1,waiting,$(id -u),.*,$((12 * GiB)),$first,0,[a-z0-9]*,\"sh -c echo other >>order\"$" csv
	grep -q "^,admitted,$(id -u),\"[^,]*,[0-9]*,0,,$((10 * GiB)),$first," csv # it does not wait
	touch end
	ends $pid 0
}

@test "on a terminal one line that changes" {
	full 10G
	script -qec "'$cuward' run --sim --wait=0.3s -m 12G -- true" terminal >/dev/null </dev/null || true
	grep -q $'\r\e\[Kcuward: waiting for 12.0 GiB on GPU-51000000: first in the queue, 5.70 GiB free (bound by memory), ' terminal
	script -qec "stty cols 40; '$cuward' run --sim --wait=0.3s -m 12G -- true" terminal >/dev/null </dev/null || true
	grep -q $'\r\e\[Kcuward: waiting for 12.0 GiB on GPU-510\r' terminal
	touch end
	ends $holder 0
}

@test "SIGINT and SIGTERM leave the queue, with the usual status; -9 loses the place at once" {
	full 10G
	for signal in INT TERM HUP; do
		# A shell makes its background processes ignore SIGINT; python does not.
		python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$cuward" run -q --sim --wait -m 12G -- touch never 3>&- &
		pid=$!
		soon waiting 1
		kill -$signal $pid
		ends $pid $((128 + $(kill -l $signal)))
		[ "$(ls state/queue | wc -l)" -eq 1 ]
	done
	# One that a shell started in the background has it ignored; not while it waits.
	run_in_background -q --wait -m 12G -- touch never
	soon waiting 1
	kill -INT $pid
	ends $pid 130
	waits killed
	killed=$pid
	waits next
	kill -9 $killed
	wait $killed || true
	waiting 1
	touch end
	ends $pid 0
	[ "$(cat order)" = next ]
	[ ! -e never ]
	[ -z "$(ls state/queue)" ]
}

@test "who was let in keeps his promise until his run ends, used or not" {
	run_in_background -q --wait -m 10G -- sh -c 'touch in; while [ -e in ] && [ ! -e end ]; do sleep 0.05; done'
	soon test -e in
	"$cuward" fit --json 7G >out && false
	told '.gpus[0] | [.room_bytes, .promised_bytes, .bound_by, .fits]' "[$((6 * GiB)),$((10 * GiB)),\"promised\",false]"
	run "$cuward" run -q --sim --wait=0 -m 7G -- true
	[ "$status" -eq 75 ]
	# A run within it is part of it.
	touch end
	ends $pid 0
	"$cuward" run -q --sim --wait=5s -m 10G -- "$cuward" run -q --sim --wait=5s -m 10G -- \
		"$play" init device 0 alloc 10G
	# And is not behind those who wait for that one's end.
	rm -f end in
	run_in_background -q --wait -m 10G -- sh -c "touch in; while [ -e in ] && [ ! -e end ]; do sleep 0.05; done
		'$cuward' run -q --sim --wait=60s -m 10G -- '$play' init device 0 alloc 10G"
	outer=$pid
	soon test -e in
	waits behind
	touch end
	ends $outer 0
	ends $pid 0
	# A run that was killed promises nothing, though its command goes on; what that holds counts.
	full 10G
	kill -9 $holder
	wait $holder || true
	"$cuward" fit --json 1G >out
	told '.gpus[0] | [.promised_bytes, .bound_by]' '[0,"memory"]'
	told '.gpus[0].room_bytes < 6 * 1073741824' true
	touch end
}

@test "a waiter that is stopped is not in the way" {
	full 10G
	waits stopped --priority 2
	stopped=$pid
	waits next
	kill -STOP $stopped
	touch end
	ends $pid 0
	"$cuward" queue --json >out
	told '[.waiting[] | .state]' '["stopped"]'
	kill -CONT $stopped
	ends $stopped 0
	[ "$(tr '\n' ' ' <order)" = "next stopped " ]
}

@test "who is small passes only where there is room for all before him, and who could go and does not is passed" {
	full 10G
	waits big
	big=$pid
	# 5.7 GiB are free, but the first one waits for them.
	run "$cuward" run -q --sim --wait=1.5s -m 1G -- true
	[ "$status" -eq 75 ]
	kill $big
	ends $big 143
	touch end
	ends $holder 0
	# Places that are held, and nothing more: one for little, one for all.
	cat >hold <<-'P'
		import fcntl, os, struct, sys, time
		files = []
		for i in range(int(sys.argv[1])):
		    name = "state/queue/0-1-%08x.wait" % i
		    files.append(open(name, "w+b"))
		    fcntl.fcntl(files[-1], 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0))
		    files[-1].write(sys.argv[2].encode())
		    files[-1].flush()
		print("held", flush=True)
		time.sleep(600)
	P
	place='{"pid":1,"pid_ns":1,"priority":20,"job":"j","command":"c","any":false,"gpus":[{"uuid":"'$first'","bytes":BYTES}]}'
	python3 hold 1 "${place/BYTES/1024}" >little 3>&- &
	started+=($!)
	little=$!
	soon grep -q held little
	"$cuward" run -q --sim --wait=60s -m 15G -- "$play" init device 0 alloc 15G
	kill $little
	python3 hold 1 "${place/BYTES/$((16 << 30))}" >all 3>&- &
	started+=($!)
	all=$!
	soon grep -q held all
	run "$cuward" run -q --sim --wait=4s -m 15G -- true
	[ "$status" -eq 75 ]
	"$cuward" run -q --sim --wait=60s -m 15G -- "$play" init device 0 alloc 15G
	kill $all
	# Of one user so many places count, and he gets no more.
	python3 hold 300 "${place/BYTES/1}" >many 3>&- &
	started+=($!)
	many=$!
	soon grep -q held many
	waiting 256
	run "$cuward" run -q --sim --wait=60s -m 1G -- true
	[ "$status" -eq 125 ]
	[[ "$output" == *"state/queue holds 256 places of yours, as many as one user may have" ]]
	kill $many
	rm -f state/queue/*
}

@test "auto: the GPU with most room, by its UUID; and another one each" {
	export CUWARD_SIM_DEVICES=2
	run_in_background -q --wait -g auto -m 10G -- sh -c 'echo $CUDA_VISIBLE_DEVICES >one; while [ -e one ] && [ ! -e end ]; do sleep 0.05; done'
	a=$pid
	soon test -s one
	[ "$(cat one)" = $first ]
	[ "$("$cuward" run -q --sim -g auto -- sh -c 'echo $CUDA_VISIBLE_DEVICES')" = $second ]
	run_in_background -q --wait -g auto -m 10G -- sh -c 'echo $CUDA_VISIBLE_DEVICES >two; while [ -e two ] && [ ! -e end ]; do sleep 0.05; done'
	soon test -s two
	[ "$(cat two)" = $second ]
	# Neither has room for that; one that asks for less of any is behind, and not on the GPU he waits for.
	run "$cuward" run --sim --wait=0 -g auto -m 8G -- true
	[ "$status" -eq 75 ]
	[[ "$output" == *"waited "* ]]
	"$cuward" run -q --sim --wait=5s -g auto -m 6G -- "$play" init device 0 alloc 6G
	run "$cuward" run --sim --wait -g auto -m 0=1G -- true
	[ "$status" -eq 125 ]
	touch end
	ends $pid 0
	ends $a 0
}

@test "who waits for another GPU is not in the way" {
	export CUWARD_SIM_DEVICES=2
	full 10G $first
	run_in_background -q --wait -g $first -m 12G -- sh -c 'echo first >>order'
	soon waiting 1
	"$cuward" run -q --sim --wait=5s -g 1 -m 12G -- sh -c 'echo second >>order'
	# Of all GPUs that it sees there must be room.
	run "$cuward" run -q --sim --wait=0 -m 12G -- true
	[ "$status" -eq 75 ]
	touch end
	ends $pid 0
	[ "$(tr '\n' ' ' <order)" = "second first " ]
}

@test "a GPU that is none is told, before the driver would ignore it and all behind it" {
	for wrong in AUTO Auto auto,1 1,auto 0x1 ' ' 0, ,1 0,,1 GPU- gpu-0 -2 'a b' '0 1'; do
		run "$cuward" run --sim -g "$wrong" -- true
		[ "$status" -eq 125 ] || { echo "$wrong: $status"; false; }
		[[ "$output" == *" is no GPU: auto, alone and in small letters, or indices and UUIDs with commas"* ]]
	done
	for right in 0 '0, 1' -1 '' GPU-51000000 MIG-GPU-51000000/1/2; do
		CUWARD_SIM_DEVICES=2 "$cuward" run -q --sim -g "$right" -- sh -c 'echo "$CUDA_VISIBLE_DEVICES"' >out
		[ "$(cat out)" = "$right" ]
	done
	# The environment is the driver's to understand.
	[ "$(CUDA_VISIBLE_DEVICES=auto,1 "$cuward" run -q --sim -- sh -c 'echo $CUDA_VISIBLE_DEVICES')" = auto,1 ]
}

@test "reserve: keeps it from one's own runs, for its time, after its command" {
	id=$("$cuward" reserve 10G --for 1h 2>words)
	grep -q 'this holds back your own' words
	"$cuward" fit --json 7G >out && false
	told '.gpus[0] | [.room_bytes, .reserved_bytes, .bound_by]' "[$((6 * GiB)),$((10 * GiB)),\"reserve\"]"
	run "$cuward" run -q --sim --wait=0 -m 7G -- true
	[ "$status" -eq 75 ]
	"$cuward" queue --json >out
	told '.reserves | map([.id, .for, .all_users, .gpus[0].bytes])' "[[\"$id\",\"nobody\",false,$((10 * GiB))]]"
	"$cuward" queue | grep -q "^$id  nobody    10.0 GiB  GPU-51000000  .*your own runs"
	"$cuward" release $id
	run "$cuward" release $id
	[ "$status" -eq 1 ]
	"$cuward" run -q --sim --wait=5s -m 16G -- true
	# It ends by itself.
	"$cuward" reserve 16G --gpu 0 --for 0.7s 2>/dev/null
	"$cuward" run -q --sim --wait=20s -m 1G -- true
	"$cuward" queue --json >out
	told .reserves '[]'
	[ -z "$(ls state/reserve)" ]
	"$cuward" reserve 1G --for 1h 2>/dev/null
	"$cuward" reserve 50% --for 1h 2>/dev/null
	"$cuward" release --all
	[ -z "$(ls state/reserve)" ]
	run "$cuward" reserve 1G --for 1h somebody
	# Nobody may, and for root there is no place where all users meet.
	[ "$status" -eq $([ "$(id -u)" = 0 ] && echo 3 || echo 4) ]
	[[ "$output" == *"for others "* ]]
	for wrong in '' '1G' '1G --for never' 'x --for 1h' '0=1G --for 1h' '1G --for 1h --gpu 7'; do
		run "$cuward" reserve $wrong
		[ "$status" -eq 2 ] || { echo "$wrong: $status"; false; }
	done
	# More than there is of it.
	run "$cuward" reserve 17G --for 1h
	[ "$status" -eq 2 ]
	[ "$output" = "cuward: reserve: GPU 0 has 16.0 GiB in all: 17.0 GiB of it cannot be kept; --gpu names another one, 100% is all of each" ]
	[ -z "$(ls state/reserve)" ]
	"$cuward" reserve 100% --for 1h 2>/dev/null
	"$cuward" release --all
	for wrong in '' 'a b' '--all a' ../x; do
		run "$cuward" release $wrong
		[ "$status" -eq 2 ]
	done
}

@test "a promise that cannot be read counts as everything, a reserve lets nobody in: both are named" {
	mkdir -m 700 state state/queue state/reserve
	long=$(head -c 9000 /dev/zero | tr '\0' x)
	good='{"pid":1,"pid_ns":1,"priority":0,"job":"j","command":"c","any":false,"gpus":[{"uuid":"'$first'","bytes":1}]}'
	# Nobody holds it: it is nothing, and goes.
	echo '{"pid":1' >state/queue/0-1-x.run
	"$cuward" queue --json >out
	told '.unreadable' '[]'
	[ ! -e state/queue/0-1-x.run ]
	cat >hold <<-'P'
		# Lock it as a run does, and do what the arguments say.
		import fcntl, struct, subprocess, sys
		file = open("state/queue/0-1-x.run", "r+b")
		fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0))
		sys.exit(subprocess.run(sys.argv[1:]).returncode)
	P
	while IFS='|' read -r text problem; do
		printf '%s' "$text" >state/queue/0-1-x.run
		run python3 hold "$cuward" queue
		[ "$status" -eq 1 ]
		[[ "$output" == *"0-1-x.run of uid $(id -u) cannot be understood: $problem; it counts as all memory of every GPU" ]] || {
			echo "$problem: $output"
			false
		}
	done <<-X
		|it is empty
		{"pid":1|it is cut off, or was not written by cuward
		[]|it holds something else
		$long|it is too long
		${good/'"pid":1'/'"pid":-1'}|its pid is no number from 1 to 2147483647
		${good/'"job":"j"'/'"job":"..\\u001b[2J"'}|its job is no name of a job
		${good/'"bytes":1'/'"bytes":99999999999999999'}|its bytes is no number from 1 to 70368744177664
		${good/GPU-5/GPU-X}|its GPUs are not named by different UUIDs
		${good/'"any":false,'/}|it does not say whether any of its GPUs will do
	X
	run python3 hold "$cuward" run --sim --wait=0.1s -m 1G -- touch never
	[ "$status" -eq 75 ]
	[ "$(grep -c 'counts as all memory of every GPU until it is gone' <<<"$output")" -eq 1 ]
	run python3 hold "$cuward" fit 1G
	[ "$status" -eq 1 ]
	# One that says what is so is shown, and nothing in it steers the terminal.
	printf '%s' "${good/'"command":"c"'/'"command":"\u001b[2Jc"'}" >state/queue/0-1-x.run
	run python3 hold "$cuward" queue
	[ "$status" -eq 0 ]
	[[ "$output" == *'\x1b[2Jc' ]]
	[ ! -e never ]
	for text in '' '{"whose":"nobody"' '{"whose":"nobody","who":0,"since_ns":1,"until_ns":0,"gpus":[]}'; do
		printf '%s' "$text" >state/reserve/abc
		run "$cuward" run --sim --wait=1s -m 1G -- touch never
		[ "$status" -eq 125 ]
		[[ "$output" == *"the reserve $PWD/state/reserve/abc cannot be understood: it "*"nobody is let in while it is there"* ]]
		run "$cuward" fit 1G
		[ "$status" -eq 1 ]
		"$cuward" release abc
	done
	[ ! -e never ]
	chmod 777 state/queue
	run "$cuward" run --sim --wait=1s -m 1G -- touch never
	[ "$status" -eq 125 ]
	[[ "$output" == *"state/queue: others may write to it; "* ]]
	run "$cuward" fit 1G
	[ "$status" -eq 1 ]
	[[ "$output" == *"state/queue is not yours or is writable by others"* ]]
	rm -r state
	# Who only looks makes nothing.
	"$cuward" queue
	"$cuward" fit -q 1G
	[ ! -e state ]
	echo none >state
	"$cuward" fit -q 1G
	[ "$("$cuward" run -q --sim -g auto -m 1G -- sh -c 'echo $CUDA_VISIBLE_DEVICES')" = $first ]
	run "$cuward" run --sim --wait=1s -m 1G -- touch never
	[ "$status" -eq 125 ]
	[ ! -e never ]
	rm state
}

@test "a folder of state that cannot be used: nothing is made in it, and the cause is told" {
	echo text >file
	mkdir -m 777 open
	mkdir -m 700 mine
	mkdir elsewhere
	ln -s "$PWD/elsewhere" mine/queue
	me=$(id -u)
	[ "$me" != 0 ] || { mkdir -m 700 foreign; chown 12345 foreign; }
	while IFS='|' read -r folder why; do
		export CUWARD_DIR=$PWD/$folder
		[ -e "$folder" ] || [ $folder = no/such ] || continue
		for command in "run --sim --wait=1s -m 1G -- touch never" "reserve 1G --for 1h"; do
			[ "$folder $command" != "mine reserve 1G --for 1h" ] || continue
			run "$cuward" $command
			[ "$status" -eq $([ "${command%% *}" = run ] && echo 125 || echo 1) ]
			[[ "$output" == "cuward: "*": $PWD/$folder"*": $why; \`cuward doctor\` says more" ]] || { echo "$command: $output"; false; }
		done
		[ $folder = mine ] || {
			run "$cuward" run --sim --report r.json -- touch never
			[ "$status" -eq 125 ]
			[ "$output" = "cuward: cannot use the folder $PWD/$folder: $why; without it there is no report" ]
		}
	done <<-'X'
		no/such|No such file or directory
		file|it is no folder
		open|others may write to it
		foreign|it belongs to uid 12345
		mine|it is a link
	X
	[ ! -e never ]
	[ -z "$(ls open elsewhere | grep -v :)" ]
}
