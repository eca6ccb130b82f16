#!/usr/bin/env bats
# cuward run without CUDA: exit status, signals, preload, what cannot be watched, dry run.

setup() {
	cd "$BATS_TEST_TMPDIR"
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state PATH=$BATS_TEST_TMPDIR/bin:$PATH
	unset LD_PRELOAD CUWARD_JOB CUWARD_MEMORY CUWARD_JOB_MEMORY CUWARD_REPORT CUWARD_LEAK
	unset CUWARD_FAIL_ON CUWARD_LABEL CUWARD_LOG CUDA_VISIBLE_DEVICES
	mkdir bin
}

teardown() {
	# Nothing but the empty skeleton is left.
	[ -z "$(find state -type f -not -name 'slots.*' 2>/dev/null)" ]
}

cuward() { "$B/cuward" "$@"; }

# expect STATUS TEXT COMMAND...: exit status and a part of what is said.
expect() {
	status=0
	output=$("${@:3}" 2>&1) || status=$?
	echo "status $status: $output"
	[ "$status" -eq "$1" ]
	[[ $output == *"$2"* ]]
}

program() { # NAME: a C program from stdin
	cc -x c -o "$1" "${@:2}" -
}

@test "the status of the command" {
	expect 0 "cuward: no process used CUDA" cuward run true
	expect 1 "" cuward run false
	expect 127 "" cuward run sh -c 'exit 127'
	expect 137 "" cuward run -- sh -c 'kill -9 $$'
	expect 139 "" cuward run sh -c 'kill -SEGV $$'
	expect 255 "" cuward run sh -c 'exit 255'
}

@test "not found and not executable" {
	expect 127 "cuward: nosuchcommand: No such file" cuward run nosuchcommand
	expect 127 "./nosuch: No such file" cuward run ./nosuch
	expect 127 "" cuward run ''
	touch plain && expect 126 "./plain: cannot be executed" cuward run ./plain
	expect 126 "" cuward run "$BATS_TEST_TMPDIR"
	expect 127 "" cuward run ./plain/below
	printf '#!/nosuch/interpreter\n' >script && chmod +x script
	expect 125 "it is run by /nosuch/interpreter" cuward run ./script
}

@test "-q says nothing" {
	[ -z "$(cuward run -q true 2>&1)" ]
	[ -z "$(CUWARD_LOG=off cuward run true 2>&1)" ]
	expect 127 "nosuch" cuward run -q nosuch
}

@test "stdin and stdout belong to the command" {
	[ "$(echo text | cuward run -q cat)" = text ]
	[ "$(head -c 100000 /dev/zero | cuward run -q wc -c)" -eq 100000 ]
	[ "$(cuward run sh -c 'echo out' 2>/dev/null)" = out ]
}

@test "closed descriptors stay closed" {
	cat >look.sh <<-'END'
		for fd in 0 1 2; do [ -e /proc/$$/fd/$fd ] && echo $fd >&9; done; true
	END
	exec 9>seen
	cuward run sh look.sh <&- >&- 2>&-
	exec 9>&-
	[ ! -s seen ]
	cuward run -q sh -c 'ls /proc/$$/fd >fds'
	sh -c 'ls /proc/$$/fd >plain'
	diff fds plain
}

@test "signals are forwarded" {
	cat >trap.sh <<-'END'
		trap 'echo got $1; exit 5' "$1"
		echo ready
		while :; do sleep 0.05; done
	END
	for signal in TERM INT HUP USR1; do
		# A background job of a script ignores INT, unless it asks for it.
		python3 - "$B/cuward" "$signal" <<-'END'
			import signal, subprocess, sys
			command = [sys.argv[1], "run", "-q", "bash", "trap.sh", sys.argv[2]]
			child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
			assert child.stdout.readline() == "ready\n"
			child.send_signal(getattr(signal, "SIG" + sys.argv[2]))
			assert child.stdout.read() == f"got {sys.argv[2]}\n"
			assert child.wait() == 5
		END
	done
}

