#!/usr/bin/env bats
# /etc/cuward: limits that the administrator sets; the lowest wins, a mistake lets nobody start.
# Where the files lie cannot be told by the environment: each test has an /etc/cuward of its own, in a
# mount namespace.

load guest
load box
load common

setup() {
	box_setup
	[ "$(id -u)" = 0 ] || skip "needs root"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	cat >in_policy <<-'X'
		# in_policy FOLDER COMMAND...: with a copy of the folder as /etc/cuward. Others on this machine see nothing
		# of that, not even an empty folder: it is in a copy of what is needed of /etc.
		set -e
		mkdir -p "$1/../view"
		mount -t tmpfs -o mode=755 tmpfs "$1/../view"
		for file in passwd group nsswitch.conf ld.so.cache localtime alternatives; do
			[ ! -e /etc/$file ] || cp -a /etc/$file "$1/../view"
		done
		cp -r "$1" "$1/../view/cuward"
		chmod -R u=rwX,go=rX "$1/../view/cuward"
		mount --bind "$1/../view" /etc
		[ ! -e "$1/../prepare" ] || . "$1/../prepare"
		shift
		exec "$@"
	X
	mkdir etc
	touch etc/cuward.conf
}

teardown() {
	box_teardown
	common_teardown
}

policed() {
	unshare -m sh in_policy "$PWD/etc" "$@"
}

# bound STATUS WORD...: a guest in there, with a report in r.json; its output in $output.
bound() {
	local status=0
	rm -f r.json r-*.json
	output=$(CUWARD_REPORT=$PWD/r.json policed env LD_PRELOAD="$shim" "$play" "${@:2}" 2>&1) || status=$?
	[ "$status" -eq "$1" ] || {
		echo "status $status: $output"
		return 1
	}
}

limits() {
	jq -c '[.processes[0].devices[0].limits[] | [.scope, .bytes, .source]]' r.json >is
	[ "$(cat is)" = "$1" ] || { cat is; return 1; }
}

conf=/etc/cuward/cuward.conf

@test "without a policy, and with an empty one, nothing is limited" {
	bound 0 init device 0 alloc 1G
	limits '[]'
	rm etc/cuward.conf
	bound 0 init device 0 alloc 1G
	limits '[]'
}

@test "process_max: the lowest of it and what is asked for" {
	printf '# of all\n[default]\nprocess_max = 8M\n' >etc/cuward.conf
	bound 0 init device 0 refused 9M alloc 8M info 8M/0
	limits "[[\"process\",$((8 * MiB)),\"$conf\"]]"
	CUWARD_MEMORY=4M bound 0 init device 0 refused 5M alloc 4M
	limits "[[\"process\",$((4 * MiB)),\"CUWARD_MEMORY\"]]"
	CUWARD_MEMORY=1G bound 0 init device 0 refused 9M alloc 8M
	limits "[[\"process\",$((8 * MiB)),\"$conf\"]]"
	jq -e --argjson want $((8 * MiB)) '.processes[0].denials[0] | .scope == "process" and .limit_bytes == $want' r.json
}

@test "sections of users and GPUs, more files, percentages: the lowest wins" {
	mkdir etc/conf.d
	printf '[default]\nprocess_max=512M\n[user root]\nprocess_max = 64M\n[user 12345]\nprocess_max = 1K\n' >etc/cuward.conf
	bound 0 init device 0 refused 65M alloc 64M
	printf '[gpu GPU-51000000]\nprocess_max = 32M\n[gpu GPU-99]\nprocess_max = 1K\n' >etc/conf.d/10-gpu.conf
	bound 0 init device 0 refused 33M alloc 32M
	limits "[[\"process\",$((32 * MiB)),\"/etc/cuward/conf.d/10-gpu.conf\"]]"
	printf '[user 0]\nprocess_max = 0.1%%\n' >etc/conf.d/20-user.conf
	printf '[default]\nprocess_max = 1K\n' >etc/conf.d/README
	printf '[default]\nprocess_max = none\n' >etc/conf.d/30-none.conf
	bound 0 init device 0 refused 17M alloc 16M
	limits "[[\"process\",$(((16 << 30) / 1000)),\"/etc/cuward/conf.d/20-user.conf\"]]"
}

@test "a section of a group is for its members" {
	printf '[group 12345]\nprocess_max = 8M\npriority_max = 3\nwarn = 80%%\nidle = 5m\n' >etc/cuward.conf
	bound 0 init device 0 alloc 1G
	limits '[]'
	rm r.json
	CUWARD_REPORT=$PWD/r.json policed setpriv --groups 12345 env LD_PRELOAD="$shim" "$play" init device 0 refused 9M alloc 8M
	limits "[[\"process\",$((8 * MiB)),\"$conf\"]]"
}

