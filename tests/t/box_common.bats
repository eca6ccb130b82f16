#!/usr/bin/env bats
# Limits of all users together: reserves and groups, over the slots of everybody in the administrator's
# folder; what hostile neighbours can do there.

load guest
load box
load common

setup() { box_setup; common_setup; }
teardown() { box_teardown; common_teardown; }

gpu=GPU-51000000-0000-4000-8000-000000000000

@test "a reserve of nobody: all users together leave it free" {
	policy '[default]' 'reserve = 12G'
	common <<-'X'
		holds 4101 init device 0 alloc 3G say held sleep 600000
		CUWARD_REPORT=$public/state-4102/r.json preloaded 4102 init device 0 refused 2G info 4G/1G alloc 1G \
			info 4G/0 || exit 1
		told state-4102/r.json '.processes[0].devices[0].limits ==
			[{ scope: "gpu", bytes: (4 * 1073741824), source: "/etc/cuward/cuward.conf" }]'
		told state-4102/r.json '.processes[0].denials[0] | .scope == "gpu" and .used_bytes == 3 * 1073741824 and
			(.holders[0] | .uid == 4101 and .bytes == 3 * 1073741824 and .command == "play")'
		# What a killed process of somebody else held is free at once.
		kill -9 $pid
		wait $pid || true
		preloaded 4102 init device 0 alloc 4G refused 1
	X
}

@test "the reserve of a user, and of a group: only they get it" {
	policy '[user 4101]' 'reserve = 10G' '[group 4200]' "reserve = 2G"
	common <<-'X'
		groups_4103=4200
		preloaded 4102 init device 0 refused 5G alloc 4G
		preloaded 4101 init device 0 alloc 14G refused 1G
		preloaded 4103 init device 0 alloc 6G refused 1G
		# What they hold of it is not kept a second time.
		holds 4101 init device 0 alloc 6G say held sleep 600000
		preloaded 4102 init device 0 refused 5G alloc 4G
	X
}

@test "a group of users: together" {
	policy '[group 4200]' 'group_max = 8M' '[group 4201]' 'group_max = 6M'
	common <<-'X'
		groups_4101=4200 groups_4102=4200,4201
		holds 4101 init device 0 alloc 5M say held sleep 600000
		CUWARD_REPORT=$public/state-4102/r.json preloaded 4102 init device 0 refused 4M alloc 3M refused 1
		told state-4102/r.json '.processes[0].devices[0].limits == [{ scope: "group", bytes: (6 * 1048576),
			source: "/etc/cuward/cuward.conf" }]'
		told state-4102/r.json '.processes[0].denials[0] | .scope == "group" and .limit_bytes == 8 * 1048576'
		CUWARD_REPORT=$public/state-4103/r.json preloaded 4103 init device 0 alloc 64M
		told state-4103/r.json '.processes[0].devices[0].limits == []'
	X
}

@test "who cannot see the others may not start" {
	policy '[default]' 'reserve = 1G'
	no_common=1 common <<-'X'
		status=0
		preloaded 4101 init 2>why || status=$?
		[ $status = 99 ]
		grep -q "cuward: /etc/cuward/cuward.conf: other users' processes cannot be seen" why
		# A folder that is not as it must be is as good as none.
		mkdir -m 777 /run/cuward
		mkdir -m 1777 /run/cuward/slots
		status=0
		preloaded 4101 init 2>why || status=$?
		[ $status = 99 ]
	X
	policy '[group 4200]' 'group_max = 1G'
	no_common=1 common <<-'X'
		preloaded 4101 init device 0 alloc 2G
		groups_4101=4200
		status=0
		preloaded 4101 init 2>why || status=$?
		[ $status = 99 ]
	X
}

