#!/usr/bin/env bats
# The private session behind `cuward run --trace`.

load ../trace/lttng.bash

setup_file() { trace_programs; }

setup() {
	trace=$BATS_TEST_TMPDIR/some/trace
	unset LTTNG_UST_REGISTER_TIMEOUT LTTNG_HOME
}

# session() in the background may still be at it: its home and its processes go within 3 s.
nothing_left() {
	local home

	home=$(sed -n 's/^home=\([^ ]*\) .*/\1/p' "$1")
	[ -n "$home" ]
	for _ in $(seq 30); do
		[ ! -e "$home" ] && ! grep -qsz "^LTTNG_HOME=$home$" /proc/[0-9]*/environ && break
		sleep 0.1
	done
	[ ! -e "$home" ]
	! grep -qsz "^LTTNG_HOME=$home$" /proc/[0-9]*/environ
}

session_run() { session "$trace" "$B" "$@" 2>"$BATS_TEST_TMPDIR/log" >"$BATS_TEST_TMPDIR/out"; }
log_has() { grep -q -- "$1" "$BATS_TEST_TMPDIR/log"; }

@test "session: a command is traced, its status kept, nothing left behind" {
	run -7 session_run sh -c "'$BATS_FILE_TMPDIR/emit' '$B' 2000; exit 7"
	grep -q '^parent registered ' "$BATS_TEST_TMPDIR/out"
	[ "$(count_of "$trace" alloc)" = 2000 ]
	log_has ' lost=0 bytes=[1-9][0-9]* complete=1 warning=$'
	nothing_left "$BATS_TEST_TMPDIR/log"
	[ -z "$(find "$trace" ! -uid "$(id -u)")" ]
	[ -z "$(find "$trace" ! -readable)" ]
}

@test "session: events on behalf of ended processes carry their fields" {
	session_run true
	events_of "$trace" >"$BATS_TEST_TMPDIR/events"
	diff -u - "$BATS_TEST_TMPDIR/events" <<-'END'
	cuward:process: process = 77 pid = 4711 ppid = 0 uid = 0 pid_ns = 0 image = 0 start_ticks = 0 start_realtime_ns = 0 command = "a \"b\"" job = "" labels = "k=v" version = "1"
	cuward:process_end: process = 77 how = 2 status = 137 live_bytes = 4096 live_count = 1 denied = 0 ended_ns = 0
	cuward:lost: process = 77 events = 3 why = "a test"
	END
}

@test "session: what it costs an empty command is at most 1.5 s" {
	began=$(date +%s%N)
	session_run true
	[ $((($(date +%s%N) - began) / 1000000)) -lt 1500 ]
}

# On a busy machine one may not be registered in time, and says so; of the others nothing is missing.
@test "session: 100 processes of 5 ms at once keep every event" {
	cat >"$BATS_TEST_TMPDIR/crowd" <<-'END'
	for i in $(seq 100); do "$1" "$2" 10 & done
	wait
	END
	session_run sh "$BATS_TEST_TMPDIR/crowd" "$BATS_FILE_TMPDIR/emit" "$B"
	there=$(grep -c '^parent registered ' "$BATS_TEST_TMPDIR/out")
	late=$(grep -c '^parent failed .* why=.' "$BATS_TEST_TMPDIR/out") || true
	echo "$there registered, $late late"
	[ "$there" -gt 0 ]
	[ $((there + late)) -eq 100 ]
	[ "$(count_of "$trace" alloc)" -eq $((10 * there)) ]
	[ "$(count_of "$trace" api)" -eq "$there" ]
	log_has ' lost=0 '
}