@test "job_max: all processes of a job together, without an option of theirs" {
	printf '[default]\njob_max = 8M\n' >etc/cuward.conf
	bound 0 init device 0 alloc 6M fork '(' init device 0 refused 3M alloc 2M freeall ')' wait
	limits "[[\"job\",$((8 * MiB)),\"$conf\"]]"
}

@test "user_max: all processes of a user together, whatever their job" {
	printf '[user root]\nuser_max = 8M\n' >etc/cuward.conf
	holder init device 0 alloc 6M say held sleep 600000
	CUWARD_JOB=j policed env LD_PRELOAD="$shim" "$play" init device 0 refused 3M alloc 2M refused 1M info 8M/0
	bound 0 init device 0 refused 3M alloc 2M
	limits "[[\"user\",$((8 * MiB)),\"$conf\"]]"
	jq -e --argjson want $((8 * MiB)) --argjson pid $pid '.processes[0].denials[0] | .scope == "user" and
		.limit_bytes == $want and .holders[0].pid == $pid' r.json
	kill -9 $pid
	wait $pid || true
	bound 0 init device 0 alloc 8M refused 1
}

@test "a limit of a job or user without shared state: nothing starts" {
	printf '[default]\nuser_max = 8M\n' >etc/cuward.conf
	echo none >state
	bound 99 init
	[[ "$output" == *"cuward: $conf: the shared state cannot be used, so the user's other processes cannot be seen"* ]]
	printf '[default]\nprocess_max = 8M\n' >etc/cuward.conf
	bound 0 init device 0 refused 9M alloc 8M
	rm state
}

