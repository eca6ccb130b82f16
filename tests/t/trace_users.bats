#!/usr/bin/env bats
# cuward trace start of root: one trace of the processes of all users, running ones included.
# beside: in namespaces of its own; it mostly waits

load guest
load box
load common

setup() {
	box_setup
	common_setup
	cp "$B/libcuward-lttng.so" "$public/bin"
	# The session daemon of the whole box: with a /run and ports of its own.
	namespaces="-m -n"
	# shellcheck disable=SC2086
	unshare $namespaces true 2>/dev/null || skip "no network namespaces here"
	cat >>"$public/enter" <<-'X'
		export HOME=$public
		mkdir -m 700 "$public/state-0"
		root() { CUWARD_DIR= "$@"; }
		# Each user's folder of state where root looks for it.
		as() {
			local uid=$1
			shift
			mkdir -p "$public/home-$uid"
			chown "$uid" "$public/home-$uid"
			HOME=$public/home-$uid ${exec-} setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"
		}
		# becomes COMMAND-LINE-WORD STATE: status says so of the process of this user, within some seconds.
		becomes() {
			for _ in $(seq 200); do
				cuward trace status --json >status.json || true
				[ "$(jq -r ".guests[] | select(.user == \"$1\") | .state" status.json)" = "$2" ] && return
				sleep 0.05
			done
			cat status.json
			exit 1
		}
	X
}
teardown() { box_teardown; common_teardown; }

everybody='
	holds 4101 init device 0 alloc 3M launch before say held launches 600000
	early=$pid
	cuward trace start -o out --json >start.json
	told start.json ".active and .daemon == \"own\""
	becomes 4101 recorded
	# The first one of a user waits for his buffers, and must live as long.
	for user in 4102 4103; do
		holds $user init device 0 say held launches 600000
		becomes $user recorded
		kill -9 $pid
		wait $pid || true
	done
	export LTTNG_UST_REGISTER_TIMEOUT=10000 # for a machine that is busy
	# Later ones find it: the preload alone, a run, and one that is killed.
	preloaded 4102 init device 0 alloc 5M launch later free 0
	as 4103 cuward run -q -- play init device 0 alloc 7M launch run free 0
	as 4103 cuward run -q -- play init device 0 alloc 9M launch killed kill 9 || [ $? = 137 ]
	kill -0 $early
	cuward trace status >status.txt
	grep -q "^  recorded  *[0-9]*  play of 4101$" status.txt
	[ "$(as 4102 cuward trace status)" = "no trace of yours is on; root'"'"'s, of all users, is" ]
	[ "$(as 4102 cuward trace status --json | jq -c .)" = "{\"active\":false,\"of_all_users\":true}" ]
	cuward trace stop >stop.txt
	[ "$(as 4102 cuward trace status)" = "no trace is on" ]
	grep -q ", 0 events lost$" stop.txt
	cuward timeline --json out >out.json || [ $? = 1 ]
	jq -c "[.processes[] | [.uid, .ended, .complete, .devices[0].peak_bytes / 1048576]]" out.json
	told out.json "([.processes[] | [.uid, .ended, .devices[0].peak_bytes / 1048576]] | sort) ==
		[[4101, \"running\", 3], [4102, \"unknown\", 0], [4102, \"unknown\", 5], [4103, \"exit\", 7], [4103, \"signal\", 9],
		 [4103, \"unknown\", 0]]"
	babeltrace2 out >theirs
	cuward events out >ours
	diff theirs ours | head -4
	cmp theirs ours
	told out.json "([.kernels[].name] | sort) == [\"again\", \"killed\", \"later\", \"run\"]"
	# It is over for all of them.
	preloaded 4102 init device 0 alloc 5M launch late free 0
	[ ! -e /run/cuward/trace ]
'

@test "where the administrator made a folder for all" {
	common <<<"$everybody"
}

@test "and where there is none" {
	no_common=1 common <<<"$everybody
		[ ! -e /run/cuward ]
		# One that cannot start leaves nothing either.
		status=0
		cuward trace start -o net://127.0.0.1:1:1 || status=\$?
		[ \$status = 3 ]
		[ ! -e /run/cuward ]"
}

@test "a trace of a user's own stays his, and what is no slots file of his is not written to" {
	common <<-'X'
		holds 4101 init device 0 alloc 3M say held launches 600000
		as 4101 cuward trace start -o "$public/home-4101/own" >own.txt || { cat own.txt; exit 1; }
		grep -q '1 recorded' own.txt
		mkdir -m 700 /dev/shm/cuward-4102
		cp /run/cuward/slots/slots.4101 /dev/shm/precious
		seq 99999 >/dev/shm/dear
		ln -s /dev/shm/precious /dev/shm/cuward-4102/slots.4102
		ln /dev/shm/dear /dev/shm/cuward-4102/slots.1
		chown -h 4102 /dev/shm/cuward-4102 /dev/shm/cuward-4102/slots.4102
		sum=$(cat /dev/shm/precious /dev/shm/dear | cksum)
		cuward trace start -o out --json >start.json || [ $? = 1 ]
		told start.json '[.guests[] | select(.user == "4101")] | .[0] | .state == "failed" and .why == "it is in a trace of its own user"'
		[ "$sum" = "$(cat /dev/shm/precious /dev/shm/dear | cksum)" ]
		cuward trace stop >/dev/null
		as 4101 cuward trace status >own.txt
		grep -q '1 recorded' own.txt
		as 4101 cuward trace stop >own.txt
		grep -q ", 0 events lost$" own.txt
		as 4102 cuward trace status | grep -q "no trace is on"
	X
}
