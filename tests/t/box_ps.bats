#!/usr/bin/env bats
# cuward ps: who holds what, from files that may be anybody's.

load guest
load box

setup() { box_setup; }
teardown() {
	box_teardown
	rm -rf "${other-}"
}

ps_json() {
	"$cuward" ps --json "$@" >out
}

# poke OFFSET BYTES: overwrite a piece of the slots file of this user.
poke() {
	printf "$2" | dd of="${3:-state/slots.$(id -u)}" bs=1 seek="$1" conv=notrunc status=none
}

@test "nobody: an empty table, and all there is to know of no GPU" {
	"$cuward" ps >out
	[ "$(wc -l <out)" -eq 1 ]
	ps_json
	told '[.processes, .gpus, .users]' '[[],[],[]]'
}

@test "bytes, limits, user, GPU and job of a process" {
	CUWARD_JOB=a/b CUWARD_MEMORY=1G CUWARD_JOB_MEMORY=512M CUWARD_LABEL=team=x \
		holder init device 0 alloc 100M say held sleep 600000
	ps_json
	told '[.processes[] | [.pid, .outer_pid, .uid, .user, .state, .command, .job, .labels]]' \
		"[[$pid,$pid,$(id -u),\"$(id -un)\",\"alive\",\"play\",\"a/b\",\"team=x\"]]"
	told '[.processes[0].devices[] | [.used_bytes, .total_bytes, .limits]]' "[[$((100 * MiB)),$((16 << 30)),$(
		)[{\"scope\":\"process\",\"bytes\":$((1 << 30))},{\"scope\":\"job\",\"bytes\":$((512 * MiB))}]]]"
	told '[.processes[0] | .waiting, .synchronizing]' '[null,null]'
	told '.processes[0].devices[0].overhead_bytes > 0' true
	start=$(jq -r '.processes[0].start_time | .[0:19] + "Z" | fromdate' out)
	[ $(($(date +%s) - start)) -lt 600 ]
	"$cuward" ps >out
	grep -Eq "^ *$pid +$(id -un) +GPU-[0-9a-f]+ +100 MiB +512 MiB job " out
	# Never a bare M or G, which may mean anything.
	lacks '[0-9] ?[KMGT]B?( |$)' out
}

@test "by user and by gpu: sums" {
	holder init device 0 alloc 100M say held sleep 600000
	holder init device 0 alloc 28M say held sleep 600000
	ps_json
	told '[.processes[].devices[0].used_bytes]' "[$((100 * MiB)),$((28 * MiB))]"
	told '.gpus | map([.used_bytes, .processes, .claimed_more])' "[[$((128 * MiB)),2,false]]"
	told '.users | map([.user, .used_bytes, .processes])' "[[\"$(id -un)\",$((128 * MiB)),2]]"
	[[ "$("$cuward" ps --by user --csv)" == *$'\n'$(id -u)',"'$(id -un)'",2,'$((128 * MiB)),* ]]
	[[ "$("$cuward" ps --by gpu --csv)" == *',"Simulated GPU",2,'$((128 * MiB)),*,$((16 << 30))* ]]
	"$cuward" ps --by gpu >table
	grep -q ' 128 MiB ' table
	! grep -q ' $' table || false
	"$cuward" ps --by user | grep -q ' 128 MiB '
}

@test "what of nobody is known is no sum of 0" {
	"$play" init device 0 alloc 2G say held sleep 600000 >bare 3>&- & # not under cuward
	started+=($!)
	until grep -q held bare; do kill -0 $!; sleep 0.05; done
	holder init device 0 alloc 3M say held sleep 600000
	ps_json
	told '[.processes[0].devices[0], .gpus[0], .users[0] | .overhead_bytes]' '[null,null,null]'
	"$cuward" ps --by user | grep -Eq '3.00 MiB +unknown$'
	"$cuward" ps --by gpu | grep -Eq '3.00 MiB +unknown +16.0 GiB$'
	"$cuward" ps --by user --csv | tail -1 | tr -d '\r' | grep -q ",$((3 * MiB)),$"
	! "$cuward" export | grep -q _overhead_bytes || false
}

@test "managed memory of many is more than the GPU has: sums never are" {
	for i in 1 2 3; do
		holder init device 0 managed 10G say held sleep 600000
	done
	ps_json
	told '.gpus[0] | [.used_bytes, .claimed_more]' "[$((16 << 30)),true]"
	told '.gpus[0] | .used_bytes + .overhead_bytes <= .total_bytes' true
	"$cuward" ps --by gpu | grep -q 'more is claimed than it has'
}

@test "a wait for memory" {
	CUWARD_JOB=j CUWARD_JOB_MEMORY=8M holder init device 0 alloc 6M say held sleep 600000
	CUWARD_JOB=j CUWARD_JOB_MEMORY=8M CUWARD_ON_LIMIT=wait=600s \
		holder init device 0 say held alloc 4M
	waiting() { ps_json && [ "$(jq '[.processes[] | select(.waiting)] | length' out)" = 1 ]; }
	eventually waiting
	told ".processes[] | select(.waiting) | [.pid, .waiting.bytes]" "[$pid,$((4 * MiB))]"
	told '.processes[] | select(.waiting) | .waiting.uuid' \
		"$(jq -c '.gpus[0].uuid' out)"
	"$cuward" ps | grep "^ *$pid " | grep -q 'for 4.00 MiB, '
}

@test "a wait for the GPU, and a process that launches only" {
	CUWARD_SIM_KERNEL_NS=stuck=never,*=0 holder init device 0 launch stuck say held sync
	stuck=$pid
	syncing() { ps_json && [ "$(jq '[.processes[] | select(.synchronizing)] | length' out)" = 1 ]; }
	eventually syncing
	told ".processes[] | select(.synchronizing) | [.pid, .synchronizing.call]" \
		"[$stuck,\"cuCtxSynchronize\"]"
	first=$(jq '.processes[] | .synchronizing.for_ns' out)
	sleep 1
	ps_json
	[ $(($(jq '.processes[] | .synchronizing.for_ns' out) - first)) -ge 900000000 ]
	holder init device 0 say held launches 600000
	now() { "$cuward" ps | grep "^ *$pid " | grep -q ' now  '; }
	eventually now
	"$cuward" ps >out
	lacks "^ *$stuck .* now  " out
}

@test "last activity is that of the last allocation" {
	holder init device 0 alloc 1M say held sleep 600000
	ps_json
	before=$(jq '.processes[0].last_activity' out)
	sleep 1
	ps_json
	told '.processes[0].last_activity' "$before"
}

@test "the dead are shown on demand, and count for nothing" {
	holder init device 0 alloc 100M say held sleep 600000
	kill -9 $pid
	wait $pid || true
	ps_json
	told '[.processes, .users]' '[[],[]]'
	ps_json --stale
	told '[.processes[] | [.pid, .state]]' "[[$pid,\"dead\"]]"
	told '[.gpus[] | [.used_bytes, .processes]]' '[[0,0]]'
	"$cuward" ps --stale | grep -q "^ *$pid .* dead  *play"
}

@test "hostile numbers, texts and sizes" {
	holder init device 0 alloc 100M say held sleep 600000
	slots=state/slots.$(id -u)
	# Its name: escape sequences for the terminal, and no end.
	printf '%s\n' '#include <stddef.h>' '#include <stdio.h>' '#include "cuward/ledger.h"' \
		'int main(void) { return printf("%zu", sizeof(struct slots_header) + offsetof(struct slot, who.command)) < 1; }' |
		cc -I"$TOP/include" -o offset_of -x c -
	offset=$(./offset_of)
	[ "$(dd if=$slots bs=1 skip=$offset count=4 status=none)" = play ]
	poke $offset "$(printf '\\033[2J%.0s' {1..16})"
	"$cuward" ps >out
	lacks $'\033' out
	grep -q 'x1b\[2J' out
	"$cuward" ps --csv >out
	lacks $'\033' out
	ps_json
	lacks $'\033' out
	# A count beyond the file, then a file that is too short, empty, and none at all.
	poke 20 '\377\377\377\377'
	ps_json
	told '.processes | length' 1
	truncate -s 5000 $slots
	ps_json
	told '.processes' '[]'
	truncate -s 100 $slots
	run "$cuward" ps
	[ "$status" -eq 1 ]
	[[ "$output" == *"slots.$(id -u): too short to be a slots file"* ]]
	kill -9 $pid
	mv $slots gone
	poke() { :; }
	mkfifo $slots
	run timeout 20 "$cuward" ps
	[ "$status" -eq 1 ]
	[[ "$output" == *"not a regular file"* ]]
}

@test "sums of hostile numbers do not wrap" {
	holder init device 0 alloc 100M say held sleep 600000
	poke 4096 '\377\377\377\377\377\377\377\377'
	poke $((4096 + 256 + 64 + 3 * 256 + 24 + 368 + 256)) '\377\377\377\377\377\377\377\377'
	ps_json
	told '.gpus[0] | [.used_bytes, .overhead_bytes, .claimed_more]' "[$((16 << 30)),0,true]"
}

@test "another user's file: whose it is says the file system, and it may not claim all" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	holder init device 0 alloc 100M say held sleep 600000
	other=/dev/shm/cuward-box-test-$$
	mkdir $other
	cp state/slots.0 $other/slots.0
	chown -R 12345 $other
	poke 4096 '\377\377\377\377\377\377\377\377' $other/slots.0
	status=0
	env -u CUWARD_DIR "$cuward" ps --json --stale >out || status=$?
	env -u CUWARD_DIR "$cuward" ps --stale >table || status=$?
	rm -r $other
	[ "$status" -le 1 ] # there may be files of other versions
	told "[.processes[] | select(.pid == $pid) | ["'.user, .state, .devices[0].used_bytes]]' \
		'[["12345","dead",null]]'
	grep '12345' table | grep -q ' unknown '
}

