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
		script -qec "stty rows 6 cols 40; exec timeout --foreground 60 $cuward top -d 0.5s" /dev/null >out
	grep -q $'\033\\[?1049h' out
	grep -q $'\033\\[?1049l' out
	sed 's/\r//g; s/\x1b\[[0-9?]*[a-zA-Z]//g' out >plain
	[ "$(wc -L <plain)" -le 79 ] # the last line is the window's width and the next table's first
	grep -q "^ *$pid " plain
}

@test "trend: what was held in the last tables, as bars" {
	holder init device 0 alloc 1M say held sh 'while [ ! -e go ]; do sleep 0.05; done' alloc 7M sh 'while [ ! -e on ]; do sleep 0.05; done' freeall sleep 600000
	LC_ALL=C.UTF-8 "$cuward" top --batch -n 10 -d 0.4s >out 3>&- &
	top=$!
	shows() { grep "^ *$pid " out | grep -q " $1 "; }
	eventually shows '1.00 MiB'
	touch go
	eventually shows '8.00 MiB'
	touch on
	wait $top
	# An eighth, all of it, nothing; of its own largest.
	grep "^ *$pid " out | tail -1 | LC_ALL=C.UTF-8 grep -Eq ' ▂+█+ +none .* play$' || { cat out; false; }
	# A GPU of its memory.
	grep '^GPU-51000000 ' out | tail -1 | LC_ALL=C.UTF-8 grep -Eq '16\.0 GiB  ▁{10}'
	LC_ALL=C "$cuward" top --batch -n 1 >out
	grep -Eq '^GPU-51000000 .* 16\.0 GiB  _' out
}

@test "filter: pid, user, GPU, command, job, label" {
	CUWARD_JOB=one CUWARD_LABEL=team=red holder init device 0 alloc 3M say held sleep 600000
	first=$pid
	CUWARD_JOB=two holder init device 0 alloc 5M say held sleep 600000
	only() { [ "$("$cuward" top --batch -n 1 -f "$1" | awk '$NF == "play" { printf "%s ", $1 }')" = "$2" ]; }
	only ONE "$first "
	only "$pid" "$pid "
	only team=red "$first "
	only GPU-51 "$pid $first "
	only "$(id -un)" "$pid $first "
	only nobody-there ''
	# The sums of GPUs are those of all.
	"$cuward" top --batch -n 1 -f two | grep '^GPU-51' | grep -q ' 8.00 MiB '
}

@test "at a terminal: a filter is typed, and the window grows" {
	command -v script >/dev/null || skip "needs script"
	CUWARD_JOB=one holder init device 0 alloc 3M say held sleep 600000
	first=$pid
	CUWARD_JOB=two holder init device 0 alloc 5M say held sleep 600000
	cat >inside <<-X
		stty rows 8 cols 40
		(sleep 1; stty rows 20 cols 100 </dev/tty) &
		exec timeout --foreground 60 "$cuward" top -d 0.3s
	X
	{ sleep 2; printf /; printf twox; printf '\177\n'; sleep 1; printf q; } | script -qec "sh ./inside" /dev/null >out
	python3 - out $first $pid <<-'X'
		import re, sys
		frames = [re.sub(r'\x1b\[[0-9?]*[a-zA-Z]', '', f).replace('\r', '') for f in open(sys.argv[1]).read().split('\x1b[H')[1:]]
		lines = [f.split('\n') for f in frames]
		first, second = sys.argv[2], sys.argv[3]
		assert all(len(line) <= 40 for line in lines[0]) and len(lines[0]) <= 8, lines[0]
		last = frames[-1]
		assert any(len(line) > 40 for line in lines[-1]) and all(len(line) <= 100 for line in lines[-1]), last
		assert 'filter: two' in last and second in last and first not in last, last
		assert any('filter: twox_' in f for f in frames), frames[-5:]
	X
}

