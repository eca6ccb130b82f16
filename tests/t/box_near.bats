#!/usr/bin/env bats
# cuward why: who is near a limit, which one, how much of it is used by whom, and where it is set; and who
# nearly is.

load guest
load box
load common

setup() { box_setup; }
teardown() { box_teardown; common_teardown; }

# near PID: of each near-limit of a process what is told of the limit, and the sentence.
near() {
	"$cuward" why --json --for 0.1s >out || true
	jq -r ".processes[] | select(.pid == $1) | .verdicts[] | select(.verdict == \"near-limit\") | .evidence" out >near
	jq -c ".processes[] | select(.pid == $1) | .verdicts[] | select(.verdict == \"near-limit\") | .limit |
		[.scope, .whose, .source, .limit_bytes, .used_bytes, .own_bytes, .others, .kept_bytes, .binds]" out >>near
	cat near
}

@test "of the process; eight tenths are not near, nor is just below nine" {
	CUWARD_MEMORY=10M holder init device 0 alloc 8M say held launches 600000
	[ -z "$(near $pid)" ]
	told '[.processes[0].verdicts[].verdict]' '["busy"]'
	kill -9 $pid
	CUWARD_MEMORY=10M holder init device 0 alloc 8M alloc 1048575 say held launches 600000
	[ -z "$(near $pid)" ]
	kill -9 $pid
	CUWARD_MEMORY=10M holder init device 0 alloc 9M say held launches 600000
	near $pid
	diff near - <<-Y
		9.00 MiB of the process limit of 10.0 MiB (CUWARD_MEMORY) are used on GPU-51000000
		["process",null,"CUWARD_MEMORY",$((10 * MiB)),$((9 * MiB)),$((9 * MiB)),0,0,true]
	Y
	told '[.processes[0].verdicts[] | [.verdict, .fault]]' '[["busy",false],["near-limit",true]]'
	told '.processes[0].verdicts[1].limit.uuid' '"GPU-51000000-0000-4000-8000-000000000000"'
	run "$cuward" why --for 0.1s $pid
	[ "$status" -eq 1 ]
	[ "${lines[2]}" = "  near-limit    9.00 MiB of the process limit of 10.0 MiB (CUWARD_MEMORY) are used on GPU-51000000" ]
	# A limit that was changed meanwhile: it is another one, from elsewhere.
	kill -9 $pid
	CUWARD_MEMORY=100M holder init device 0 alloc 40M say held churn 600000
	[ -z "$(near $pid)" ]
	"$cuward" limit set $pid 42M
	changed() { near $pid | grep -Eqx "4[01].0 MiB of the process limit of 42.0 MiB \(cuward limit\) are used on GPU-51000000"; }
	eventually changed
}

@test "of the job, each of whose processes is named with its share" {
	CUWARD_JOB=j CUWARD_JOB_MEMORY=10M holder init device 0 alloc 8M say held launches 600000
	first=$pid
	CUWARD_JOB=other CUWARD_JOB_MEMORY=10M holder init device 0 alloc 1M say held launches 600000
	other=$pid
	[ -z "$(near $first)" ]
	# A second limit, of which more is left than of the job's.
	CUWARD_JOB=j/in CUWARD_JOB_OF=j CUWARD_JOB_MEMORY=10M CUWARD_MEMORY=100M holder init device 0 alloc 1M say held launches 600000
	near $first
	diff near - <<-Y
		9.00 MiB of the job limit of 10.0 MiB (j; CUWARD_JOB_MEMORY) are used on GPU-51000000: 8.00 MiB by this process, 1.00 MiB by 1 other
		["job","j","CUWARD_JOB_MEMORY",$((10 * MiB)),$((9 * MiB)),$((8 * MiB)),1,0,true]
	Y
	near $pid
	diff near - <<-Y
		9.00 MiB of the job limit of 10.0 MiB (j; CUWARD_JOB_MEMORY) are used on GPU-51000000: 1.00 MiB by this process, 8.00 MiB by 1 other
		["job","j","CUWARD_JOB_MEMORY",$((10 * MiB)),$((9 * MiB)),$((1 * MiB)),1,0,true]
	Y
	[ -z "$(near $other)" ]
}