@test "a mistake is told with file and line, and nothing starts" {
	while IFS='|' read -r text line why; do
		printf "$text" >etc/cuward.conf
		bound 99 init
		[[ "${output%%$'\n'*}" == "cuward: $conf:$line: $why"* ]] || { echo "$output"; false; }
		run policed "$cuward" limit check
		[ "$status" -eq 1 ]
		[[ "$output" == *"$conf:$line: $why"* ]]
	done <<-'X'
		[default]\nproces_max = 8M\n|2|unknown key "proces_max"; there are process_max, job_max, user_max, group_max, reserve, priority_max, warn and idle
		\n\n[defaults]\n|3|unknown section [defaults]
		process_max = 8M\n|1|process_max stands before the first section
		[default]\n\nprocess_max\n|3|"process_max" is neither a section nor KEY = VALUE
		[default]\nprocess_max = 8X\n|2|process_max: 
		[default]\nprocess_max =\n|2|process_max: "" is no SIZE
		[default]\nprocess_max = 0=8M\n|2|process_max: "0=8M" is no SIZE
		[gpu 0]\nprocess_max = 8M\n|2|a GPU is named by its UUID here
		[user 12345]\nprocess_max = -1\n|2|process_max: 
		[default\n|1|a section looks like [default]
		[group no-such-group]\n|1|group "no-such-group" is not in /etc/group; write its number
		[default]\ngroup_max = 8M\n|2|group_max stands in a section [group NAME]
		[default]\npriority_max = 21\n|2|priority_max: "21" is no number from -20 to 20
		[default]\npriority_max = 1x\n|2|priority_max: "1x" is no number
		[gpu GPU-51]\npriority_max = 1\n|2|priority_max is of users
		[default]\nwarn = 90\n|2|warn: "90" is not between 1% and 100%
		[default]\nwarn = 101%%\n|2|warn: "101%" is not between
		[default]\nidle = soon\n|2|idle: "soon" is no time
		[gpu 0]\nidle = 1m\n|2|a GPU is named by its UUID here
		[gpu 0]\nwarn = 80%%\n|2|a GPU is named by its UUID here
		[user nobody-of-that-name]\nreserve = 1G\n|2|a reserve for somebody who is not in /etc/passwd
		[default]\nreserve = 1X\n|2|reserve: 
	X
}

@test "what other readers of such files take, too: comments behind a value, a colon, blanks, a mark in front, no last line end" {
	while IFS= read -r text; do
		printf "$text" >etc/cuward.conf
		bound 0 init device 0 refused 9M alloc 8M || { echo "$text"; false; }
		limits "[[\"process\",$((8 * MiB)),\"$conf\"]]"
		policed "$cuward" limit check
	done <<-'X'
		[default]\r\nprocess_max = 8M\r\n
		\357\273\277[default]\nprocess_max = 8M\n
		[default]\nprocess_max = 8M ; of each\n
		[default] # all\nprocess_max = 8M	# of each\n
		  [ default ]\n \tprocess_max\t:8M \n  ; 16M\n
		[default]\nprocess_max = 8M
		[default]\nprocess_max = 8M\nprocess_max = 16M\n[default]\nprocess_max = 12M\n
		[user \t0]\nprocess_max = 8M\n[group\t0]\nprocess_max = 16M\n
	X
	# A comment begins behind a blank only; what is half a value is none.
	for text in '8M;16M' '8M#' '; 8M' ':8M'; do
		printf '[default]\nprocess_max = %s\n' "$text" >etc/cuward.conf
		bound 99 init
	done
}

@test "limit get tells what a process was started under, though the files say something else by now" {
	common_setup || return 0
	policy '[default]' 'process_max = 8M' 'user_max = 100M' 'reserve = 1G' '[group 4200]' 'group_max = 50M'
	common <<-'X'
		groups_4101=4200
		conf=/etc/cuward/cuward.conf
		GET='[.processes[0].devices[0].limits[] | [.scope, .bytes / 1048576, .source, .binds]]'
		layers() { as 4101 cuward limit get $pid --json >out 2>err; told out "$GET == $1"; }
		rest=$((15 << 10))
		before="[[\"process\",8,\"$conf\",true],[\"user\",100,\"$conf\",true],[\"group\",50,\"$conf\",true],[\"gpu\",$rest,\"$conf\",true]]"
		holds 4101 init device 0 alloc 4M say held sh 'while [ ! -e go ]; do sleep 0.02; done' refused 5M alloc 4M \
			sh 'touch state-4101/went' sleep 600000
		layers "$before"
		for now in 'process_max = 16M' 'process_max = 1M\nuser_max = 1M\nreserve = 2G\n[group 4200]\ngroup_max = 1M' 'proces_max = 1M' ''; do
			printf "[default]\n$now\n" >$conf
			layers "$before"
		done
		# A limit that is set live lies over it.
		as 4101 cuward limit set $pid 6M
		layers "[[\"process\",6,\"cuward limit\",true],[\"user\",100,\"$conf\",true],[\"group\",50,\"$conf\",true],[\"gpu\",$rest,\"$conf\",true]]"
		as 4101 cuward limit set $pid 9M
		touch go
		until [ -e state-4101/went ]; do sleep 0.02; done
		layers "[[\"process\",9,\"cuward limit\",false],[\"process\",8,\"$conf\",true],[\"user\",100,\"$conf\",true],[\"group\",50,\"$conf\",true],[\"gpu\",$rest,\"$conf\",true]]"
		# Who lost the variable on the way is bound by his job's limit, and that is told.
		CUWARD_JOB=j CUWARD_JOB_MEMORY=8M holds 4101 init device 0 say held sleep 600000
		CUWARD_JOB=j holds 4101 init device 0 say held sleep 600000
		layers '[["job",8,"CUWARD_JOB_MEMORY",true]]'
	X
}

@test "limit get and run --dry-run: what would bind a program that is started here, on each GPU" {
	common_setup || return 0
	policy '[default]' 'process_max = 8M' 'job_max = 40M' 'user_max = 60M' 'reserve = 1G' '[group 4200]' 'group_max = 50M' \
		'[user 4102]' 'reserve = 2G' '[gpu GPU-51000000-0000-4000-8000-000000000001]' 'process_max = 4M'
	common <<-'X'
		export CUWARD_SIM_DEVICES=2
		groups_4101=4200
		conf=/etc/cuward/cuward.conf
		CUWARD_MEMORY=0=6M as 4101 cuward limit get --json >out
		told out "[.limits[] | [.uuid[-1:], .scope, .bytes / 1048576, .source, .binds]] == [
			[\"0\",\"process\",6,\"CUWARD_MEMORY\",true],[\"0\",\"process\",8,\"$conf\",false],
			[\"0\",\"job\",40,\"$conf\",true],[\"0\",\"user\",60,\"$conf\",true],[\"0\",\"gpu\",$((15 << 10)),\"$conf\",true],
			[\"0\",\"group\",50,\"$conf\",true],[\"0\",\"reserve\",2048,\"$conf\",true],
			[\"1\",\"process\",4,\"$conf\",true],
			[\"1\",\"job\",40,\"$conf\",true],[\"1\",\"user\",60,\"$conf\",true],[\"1\",\"gpu\",$((15 << 10)),\"$conf\",true],
			[\"1\",\"group\",50,\"$conf\",true],[\"1\",\"reserve\",2048,\"$conf\",true]]"
		as 4101 cuward run --sim -g 1 -m 16M --job-memory 30M --dry-run true >plan
		grep -Eqx 'GPU-51000000-0000-4000-8000-000000000001  process  16.0 MiB  command line' plan
		grep -Eqx "GPU-51000000-0000-4000-8000-000000000001  process  4.00 MiB  $conf +yes" plan
		grep -Eqx 'GPU-51000000-0000-4000-8000-000000000001  job      30.0 MiB  command line +yes' plan
		grep -Eqx "GPU-51000000-0000-4000-8000-000000000001  group    50.0 MiB  $conf +yes" plan
		[ "$(grep -c '00000000000 ' plan)" -eq 0 ]
		# What is ignored, and what cannot be understood, is told; run says the first, the guest the second.
		chown 4101 $conf
		as 4101 cuward limit get 2>err
		grep -q "$conf is ignored: " err
		as 4101 cuward run --sim true 2>err
		grep -q "$conf is ignored: .*: its limits bind nobody" err
		as 4101 cuward run -q --sim true 2>err
		[ ! -s err ]
		chown 0 $conf
		echo 'proces_max = 1M' >>$conf
		status=0
		as 4101 cuward limit get >out 2>err || status=$?
		[ $status = 1 ]
		grep -q "$conf:12: unknown key .*; until that is mended CUDA is refused to all programs under cuward" err
	X
}

@test "a user who is in no list of users may be the one that is meant" {
	printf '[user nobody-of-that-name]\nprocess_max = 8M\n' >etc/cuward.conf
	bound 0 init device 0 alloc 1G
	limits '[]'
	run policed "$cuward" limit check
	[ "$status" -eq 1 ]
	[ "$output" = "cuward: limit: check: $conf:1: no user \"nobody-of-that-name\" is in /etc/passwd" ]
	policed "$cuward" doctor --json >doctor.json || :
	jq -e '.checks[] | select(.check == "policy") | .verdict == "warn" and (.text | endswith("binds nobody"))' doctor.json
	public=$(mktemp -d)
	cp "$shim" "$play" "$B/sim/libcuda.so.1" $public
	mkdir -m 700 $public/state
	chmod 755 $public
	chown 54321 $public/state
	run policed setpriv --reuid 54321 --clear-groups env -u CUWARD_SIM_TRUTH CUWARD_DIR=$public/state \
		LD_LIBRARY_PATH=$public LD_PRELOAD=$public/libcuward.so $public/play init
	rm -r $public
	[ "$status" -eq 99 ] || { echo "$output"; false; }
	[[ "$output" == *"$conf:1: neither uid 54321 nor user \"nobody-of-that-name\" is in /etc/passwd"* ]]
}

@test "files that others may write are ignored, and that is told" {
	printf '[default]\nprocess_max = 8M\n' >etc/cuward.conf
	while read -r change; do
		echo "$change" >prepare
		bound 0 init device 0 alloc 1G
		[ -z "$output" ]
		limits '[]'
		CUWARD_LOG=warn bound 0 init device 0 alloc 1G
		[[ "$output" == *"is ignored: it must belong to root and be writable by nobody else"* ]]
		run policed "$cuward" limit check
		[ "$status" -eq 1 ]
	done <<-'X'
		chmod 664 /etc/cuward/cuward.conf
		chmod 646 /etc/cuward/cuward.conf
		chown 12345 /etc/cuward/cuward.conf
		chmod 777 /etc/cuward
		chown 12345 /etc/cuward
	X
}

@test "the environment leads nobody elsewhere" {
	printf '[default]\nprocess_max = 8M\n' >etc/cuward.conf
	mkdir other
	CUWARD_SYSCONFDIR=$PWD/other SYSCONFDIR=$PWD/other XDG_CONFIG_DIRS=$PWD/other HOME=$PWD/other \
		bound 0 init device 0 refused 9M
}

@test "cuward limit: what is set live never goes beyond; get shows every layer" {
	printf '[default]\nprocess_max = 8M\nuser_max = 1G\n' >etc/cuward.conf
	cat >inside <<-'X'
		mkdir s
		CUWARD_MEMORY=6M LD_PRELOAD=$1 "$2" init device 0 say held sh 'while [ ! -e go ]; do sleep 0.05; done' refused 9M alloc 8M >said &
		until grep -q held said; do sleep 0.05; done
		"$3" limit set $! 64M
		"$3" limit get $! --json >out
		"$3" limit get --json >here
		touch go
		wait $!
	X
	CUWARD_DIR=$PWD/s policed sh ./inside "$shim" "$play" "$cuward"
	told '.processes[0].devices[0].limits | map([.scope, .bytes, .source, .binds])' "$(tr -d '\n\t' <<-X
		[["process",$((6 * MiB)),"CUWARD_MEMORY",false],["process",$((64 * MiB)),"cuward limit",false],
		["process",$((8 * MiB)),"$conf",true],["user",$((1 << 30)),"$conf",true]]
	X
	)"
	mv here out
	told '.limits | map([.scope, .text, .source])' "[[\"process\",\"8.00 MiB\",\"$conf\"],[\"user\",\"1.00 GiB\",\"$conf\"]]"
}

@test "warn and idle: from when on why says so" {
	cat >inside <<-'X'
		mkdir s
		CUWARD_MEMORY=10M LD_PRELOAD=$1 "$2" init device 0 alloc 6M say held sleep 600000 >said 3>&- &
		until grep -q held said; do sleep 0.05; done
		sleep 1.2
		"$3" why --for 0.2s --json $! >out || true
		"$3" why --for 0.2s --idle 10m --json $! >other || true
		kill -9 $!
	X
	printf '[default]\nwarn = 60%%\nidle = 1s\n' >etc/cuward.conf
	CUWARD_DIR=$PWD/s policed sh ./inside "$shim" "$play" "$cuward"
	told '[.processes[0].verdicts[].verdict] - ["busy"]' '["idle-holding","near-limit"]'
	mv other out
	told '[.processes[0].verdicts[].verdict]' '["quiet","near-limit"]'
	rm -r s
	printf '[default]\nwarn = 61%%\nidle = 1h\n' >etc/cuward.conf
	CUWARD_DIR=$PWD/s policed sh ./inside "$shim" "$play" "$cuward"
	told '[.processes[0].verdicts[].verdict]' '["quiet"]'
}

# For each key in each section where it may stand: what is limited, that 9 MiB are refused and 8 are not; and
# nothing where the section is about somebody else.
@test "each limit in each section: what cuward limit tells of it, and a refusal" {
	common_setup || return 0
	common <<-'X'
		groups_4101=4200
		conf=/etc/cuward/cuward.conf
		rest=$(((16 << 30) - (8 << 20)))
		rows=0
		while read -r key value scope sections; do
			for section in ${sections//,/ }; do
				printf '[%s]\n%s = %s\n' "${section/:/ }" $key $value >$conf
				case $section in *:4109 | *:4209 | *:GPU-99) limits='[]' word=alloc ;; *)
					limits="[[\"$scope\",$((8 * MiB)),\"$conf\",true]]" word=refused ;;
				esac
				rows=$((rows + 1))
				preloaded 4101 init device 0 $word 9M alloc 8M sh 'cuward limit get $PPID --json' freeall >got 2>errors ||
					{ echo "[$section] $key: status $?"; cat got errors; exit 1; }
				is=$(jq -c '[.processes[0].devices[0].limits[] | [.scope, .bytes, .source, .binds]]' got)
				[ "$is" = "$limits" ] || { echo "[$section] $key: $is"; exit 1; }
			done
		done <<-Y
			process_max 8M process default,user:4101,group:4200,gpu:GPU-51000000,user:4109,group:4209,gpu:GPU-99
			job_max 8M job default,user:4101,group:4200,gpu:GPU-51000000,user:4109,group:4209,gpu:GPU-99
			user_max 8M user default,user:4101,group:4200,gpu:GPU-51000000,user:4109,group:4209,gpu:GPU-99
			group_max 8M group group:4200,group:4209
			reserve $rest gpu default,gpu:GPU-51000000,gpu:GPU-99
		Y
		[ $rows -eq 26 ]
	X
}

@test "warn and idle in the sections of users, groups and GPUs; not those of others" {
	common_setup || return 0
	common <<-'X'
		export CUWARD_MEMORY=10M
		groups_4101=4200
		holds 4101 init device 0 alloc 6M say held sleep 600000
		sleep 1.2
		while read -r section verdicts; do
			printf '[%s]\nwarn = 60%%\nidle = 1s\n' "${section/:/ }" >/etc/cuward/cuward.conf
			as 4101 cuward why --for 0.2s --json $pid >why || [ $? -eq 1 ]
			told why "[.processes[0].verdicts[].verdict] == $verdicts"
		done <<-'Y'
			user:4101 ["idle-holding","near-limit"]
			group:4200 ["idle-holding","near-limit"]
			gpu:GPU-51000000 ["idle-holding","near-limit"]
			gpu:GPU-99 ["quiet"]
			user:4109 ["quiet"]
			group:4209 ["quiet"]
		Y
	X
}
