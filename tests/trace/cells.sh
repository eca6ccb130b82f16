#!/bin/bash
# cells.sh - a traced guest under every daemon, way of living and surrounding; see tests/t/trace_matrix.bats.
#
#	cells.sh prepare WORK                what all cells need: programs, libraries, daemons, what bare runs print
#	cells.sh row WORK DAEMON AROUND...   their cells, several at once; a line each: ok, or not ok and why
#	cells.sh clean WORK                  end the daemons
#
# A cell is fine when the guest's status and stdout are those of the bare run, nothing but cuward's own
# lines came on stderr, it took no longer than the stated time-outs, no process is left, and what was not
# recorded is said: in the line on stderr, the report, and with a session of our own the timeline.
#
# Daemons: none; ours, of `cuward run --trace`; somebody else's that is stopped, killed, has left a stale
# socket, or belongs to another user.
set -u

home= # of the daemon at hand
ways="plain fork thread vfork exec _exit killed daemon"
limit=40 # seconds until a cell counts as hung, on a machine as slow as it may be

# ---- daemons ----

# as UID COMMAND...: when root, as somebody else.
as() {
	if [ "$(id -u)" = 0 ]; then
		setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
	else
		"${@:2}"
	fi
}

daemon() { as 65534 env LTTNG_HOME="$home" HOME="$home" "$@" >/dev/null; }

# A recording session daemon of nobody's, in the home named by $home.
daemon_start() {
	mkdir -p "$home"
	[ "$(id -u)" != 0 ] || chown 65534 "$home"
	daemon lttng-sessiond --no-kernel --daemonize
	daemon lttng -q create test --output="$home/trace"
	daemon lttng -q enable-channel -u -s test --buffers-uid --num-subbuf 4 --subbuf-size 64k c
	daemon lttng -q enable-event -u -s test -c c 'cuward:*'
	daemon lttng -q start test
	cat "$home/.lttng/lttng-sessiond.pid" >>"$work/daemons"
}

# Its own, whatever becomes of it: the process ids of daemons are in the file `daemons`.
prepare_daemons() {
	mkdir "$work/none" "$work/stale" "$work/stale/.lttng"
	python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).bind(sys.argv[1])' "$work/stale/.lttng/lttng-ust-sock-8"
	home=$work/stopped daemon_start && kill -STOP "$(cat "$work/stopped/.lttng/lttng-sessiond.pid")"
	home=$work/killed daemon_start && kill -KILL "$(cat "$work/killed/.lttng/lttng-sessiond.pid")"
	home=$work/other daemon_start && chmod "$([ "$(id -u)" = 0 ] && echo 700 || echo 0)" "$work/other"
}

clean() {
	local pid

	while read -r pid; do
		grep -qs lttng-sessiond "/proc/$pid/comm" || continue
		kill -CONT "$pid"
		kill -TERM "$pid"
		timeout 5 tail --pid="$pid" -f /dev/null
		kill -KILL "$pid" 2>/dev/null
	done <"$work/daemons"
	chmod 700 "$work/other"
	rm -rf "$work"
}

# ---- what all cells need ----

stub_of_lttng() { # a library of that name without what the provider needs
	echo 'int lttng_ust_of_another_time;' |
		"${CC:-cc}" -shared -fPIC -Wl,-soname,"$1" -x c -o "$work/incompatible/$1" -
}

since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }

prepare() {
	local way began

	mkdir -p "$work/lib" "$work/missing" "$work/incompatible" "$work/bare" "$work/cells"
	chmod 755 "$work"
	: >"$work/daemons"
	install -m 755 "$B/apps/cell" "$B/libcuward.so" "$B/libcuward-lttng.so" "$B/sim/libcuda.so.1" "$work/lib"
	cp "$work/lib/libcuward.so" "$work/missing"
	sed 's/liblttng-ust\(\.so\|-common\.so\)/liblttng-uzt\1/g' "$work/lib/libcuward-lttng.so" \
		>"$work/missing/libcuward-lttng.so"
	chmod 755 "$work/missing/libcuward-lttng.so"
	stub_of_lttng liblttng-ust.so.1
	stub_of_lttng liblttng-ust-common.so.1
	for way in $ways; do
		began=$EPOCHREALTIME
		LD_LIBRARY_PATH=$work/lib "$work/lib/cell" "$way" </dev/null >"$work/bare/$way" 2>"$work/bare/err"
		echo $? >"$work/bare/$way.status"
		since "$began" >"$work/bare/$way.took"
		[ ! -s "$work/bare/err" ]
	done 2>/dev/null
	prepare_daemons
}