@test "of a run within a job: what the others of the job hold is not in it" {
	export CUWARD_JOB_OF=j CUWARD_JOB_MEMORY=1G
	CUWARD_JOB=j/beside holder init device 0 alloc 64M say held launches 600000
	export CUWARD_INNER_OF=j/in CUWARD_INNER_MEMORY=10M
	CUWARD_JOB=j/in holder init device 0 alloc 4M say held launches 600000
	[ -z "$(near $pid)" ]
	CUWARD_JOB=j/in/deep holder init device 0 alloc 5M say held launches 600000
	near $pid
	diff near - <<-Y
		9.00 MiB of the job limit of 10.0 MiB (j/in; CUWARD_INNER_MEMORY) are used on GPU-51000000: 5.00 MiB by this process, 4.00 MiB by 1 other
		["job","j/in","CUWARD_INNER_MEMORY",$((10 * MiB)),$((9 * MiB)),$((5 * MiB)),1,0,true]
	Y
}

@test "two limits at once: the one that leaves least binds, and comes first" {
	CUWARD_MEMORY=100M CUWARD_JOB=j CUWARD_JOB_MEMORY=99M holder init device 0 alloc 96M say held launches 600000
	near $pid
	[ "$(sed -n 1p near)" = "96.0 MiB of the job limit of 99.0 MiB (j; CUWARD_JOB_MEMORY) are used on GPU-51000000: 96.0 MiB by this process" ]
	[ "$(sed -n 2p near)" = "96.0 MiB of the process limit of 100 MiB (CUWARD_MEMORY) are used on GPU-51000000" ]
	told '[.processes[0].verdicts[] | .limit // empty | [.scope, .binds]]' '[["job",true],["process",false]]'
	# Near in per cent, while another leaves less.
	kill -9 $pid
	CUWARD_MEMORY=1000M CUWARD_JOB=k CUWARD_JOB_MEMORY=20M holder init device 0 alloc 15M say held launches 600000
	CUWARD_JOB=k CUWARD_JOB_MEMORY=20M CUWARD_MEMORY=100K holder init device 0 alloc 96K say held launches 600000
	near $pid
	told "[.processes[] | select(.pid == $pid) | .verdicts[] | .limit // empty | [.scope, .binds]]" '[["process",true]]'
}

@test "of the user, set while they run" {
	me=$(id -un)
	CUWARD_JOB=a holder init device 0 alloc 5M say held churn 600000
	first=$pid
	CUWARD_JOB=b holder init device 0 alloc 6M say held sleep 600000
	"$cuward" limit set "$me" 12M
	changed() { near $first | grep -q "of the user limit of 12.0 MiB"; }
	eventually changed
	sed '1s/[0-9.]* [KM]iB/N/;1s/: .*//;2d' near >is
	[ "$(cat is)" = "N of the user limit of 12.0 MiB ($me; cuward limit) are used on GPU-51000000" ]
	told "[.processes[] | select(.pid == $first) | .verdicts[] | .limit // empty | [.scope, .whose, .others]]" "[[\"user\",\"$me\",1]]"
	"$cuward" limit set "$me" 1G
	changed() { [ -z "$(near $first)" ]; }
	eventually changed
}