@test "the terminal's signals reach the command once" {
	python3 -c 'import pty; pty.openpty()' 2>/dev/null || skip "no terminals here"
	python3 - "$B/cuward" <<-'END'
		import os, pty, sys
		count = "n=0; trap 'n=$((n+1))' INT; echo ready; for i in 1 2 3 4 5 6; do sleep 0.1; done; echo $n"
		pid, terminal = pty.fork()
		if pid == 0:
		    os.execv(sys.argv[1], ["cuward", "run", "-q", "bash", "-c", count])
		said = b""
		while b"ready" not in said:
		    said += os.read(terminal, 100)
		os.write(terminal, b"\x03")
		try:
		    while more := os.read(terminal, 100):
		        said += more
		except OSError:
		    pass
		assert said.replace(b"^C", b" ").split() == [b"ready", b"1"], said
		assert os.waitpid(pid, 0)[1] == 0
	END
}

@test "a signal that kills the command" {
	"$B/cuward" run -q sleep 30 &
	wrapper=$!
	for i in $(seq 50); do
		pid=$(pgrep -P $wrapper -x sleep) && break
		sleep 0.1
	done
	kill -TERM $wrapper
	status=0
	wait $wrapper || status=$?
	[ $status -eq 143 ]
	! kill -0 "$pid" 2>/dev/null
}

@test "the command gets the mask and the dispositions we got" {
	python3 - "$B/cuward" <<-'END'
		import signal, subprocess, sys
		show = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []), int(signal.getsignal(signal.SIGCHLD)), int(signal.getsignal(signal.SIGUSR2)))"
		signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
		signal.signal(signal.SIGUSR2, signal.SIG_IGN)
		signal.signal(signal.SIGCHLD, signal.SIG_IGN)
		def output(command):
		    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, restore_signals=False)
		    return run.stdout.read()
		plain = output([sys.executable, "-c", show])
		assert plain.split() == ["{<Signals.SIGUSR1:", "10>}", "1", "1"], plain
		assert output([sys.argv[1], "run", "-q", sys.executable, "-c", show]) == plain
	END
}

@test "only the command is waited for" {
	start=$(date +%s)
	cuward run -q sh -c 'sleep 4 >/dev/null 2>&1 & echo $! >pid'
	[ $(($(date +%s) - start)) -lt 3 ]
	kill "$(cat pid)"
}

@test "LD_PRELOAD is extended" {
	ours=$B/libcuward.so
	show() { cuward run -q printenv LD_PRELOAD; }
	[ "$(show)" = "$ours" ]
	[ "$(LD_PRELOAD='' show)" = "$ours" ]
	printf 'int one;' | program one.so -shared -fPIC
	cp one.so two.so
	[ "$(LD_PRELOAD=$PWD/one.so show)" = "$ours:$PWD/one.so" ]
	[ "$(LD_PRELOAD=$PWD/one.so:$PWD/two.so show)" = "$ours:$PWD/one.so:$PWD/two.so" ]
	[ "$(LD_PRELOAD="$PWD/one.so $PWD/two.so" show)" = "$ours:$PWD/one.so $PWD/two.so" ]
	LD_PRELOAD="$PWD/one.so $PWD/two.so" cuward run -q cat /proc/self/maps >maps
	grep -q one.so maps
	grep -q two.so maps
	grep -q libcuward.so maps
	# Grandchildren have it, a nested run adds nothing.
	[ "$(cuward run -q sh -c 'sh -c "printenv LD_PRELOAD"')" = "$ours" ]
	[ "$(cuward run -q "$B/cuward" run -q printenv LD_PRELOAD)" = "$ours" ]
}

@test "a library that cannot be preloaded is noticed" {
	mkdir 'a b' && cp "$B/cuward" "$B/libcuward.so" 'a b'
	expect 125 "a blank or a colon cannot be preloaded" 'a b/cuward' run true
	mkdir c && cp "$B/cuward" c && echo nothing >c/libcuward.so
	expect 125 "the pre-flight failed" c/cuward run true
	rm c/libcuward.so
	expect 125 "libcuward.so is neither in" c/cuward run true
	ln -s "$B/cuward" bin/other-name
	expect 0 "no process used CUDA" other-name run true
}