@test "hostile neighbours: files that are none, lie, or end early" {
	policy '[default]' 'reserve = 8G'
	common <<-'X'
		holds 4101 init device 0 alloc 1G say held sleep 600000
		cp /run/cuward/slots/slots.4101 real
		slots=/run/cuward/slots
		# In somebody else's name, a link, a pipe, garbage, an empty one.
		as 4102 cp real $slots/slots.4103
		as 4102 ln -s slots.4101 $slots/slots.4104
		as 4105 mkfifo $slots/slots.4105
		as 4106 sh -c "head -c 100000 /dev/urandom >$slots/slots.4106"
		as 4107 touch $slots/slots.4107
		preloaded 4110 init device 0 refused 8G alloc 7G
		# A copy of real slots, without a lock: nobody lives there.
		as 4108 cp real $slots/slots.4108
		preloaded 4110 init device 0 refused 8G alloc 7G
		# Cut off in the middle, while we read.
		as 4108 truncate -s 5000 $slots/slots.4108
		preloaded 4110 init device 0 refused 8G alloc 7G
		# He who finds a file of somebody else in his place has no slot, and no limit is kept without.
		status=0
		preloaded 4103 init 2>why || status=$?
		[ $status = 99 ]
		grep -q "other users' processes cannot be seen\|shared state cannot be used" why
	X
}

@test "two users, many threads: never over the limit" {
	policy '[default]' "reserve = $(((16 << 30) - (3 << 20)))"
	common <<-'X'
		export CUWARD_SIM_TRUTH=$public/truth
		umask 0
		touch truth
		preloaded 4101 init
		for uid in 4101 4102; do
			as $uid env LD_PRELOAD=$public/bin/libcuward.so timeout 120 group 2 2 3000 1048576 >out-$uid &
			pids="${pids-} $!"
		done
		for pid in $pids; do wait $pid; done
		cat out-*
		truth=$B/sim/truth
		[ "$($truth truth device.0.requested_high)" = $((3 << 20)) ]
		! grep -q 'refused 0 ' out-4101
	X
}

@test "no descriptor left when somebody has just come: he counts" {
	policy '[default]' 'reserve = 8G'
	common <<-'X'
		holds 4101 init device 0 alloc 1G say held sleep 600000
		# Each is new here, and so the folder is looked at again.
		for uid in 4111 4112 4113; do
			preloaded $uid init device 0 alloc 1G sh 'prlimit --pid $PPID --nofile=3:3' refused 7G
		done
	X
}

@test "where process_vm_readv is not permitted, as in containers: the files themselves are read" {
	policy '[default]' 'reserve = 8G'
	common <<-'X'
		filtered true || exit 0
		filter=filtered
		holds 4101 init device 0 alloc 1G say held sleep 600000
		holder=$pid
		preloaded 4110 init device 0 refused 8G alloc 7G
		holds 4102 init device 0 alloc 1G say held sleep 600000
		preloaded 4110 init device 0 refused 7G alloc 6G
		# A copy without a lock, one cut off, one in somebody else's name: nobody.
		as 4108 cp /run/cuward/slots/slots.4101 /run/cuward/slots/slots.4108
		as 4109 cp /run/cuward/slots/slots.4101 /run/cuward/slots/slots.4109
		as 4109 truncate -s 5000 /run/cuward/slots/slots.4109
		as 4108 cp /run/cuward/slots/slots.4101 /run/cuward/slots/slots.4107
		preloaded 4110 init device 0 refused 7G alloc 6G
		# Killed, and free at once.
		kill -9 $holder
		wait $holder || true
		preloaded 4110 init device 0 alloc 7G refused 1
		# No descriptor left: the limit holds.
		preloaded 4110 init device 0 alloc 1G sh 'prlimit --pid $PPID --nofile=3:3' refused 1G
		# Many at once.
		kill -9 $(jobs -p)
		wait
		printf '[default]\nreserve = %d\n' $(((16 << 30) - (3 << 20))) >/etc/cuward/cuward.conf
		export CUWARD_SIM_TRUTH=$public/truth
		umask 0
		touch truth
		preloaded 4101 init
		pids=
		for uid in 4101 4102; do
			as $uid filtered env LD_PRELOAD=$public/bin/libcuward.so timeout 120 group 2 2 500 1048576 >out-$uid &
			pids="$pids $!"
		done
		for pid in $pids; do wait $pid; done
		[ "$($B/sim/truth truth device.0.requested_high)" = $((3 << 20)) ]
		grep -h refused out-* | grep -qv 'refused 0 '
	X
}