@test "of a group of users, and of all with what is kept for others" {
	common_setup
	policy '[group 4200]' 'group_max = 10M' '[user 4104]' 'reserve = 12G' '[user 4105]' 'reserve = 1G'
	common <<-'X'
		groups_4101=4200 groups_4102=4200
		near() {
			as 0 cuward why --json --for 0.1s >out || true
			jq -r ".processes[] | select(.pid == $1) | .verdicts[] | .limit // empty |
				[.scope, .whose, .source, .limit_bytes, .used_bytes, .own_bytes, .others, .kept_bytes, .binds] | tojson" out
			jq -r ".processes[] | select(.pid == $1) | .verdicts[] | select(.limit) | .evidence" out
		}
		holds 4101 init device 0 alloc 8M say held sleep 600000
		first=$pid
		holds 4103 init device 0 alloc 1M say held sleep 600000
		other=$pid
		[ -z "$(near $first)" ] || exit 1
		# One of the same group, one of none, and the one of all.
		holds 4102 init device 0 alloc 1M say held sleep 600000
		near $first >is
		diff is - <<-Y || exit 1
			["group","4200","/etc/cuward/cuward.conf",$((10 * MiB)),$((9 * MiB)),$((8 * MiB)),1,0,true]
			9.00 MiB of the group limit of 10.0 MiB (4200; /etc/cuward/cuward.conf) are used on GPU-51000000: 8.00 MiB by this process, 1.00 MiB by 1 other
		Y
		as 0 cuward limit get --json $first | jq -e '.processes[0].devices[0].limits[] | select(.scope == "group") |
			.bytes == 10 * 1048576 and .source == "/etc/cuward/cuward.conf" and .binds' || exit 1
		near $pid | grep -qx '9.00 MiB of the group limit .*: 1.00 MiB by this process, 8.00 MiB by 1 other' || exit 1
		[ -z "$(near $other)" ] || exit 1
		# A user who cannot read the ledgers of the others is told the same.
		mine=$(as 4103 cuward why --json --for 0.1s | jq -r ".processes[] | select(.pid == $first) | .verdicts[] | select(.limit) | .evidence")
		[ "$mine" = "$(tail -n 1 is)" ] || { echo "$mine"; exit 1; }

		# 16 GiB: 13 are kept, of which 10 are taken by him they are kept for.
		holds 4104 init device 0 alloc 10G say held sleep 600000
		keeper=$pid
		[ -z "$(near $other)" ] || { near $other; exit 1; }
		holds 4106 init device 0 alloc $((1434 * MiB)) say held sleep 600000
		used=$((10 * GiB + 1444 * MiB + 3 * GiB))
		near $other >is
		diff is - <<-Y || exit 1
			["gpu","all users","/etc/cuward/cuward.conf",$((16 * GiB)),$used,$MiB,4,$((3 * GiB)),true]
			14.4 GiB of the gpu limit of 16.0 GiB (all users; /etc/cuward/cuward.conf) are used on GPU-51000000: 1.00 MiB by this process, 11.4 GiB by 4 others, 3.00 GiB kept for others
		Y
		# To him for whom 12 of them are kept, only the other one counts.
		near $keeper | head -1 >is
		[ ! -s is ] || { cat is; exit 1; }
		# A user who cannot see his ledger comes to the same.
		mine=$(as 4103 cuward why --json --for 0.1s | jq -c ".processes[] | select(.pid == $keeper) | .verdicts")
		case $mine in *near-limit*) echo "$mine"; exit 1 ;; esac
	X
}

@test "who claims more than there is in his file is believed one GPU" {
	common_setup
	policy '[default]' 'reserve = 1M'
	common <<-'X'
		holds 4101 init device 0 alloc 1M say held sleep 600000
		honest=$pid
		holds 4102 init device 0 alloc 1M say held sleep 600000
		liar=$pid
		as 0 cuward why --for 0.1s $honest >out
		grep near-limit out && exit 1
		python3 - /run/cuward/slots/slots.4102 <<-'Y'
			import struct, sys
			with open(sys.argv[1], 'r+b') as file:
			    file.seek(4096)
			    file.write(struct.pack('<Q', (1 << 46) - 1))
		Y
		as 0 cuward why --for 0.1s $honest >out || true
		grep -q '16.0 GiB of the gpu limit of 15.9 GiB (all users; /etc/cuward/cuward.conf) are used on GPU-51000000: 1.00 MiB by this process, 16.0 GiB by 1 other' out || { cat out; exit 1; }
	X
}