@test "what cannot be watched is refused" {
	echo 'int main(void) { return 0; }' >main.c
	cc -static -o static main.c
	expect 125 "./static cannot be watched: it is linked statically" cuward run ./static
	cc -static-pie -o static-pie main.c
	expect 125 "linked statically" cuward run ./static-pie
	cc -o suid main.c && chmod u+s suid
	expect 125 "it is set-uid" cuward run ./suid
	cc -o sgid main.c && chmod g+s sgid
	expect 125 "it is set-gid" cuward run ./sgid
	cp static other && printf '\x01' | dd of=other bs=1 seek=4 conv=notrunc status=none
	expect 125 "another word size" cuward run ./other
	cp suid machine && printf '\x08\x00' | dd of=machine bs=1 seek=18 conv=notrunc status=none
	expect 125 "another machine" cuward run ./machine
	printf '#!%s/static\n' "$PWD" >script && chmod +x script
	expect 125 "it is run by $PWD/static, and it is linked statically" cuward run ./script
	printf '#! %s/script -x\n' "$PWD" >deeper && chmod +x deeper
	expect 125 "linked statically" cuward run ./deeper
}

@test "file capabilities are refused" {
	command -v setcap >/dev/null || skip "no setcap"
	cp /bin/true capable
	setcap cap_net_raw+ep capable 2>/dev/null || skip "no file capabilities here"
	expect 125 "it has file capabilities" cuward run ./capable
}

@test "scripts and the dynamic loader are run" {
	printf '#!/bin/sh\necho sh $1\n' >script && chmod +x script
	[ "$(cuward run -q ./script a)" = "sh a" ]
	printf 'echo bare $1\n' >bare && chmod +x bare
	[ "$(cuward run -q ./bare a)" = "bare a" ]
	printf '#!/usr/bin/env bash\necho env $1\n' >bin/found && chmod +x bin/found
	[ "$(cuward run -q found a)" = "env a" ]
	loader=$(readelf -l "$B/cuward" | sed -n 's/.*interpreter: \(.*\)\]/\1/p')
	[ "$(cuward run -q "$loader" /bin/echo by loader)" = "by loader" ]
}

@test "arguments of the command are its own" {
	[ "$(cuward run -q echo -m 4G --help)" = "-m 4G --help" ]
	[ "$(cuward run -q -- echo -q)" = "-q" ]
	[ "$(cuward run -q sh -c 'echo $#' x '' ' ')" = 2 ]
}

@test "mistakes are told and nothing is run" {
	bad() { expect 125 "$1" cuward run "${@:2}" touch ran; [ ! -e ran ]; }
	bad "'4Q': unknown unit" -m 4Q
	bad "'': a limit is empty" -m ''
	bad "a limit of 0 bytes" --memory=0
	bad "'-1': a limit is not negative" --job-memory=-1
	bad "this GPU is named twice" -m 0=1G,0=2G
	bad "--on-limit: 'ask' is not one of its values: deny, wait, pause, kill, wait=T (90s, 10m, 2h)" --on-limit ask
	bad "'wait=soon' is not one of its values" --on-limit wait=soon
	bad "'refuse' is not one of its values" --on-limit refuse
	bad "'much' is not one of its values: show, charge, a size" --overhead much
	bad "'slowly' is not one of its values: exit, growth, marks, off" --leak slowly
	bad "'deep' is not one of its values" --stack deep
	bad "'hang' is neither leak" --fail-on leak,hang
	bad "'leek' is neither" --fail-on leek
	bad "'' is neither" --fail-on leak,
	bad "takes a size" --fail-on leak:50%
	bad "unknown unit" --fail-on leak:5Q
	bad "is not between 1 and 255" --error-exitcode 256
	bad "is not between 1 and 255" --error-exitcode x
	bad "a label is KEY=VALUE" --label novalue
	bad "a label is KEY=VALUE" --label =x
	bad "longer than 127 bytes" --label "k=$(printf 'x%.0s' $(seq 130))"
	bad "with %p %t %h %u" --report %q.json
	bad "unrecognized option" --nosuch
	bad "there is no simulated driver" --sim=9.9
	bad "there is no simulated driver" --sim=../sim
	expect 125 "which command?" cuward run
	expect 125 "CUWARD_MEMORY: '5X'" env CUWARD_MEMORY=5X "$B/cuward" run true
	expect 125 "CUWARD_MEMORY: ''" env CUWARD_MEMORY= "$B/cuward" run true
	expect 125 "CUWARD_JOB: '../x' is no name" env CUWARD_JOB=../x "$B/cuward" run true
}

