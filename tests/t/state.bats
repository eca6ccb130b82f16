#!/usr/bin/env bats
# The shared folder in any state: limits hold, nothing crashes, nothing is written where it should not be.

load guest

setup() {
	guest_setup
	play=$apps/play
	export CUWARD_MEMORY=8M
}

teardown() {
	rm -rf "${copy:-}" "${link:-}"
}

# holds FINDINGS: the limit does, silently, and the report says what is wrong with the folder.
holds() {
	guest 0 "$play" init device 0 alloc 4M refused 5M free 0 alloc 8M refused 1
	[ -z "$output" ] || { echo "$output"; false; }
	ask '[.devices[0].used_bytes, .devices[0].denied, .complete]' "[$((8 * MiB)),2,true]"
	ask '[.findings[].code | select(test("share"))]' "$1"
}

good='[]' bad='["share-unavailable"]'

@test "a folder that is none" {
	echo text >state
	holds "$bad"
	[ "$(cat state)" = text ]
	rm state
	ln -s nowhere state
	holds "$bad"
	[ ! -e nowhere ]
	rm state
	mkfifo state
	holds "$bad"
	export CUWARD_DIR=$PWD/no/such/folder
	holds "$bad"
	[ ! -e no ]
	CUWARD_DIR=$PWD/$(printf 'd/%.0s' {1..3000})
	holds "$bad"
	[ ! -e d ]
	CUWARD_DIR=/dev/null
	holds "$bad"
	CUWARD_DIR=/proc
	holds "$bad"
}

@test "a folder that others may write, or that belongs to somebody else" {
	mkdir -m 777 state
	holds "$bad"
	[ -z "$(ls state)" ]
	chmod 700 state
	holds "$good"
	if [ "$(id -u)" = 0 ]; then
		rm -r state
		mkdir -m 700 state
		chown 12345 state
		holds "$bad"
		[ -z "$(ls state)" ]
	fi
}

@test "a folder by another name, and one where the program does not stay" {
	mkdir real elsewhere
	ln -s real state
	holds "$good"
	[ -e real/slots.$UID ]
	export CUWARD_DIR=here
	guest 0 "$play" init chdir elsewhere device 0 alloc 4M refused 5M
	ask '[.findings[].code | select(test("share"))]' "$good"
	[ -e here/slots.$UID ]
	[ -z "$(ls elsewhere)" ]
	[ -z "$(find here -name '*.ledger')" ]
}

# /dev/shm is everybody's: a link there may lead into our own home.
@test "a link in /dev/shm is not followed" {
	link=/dev/shm/cuward-test-$$
	mkdir home
	ln -s "$PWD/home" $link
	CUWARD_DIR=$link holds "$bad"
	[ -z "$(ls home)" ]
}

@test "odd files in the folder" {
	holds "$good"
	local slots=state/slots.$UID
	for odd in "ln -s $PWD/target" "mkfifo" "mkdir" "ln -s /dev/zero" "mknod -m 600"; do
		rm -rf $slots
		case $odd in
		mknod*) mknod -m 600 $slots c 1 3 2>/dev/null || continue ;;
		*) $odd $slots ;;
		esac
		holds "$bad"
	done
	[ ! -e target ]
	rm -rf $slots
	if [ "$(id -u)" = 0 ]; then
		touch $slots
		chown 12345 $slots
		holds "$bad"
		[ ! -s $slots ]
		rm $slots
	fi
	for odd in "touch" "ln -s $PWD/real" "mkfifo"; do
		rm -rf state/jobs
		mkdir -p real
		$odd state/jobs
		holds "$bad"
		[ -z "$(ls real)" ]
	done
}

@test "a slots file of any length and content" {
	local slots=state/slots.$UID bytes
	holds "$good"
	full=$(stat -c %s $slots)
	for bytes in 0 1 100 4095 4096 5000 $((full - 1)) $((full + 12345)); do
		truncate -s $bytes $slots
		holds "$good"
	done
	for bytes in 1 100 4096 $full 1000000; do
		head -c $bytes /dev/urandom >$slots
		holds "$good"
		tr '\0' '\377' </dev/zero | head -c $bytes >$slots
		holds "$good"
	done
	printf '\377\377\377\377\377\377\377\377' | dd of=$slots bs=1 seek=16 conv=notrunc 2>/dev/null
	holds "$good"
}