# Names of the events in the streams of a channel.
channel_events() {
	local only=$BATS_TEST_TMPDIR/only

	rm -rf "$only"
	mkdir "$only"
	cp "$trace"/ust/uid/*/64-bit/{metadata,"$1"_[0-9]*} "$only"
	events_of "$only" | cut -d: -f2 | sort -u | tr '\n' ' '
}

@test "session: calls, memory, and the rest each have a channel of their own" {
	session_run "$BATS_FILE_TMPDIR/emit" "$B" 1 all
	[ "$(channel_events calls)" = "call copy gpu launch launched sync untimed " ]
	[ "$(channel_events memory)" = "alloc context denied free held stream " ]
	[ "$(channel_events process)" = "api device function leak lost process process_end site stream_number thread " ]
}

@test "session: guests that are killed in mid-event neither block the end nor take ours along" {
	began=$(date +%s%N)
	cat >"$BATS_TEST_TMPDIR/killed" <<-'END'
	for i in 1 2 3 4 5 6 7 8; do timeout -s KILL 0.06 "$1" "$2" 1000 forever; done
	END
	session_run sh "$BATS_TEST_TMPDIR/killed" "$BATS_FILE_TMPDIR/emit" "$B" || [ $? -eq 137 ]
	[ $((($(date +%s%N) - began) / 1000000)) -lt 8500 ]
	[ "$(channel_events process)" = "api lost process process_end " ]
	nothing_left "$BATS_TEST_TMPDIR/log"
}

@test "session: a guest that lives on does not hold the end up" {
	session_run sh -c "'$BATS_FILE_TMPDIR/emit' '$B' 10; sleep 2 >/dev/null 2>&1 3>&- &"
	[ "$(count_of "$trace" alloc)" = 10 ]
	log_has ' complete=1 '
}

@test "session: a killed run still ends its session, and the trace is whole" {
	session "$trace" "$B" sh -c "'$BATS_FILE_TMPDIR/emit' '$B' 100; kill -9 \$PPID" \
		2>"$BATS_TEST_TMPDIR/log" >/dev/null || true
	nothing_left "$BATS_TEST_TMPDIR/log"
	[ "$(count_of "$trace" alloc)" = 100 ]
}

@test "session: a terminal's signals do not reach it" {
	session_run sh -c "'$BATS_FILE_TMPDIR/emit' '$B' 10; sid=\$(ps -o sid= \$\$)
		for pid in \$(pgrep lttng); do [ \$(ps -o sid= \$pid) != \$sid ] || echo same session; done"
	[ "$(grep -c same "$BATS_TEST_TMPDIR/out")" -eq 0 ]
	[ "$(count_of "$trace" alloc)" = 10 ]
}

@test "session: a directory that holds a trace is refused" {
	mkdir -p "$trace/ust"
	run -125 session "$trace" "$B" true
	[ "$output" = "start: $trace holds a trace already" ]
}

@test "session: a directory that cannot be made is named" {
	: >"$BATS_TEST_TMPDIR/file"
	run -125 session "$BATS_TEST_TMPDIR/file/trace" "$B" true
	[ "$output" = "start: cannot make the trace directory $BATS_TEST_TMPDIR/file/trace: Not a directory" ]
}

@test "session: a directory below one that is closed to others works for its owner" {
	mkdir -m 700 "$BATS_TEST_TMPDIR/closed"
	trace="$BATS_TEST_TMPDIR/closed/a b%c"
	session_run "$BATS_FILE_TMPDIR/emit" "$B" 10
	[ "$(count_of "$trace" alloc)" = 10 ]
}

homes() { ls -d /tmp/cuward-?????? 2>/dev/null | sort; }

# homes_left FILE: those that came since the list was made, and that nobody has for his own.
homes_left() {
	local home
	comm -13 "$1" <(homes) | while read -r home; do
		grep -qsz "^LTTNG_HOME=$home$" /proc/[0-9]*/environ || [ ! -e "$home" ] || echo "$home"
	done
}

@test "session: a missing provider is one clear sentence" {
	homes >"$BATS_TEST_TMPDIR/before"
	run -125 session "$trace" "$BATS_TEST_TMPDIR" true
	[[ $output == "ready: tracing needs liblttng-ust 2.13 or newer: $BATS_TEST_TMPDIR/libcuward-lttng.so: "* ]]
	[ "${#lines[@]}" = 1 ]
	# Others may just be making theirs.
	for _ in $(seq 100); do
		[ -n "$(homes_left "$BATS_TEST_TMPDIR/before")" ] || break
		sleep 0.1
	done
	[ -z "$(homes_left "$BATS_TEST_TMPDIR/before")" ]
	[ ! -e "$trace" ]
	mkdir "$trace"
	run -125 session "$trace" "$BATS_TEST_TMPDIR" true
	[ -z "$(ls "$trace")" ]
}

@test "session: a daemon that ends at once, and one that is missing" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	printf '#!/bin/sh\nexit 3\n' >"$BATS_TEST_TMPDIR/bin/lttng-sessiond"
	chmod 755 "$BATS_TEST_TMPDIR/bin/lttng-sessiond" "$BATS_TEST_TMPDIR"
	PATH=$BATS_TEST_TMPDIR/bin:$PATH run -125 session "$trace" "$B" true
	[[ $output == "ready: lttng-sessiond ended at once"* ]]
	[ "$(id -u)" = 0 ] || skip "hiding lttng-sessiond needs root"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	run -125 unshare -m sh -c "mount --bind /dev/null /usr/bin/lttng-sessiond &&
		exec '$BATS_FILE_TMPDIR/session' '$trace' '$B' true" 3>&-
	[[ $output == "ready: needs lttng-sessiond: install the package lttng-tools ("* ]]
}