@test "a handler that jumps out while others are read: they can be read again" {
	policy '[default]' 'reserve = 8G'
	common <<-'X'
		holds 4101 init device 0 alloc 1G say held sleep 600000
		[ "$(as 4110 env LD_PRELOAD=$public/bin/libcuward.so timeout 20 leap 20)" = "leaps 20 answers 0 0" ]
	X
}

@test "what others hold is not untracked, where all meet" {
	common <<-'X'
		export CUWARD_SIM_TRUTH=$public/truth
		umask 0
		touch truth
		preloaded 4102 init
		holds 4101 init device 0 alloc 1G say held sleep 600000
		CUWARD_REPORT=$public/state-4102/r.json preloaded 4102 init device 0 alloc 1M
		told state-4102/r.json '.processes[0].devices[0].untracked_bytes < 100 * 1048576'
		rm -r /run/cuward
		CUWARD_REPORT=$public/state-4102/q.json preloaded 4102 init device 0 alloc 1M
		told state-4102/q.json '.processes[0].devices[0].untracked_bytes > 500 * 1048576'
	X
}

@test "ps and limit get: everybody in the folder, and every layer" {
	policy '[default]' 'reserve = 8G' '[group 4200]' 'group_max = 7G' 'process_max = 6G'
	common <<-'X'
		groups_4101=4200
		holds 4101 init device 0 alloc 1G say held sleep 600000
		as 4102 cuward ps --json >out
		told out '[.processes[] | [.uid, .devices[0].used_bytes]] == [[4101, 1073741824]]'
		as 4101 cuward limit get $pid --json >out
		told out '[.processes[0].devices[0].limits[] | [.scope, .bytes, .binds]] ==
			[["process", (6 * 1073741824), true], ["group", (7 * 1073741824), true], ["gpu", (8 * 1073741824), true]]'
		kill -9 $pid
		wait $pid || true
		as 4101 cuward clean | grep -q '1 slot and 1 ledger'
	X
}

@test "the limit that binds may be that of the user, or of all on the GPU: ps names it, why says that it is near" {
	policy '[default]' 'user_max = 8M' '[user 4102]' 'user_max = none'
	common <<-'X'
		CUWARD_MEMORY=9M holds 4101 init device 0 alloc 4M say held sleep 600000
		first=$pid
		near() { as 4101 cuward why --json --for 0.2s $first >why || true
			jq -r '.processes[0].verdicts[] | select(.verdict == "near-limit") | .evidence' why; }
		as 4101 cuward ps --json $first >ps
		told ps '.processes[0].devices[0].limits == [{ scope: "process", bytes: 9437184 }, { scope: "user", bytes: 8388608 }]'
		as 4101 cuward ps | grep "^ *$first " | grep -q ' 8.00 MiB user '
		# Half of it is not near; what another process of the user holds counts, another user's does not.
		[ -z "$(near)" ]
		holds 4101 init device 0 alloc 4M say held sleep 600000
		[[ "$(near)" == "8.00 MiB of the user limit of 8.00 MiB (4101; /etc/cuward/cuward.conf) are used on GPU-51000000: "* ]]
		kill -9 $pid
		wait $pid || true
		holds 4103 init device 0 alloc 8M say held sleep 600000
		[ -z "$(near)" ]
		kill -9 $pid $first
		wait
		# Of all: what nobody may have is 12 MiB less than the GPU.
		printf '[default]\nreserve = %d\n' $(((16 << 30) - (12 << 20))) >/etc/cuward/cuward.conf
		holds 4101 init device 0 alloc 5M say held sleep 600000
		first=$pid
		as 4101 cuward ps | grep "^ *$first " | grep -q ' 12.0 MiB gpu '
		[ -z "$(near)" ]
		holds 4103 init device 0 alloc 6M say held sleep 600000
		[[ "$(near)" == "11.0 MiB of the gpu limit of 12.0 MiB "*" are used on GPU-51000000: "* ]]
	X
}