# ---- one cell ----

# 64 KiB of /dev/shm, in a mount namespace of its own.
# shellcheck disable=SC2016
small=(unshare -m sh -c 'mount -t tmpfs -o size=64k,mode=1777 none /dev/shm && exec "$@"' sh)

# surround AROUND: into the arrays before (commands in front of the guest) and variables.
surround() {
	before=() variables=()
	case $1 in
	shm) before=("${small[@]}") ;;
	home) variables=(HOME=/proc) ;;
	missing) variables=(LD_PRELOAD="$work/missing/libcuward.so") ;;
	incompatible) variables=(LD_LIBRARY_PATH="$work/incompatible:$work/lib") ;;
	esac
}

# The preload alone, with a daemon that does not record us.
run_preloaded() { # DAEMON WAY AROUND
	local common=(PATH="$PATH" HOME="$cell" LTTNG_HOME="$work/$1" CUWARD_DIR="$cell/state" CUWARD_LOG=warn
		CUWARD_TRACE=1 CUWARD_REPORT="$cell/report-%p.json" LD_LIBRARY_PATH="$work/lib"
		LD_PRELOAD="$work/lib/libcuward.so")
	local who=()

	[ "$3" != shm ] || common[3]=CUWARD_SLOTS= # the folder is where it is by default, in /dev/shm
	[ "$1 $3" != "none home" ] || common[2]=CUWARD_UNUSED=
	if [ "$1" = other ] && [ "$(id -u)" = 0 ]; then
		chown 1234 "$cell"
		who=(setpriv --reuid 1234 --regid 1234 --clear-groups)
	fi
	"${before[@]}" "${who[@]}" timeout -k 1 $limit env -i "${common[@]}" "${variables[@]}" "$work/lib/cell" "$2" 2>"$cell/err"
}

# A session of our own: the surroundings are the guest's. (A guest alone has a small /dev/shm in a container.)
run_ours() { # WAY
	timeout -k 1 $limit env -i PATH="$PATH" HOME="$cell" CUWARD_DIR="$cell/state" \
		"$B/cuward" run --sim --trace="$cell/trace" --report="$cell/report.json" -- \
		"${before[@]}" env "${variables[@]}" "$work/lib/cell" "$1" 2>"$cell/err"
}

bad() { echo "not ok $*" && exit 1; }

same_as_bare() {
	[ "$status" = "$(cat "$work/bare/$way.status")" ] || bad "$name: status $status"
	cmp -s "$work/bare/$way" "$cell/out" || bad "$name: stdout: $(diff "$work/bare/$way" "$cell/out" | tr '\n' ';')"
}

only_ours_on_stderr() {
	! grep -v -e '^cuward: ' -e '^  ' "$cell/err" >"$cell/strange" || bad "$name: stderr: $(head -3 "$cell/strange")"
}

# Without a session of ours: a line on stderr, and the report where the process could write one.
said_by_guest() {
	local reports

	grep -q '^cuward: no trace: ' "$cell/err" || bad "$name: nothing said on stderr: $(head -3 "$cell/err")"
	case $way in killed | daemon) return ;; esac # daemon() ends the parent inside of libc
	reports=("$cell"/report-*.json)
	[ -e "${reports[0]}" ] || bad "$name: no report"
	jq -e -s '[.[].processes[] | select(.trace.registered != false)] == [] and
		([.[].processes[].findings[].code] | index("trace-unavailable") != null)' "${reports[@]}" >/dev/null ||
		bad "$name: the report says $(jq -c '.processes[0] | .trace, .findings' "${reports[0]}" | tr '\n' ' ')"
}

# With one: the report, the last lines and the timeline tell who was recorded, and who was not.
said_by_run() { # true: all must be recorded; false: nobody can be
	local count timeline=0

	count=$(jq '.processes | length' "$cell/report.json") || bad "$name: no report"
	[ "$count" -ge 1 ] || bad "$name: no process in the report"
	jq -e --argjson recorded "$1" '([.processes[].trace.registered] | unique) == [$recorded] and
		.run.trace.unrecorded_processes == (if $recorded then 0 else (.processes | length) end)' \
		"$cell/report.json" >/dev/null || bad "$name: the report says $(jq -c '[.run.trace, [.processes[].trace]]' "$cell/report.json")"
	"$B/cuward" timeline --json "$cell/trace" >"$cell/json" 2>"$cell/timeline" || timeline=$?
	jq -e --argjson recorded "$1" --argjson count "$count" '(.processes | length) == $count and
		([.processes[].recorded] | unique) == [$recorded] and [.processes[] | select(.pid == null)] == []' \
		"$cell/json" >/dev/null || bad "$name: the timeline says $(jq -c '[.processes[] | [.pid, .recorded]]' "$cell/json")"
	"$1" && return
	[ "$timeline" = 1 ] || bad "$name: status $timeline of the timeline"
	grep -q "cuward: trace: .* could not be recorded$" "$cell/err" || bad "$name: nothing said: $(cat "$cell/err")"
}

