#!/usr/bin/env bats
# What others may see of a process and what not, and where shared state cannot be had: a limit of several processes is
# kept, or said not to be, never passed over.

load guest
load box
load common

setup() { box_setup; }
teardown() { box_teardown; common_teardown; }

# modes FOLDER: type, mode and owner of all there is in it.
modes() { (cd "$1" && find . -printf '%y %m %U %P\n' | sort -k 4); }

@test "slots and ledgers of one user are his alone, whatever his umask" {
	for mask in 000 077 277; do
		rm -rf state
		(umask $mask; CUWARD_JOB=a/b CUWARD_JOB_MEMORY=8M LD_PRELOAD=$shim exec "$play" init device 0 alloc 1M refused 8M say held \
			sleep 600000) >said 3>&- &
		pid=$!
		started+=($pid)
		up() { grep -q held said; }
		eventually up
		modes state >is
		cat is
		me=$(id -u)
		grep -qx "d 700 $me " is
		grep -qx "f 600 $me slots.$me" is
		grep -Eqx "d 700 $me jobs/a/b" is
		[ "$(grep -Ec "^f 600 $me jobs/a/b/[0-9]+-0-[0-9]+\.ledger$" is)" -eq 1 ]
		lacks '^[df] [0-7]*[1-7][0-7] |^[df] [0-7]*[1-7] ' is
		kill -9 $pid
		wait $pid || true
	done
}

@test "where all meet: a file a user that all may read and he may write; ledgers stay his" {
	common_setup
	policy '[default]' 'reserve = 1G'
	common <<-'X'
		umask 0
		holds 4101 init device 0 alloc 1M say held sleep 600000
		umask 077
		holds 4102 init device 0 alloc 1M say held sleep 600000
		(cd /run/cuward && find . -printf '%y %m %U %P\n' | sort -k 4) >is
		cat is
		diff is - <<-Y
			d 755 0 
			d 1777 0 queue
			d 755 0 reserve
			d 1777 0 slots
			f 644 4101 slots/slots.4101
			f 644 4102 slots/slots.4102
			f 444 0 turn
		Y
		[ "$(find state-410* -perm /077 | wc -l)" = 0 ]
		as 4102 cuward ps --json >seen
		told seen '[.processes[] | [.uid, .pid, .devices[0].used_bytes]] | length == 2'
		for file in $(find state-4101 -name '*.ledger'); do
			if as 4102 cat $file >/dev/null 2>&1; then exit 1; fi
		done
		if as 4102 sh -c 'echo x >>/run/cuward/slots/slots.4101' 2>/dev/null; then exit 1; fi
		if as 4102 rm -f /run/cuward/slots/slots.4101 2>/dev/null; then exit 1; fi
	X
}

# unkept: a job's limit refuses to start, with one line that says why; a process's limit is kept, and the report says so.
unkept() {
	rm -f r.json r-*.json
	run env CUWARD_JOB_MEMORY=8M CUWARD_LOG= LD_PRELOAD="$shim" "$@" "$play" init device 0 alloc 1M
	[ "$status" -eq 99 ] || { echo "$status: $output"; return 1; }
	[ "${lines[0]}" = "cuward: CUWARD_JOB_MEMORY: the shared state cannot be used, so the job's other processes cannot be seen; \`cuward doctor\` says why" ]
	CUWARD_MEMORY=8M CUWARD_REPORT=$PWD/r.json LD_PRELOAD=$shim "$@" "$play" init device 0 alloc 6M refused 4M
	jq -e '[.processes[0].findings[] | select(.code == "share-unavailable")] | length == 1' r.json
	jq -e '.processes[0].devices[0].limits == [{ scope: "process", bytes: 8388608, source: "CUWARD_MEMORY" }]' r.json
}