# A file that is good but cut off gets its room back; one that is bad gives way, its users keep theirs.
@test "the slots file of processes that run" {
	local slots=state/slots.$UID
	guest 0 "$play" init device 0 alloc 4M sh "cd state && cp slots.$UID copy && cat copy copy >copy2 &&
		mv copy2 slots.$UID" sh "CUWARD_REPORT= LD_PRELOAD=$shim $play init device 0 alloc 4M refused 5M" refused 5M free 0
	ask '[.devices[0].used_bytes, .devices[0].peak_bytes, .devices[0].denied]' "[0,$((4 * MiB)),1]"
	guest 0 "$play" init device 0 alloc 4M sh "head -c 4096 /dev/urandom | dd of=$PWD/$slots conv=notrunc" \
		sh "CUWARD_REPORT= LD_PRELOAD=$shim $play init device 0 alloc 4M refused 5M" refused 5M free 0
	ask '[.devices[0].used_bytes, .devices[0].peak_bytes, .devices[0].denied]' "[0,$((4 * MiB)),1]"
	holds "$good"
}

@test "a folder that is removed, emptied or closed while the program runs" {
	for what in "rm -r state" "rm -r state/jobs" "find state -type f -delete" "mv state gone" "chmod 0 state" \
		"chmod 777 state" "rm -r state; touch state" "rm -r state; ln -s /etc state"; do
		chmod 700 state 2>/dev/null || true
		rm -rf state gone
		guest 0 "$play" init device 0 alloc 4M sh "cd $PWD; $what" refused 5M free 0 alloc 8M refused 1
		ask '[.devices[0].used_bytes, .devices[0].peak_bytes, .devices[0].denied]' \
			"[$((8 * MiB)),$((8 * MiB)),2]"
		rm -rf gone
		case $what in
		rm\ -r\ state) [ ! -e state ] ;;
		esac
	done
	rm -rf state
	guest 0 "$apps/threads" 2 200 100000000
	guest 0 "$play" sh "rm -rf $PWD/state; mkdir -m 000 $PWD/state" init device 0 alloc 4M refused 5M
	chmod 700 state
}

# As a user who is not root, from copies that user can read.
@test "a folder that cannot be read" {
	local as=()
	copy=$(mktemp -d /tmp/cuward-test-XXXXXX)
	chmod 755 "$copy"
	cp "$shim" "$play" "$B/sim/libcuda.so.1" "$copy"
	if [ "$(id -u)" = 0 ]; then
		as=(setpriv --reuid=12345 --regid=12345 --clear-groups)
		chown 12345 "$copy"
	fi
	for mode in 000 500 600 700; do
		rm -rf "$copy/state" "$copy/r.json"
		"${as[@]}" mkdir -m $mode "$copy/state"
		LD_LIBRARY_PATH=$copy CUWARD_DIR=$copy/state CUWARD_SIM_TRUTH='' LD_PRELOAD=$copy/libcuward.so \
			CUWARD_REPORT=$copy/r.json "${as[@]}" "$copy/play" init device 0 alloc 4M refused 5M
		jq -e '.processes[0].devices[0] | [.used_bytes, .denied] == [4194304, 1]' "$copy/r.json"
		expected=$bad
		[ $mode != 700 ] || expected=$good
		ask '[.findings[].code | select(test("share"))]' "$expected" "$copy/r.json"
	done
}

@test "a file system that cannot be written" {
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	mkdir -m 700 state
	unshare -m sh -c "mount -t tmpfs -o mode=700,ro none state && CUWARD_REPORT='$PWD/r.json' \
		LD_PRELOAD='$shim' '$play' init device 0 alloc 4M refused 5M"
	ask '[.findings[].code | select(test("share"))]' "$bad"
	ask '[.devices[0].used_bytes, .devices[0].denied]' "[$((4 * MiB)),1]"
}

@test "a limit of the whole job is refused where nobody can be seen" {
	echo text >state
	export CUWARD_MEMORY=none CUWARD_JOB_MEMORY=8M
	run env LD_PRELOAD=$shim "$play" init device 0 alloc 1M
	[ "$status" -eq 99 ]
	[ "${lines[-1]}" = "play: init: error 800" ]
	[ "$(grep -c '^cuward: ' <<<"$output")" -eq 1 ]
}