# Where the command itself has too little of it, it says so before the guest starts.
refused_for_shm() {
	local status=0

	mkdir "$cell/refused"
	"${small[@]}" timeout -k 1 $limit env -i PATH="$PATH" HOME="$cell" CUWARD_DIR="$cell/state" \
		"$B/cuward" run --sim --trace="$cell/refused/trace" -- "$work/lib/cell" "$way" \
		>"$cell/refused/out" 2>"$cell/refused/err" || status=$?
	[ "$status" = 125 ] || bad "$name: status $status"
	[ ! -s "$cell/refused/out" ] || bad "$name: the guest ran"
	grep -q '^cuward: --trace: needs .* of shared memory, and /dev/shm has .* free$' "$cell/refused/err" ||
		bad "$name: $(cat "$cell/refused/err")"
	[ ! -e "$cell/refused/trace" ] || bad "$name: half of a trace is left"
}

# live DAEMON: the guest's whole life, in the folder $cell; whoever holds the pipe is waited for, and a daemon
# has it open until its end.
live() {
	local began=$EPOCHREALTIME

	mkdir "$cell"
	{ if [ "$1" = ours ]; then
		run_ours "$way"
	else
		run_preloaded "$1" "$way" "$around"
	fi; echo $? >"$cell/status"; } 2>/dev/null </dev/null | cat >"$cell/out"
	since "$began" >"$cell/took"
}

again() { # DAEMON TRY: how long it takes once more
	local cell="$work/cells/$1-$way-$around-$2"

	live "$1"
	cat "$cell/took"
}

# What is added, in seconds: a process that meets a daemon that does not answer waits 200 ms for it, and not LTTng's
# 3 s. At most three do, one after the other; with room for a busy machine that is still less than one time LTTng's.
# A session of our own may take LTTng's 3 s at a process's registration, and 5 s at its end: cuward-run(1).
may_add() { [ "$daemon" = ours ] && echo $((3 + 5 + 2)) || echo 2.6; }

# Beside the same cell without a daemon, and that beside the bare run. Where it was more than that, the machine may
# have been busy only then.
added_little() {
	local took without most try

	most=$(may_add)
	took=$(cat "$cell/took")
	without=$(cat "$work/bare/$way.took")
	[ "$daemon" = none ] || without=$(cat "$work/cells/none-$way-$around/took")
	for try in 1 2 3 4; do
		awk -v a="$took" -v b="$without" -v most="$most" 'BEGIN { exit a - b > most }' && return
		[ "$daemon" = none ] || without=$(again none $try)
		took=$(again "$daemon" "more$try")
	done
	bad "$name: took $took s, $without without, and $most may be added"
}

check() {
	case $status in 124 | 137) [ "$way" = killed ] || bad "$name: it hangs" ;; esac
	only_ours_on_stderr
	same_as_bare
	case $daemon,$around in
	ours,missing | ours,incompatible) said_by_run false ;;
	ours,*) said_by_run true ;;
	*) said_by_guest ;;
	esac
	[ "$daemon,$around" != ours,shm ] || refused_for_shm
	added_little
}

one() { # DAEMON WAY AROUND
	local status=0 daemon=$1 way=$2 around=$3 name="$*" cell="$work/cells/$1-$2-$3"
	local before variables

	surround "$around"
	live "$daemon"
	status=$(cat "$cell/status")
	check
	echo "ok $name, $(cat "$cell/took") s"
}

# ---- a row ----

row() { # DAEMON AROUND...
	local way around

	for around in "${@:2}"; do
		for way in $ways; do
			echo "$1 $way $around"
		done
	done | xargs -P "$(($(nproc) * 4))" -L 1 "$0" one "$work"
}

work=$2
B=${B:?}
case $1 in
prepare) prepare ;;
clean) clean ;;
row) row "${@:3}" ;;
one) one "${@:3}" ;;
esac