@test "shared memory that is full, read-only or somebody else's: said, with a job's limit refused" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	unset CUWARD_DIR CUWARD_SIM_TRUTH
	cat >in_shm <<-'X'
		mount -t tmpfs -o "$1" tmpfs /dev/shm
		[ ! -e before ] || . ./before
		shift
		exec "$@"
	X
	export XDG_RUNTIME_DIR=
	# One page, which the folder's own slots need.
	unkept unshare -m env -u LD_PRELOAD sh in_shm size=4k env LD_PRELOAD="$shim"
	unkept unshare -m env -u LD_PRELOAD sh in_shm ro env LD_PRELOAD="$shim"
	echo 'mkdir -m 700 /dev/shm/cuward-0; chown 12345 /dev/shm/cuward-0' >before
	unkept unshare -m env -u LD_PRELOAD sh in_shm mode=1777 env LD_PRELOAD="$shim"
	echo 'mkdir -m 777 /dev/shm/cuward-0' >before
	unkept unshare -m env -u LD_PRELOAD sh in_shm mode=1777 env LD_PRELOAD="$shim"
	rm before
	# And where it can be had.
	CUWARD_JOB_MEMORY=8M unshare -m sh in_shm mode=1777 env LD_PRELOAD="$shim" "$play" init device 0 alloc 6M refused 4M
}

@test "full when there is no room for more: who has a slot goes on, who comes is refused" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	unset CUWARD_DIR CUWARD_SIM_TRUTH
	export XDG_RUNTIME_DIR= CUWARD_JOB_MEMORY=8M
	cat >inside <<-'X'
		mount -t tmpfs -o mode=1777,size=2m tmpfs /dev/shm
		LD_PRELOAD=$1 "$2" init device 0 alloc 4M say held sh 'while [ ! -e full ]; do sleep 0.02; done' \
			alloc 1M refused 4M freeall alloc 8M say done >said &
		until grep -q held said; do sleep 0.02; done
		head -c 10000000 /dev/zero >/dev/shm/fill 2>/dev/null
		touch full
		wait $! || exit 1
		grep -q done said || exit 2
		status=0
		LD_PRELOAD=$1 "$2" init device 0 alloc 1M 2>why || status=$?
		# It gets the slot that came free, in room that is there; its ledger is private then.
		[ $status = 0 ] || { [ $status = 99 ] && grep -q 'cuward: ' why; } || exit 3
	X
	unshare -m sh inside "$shim" "$play"
}

@test "another pid namespace: a job's limit holds, over /dev/shm that both see; with one of its own it is another job" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	unshare -m -p -f --mount-proc true 2>/dev/null || skip "no pid namespaces here"
	export CUWARD_JOB=j CUWARD_JOB_MEMORY=8M
	holder init device 0 alloc 5M say held sleep 600000
	# Its pid is 1 or so in there, and everybody of this host has another one.
	unshare -p -f --mount-proc env LD_PRELOAD="$shim" "$play" init device 0 refused 4M alloc 3M refused 1
	# Who dies in there is noticed out here at once.
	unshare -p -f --mount-proc env LD_PRELOAD="$shim" "$play" init device 0 alloc 3M kill 9 || true
	LD_PRELOAD=$shim "$play" init device 0 alloc 3M refused 1
	kill -9 $pid
	wait $pid || true
	unshare -p -f --mount-proc env LD_PRELOAD="$shim" "$play" init device 0 alloc 8M refused 1
	# Where nothing is shared each counts for itself: `cuward doctor` says what others can be seen.
	holder init device 0 alloc 5M say held sleep 600000
	CUWARD_DIR=$PWD/own unshare -m -p -f --mount-proc env LD_PRELOAD="$shim" "$play" init device 0 alloc 8M refused 1
	find state own -name '*.ledger' -delete
}

@test "a slots file cut off under who maps it, or overwritten: who waits and who asks live on" {
	export CUWARD_JOB=j CUWARD_JOB_MEMORY=8M
	holder init device 0 alloc 5M say held sh 'while [ ! -e go ]; do sleep 0.02; done' alloc 1M freeall say over sleep 600000
	slots=state/slots.$(id -u)
	# In a slot that somebody left.
	LD_PRELOAD=$shim "$play" init device 0 alloc 1M kill 9 || true
	head -c 2752 /dev/urandom | dd of=$slots bs=1 seek=$((4096 + 2752)) conv=notrunc 2>/dev/null
	touch go
	over() { grep -q over said; }
	eventually over
	kill -0 $pid
	# Garbage of the dead counts for nobody for ever.
	LD_PRELOAD=$shim timeout 60 "$play" init device 0 alloc 8M freeall
	find state -name '*.ledger' -delete
}
