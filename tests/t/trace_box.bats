#!/usr/bin/env bats
# cuward trace start|stop|status: one trace of all processes of a user, running ones included.
# beside: sessions and state of its own; it mostly waits

load ../trace/lttng.bash

setup_file() {
	home=$(mktemp -d /tmp/cwt-XXXXXX)
	cp -r "$B/cuward" "$B/libcuward.so" "$B/libcuward-lttng.so" "$B/sim" "$home"
	for app in play late; do
		"${CC:-cc}" -std=gnu11 -D_GNU_SOURCE -rdynamic -o "$home/$app" "$TOP/tests/apps/$app.c" -ldl -lpthread
	done
	mkdir "$home/here"
	chmod 755 "$home"
	[ "$(id -u)" != 0 ] || chown -R 65534 "$home"
	export home
}

teardown_file() { rm -rf "$home"; }

setup() {
	unset LD_PRELOAD "${!CUWARD_@}" CUDA_VISIBLE_DEVICES LTTNG_HOME XDG_RUNTIME_DIR LTTNG_UST_REGISTER_TIMEOUT
	export HOME=$home CUWARD_DIR=$home/state
	cd "$home/here"
	out=$home/here/out
}

teardown() {
	local pid
	cuward trace stop >/dev/null 2>&1 || true
	for pid in $(ours); do
		kill -CONT "$pid"
		kill -TERM "$pid"
	done 2>/dev/null
	for _ in $(seq 200); do
		[ -n "$(ours)" ] || break
		sleep 0.05
	done
	kill -9 $(ours) 2>/dev/null || true
	[ -z "${LTTNG_HOME:-}" ] || daemon_end
	rm -rf "$home/here"/* "$home/state"
}

# All that these tests started and still runs, the session daemons among them.
ours() { grep -slz "^STARTED_BY=$home$" /proc/[0-9]*/environ | cut -d/ -f3; }
daemons() { local pid; for pid in $(ours); do grep -sl lttng-sessiond "/proc/$pid/cmdline"; done || true; }

# The user whose processes they are; root's session daemon would be the one of the whole box.
as_user() {
	if [ "$(id -u)" = 0 ]; then
		setpriv --reuid 65534 --regid 65534 --clear-groups -- env STARTED_BY="$home" "$@" 3>&-
	else
		env STARTED_BY="$home" "$@" 3>&-
	fi
}

cuward() { as_user "$home/cuward" "$@"; }

# guest WORD...: play in the background, under a plain run, until it said `held`; its pid in $pid.
guest() { program=${program:-play} background "$home/cuward" run -q ${sim:---sim} -- "$home/${program:-play}" "$@"; }
background() {
	local said
	said=$(mktemp "$BATS_TEST_TMPDIR/said-XXXX")
	as_user "$@" >"$said" 2>&1 &
	for _ in $(seq 400); do
		grep -q held "$said" && break
		sleep 0.05
	done
	grep held "$said"
	pid=$(cuward ps --json | jq '[.processes[].pid] | max')
}

# The process that keeps the trace: it holds the lock on the file.
locker() { awk -v inode=":$(stat -c %i "$home/state/trace")$" '$2 == "POSIX" && $6 ~ inode { print $5 }' /proc/locks; }

# told FILTER VALUE: of the JSON in $output.
told() {
	local answer
	answer=$(jq -c "$1" <<<"$output" || true)
	[ "$answer" = "$2" ] || {
		echo "$1 is $answer, not $2: ${output:0:3000}"
		return 1
	}
}

# becomes PID STATE: status says so, within some seconds.
becomes() {
	for _ in $(seq 200); do
		output=$(cuward trace status --json) || true
		[ "$(jq -r ".guests[] | select(.pid == $1) | .state" <<<"$output")" = "$2" ] && return
		sleep 0.05
	done
	echo "$output"
	false
}