@test "in a narrow window columns go, and who it is stays" {
	command -v script >/dev/null || skip "needs script"
	holder init device 0 alloc 3M say held sleep 600000
	headings() { # WIDTH WANTED: a pattern
		script -qec "stty rows 20 cols $1; exec timeout --foreground 60 '$cuward' top -n 1" /dev/null </dev/null >out
		tr -d '\r' <out | grep -o ' PID  USER.*' | sed 's/\x1b.*//; s/  */ /g' >row
		grep -Eqx "$2" row || { cat row; false; }
	}
	headings 200 ' PID USER GPU USED TREND LIMIT OVERHEAD SINCE ACTIVE WAITS COMMAND'
	headings 80 ' PID USER GPU USED (TREND )?(LIMIT )?(SINCE )?ACTIVE WAITS COMMAND'
	headings 68 ' PID USER GPU USED (LIMIT )?ACTIVE WAITS COMMAND'
}

@test "what cannot be asked" {
	run "$cuward" top </dev/null
	[ "$status" -eq 2 ]
	for wrong in '-n 0' '-n x' '-n 4294967296' '-d 0' '-s size' extra; do
		run "$cuward" top --batch $wrong
		[ "$status" -eq 2 ]
	done
}

@test "in the background of a terminal it stops, and can be ended" {
	command -v script >/dev/null || skip "needs script"
	printf '"%s" top & pid=$!; until grep -q "^State:.*stopped" /proc/$pid/status; do sleep 0.1; done
		kill $pid; kill -CONT $pid; while kill -0 $pid 2>/dev/null; do sleep 0.1; done; echo ended' "$cuward" >inside
	timeout 60 script -qec "bash -m ./inside" /dev/null </dev/null >out
	cat out
	grep -q '^ended' out
}

@test "each key at a terminal: what it sorts by, the filter and its end, the window, and the terminal as before" {
	holder init device 0 alloc 5M say held sleep 600000
	first=$pid
	sleep 0.1
	holder init device 0 alloc 3M say held sleep 600000
	cat >drive <<-'P'
		import fcntl, os, pty, re, select, struct, sys, termios, time
		cuward, first, second = sys.argv[1:]
		def size(rows, columns): fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
		pid, fd = pty.fork()
		if pid == 0:
		    os.execv("/bin/sh", ["sh", "-c", 'stty -a >before; "$0" top -d 0.2s; echo "status $?"; stty -a >after', cuward])
		size(20, 120)
		text = ""
		def until(what, good):
		    global text
		    text, end = "", time.time() + 60
		    while time.time() < end:
		        if select.select([fd], [], [], 0.5)[0]:
		            try:
		                text += os.read(fd, 65536).decode(errors="replace")
		            except OSError:
		                text += "\x1b[H\x1b[J"
		        # The last frame but the one that is being drawn.
		        frames = [re.sub(r"\x1b\[[0-9?]*[a-zA-Z]", "", f).replace("\r", "") for f in text.split("\x1b[H")]
		        if len(frames) > 2 and good(frames[-2]):
		            return
		    sys.exit("never: %s\n%s" % (what, frames[-2:]))
		def order(frame):
		    return [line.split()[0] for line in frame.split("\n") if line.endswith(" play") and not line.startswith("GPU")]
		by_pid = sorted([first, second], key=int)
		until("memory", lambda f: order(f) == [first, second])
		for key, want in (("a", [second, first]), ("m", [first, second]), ("a", [second, first]), ("u", [first, second]),
		        ("a", [second, first]), ("p", by_pid), ("x", by_pid)):
		    os.write(fd, key.encode())
		    until("key " + key, lambda f: order(f) == want)
		os.write(fd, b"/" + second.encode())
		until("filter while it is typed", lambda f: order(f) == [second] and "filter: %s_" % second in f)
		os.write(fd, b"q")
		until("q is a letter there", lambda f: order(f) == [] and "filter: %sq_" % second in f)
		os.write(fd, b"\x1b")
		until("no filter", lambda f: len(order(f)) == 2 and "filter:" not in f)
		size(9, 60)
		until("small", lambda f: len(f.split("\n")) <= 9 and max(map(len, f.split("\n"))) <= 60)
		size(30, 150)
		until("large", lambda f: order(f) == by_pid)
		os.write(fd, b"q")
		end = ""
		while "status" not in end:
		    end += os.read(fd, 65536).decode(errors="replace")
		assert "\x1b[?1049l" in end and "status 0" in end, end
		os.waitpid(pid, 0)
	P
	python3 drive "$cuward" $first $pid
	diff <(sed 's/rows [0-9]*; columns [0-9]*//' before) <(sed 's/rows [0-9]*; columns [0-9]*//' after)
}