@test "clean --all: of all who were there, wherever their own folders are" {
	common <<-'X'
		mkdir -p /run/user/4102/cuward
		chown -R 4102 /run/user/4102
		holds 4101 init device 0 alloc 1G say held sleep 600000
		kill -9 $pid
		as 4102 env -u CUWARD_DIR XDG_RUNTIME_DIR=/run/user/4102 LD_PRELOAD=$public/bin/libcuward.so \
			play init device 0 alloc 1M kill 9 || true
		holds 4103 init device 0 alloc 1G say held sleep 600000
		as 4101 cuward run -q --sim --wait -m 1G -- sh -c 'kill -9 $PPID' || true
		[ "$(ls /run/cuward/queue | wc -l)" = 1 ]
		# Somebody else's file under the name of one of them.
		as 4102 cp /run/cuward/slots/slots.4103 /run/cuward/slots/slots.4105
		[ "$(cuward ps --stale --json | jq '[.processes[] | select(.state == "dead")] | length')" = 2 ]
		[ "$(ls /run/user/4102/cuward/jobs/-/*.ledger | wc -l)" = 1 ]
		cuward clean --all >out
		cat out
		grep -qx '/run/cuward/slots/slots.4101: 1 slot and 0 ledgers of the dead removed' out
		grep -qx '/run/user/4102/cuward: 1 slot and 1 ledger of the dead removed' out
		[ "$(wc -l <out)" = 2 ]
		[ -z "$(ls /run/user/4102/cuward/jobs/-)" ]
		[ "$(cuward ps --stale --json | jq -c '[.processes[] | [.uid, .state]]')" = '[[4103,"alive"]]' ]
		[ -z "$(ls /run/cuward/queue)" ]
		cuward clean --all >out
		cat out
		[ "$(cat out)" = '/run/user/4102/cuward: 0 slots and 0 ledgers of the dead removed' ]
		# A user alone, too, whether he has a folder or not.
		kill -9 $pid
		as 4103 env CUWARD_DIR=$public/nowhere cuward clean | grep -q 'nowhere: 1 slot and 0 ledgers'
	X
}

@test "another user's limits: what they are, though not from where" {
	common <<-'X'
		CUWARD_MEMORY=4G CUWARD_JOB=job CUWARD_JOB_MEMORY=6G holds 4101 init device 0 alloc 1G say held sleep 600000
		as 4102 cuward limit get $pid --json >out
		told out '[.processes[0].devices[0].limits[] | [.scope, .bytes, .source, .binds]] ==
			[["process", 4294967296, null, true], ["job", 6442450944, null, true]]'
		as 4102 cuward limit get $pid | grep -Eq "^ *$pid +GPU-51000000 +process +4.00 GiB +unknown +yes$"
		as 4101 cuward limit get $pid --json >out
		told out '[.processes[0].devices[0].limits[].source] == ["CUWARD_MEMORY", "CUWARD_JOB_MEMORY"]'
		as 4101 cuward limit set $pid 5G
		as 4102 cuward limit get $pid --json >out
		told out '[.processes[0].devices[0].limits[] | select(.scope == "process" and .binds) | [.bytes, .source]] ==
			[[5368709120, "cuward limit"]]'
		status=0
		as 4102 cuward limit set $pid 1G 2>why || status=$?
		[ $status = 4 ]
		grep -Eqx 'cuward: limit: process [0-9]+, play: it belongs to another user' why
	X
}