# What another user, or root with fewer rights, needs of us must lie where they can reach it.
outside() {
	outside=$(mktemp -d /tmp/cwt-XXXXXX)
	chmod 755 "$outside"
	cp "$BATS_FILE_TMPDIR"/emit "$BATS_FILE_TMPDIR"/session "$B/libcuward-lttng.so" "$outside"
	trace=$outside/own/trace
	mkdir "$outside/own"
}

@test "session: an ordinary user has a session in XDG_RUNTIME_DIR" {
	[ "$(id -u)" = 0 ] || skip "the other tests ran as an ordinary user"
	outside
	mkdir -m 700 "$outside/run"
	chown 1234:1234 "$outside/run" "$outside/own"
	setpriv --reuid 1234 --regid 1234 --clear-groups env XDG_RUNTIME_DIR="$outside/run" \
		"$outside/session" "$trace" "$outside" "$outside/emit" "$outside" 100 \
		2>"$BATS_TEST_TMPDIR/log" 3>&-
	log_has "^home=$outside/run/cuward-"
	[ "$(count_of "$trace" alloc)" = 100 ]
	[ "$(find "$trace" -uid 1234 | wc -l)" -gt 5 ]
	[ -z "$(ls "$outside/run")" ]
	rm -rf "$outside"
}

@test "session: root without CAP_DAC_OVERRIDE has a session too" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	outside
	setpriv --bounding-set -dac_override,-dac_read_search \
		"$outside/session" "$trace" "$outside" "$outside/emit" "$outside" 100 \
		2>"$BATS_TEST_TMPDIR/log" 3>&-
	[ "$(count_of "$trace" alloc)" = 100 ]
	[ -z "$(find "$trace" ! -uid 0)" ]
	nothing_left "$BATS_TEST_TMPDIR/log"
	rm -rf "$outside"
}

@test "session: a small /dev/shm means small buffers, a tiny one a clear error" {
	[ "$(id -u)" = 0 ] || skip "mounting needs root"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	unshare -m sh -c "mount -t tmpfs -o size=4m none /dev/shm &&
		exec '$BATS_FILE_TMPDIR/session' '$trace' '$B' '$BATS_FILE_TMPDIR/emit' '$B' 100" 3>&-
	[ "$(count_of "$trace" alloc)" = 100 ]
	run -125 unshare -m sh -c "mount -t tmpfs -o size=32k none /dev/shm &&
		exec '$BATS_FILE_TMPDIR/session' '$trace.2' '$B' true" 3>&-
	[[ $output =~ ^"ready: needs "[0-9]+" KiB of shared memory, and /dev/shm has 32 KiB free"$ ]]
}

@test "session: of two that want the same folder at once one gets it" {
	for i in 1 2 3 4; do
		session "$trace" "$B" "$BATS_FILE_TMPDIR/emit" "$B" 50 >"$BATS_TEST_TMPDIR/out$i" 2>&1 3>&- &
	done
	wait
	cat "$BATS_TEST_TMPDIR"/out?
	[ "$(cat "$BATS_TEST_TMPDIR"/out? | grep -c "$trace holds a trace already")" = 3 ]
	[ "$(count_of "$trace" alloc)" = 50 ]
}

@test "session: a full disk is told, for LTTng does not" {
	[ "$(id -u)" = 0 ] || skip "mounting needs root"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	mkdir -p "$trace"
	unshare -m sh -c "mount -t tmpfs -o size=64k none '$trace' && { head -c 99999 /dev/zero >'$trace/fill'
		exec '$BATS_FILE_TMPDIR/session' '$trace' '$B' '$BATS_FILE_TMPDIR/emit' '$B' 100; }" 3>&- \
		2>"$BATS_TEST_TMPDIR/log" >/dev/null
	log_has ' complete=0 warning=no room is left on the disk of the trace: what did not fit is missing$'
	nothing_left "$BATS_TEST_TMPDIR/log"
}

@test "session: twelve at once do not disturb each other" {
	for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
		session "$trace$i" "$B" "$BATS_FILE_TMPDIR/emit" "$B" 50 2>>"$BATS_TEST_TMPDIR/log" \
			>/dev/null &
	done
	wait
	[ "$(grep -c ' lost=0 .* complete=1 warning=$' "$BATS_TEST_TMPDIR/log")" = 12 ]
	for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
		[ "$(count_of "$trace$i" alloc)" = 50 ]
		[ "$(count_of "$trace$i" process_end)" = 1 ]
	done
}