all_kernels='["library_kernel0","library_kernel1","module0_kernel0","module0_kernel1","module0_kernel2","module1_kernel0","module1_kernel1","module1_kernel2","module2_kernel0","module2_kernel1","module2_kernel2","module3_kernel0","module3_kernel1","module3_kernel2"]'

used_by() { cuward ps --json | jq "[.processes[] | select(.pid == $1) | .devices[].used_bytes] | add"; }
uses() {
	for _ in $(seq 200); do
		[ "$(used_by "$1")" != "$2" ] || return 0
		sleep 0.05
	done
	echo "$(used_by "$1") instead of $2"
	return 1
}
timeline_of() { run -0 cuward timeline --json --pid "$1" "${2:-out}"; }

# Bytes of a process that are live at the end, by pointers: held or allocated, and not freed.
live_at_end() {
	cuward events out | awk -v pid="$1" '
		function field(name) { return match($0, " " name " = [0-9A-Fa-fx]+") ? substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 4) : "" }
		/cuward:process:/ && field("pid") == pid { key = field("process") }
		/cuward:(held|alloc|free):/ { lines[++n] = $0 }
		END {
			for (i = 1; i <= n; i++) {
				$0 = lines[i]
				of = /cuward:held:/ ? field("process") : field("thread") - field("thread") % 4096
				if (of != key || field("pointer") == "0x0")
					continue
				if (/cuward:free:/) delete live[field("pointer")]
				else live[field("pointer")] = field("bytes")
			}
			for (pointer in live) sum += live[pointer]
			print sum + 0
		}'
}

@test "running guests join: every kernel has its name, the memory is the ledger's" {
	guest init device 0 alloc 3M alloc 5M host 1M say held launches 60000
	plain=$pid
	program=late guest
	late=$pid
	program=late sim=--sim=12.2 guest
	nameless=$pid
	program=late guest storm
	storm=$pid
	program=late guest handler
	handler=$pid
	run -0 cuward trace start -o out --json
	told '[.active, .daemon, .unreachable, .dir]' "[true,\"own\",0,\"$out\"]"
	for one in $plain $late $nameless $storm; do becomes "$one" recorded; done
	# Nothing is loaded in a signal handler, and this one has made all its calls in one.
	becomes "$handler" later
	[ "$(grep -c liblttng /proc/"$handler"/maps)" = 0 ]
	kill -USR1 "$handler" "$storm"
	becomes "$handler" recorded
	as_user touch free
	uses "$late" $((9 << 20))
	uses "$nameless" $((9 << 20))
	for _ in $(seq 200); do ! grep -q still "$BATS_TEST_TMPDIR"/said-* || break; sleep 0.05; done
	stormed=$(used_by "$storm")
	run -0 cuward trace stop
	[[ ${lines[0]} == "trace in $out" ]]
	[[ ${lines[1]} == *" on disk, 0 events lost" ]]

	equal out 1000
	timeline_of "$plain"
	told '[.processes[] | [.command, .ended, .devices[0].peak_bytes, .devices[0].final_bytes]]' \
		"[[\"play\",\"running\",$((8 << 20)),$((8 << 20))]]"
	told '[.kernels[].name]' '["again"]'
	told '.processes[0].calls | has("cuMemAlloc_v2")' false
	events_of out | grep -q '^cuward:held: .* kind = 0 device = 0 site = [1-9][0-9]* pointer = 0x[0-9A-F]* bytes = 3145728 count = 1 live_bytes = 8388608$'
	events_of out | grep -q '^cuward:stream: .* what = 2 '
	events_of out | grep -q '^cuward:context: .* what = 2 '

	# The driver of one of them tells no names: they were kept when it looked them up.
	for one in $late $nameless $handler; do
		timeline_of "$one"
		told '[.kernels[].name] | sort' "$all_kernels"
	done
	timeline_of "$nameless"
	told '[.processes[].devices[0] | .peak_bytes, .final_bytes]' "[$((10 << 20)),$((9 << 20))]"

	# Four threads allocated and freed all the time: no pointer is missed, none is too many. (8 MiB are pinned.)
	[ "$(live_at_end "$storm")" = $((stormed + (8 << 20))) ]
	timeline_of "$storm"
	told '.processes[0].devices[0].final_bytes' "$stormed"

	# They join the next trace as they joined the first.
	run -0 cuward trace start -o again
	becomes "$nameless" recorded
	run -0 cuward trace stop
	timeline_of "$nameless" again
	told '[.kernels[].name] | sort' "$all_kernels"
	told '[.processes[].devices[0] | .peak_bytes, .final_bytes]' "[$((9 << 20)),$((9 << 20))]"
}