@test "a process of another pid namespace has both its pids" {
	unshare -pf --kill-child true 2>/dev/null || skip "no pid namespaces here"
	LD_PRELOAD=$shim unshare -pf --kill-child "$play" init device 0 alloc 1M say held sleep 600000 >said 3>&- &
	started+=($!)
	held() { grep -q held said; }
	eventually held
	ps_json
	told '[.processes[] | select(.command == "play") | [.pid, .state]]' '[[1,"alive"]]'
	outer=$(jq '.processes[] | select(.command == "play") | .outer_pid' out)
	grep -q "^NSpid:.*$outer.*	1$" /proc/$outer/status
	"$cuward" ps | grep -q "^ *$outer .* play"
	kill -9 "$outer"
}

@test "three hundred processes take at most 50 ms" {
	holder init device 0 alloc 1M say held sleep 600000
	python3 - state/slots.$(id -u) state/jobs/-/$pid-*.ledger <<-'X' >many 3>&- &
		import fcntl, os, struct, sys, time
		slots, ledger = sys.argv[1:]
		fd = os.open(slots, os.O_RDWR)
		size, = struct.unpack("I", os.pread(fd, 4, 12))
		slot, book = os.pread(fd, size, 4096), open(ledger, "rb").read((1 << 20) + 3 * 12288)
		pid = int(os.path.basename(ledger).split("-")[0])
		at, inside = slot.index(struct.pack("I", pid)), book.index(struct.pack("I", pid))
		for i in range(1, 300):
		    other = struct.pack("I", 100000 + i)
		    os.pwrite(fd, slot[:at] + other + slot[at + 4:], 4096 + size * i)
		    # Somebody may just be asking who lives: wait (F_OFD_SETLKW).
		    fcntl.fcntl(fd, 38, struct.pack("hhlli", fcntl.F_WRLCK, 0, 4096 + size * i, size, 0))
		    with open(ledger.replace(f"/{pid}-", f"/{100000 + i}-"), "wb") as out:
		        out.write(book[:inside] + other + book[inside + 4:])
		os.pwrite(fd, struct.pack("I", 300), 20)
		print("held", flush=True)
		time.sleep(600)
	X
	started+=($!)
	many() { grep -q held many; }
	eventually many
	ps_json
	told '.processes | length' 300
	told '[.processes[] | select(.devices[0].overhead_bytes)] | length' 300
	for try in 1 2 3 4 5; do
		cpu=$( { TIMEFORMAT='%U %S'; time "$cuward" ps >/dev/null; } 2>&1 | awk '{ print int(1000 * ($1 + $2)) }')
		echo "$cpu ms"
		[ "$cpu" -gt 35 ] || return 0
	done
	false
}