# old_slots [LIVING]: a slots file of another version, in which somebody of that version lives.
old_slots() {
	holds "$good"
	printf '\377\377\377\377' | dd of=state/slots.$UID bs=1 seek=8 conv=notrunc status=none
	[ $# = 0 ] || owned 0 1
}

@test "a program that goes on without the driver finds nothing free" {
	old_slots living
	export CUWARD_MEMORY=none CUWARD_JOB_MEMORY=8M
	guest 0 "$play" init_refused device 0 info $((8 * MiB))/0 refused 1
	kill $owner
	wait $owner || :
}

@test "a slots file of another version is kept while somebody lives in it, and then gives way" {
	old_slots living
	holds "$bad"
	"$B/cuward" doctor --json | jq -e '.checks[] | select(.check == "folder") | .verdict == "warn" and
		(.text | endswith("state/slots.'$UID' is in use by another version of cuward")) and .advice'
	run "$B/cuward" ps
	[[ ${lines[0]} == "cuward: 1 slots file cannot be read: "*": of another version of cuward" ]]
	if unshare -m true 2>/dev/null; then # found by two ways, and told once
		run unshare -m sh -c "mount -t tmpfs -o mode=1777 none /dev/shm && cp -a state /dev/shm/cuward-$UID &&
			env -u CUWARD_DIR '$B/cuward' ps"
		[[ $output == *"1 slots file cannot be read: /dev/shm/cuward-$UID/slots.$UID: of another version"* ]]
	fi
	kill $owner
	wait $owner || :
	"$B/cuward" doctor --json | jq -e '.checks[] | select(.check == "folder") | .verdict == "ok"'
	holds "$good"
}

# ---- descriptors that cannot be written ----

# stopped COMMAND...: with a stderr that nobody reads, its status and stdout.
stopped() {
	local status=0 fifo=$BATS_TEST_TMPDIR/fifo reader
	rm -f "$fifo"
	mkfifo "$fifo"
	exec {reader}<>"$fifo"
	exec {writer}>"$fifo"
	exec {reader}<&-
	"$@" 2>&$writer || status=$?
	exec {writer}>&-
	echo "status $status"
}

@test "nobody reads stderr: no SIGPIPE of ours" {
	export CUWARD_LOG=debug CUWARD_LEAK=exit
	# The program's own line would end it; our lines, and the leaks at the end, do not.
	stopped env LD_PRELOAD=$shim "$play" init device 0 alloc 4M refused 5M say done >said
	[ "$(tr '\n' ' ' <said)" = "done status 0 " ]
	CUWARD_MEMORY=7Q stopped env LD_PRELOAD=$shim sh -c "trap 'echo caught' PIPE
		$play say before init" >said
	[ "$(head -1 said)" = before ]
	stopped env LD_PRELOAD=$shim CUWARD_REPORT=/dev/fd/2 "$play" init device 0 alloc 4M say done >said
	[ "$(tr '\n' ' ' <said)" = "done status 0 " ]
}

@test "a limit of file sizes: no SIGXFSZ of ours" {
	unset CUWARD_SIM_TRUTH
	(ulimit -f 1; LD_PRELOAD=$shim CUWARD_LOG=debug "$play" init device 0 alloc 4M refused 5M say done) >said 2>&1
	grep -q '^done$' said
	(ulimit -f 0; CUWARD_REPORT=$PWD/r.json LD_PRELOAD=$shim "$play" init device 0 alloc 4M say done) | cat >said
	[ "$(cat said)" = done ]
	! [ -s r.json ]
}

@test "many start at once over a slots file that is no good" {
	local pids=() pid i
	mkdir -m 700 state
	head -c 9000 /dev/urandom >state/slots.$UID
	for i in {1..12}; do
		CUWARD_REPORT=$PWD/race-$i.json LD_PRELOAD=$shim timeout 60 \
			"$play" init device 0 alloc 4M refused 5M sleep 300 3>&- &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid"; done
	[ "$(cat race-*.json | jq -s -c '[length, (map(.processes[0] |
		select(.devices[0].denied == 1 and all(.findings[]; .code != "share-unavailable"))) | length)]')" = '[12,12]' ]
}

