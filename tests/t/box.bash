# box.bash - processes that hold memory, for the tests of the commands that look at them; used by `load`.

box_setup() {
	guest_setup
	play=$apps/play
	cuward=$B/cuward
	started=()
	MiB=$((1 << 20))
}

box_teardown() {
	local pid
	for pid in "${started[@]}"; do
		kill -9 "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	rm -rf state
}

# holder WORD...: a process that plays the words in the background, up to `say held`; its pid in $pid.
holder() {
	rm -f said
	LD_PRELOAD=$shim "$play" "$@" >said 3>&- &
	pid=$!
	started+=($pid)
	for i in $(seq 300); do
		grep -q held said && return
		kill -0 "$pid" 2>/dev/null || return 1
		sleep 0.1
	done
	false
}

# lie PID OTHER: the slot of the living process PID names another one's pid.
lie() {
	python3 - state/slots.* "$1" "$2" <<-'X'
		import struct, sys
		path, pid, other = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
		data = bytearray(open(path, 'rb').read())
		at = data.index(struct.pack('<II', pid, int(open(f'/proc/{pid}/stat').read().rsplit(')')[1].split()[1])), 4096)
		with open(path, 'r+b') as file:
		    file.seek(at)
		    file.write(struct.pack('<I', other))
	X
}

# told FILTER VALUE: of what a command printed as JSON into out.
told() {
	local answer
	answer=$(jq -c "$1" out)
	[ "$answer" = "$2" ] || {
		echo "$1 is $answer, not $2"
		cat out
		return 1
	}
}

# eventually COMMAND...: true within half a minute.
eventually() {
	local i
	for i in $(seq 100); do
		"$@" && return
		sleep 0.3
	done
	"$@"
}

# lacks PATTERN FILE: no line fits. (`! grep` would fail nothing.)
lacks() {
	if grep -En -- "$1" "$2"; then
		return 1
	fi
}