@test "what cannot be asked" {
	for wrong in --by=nothing '--json --csv' extra; do
		run "$cuward" ps $wrong
		[ "$status" -eq 2 ]
	done
}

@test "-o: these columns, in this order" {
	CUWARD_JOB=one CUWARD_LABEL=team=red CUWARD_MEMORY=8M holder init device 0 alloc 3M say held sleep 600000
	"$cuward" ps -o job,pid,used,limit,labels,uid,uuid >out
	[ "$(head -1 out | tr -s ' ')" = "JOB PID USED LIMIT LABELS UID UUID" ]
	[ "$(tail -n +2 out | tr -s ' ')" = "one $pid 3.00 MiB 8.00 MiB process team=red $(id -u) GPU-51000000-0000-4000-8000-000000000000" ]
	[ "$("$cuward" ps -o pid,user,gpu,used,limit,overhead,since,active,waits,command | head -1)" = "$("$cuward" ps | head -1)" ]
	# Whole seconds, of which there are none at first.
	holder init device 0 alloc 1M say held sleep 600000
	[[ "$("$cuward" ps -o since | tail -1)" =~ ^("< 1 s"|[0-9.]+" s"|[0-9]+" m ".*)$ ]]
	for wrong in '-o nothing' '-o pid,' '-o pid --json' '-o pid --csv' '-o pid --by user'; do
		run "$cuward" ps $wrong
		[ "$status" -eq 2 ]
	done
	run "$cuward" ps -o help
	[ "$status" -eq 0 ]
	[[ "$output" == "pid, user, gpu, used, "* ]]
	[[ "$("$cuward" ps -o nothing 2>&1 || true)" == *"there are pid, user, gpu, used,"* ]]
}

