# lttng.bash - for the bats files about tracing: test programs, a session daemon, traces as text.

bats_require_minimum_version 1.5.0

# Two programs that need no driver: a guest, and `cuward run --trace` without the rest of it.
trace_programs() {
	local flags="-O1 -std=gnu11 -D_GNU_SOURCE -I$TOP/include -I$TOP/tools -I$TOP/shim -I$B/gen"

	# shellcheck disable=SC2086
	${CC:-cc} $flags -o "$BATS_FILE_TMPDIR/emit" "$TOP"/tests/trace/emit.c \
		"$TOP"/shim/trace.c "$TOP"/shim/calls.c -ldl -lpthread
	# shellcheck disable=SC2086
	${CC:-cc} $flags -o "$BATS_FILE_TMPDIR/session" "$TOP"/tests/trace/session.c \
		"$TOP"/tools/{session*,ledger_read,proc_state}.c "$TOP"/shim/trace.c "$TOP"/shim/calls.c -ldl -lpthread
}

emit() { "$BATS_FILE_TMPDIR/emit" "$B" "$@"; }
session() { "$BATS_FILE_TMPDIR/session" "$@" 3>&-; }

# A session daemon that somebody else started; root's would be the box's, so it is nobody's.
as_daemon() {
	if [ "$(id -u)" = 0 ]; then
		setpriv --reuid 65534 --regid 65534 --clear-groups \
			env LTTNG_HOME="$LTTNG_HOME" HOME="$LTTNG_HOME" "$@" 3>&-
	else
		"$@" 3>&-
	fi
}

daemon_start() {
	LTTNG_HOME=$(mktemp -d /tmp/cwt-XXXXXX)
	export LTTNG_HOME
	[ "$(id -u)" != 0 ] || chown 65534 "$LTTNG_HOME"
	as_daemon lttng-sessiond --no-kernel --daemonize
	daemon=$(cat "$LTTNG_HOME/.lttng/lttng-sessiond.pid")
}

daemon_record() {
	as_daemon lttng -q create test --output="$LTTNG_HOME/trace"
	as_daemon lttng -q enable-channel -u -s test --buffers-uid --num-subbuf 8 --subbuf-size 256k c
	as_daemon lttng -q enable-event -u -s test -c c 'cuward:*'
	as_daemon lttng -q start test
}

daemon_stop_recording() {
	as_daemon lttng -q stop test
	as_daemon lttng -q destroy test
}

daemon_end() {
	[ -n "$daemon" ] || return 0
	kill -CONT "$daemon" 2>/dev/null || true
	kill -TERM "$daemon" 2>/dev/null || true
	for _ in $(seq 100); do
		kill -0 "$daemon" 2>/dev/null || break
		sleep 0.05
	done
	kill -KILL "$daemon" 2>/dev/null || true
	rm -rf "$LTTNG_HOME"
	daemon=
}

# Events of a trace, without times: cuward:free: name = value name = value
events_of() {
	babeltrace2 "$1" |
		sed 's/.*\(cuward:[a-z_]*:\) { cpu_id = [0-9]* }, {\(.*\) }$/\1\2/; s/,\( [a-z_]* = \)/\1/g'
}

count_of() { events_of "$1" | grep -c "^cuward:$2:"; }

# equal TRACE: babeltrace2 and `cuward events` print the same, and not nothing.
equal() {
	babeltrace2 "$1" >"$BATS_TEST_TMPDIR/theirs" 2>/dev/null
	"$B/cuward" events "$1" >"$BATS_TEST_TMPDIR/ours"
	diff "$BATS_TEST_TMPDIR/theirs" "$BATS_TEST_TMPDIR/ours" | head -n 6 >"$BATS_TEST_TMPDIR/diff"
	cat "$BATS_TEST_TMPDIR/diff"
	[ ! -s "$BATS_TEST_TMPDIR/diff" ]
	[ "$(wc -l <"$BATS_TEST_TMPDIR/ours")" -ge "${2:-20}" ]
}