@test "a slots file that is removed, and made anew by others: nobody's memory is forgotten" {
	export CUWARD_JOB=j CUWARD_JOB_MEMORY=10M
	wait_for() { echo "touch $PWD/at-$1; until [ -e $PWD/go-$1 ]; do sleep 0.02; done"; }
	there() { until [ -e at-$1 ]; do sleep 0.02; done; }
	LD_PRELOAD=$shim "$play" init device 0 alloc 1M sh "$(wait_for 1)" refused 5M alloc 1M >said-1 2>&1 3>&- &
	first=$!
	there 1
	LD_PRELOAD=$shim "$play" init device 0 alloc 6M sh "$(wait_for 2)" refused 4M free 0 alloc 8M >said-2 2>&1 3>&- &
	second=$!
	there 2
	rm state/slots.$UID
	# In that one the second slot is nobody's.
	CUWARD_JOB=k LD_PRELOAD=$shim "$play" init device 0 alloc 1M sh "$(wait_for 3)" 3>&- &
	third=$!
	there 3
	touch go-1
	wait $first || { cat said-1; false; }
	touch go-2
	wait $second || { cat said-2; false; }
	touch go-3
	wait $third
}

slots_used() { od -An -tu4 -j 20 -N 4 "state/slots.$UID" | tr -d ' '; }

# killed COUNT: so many processes that hold memory, one after the other.
killed() {
	for _ in $(seq "$1"); do
		guest 137 "$play" init device 0 alloc 1M sh 'kill -9 $PPID'
	done
}

@test "slots of the dead are taken again" {
	local pids=() i keep_truth=none
	export CUWARD_SIM_MEMORY=64G
	killed 20
	[ "$(slots_used)" = 1 ]
	# A start asks after some owners only; where most are alive, a few slots of the dead are left over.
	for i in {1..24}; do
		LD_PRELOAD=$shim "$play" init device 0 alloc 2M say held sleep 60000 >said-$i 3>&- &
		pids+=($!)
		# One after the other: what the contexts of several that start at once take, nobody can tell apart.
		until grep -q held said-$i; do sleep 0.02; done
	done
	killed 40
	# What one of those holds is not counted either: a context takes 300 MiB, in slots and from the driver.
	printf '\0\0\0\0' | dd of=state/slots.$UID bs=1 seek=1072 conv=notrunc status=none
	guest 0 "$play" init device 0 alloc 1M
	ask '.devices[0].overhead_bytes' $((300 * MiB))
	[ "$(od -An -tu4 -j 1072 -N 4 state/slots.$UID)" -eq 16 ]
	kill "${pids[@]}"
	wait "${pids[@]}" || :
	echo "slots used: $(slots_used)"
	[ "$(slots_used)" -ge 25 ]
	[ "$(slots_used)" -le 28 ]
	holds "$good" # nobody counts those
	rm -r state
}

# owned FROM COUNT: as if so many slots from that one on had owners who live.
owned() {
	python3 - "state/slots.$UID" "$@" <<-'X' >owned 3>&- &
		import fcntl, struct, sys, time
		path, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
		with open(path, "r+b") as file:
		    size, slots = struct.unpack("II", file.read(20)[12:])
		    slot = file.read(4096 - 20 + size)[4096 - 20:]
		    for i in range(slots):
		        file.seek(4096 + size * i)
		        file.write(slot)
		    file.seek(20)
		    file.write(struct.pack("I", slots))
		    file.flush()
		    # F_OFD_SETLK
		    fcntl.fcntl(file, 37, struct.pack("hhlli", fcntl.F_WRLCK, 0, 4096 + size * first, size * count, 0))
		    print("owned", flush=True)
		    time.sleep(600)
	X
	owner=$!
	until grep -q owned owned; do kill -0 $owner; sleep 0.05; done
}

@test "a slots file that is full: the one slot whose owner is dead is found" {
	killed 1
	owned 0 1023
	holds "$good"
	kill $owner
	wait $owner || :
	owned 1 1023
	holds "$good"
	kill $owner
	wait $owner || :
	owned 0 1024
	guest 0 "$play" init device 0 alloc 4M refused 5M
	ask '[.findings[].code | select(test("share"))]' "$bad"
	kill $owner
	wait $owner || :
	rm -r state
}