@test "who cannot be reached is named: idle, stopped, no provider, traced elsewhere" {
	guest init device 0 alloc 1M say held sleep 60000
	idle=$pid
	guest init device 0 alloc 1M say held launches 60000
	stopped=$pid
	kill -STOP "$stopped"
	mkdir bare
	cp -r "$home"/{cuward,libcuward.so,sim} bare
	background bare/cuward run -q --sim -- "$home/play" init device 0 say held launches 60000
	bare=$pid
	background "$home/cuward" run -q --sim --trace=own -- "$home/play" init device 0 say held launches 60000
	elsewhere=$pid
	run -0 cuward trace start -o out
	becomes "$bare" failed
	becomes "$elsewhere" failed
	run -1 cuward trace status --json
	told '[.reached, .later, .unreachable]' '[0,1,3]'
	told ".guests[] | select(.pid == $idle) | [.state, .why]" '["later","it has made no CUDA call since, and joins at its next one"]'
	told ".guests[] | select(.pid == $stopped) | [.state, .why]" '["stopped","it is stopped, and joins at its next CUDA call"]'
	told ".guests[] | select(.pid == $bare) | .why" '"libcuward-lttng.so or liblttng-ust cannot be loaded into it"'
	told ".guests[] | select(.pid == $elsewhere) | .why" '"it is traced already, into a session of its own"'
	run -1 cuward trace status
	[[ $output == *"  stopped    "*"$stopped  play: it is stopped"* ]]
	kill -CONT "$stopped"
	becomes "$stopped" recorded
}

@test "who starts later is in it, and how it ends; fork, and a guest of the plain preload" {
	export LTTNG_UST_REGISTER_TIMEOUT=10000 # for a machine that is busy
	run -0 cuward trace start -o out
	run -0 cuward run -q --sim -- "$home/play" fork '(' init device 0 alloc 2M launch child free 0 ')' init device 0 alloc 1M wait
	run -137 cuward run -q --sim -- "$home/play" init device 0 alloc 4M launch killed kill 9
	LD_PRELOAD=$home/libcuward.so LD_LIBRARY_PATH=$home/sim run -0 as_user "$home/play" init device 0 alloc 8M launch preloaded free 0
	run -0 cuward trace stop
	run cuward timeline --json out
	told '[.processes[] | [.ended, .devices[0].peak_bytes]] | sort' \
		"[[\"exit\",$((1 << 20))],[\"exit\",$((2 << 20))],[\"signal\",$((4 << 20))],[\"unknown\",$((8 << 20))]]"
	told '[.kernels[].name] | sort' '["child","killed","preloaded"]'
	run -0 cuward trace status
	[ "$output" = "no trace is on" ]
	run -2 cuward trace start -o ''
	[[ $output == *"no such name for a folder" ]]
	run -1 cuward trace stop
	[ "$output" = "cuward: trace stop: no trace is on" ]
}

@test "the user's own session daemon is used, and left as it was" {
	daemon_start
	HOME=$LTTNG_HOME as_user lttng -q create other --output="$LTTNG_HOME/other"
	# This one wanted a trace from the start, when nobody recorded.
	CUWARD_TRACE=1 guest init device 0 alloc 1M say held launches 60000
	run -0 cuward trace start -o out --json
	told '[.daemon, .home]' "[\"existing\",\"$LTTNG_HOME\"]"
	becomes "$pid" recorded
	run -1 cuward trace start -o twice
	[[ $output == *"a trace is on already"* ]]
	run -0 cuward trace stop
	# It is destroyed without waiting for that.
	for _ in $(seq 100); do
		sessions=$(as_daemon lttng list | grep -o '[0-9]) .*')
		[ "$sessions" = "1) other [inactive]" ] && break
		sleep 0.05
	done
	[ "$sessions" = "1) other [inactive]" ]
	kill -0 "$daemon"
	run -0 cuward timeline --json out
	told '[.kernels[].name]' '["again"]'
}