@test "the environment of the command" {
	export CUWARD_LEAK=exit CUWARD_REPORT=r.json
	cuward run -q -m 50% --job-memory 1G -g 0,1 --stack none --label a=1 --label b=2 -v env >env
	grep -qx "CUWARD_MEMORY=50%" env
	grep -qx "CUWARD_JOB_MEMORY=1G" env
	grep -qx "CUDA_VISIBLE_DEVICES=0,1" env
	grep -qx "CUWARD_STACK=none" env
	grep -qx "CUWARD_LABEL=a=1,b=2" env
	grep -qx "CUWARD_LOG=info" env
	grep -qx "CUWARD_DIR=$CUWARD_DIR" env
	grep -qxE "CUWARD_JOB=[a-z0-9]{8}" env
	grep -qx "CUWARD_LEAK=exit" env
	[ "$(grep -c "^CUWARD_REPORT" env)" -eq 0 ]
	[ "$(jq -r .run.command_status r.json)" = 0 ]
	unset CUWARD_REPORT CUWARD_LEAK
	cuward run env >env 2>/dev/null
	[ "$(grep -c "CUWARD_MEMORY\|CUWARD_STACK\|CUWARD_LOG\|CUDA_VISIBLE" env)" -eq 0 ]
	[[ $(CUWARD_JOB=outer cuward run -q printenv CUWARD_JOB) == outer/???????? ]]
	[ "$(CUWARD_LABEL=x=1 cuward run -q --label y=2 printenv CUWARD_LABEL)" = x=1,y=2 ]
}