@test "root limits whom he likes, also whose ledger lies where root does not look" {
	common <<-'X'
		export CUWARD_SIM_DEVICES=2
		printf 'someone:x:4101:4101::/:/bin/sh\n' >>/etc/passwd
		go='while [ ! -e go ]; do sleep 0.02; done'
		CUWARD_JOB=j holds 4101 init device 0 alloc 4M say held sh "$go" refused 5M alloc 1M device 1 refused 7M alloc 6M \
			sh 'touch state-4101/over' sleep 600000
		cuward limit set $pid 6M
		cuward limit set $pid GPU-51000000-0000-4000-8000-000000000000=5M
		cuward limit get $pid --json >out
		told out '[.processes[0].devices[].limits[] | select(.binds) | [.scope, .bytes / 1048576, .source]] == [["process", 5, "cuward limit"]]'
		cuward limit check $pid 4M
		status=0
		cuward limit check $pid 3M >why || status=$?
		[ $status = 1 ]
		grep -q ' holds 4.00 MiB on GPU-51000000' why
		status=0
		cuward limit set $pid 0=5M 2>why || status=$?
		[ $status = 1 ]
		grep -qx "cuward: limit: process $pid, play: the ledger of process $pid, which counts its GPUs, cannot be read: name them by UUID" why
		touch go
		until [ -e state-4101/over ]; do kill -0 $pid; sleep 0.02; done
		cuward limit clear $pid
		# All of a user's, and of a job's: the first holds 5 MiB of it.
		for what in someone j; do
			rm -f go state-4101/*.done
			CUWARD_JOB=j holds 4101 init device 0 say held sh "$go" refused 8M alloc 7M sh 'touch state-4101/on.done' sleep 600000
			cuward limit set $what 12M
			touch go
			until [ -e state-4101/on.done ]; do kill -0 $pid; sleep 0.02; done
			kill -9 $pid
			cuward limit clear $what
		done
	X
}

@test "the queue of all users: who was let in, whose turn it is, and how much a priority counts" {
	policy '[user 4103]' 'priority_max = 0'
	common <<-'X'
		as 4101 cuward run -q --sim --wait -m 10G -- play init device 0 alloc 8G say held \
			sh 'while [ ! -e end ]; do sleep 0.02; done' >held &
		until grep -q held held; do sleep 0.02; done
		waiting() { [ "$(as 4104 cuward queue --json | jq '.waiting | length')" = $1 ]; }
		number=0
		for who in 4102:0 4103:20 4102:1 4104:2; do
			as ${who%:*} cuward run -q --sim --wait -m 12G --priority ${who#*:} -- sh -c "echo $who; sleep 0.1" >>order &
			number=$((number + 1))
			until waiting $number; do sleep 0.02; done
		done
		as 4104 cuward queue --json >out
		told out '[.waiting[] | [.uid, .priority]] == [[4104,2],[4102,1],[4102,0],[4103,0]]'
		told out '.all_users and (.admitted | map([.uid, .asked_bytes, .held_bytes])) == [[4101, 10737418240, 8589934592]]'
		# The 2 GiB that it has not taken yet are promised, to others too.
		touch end
		wait
		[ "$(tr '\n' ' ' <order)" = "4104:2 4102:1 4102:0 4103:20 " ]
		[ -z "$(ls /run/cuward/queue)" ]
	X
}

@test "two who see room at the same time do not both take it" {
	# Between looking and promising there is time for others to look.
	cat >slow.c <<-'X'
		#define _GNU_SOURCE
		#include <fcntl.h>
		#include <string.h>
		#include <sys/syscall.h>
		#include <unistd.h>
		int rename(const char *from, const char *to)
		{
			if (strstr(to, ".run"))
				usleep(200000);
			return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
		}
	X
	$CC -shared -fPIC -o "$public/slow.so" slow.c
	common <<-'X'
		chmod 1777 .
		# Each comes before those who came before him, so many see themselves as the first.
		for i in $(seq 3); do
			as 410$((i % 2 + 1)) env LD_PRELOAD=$public/slow.so cuward run -q --sim --wait -m 9G --priority $i -- sh -c \
				"cd $public; mkdir one || echo both >>both; sleep 0.3; rmdir one" &
		done
		wait
		[ ! -e both ]
	X
}

@test "reserve: root keeps it for somebody; nobody else may, nor end it" {
	policy '[user 4103]' 'reserve = 4G'
	common <<-'X'
		id=$(cuward reserve 10G --for 1h 4101)
		told() { jq -e "$2" "$1" >/dev/null || { echo "not so: $2"; cat "$1"; exit 1; }; }
		as 4102 cuward fit --json 3G >out || true
		told out '.gpus[0] | [.room_bytes, .reserved_bytes, .fits] == [2147483648, 15032385536, false]'
		as 4101 cuward fit --json 12G >out
		told out '.gpus[0] | [.room_bytes, .reserved_bytes] == [12884901888, 4294967296]'
		as 4102 cuward queue --json >out
		told out ".reserves | map([.id, .for, .all_users]) == [[\"$id\", \"user 4101\", true]]"
		status=0
		as 4102 cuward release $id 2>why || status=$?
		[ $status = 4 ]
		status=0
		as 4102 cuward reserve 1G --for 1h 4103 2>why || status=$?
		[ $status = 4 ]
		grep -q 'for others only root can keep something' why
		as 4102 cuward reserve 1G --for 1h 2>why
		grep -q 'holds back your own' why
		as 4101 cuward fit --json 12G >out
		told out '.gpus[0].room_bytes == 12884901888'
		# What is taken of it is not kept a second time.
		holds 4101 init device 0 alloc 8G say held sleep 600000
		as 4104 cuward fit --json 1G >out
		told out '.gpus[0].reserved_bytes == 6442450944'
		kill -9 $pid
		cuward release $id
		group=$(cuward reserve 10G --for 1h @4200)
		groups_4104=4200
		as 4104 cuward fit -q 12G
		status=0
		as 4101 cuward fit -q 3G || status=$?
		[ $status = 1 ]
		# A file there that nobody understands lets nobody in.
		echo '{' >/run/cuward/reserve/abc
		status=0
		as 4104 cuward run --sim --wait=1s -m 1G -- true 2>why || status=$?
		[ $status = 125 ]
		grep -q '/run/cuward/reserve/abc cannot be understood: it is cut off' why
		cuward release --all 2>/dev/null || true
		cuward release abc
	X
}

@test "limits in the policy bound what is waited for, and promises count against them" {
	policy '[default]' 'user_max = 12G' 'reserve = 1G' '[group 4200]' 'group_max = 9G' '[user 4109]' 'reserve = 2G'
	common <<-'X'
		room() { as $1 cuward fit --json 1G | jq -c '.gpus[0] | [.room_bytes / 1073741824, .bound_by]'; }
		as 4101 cuward run -q --sim --wait -m 8G -- sh -c 'echo in; while [ ! -e end ]; do sleep 0.02; done' >in &
		until grep -q in in; do sleep 0.02; done
		[ "$(room 4101)" = '[4,"user_max"]' ]
		groups_4102=4200
		[ "$(room 4102)" = '[5,"reserve"]' ]
		[ "$(room 4109)" = '[7,"reserve"]' ]
		touch end
		wait
		[ "$(room 4102)" = '[9,"group_max"]' ]
		# What can never be his he is told at once.
		never() {
			local status=0
			as $1 cuward run --sim --wait -m $2 -- true 2>why || status=$?
			[ $status = 125 ]
			grep -q "will never be free on .*: at most $3 of it can be yours" why
		}
		never 4101 13G '12.0 GiB'
		never 4102 10G '9.00 GiB'
		never 4109 16G '12.0 GiB'
		as 4101 cuward run -q --sim --wait=5s -m 12G -- true
	X
}