@test "one process: what was refused, under which limit, who held it, what to do" {
	CUWARD_JOB=j CUWARD_JOB_MEMORY=10M holder init device 0 alloc 6M say held sleep 600000
	first=$pid
	CUWARD_JOB=j CUWARD_JOB_MEMORY=10M holder init device 0 alloc 1M refused 5M refused 5M say held sleep 600000
	ps_json $pid
	told '[.processes[] | .pid]' "[$pid]"
	told '[.processes[0].refusals[] | [.api, .scope, .bytes, .limit_bytes, .used_bytes]] | unique' \
		"[[\"cuMemAlloc_v2\",\"job\",$((5 * MiB)),$((10 * MiB)),$((7 * MiB))]]"
	told '[.processes[0].refusals[].count] | add' 2
	told ".processes[0].refusals[0].holders[] | select(.pid == $first) | [.command, .bytes]" "[\"play\",$((6 * MiB))]"
	# The sums are those of all.
	told '.gpus[0].used_bytes' $((7 * MiB))
	"$cuward" ps $pid >out
	cat out
	[ "$(grep -c ' play$' out)" -eq 1 ]
	grep -Eq '^refused [12] times?, last [0-9.]+ m?s ago: cuMemAlloc_v2 of 5\.00 MiB on GPU-51000000; the job limit is 10\.0 MiB \(CUWARD_JOB_MEMORY\), and 7\.00 MiB were used$' out
	me=$(id -un)
	grep -Eq "^    6\.00 MiB: process $first, play of $me, for (< 1|[0-9.]+) s by now, at allocate \(play\+0x[0-9a-f]+\)\$" out
	grep -Eq "^    1\.00 MiB: process $pid, play of $me, for (< 1|[0-9.]+) s by now, at allocate, play.c:[0-9]+ \(play\+0x[0-9a-f]+\)\$" out
	grep -q '^    end a process of the job, or wait for one (--on-limit wait), or raise the limit: cuward limit set j SIZE$' out
	ps_json $pid
	told ".processes[0].refusals[0] | [.source, .advice] + (.holders[] | select(.pid == $first) | [.uid, .user, (.line | test(\"^allocate \"))])" \
		"[\"CUWARD_JOB_MEMORY\",\"end a process of the job, or wait for one (--on-limit wait), or raise the limit: cuward limit set j SIZE\",$(id -u),\"$me\",true]"
	ps_json $first
	told '.processes[0].refusals' '[]'
	"$cuward" ps $first >out
	lacks refused out
	# Its own limit: it is the holder itself.
	CUWARD_MEMORY=4M holder init device 0 alloc 3M refused 2M say held sleep 600000
	ps_json $pid
	told '[.processes[0].refusals[] | [.scope, .used_bytes] + (.holders[0] | [.pid, .uid, .user, .command, .bytes])]' \
		"[[\"process\",$((3 * MiB)),$pid,$(id -u),\"$me\",\"play\",$((3 * MiB))]]"
	told '.processes[0].refusals[0].holders[0] | [(.since | type), (.line | test("^allocate, play.c:[0-9]+ "))]' '["string",true]'
	run "$cuward" ps 1
	[ "$status" -eq 1 ]
	for wrong in play 0 -1 '1 2'; do
		run "$cuward" ps $wrong
		[ "$status" -eq 2 ]
	done
}