@test "of several that start one, each other is told that it is on, with the same status" {
	for i in 1 2 3; do
		(
			status=0
			cuward trace start -o "out$i" >"$BATS_TEST_TMPDIR/said-start$i" 2>&1 || status=$?
			echo $status >"$BATS_TEST_TMPDIR/status$i"
		) &
	done
	wait
	cat "$BATS_TEST_TMPDIR"/sta*[123] "$BATS_TEST_TMPDIR"/said-start[123]
	[ "$(cat "$BATS_TEST_TMPDIR"/status[123] | sort | tr '\n' ' ')" = "0 1 1 " ]
	[ "$(cat "$BATS_TEST_TMPDIR"/said-start[123] | grep -c '^cuward: trace start: a trace is on already')" -eq 2 ]
	run -0 cuward trace stop
	# The one that lost the race on its last step, too: the file is kept while nothing in it says so yet.
	as_user mkdir -p "$home/state"
	as_user python3 -c 'import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)' "$home/state/trace" >"$BATS_TEST_TMPDIR/lock" &
	for _ in $(seq 200); do ! grep -q held "$BATS_TEST_TMPDIR/lock" || break; sleep 0.05; done
	run -1 cuward trace start -o other
	[[ $output == "cuward: trace start: a trace is on already"* ]]
	[ ! -e other ]
}

@test "a keeper that was killed takes its daemon along; stop cleans up" {
	guest init device 0 alloc 1M say held launches 60000
	run -0 cuward trace start -o out
	becomes "$pid" recorded
	kill -9 "$(locker)"
	for _ in $(seq 100); do
		[ -z "$(daemons)" ] && break
		sleep 0.05
	done
	[ -z "$(daemons)" ]
	run -0 cuward trace status
	[ "$output" = "no trace is on" ]
	run -1 cuward trace stop
	[[ $output == *"its keeper is gone; the trace may be cut"* ]]
	[ ! -e "$home/state/trace" ]
	run -0 cuward trace start -o again
	becomes "$pid" recorded
	run -0 cuward trace stop
	run -0 cuward timeline --json again
	told '[.kernels[].name]' '["again"]'
}

@test "a full folder of state: no trace begins that could not be ended" {
	[ "$(id -u)" = 0 ] || skip "mounting needs root"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	mkdir "$home/state"
	cat >script <<-'X'
		mount -t tmpfs -o size=64k,mode=700,uid=65534 none "$home/state"
		head -c 99999 /dev/zero >"$home/state/fill" 2>/dev/null || true
		status=0
		cuward trace start -o out || status=$?
		[ $status = 3 ] && [ ! -e "$home/state/trace" ] && [ ! -e out ] || exit 1
		rm "$home/state/fill"
		cuward trace start -o out && cuward trace stop
	X
	export -f cuward as_user
	run -0 unshare -m bash script 3>&-
	[[ $output == *"cuward: trace start: $home/state/trace: No space left on device"* ]]
}

@test "a session daemon that stands still holds nobody up" {
	run -0 cuward trace start -o out
	for pid in $(ours); do
		! grep -q lttng-sessiond "/proc/$pid/cmdline" || kill -STOP "$pid"
	done
	run -0 as_user timeout 20 "$home/cuward" run -q --sim -- "$home/play" init device 0 alloc 1M launch alone free 0
	for pid in $(ours); do kill -CONT "$pid"; done
	run cuward trace stop
	[ "${lines[0]}" = "trace in $out" ]
}