@test "two limits: the lowest wins" {
	lowest() { CUWARD_MEMORY=$1 cuward run -q -m "$2" printenv CUWARD_MEMORY; }
	[ "$(lowest 4G 2G)" = 2147483648 ]
	[ "$(lowest 2G 4G)" = 2147483648 ]
	[ "$(lowest none 4G)" = 4294967296 ]
	[ "$(lowest 4G none)" = 4294967296 ]
	[ "$(lowest none none)" = none ]
	[ "$(lowest 50% 50.01%)" = 50% ]
	[ "$(lowest 33.25% 100%)" = 33.25% ]
	[ "$(lowest 0=1G,1=50% 0=2G,2=5)" = 0=1073741824,2=5,1=50% ]
	[ "$(lowest none GPU-AB=1K)" = GPU-ab=1024 ]
	[ "$(lowest 0=none 0=1K)" = 0=1024 ]
	expect 125 "which is lower depends on the GPU" env CUWARD_MEMORY=50% "$B/cuward" run -m 4G true
	expect 125 "which is lower depends on the GPU" env CUWARD_MEMORY=0=1G "$B/cuward" run -m 4G true
	[ "$("$B/cuward" run --job-memory 4G "$B/cuward" run --job-memory 2G sh -c 'echo $CUWARD_JOB_MEMORY \
		$CUWARD_INNER_MEMORY; [ "$CUWARD_JOB" = "$CUWARD_INNER_OF" ] && [ "${CUWARD_JOB%/*}" = "$CUWARD_JOB_OF" ] && echo so')" = "4G 2G
so" ]
}

@test "--dry-run" {
	CUWARD_STACK=none cuward run --dry-run -m 1.5G --leak off touch ran >plan
	[ ! -e ran ]
	[ ! -e state ]
	grep -qx "limit of each process on each GPU: 1610612736 bytes  (command line: 1.5G)" plan
	grep -qx "limit of all processes together on each GPU: none  (default: none)" plan
	grep -qx -- "--leak: off  (command line)" plan
	grep -qx -- "--stack: none  (environment)" plan
	grep -qx "  CUWARD_MEMORY=1.5G  (command line)" plan
	grep -qx "  LD_PRELOAD=$B/libcuward.so  (cuward run)" plan
	! grep -E '^--(trace|record|history)' plan || false
	cuward run --dry-run --record on-leak,on-denied --history=past true >plan
	[ "$(grep -E '^--(trace|record|history)' plan | tr '\n' ' ')" = \
		"--trace: ./cuward-trace-TIME-PID --record: on-denied,on-leak --history: past " ]
	CUWARD_MEMORY=1G cuward run --dry-run -m 2G true >plan
	grep -q "1073741824 bytes  (lowest of command line and environment" plan
	expect 125 "it is set-uid" cuward run --dry-run "$(cc -o suid -x c - <<<'int main;' 2>/dev/null; chmod u+s suid; echo ./suid)"
}

@test "a state folder that cannot be used" {
	touch file
	CUWARD_DIR=$PWD/file expect 0 "there will be no report" cuward run true
	CUWARD_DIR=$PWD/file expect 125 "without it there is no report" cuward run --report r.json true
	mkdir -m 777 open
	CUWARD_DIR=$PWD/open expect 125 "cannot use the folder" cuward run --fail-on leak true
	CUWARD_DIR=relative cuward run -q printenv CUWARD_DIR >dir
	[ "$(cat dir)" = "$PWD/relative" ]
	[ "$(stat -c %a relative)" = 700 ]
}

@test "where the state folder is by default" {
	unset CUWARD_DIR
	mkdir runtime
	XDG_RUNTIME_DIR=$PWD/runtime cuward run --dry-run true | grep -q "CUWARD_DIR=$PWD/runtime/cuward  (default)"
	XDG_RUNTIME_DIR=$PWD/nosuch cuward run --dry-run true | grep -q "CUWARD_DIR=/dev/shm/cuward-$(id -u) "
	XDG_RUNTIME_DIR='' cuward run --dry-run true | grep -q "CUWARD_DIR=/dev/shm/cuward-$(id -u) "
}

@test "the report never overwrites and tells of failure" {
	cuward run -q --report r.json true
	cuward run -q --report r.json true
	[ "$(ls r*.json | wc -l)" -eq 2 ]
	[ "$(jq -c .processes r.json)" = "[]" ]
	[ "$(jq -r .schema r.json)" = 1 ]
	expect 125 "cannot write the report no/such/r.json" cuward run --report no/such/r.json true
	expect 3 "cannot write the report" cuward run --report no/such/r.json sh -c 'exit 3'
	expect 125 "cannot write the report /dev/full: No space left on device" cuward run --report /dev/full true
	cuward run --report %p-%t-%h-%u-%%.json true
	ls | grep -qxE "[0-9]+-[0-9]{8}T[0-9]{6}Z-$(uname -n)-$(id -un)-%\.json"
	cuward run -q --report /dev/fd/7 true 7>piped
	[ "$(jq -r .schema piped)" = 1 ]
}

@test "help, version, unknown commands" {
	expect 0 "Usage: cuward run" cuward run --help
	expect 0 "cuward " cuward --version
	expect 0 "run        " cuward --help
	# One line each: none is broken in the middle.
	[ -z "$(cuward --help | sed '1,/^Commands:/d; /^$/,$d' | grep -v '^  [a-z]')" ]
	# Each has its words in cuward(1), too.
	local name
	for name in $(cuward --help | sed -n '1,/^Commands:/d; /^$/,$d; s/^  \([a-z]*\) .*/\1/p'); do
		grep -Eq "^\*$name\*|^\*.*, \*$name\*" "$TOP/docs/cuward.1.scd" || { echo "no $name"; false; }
	done
	[ "$name" = why ]
	expect 2 "did you mean 'cuward run'?" cuward rum
	expect 2 "there is no command 'zzz'" cuward zzz
	expect 2 "" cuward
}

@test "an output that nobody gets is no success" {
	local words
	for words in "ps --json" "queue" "trace status" "explain" "env" "top --batch -n 1" "limit check" "clean"; do
		status=0
		cuward $words >/dev/full 2>why || status=$?
		[ "$status" -eq 1 ]
		[[ "$(cat why)" == "cuward: ${words%% *}: cannot write the output: "* ]]
		status=0
		cuward $words >&- 2>why || status=$?
		[ "$status" -eq 1 ]
	done
	expect 125 "run: cannot write the output" sh -c "'$B/cuward' run --dry-run true >/dev/full"
	expect 0 "" sh -c "'$B/cuward' run -q true >/dev/full"
}

@test "descriptors that are closed: no file of ours takes their place, and the command finds them closed" {
	local pid try null="/dev/null /dev/null /dev/null" where
	"$B/cuward" why --for 10m 3>&- <&- >&- 2>&- &
	pid=$!
	# Not while it is being loaded.
	for try in $(seq 100); do
		where=$(echo $(readlink /proc/$pid/fd/{0,1,2})) || true
		[ "$where" != "$null" ] || break
		sleep 0.1
	done
	kill $pid
	[ "$where" = "$null" ]
	cuward run --report r.json sh -c 'echo $(ls /proc/self/fd | grep -c "^[012]$") >&5' 5>got <&- >&- 2>&-
	sh -c 'echo $(ls /proc/self/fd | grep -c "^[012]$") >&5' 5>want <&- >&- 2>&-
	diff want got
}