@test "every form, word for word" {
	CUWARD_JOB=one CUWARD_LABEL=team=red CUWARD_MEMORY=8M CUWARD_JOB_MEMORY=1G CUWARD_JOB_OF=one \
		holder init device 0 alloc 3M say held sleep 600000
	user=$(id -un) gpu=GPU-51000000-0000-4000-8000-000000000000 ns=$(stat -Lc %i /proc/self/ns/pid)
	plain() { tr -d '\r' | tr -s ' ' | sed -E "s/^ //; s/ $//; s/\\b$pid\\b/PID/g; s/\"?$user\"?/USER/g; s/\\b$ns\\b/NS/g
		s/< 1 s|[0-9.]+ m?s/AGE/g; s/20[0-9-]+T[0-9:.]+Z/TIME/g"; }
	is() { # ARGUMENT... and what is wanted on stdin
		diff <("$cuward" ps "$@" | plain) - || { echo "ps $*"; return 1; }
	}
	is <<-X
		PID USER GPU USED LIMIT OVERHEAD SINCE ACTIVE WAITS COMMAND
		PID USER GPU-51000000 3.00 MiB 8.00 MiB process 300 MiB AGE AGE play
	X
	is --by user <<-X
		USER PROCESSES USED OVERHEAD
		USER 1 3.00 MiB 300 MiB
	X
	is --by gpu <<-X
		GPU NAME PROCESSES USED OVERHEAD TOTAL
		GPU-51000000 Simulated GPU 1 3.00 MiB 300 MiB 16.0 GiB
	X
	is --csv <<-X
		pid,pid_ns,outer_pid,uid,user,state,command,job,uuid,used_bytes,limit_bytes,job_limit_bytes,overhead_bytes,start_time,last_activity,waiting_bytes,synchronizing_ns
		PID,NS,PID,$(id -u),USER,alive,"play","one",$gpu,3145728,8388608,1073741824,314572800,TIME,TIME,,
	X
	is --csv --by user <<-X
		uid,user,processes,used_bytes,overhead_bytes
		$(id -u),USER,1,3145728,314572800
	X
	is --csv --by gpu <<-X
		uuid,name,processes,used_bytes,overhead_bytes,total_bytes,untracked_bytes,driver_bytes
		$gpu,"Simulated GPU",1,3145728,314572800,17179869184,,
	X
	"$cuward" ps --json | sed -E 's/20[0-9-]+T[0-9:.]+Z/TIME/' >out
	told . "$(jq -nc "{schema: 1, time: \"TIME\", processes: [{pid: $pid, pid_ns: $ns, outer_pid: $pid, uid: $(id -u), user: \"$user\",
		state: \"alive\", stopped: false, command: \"play\", job: \"one\", labels: \"team=red\", start_time: \"TIME\",
		last_activity: \"TIME\", waiting: null, synchronizing: null, devices: [{uuid: \"$gpu\", total_bytes: 17179869184,
		used_bytes: 3145728, overhead_bytes: 314572800, limits: [{scope: \"process\", bytes: 8388608}, {scope: \"job\", bytes: 1073741824}]}]}],
		others: null, gpus: [{uuid: \"$gpu\", name: \"Simulated GPU\", total_bytes: 17179869184, used_bytes: 3145728,
		overhead_bytes: 314572800, untracked_bytes: null, driver_bytes: null, processes: 1, claimed_more: false}],
		users: [{uid: $(id -u), user: \"$user\", processes: 1, used_bytes: 3145728, overhead_bytes: 314572800}], unreadable: 0}")"
	# The dead: as they were, but for what they hold.
	kill -9 $pid
	wait $pid || true
	"$cuward" ps --stale | plain >table
	grep -Eqx 'PID USER GPU-51000000 .* dead play' table
	is <<-X
		PID USER GPU USED LIMIT OVERHEAD SINCE ACTIVE WAITS COMMAND
	X
}
