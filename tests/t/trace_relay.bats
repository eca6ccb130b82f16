#!/usr/bin/env bats
# Traces over the network, to LTTng's relay daemon: run --trace=net://, trace start -o net://.

load ../trace/lttng.bash

# Three ports that nobody has just now; the relay daemon for all tests of this file.
relay_start() {
	local ports
	read -ra ports < <(python3 -c 'import socket
all = [socket.socket() for _ in range(3)]
for one in all: one.bind(("127.0.0.1", 0))
print(*[one.getsockname()[1] for one in all])')
	url=net://127.0.0.1:${ports[0]}:${ports[1]}
	as_user lttng-relayd -C "tcp://127.0.0.1:${ports[0]}" -D "tcp://127.0.0.1:${ports[1]}" \
		-L "tcp://127.0.0.1:${ports[2]}" -o "$home/relay" >"$home/relayd.log" 2>&1 &
	relay=$!
	for _ in $(seq 400); do
		(: >"/dev/tcp/127.0.0.1/${ports[1]}") 2>/dev/null && return
		kill -0 $relay 2>/dev/null || break
		sleep 0.05
	done
	cat "$home/relayd.log"
	return 1
}

as_user() {
	if [ "$(id -u)" = 0 ]; then
		exec setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@" 3>&-
	else
		exec "$@" 3>&-
	fi
}
cuward() { (as_user "$home/cuward" "$@"); }

setup_file() {
	home=$(mktemp -d /tmp/cwt-XXXXXX)
	cp -r "$B/cuward" "$B/libcuward.so" "$B/libcuward-lttng.so" "$B/sim" "$home"
	"${CC:-cc}" -std=gnu11 -D_GNU_SOURCE -rdynamic -o "$home/play" "$TOP/tests/apps/play.c" -ldl
	mkdir "$home/relay"
	chmod 755 "$home"
	[ "$(id -u)" != 0 ] || chown -R 65534 "$home"
	unset LTTNG_HOME XDG_RUNTIME_DIR
	export HOME=$home
	relay_start
	export home url relay
}

teardown_file() {
	kill "$relay"
	for _ in $(seq 200); do
		kill -0 "$relay" 2>/dev/null || break
		sleep 0.05
	done
	rm -rf "$home"
}

setup() {
	unset LD_PRELOAD "${!CUWARD_@}" CUDA_VISIBLE_DEVICES LTTNG_HOME XDG_RUNTIME_DIR
	export HOME=$home CUWARD_DIR=$home/state
	cd "$home"
}

told() {
	local answer
	answer=$(jq -c "$1" <<<"$output")
	[ "$answer" = "$2" ] || {
		echo "$1 is $answer, not $2: ${output:0:3000}"
		return 1
	}
}

@test "run --trace=net:// sends the trace to a relay daemon, and reads from what that wrote" {
	cuward run --sim --trace="$url" --report r.json -- "$home/play" init device 0 alloc 1M launch first free 0 2>said
	grep -q "^cuward: trace in $url$" said
	[ "$(jq -c '[.run.trace | .dir, .lost, .complete, .bytes]' r.json)" = "[\"$url\",0,true,null]" ]
	[ "$(jq -r '.processes[0].trace.dir' r.json)" = "$url" ]
	run -137 cuward run -q --sim --trace="$url" -- "$home/play" init device 0 alloc 2M launch second kill 9
	# The relay daemon writes on its own.
	for _ in $(seq 100); do
		run cuward timeline --json relay
		[ "$(jq '[.processes[] | select(.ended != "unknown")] | length' <<<"$output")" = 2 ] && break
		sleep 0.1
	done
	told '[.processes[] | [.command, .ended, .devices[0].peak_bytes]]' \
		"[[\"play\",\"exit\",$((1 << 20))],[\"play\",\"signal\",$((2 << 20))]]"
	told '[.kernels[].name] | sort' '["first","second"]'
	told '.trace.hosts' "[\"$(uname -n)\"]"
	[ "$status" = 0 ]
}

@test "two hosts below one directory stay apart" {
	[ "$(id -u)" = 0 ] || skip "another host name needs root"
	unshare -u true 2>/dev/null || skip "no UTS namespaces here"
	rm -rf relay/*
	cuward run -q --sim --trace="$url" -- "$home/play" init device 0 alloc 1M launch here free 0
	unshare -u sh -c 'hostname elsewhere && exec setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"' \
		sh "$home/cuward" run -q --sim --trace="$url" -- "$home/play" init device 0 alloc 2M launch there free 0 3>&-
	for _ in $(seq 100); do
		run cuward timeline --json relay
		[ "$(jq '[.processes[] | select(.ended == "exit")] | length' <<<"$output")" = 2 ] && break
		sleep 0.1
	done
	[ -d relay/elsewhere ]
	equal relay
	told '.trace.hosts | sort' "$(jq -cn --arg here "$(uname -n)" '["elsewhere", $here] | sort')"
	told '[.processes[] | [.host, .devices[0].peak_bytes]] | sort_by(.[1])' \
		"[[\"$(uname -n)\",$((1 << 20))],[\"elsewhere\",$((2 << 20))]]"
	told '.gpus | length' 2
}

@test "a trace of all processes goes there too" {
	rm -rf relay/*
	run -0 cuward trace start -o "$url" --json
	told '[.dir, .bytes]' "[\"$url\",null]"
	cuward run -q --sim -- "$home/play" init device 0 alloc 4M launch third free 0
	run -0 cuward trace stop
	[ "${lines[0]}" = "trace in $url" ]
	[ "${lines[1]}" = "nothing of it is here, 0 events lost" ]
	for _ in $(seq 100); do
		run cuward timeline --json relay
		[ "$(jq '[.processes[] | select(.ended == "exit")] | length' <<<"$output")" = 1 ] && break
		sleep 0.1
	done
	told '[.processes[] | [.ended, .devices[0].peak_bytes]]' "[[\"exit\",$((4 << 20))]]"
	told '[.kernels[].name]' '["third"]'
}

@test "a scheme in capitals is the same, and another one is no folder" {
	cuward run -q --sim --trace="NET${url#net}" --report big.json -- "$home/play" init device 0
	[ "$(jq -r .run.trace.dir big.json)" = "$url" ]
	for bad in tcp://127.0.0.1 NETS://host file:///tmp/x; do
		run -125 cuward run --sim --trace="$bad" -- touch started
		[ "$output" = "cuward: --trace: '$bad' is neither a folder nor net://HOST" ]
		run -2 cuward trace start -o "$bad"
		[ "$output" = "cuward: trace -o: neither a folder nor net://HOST" ]
	done
	[ ! -e started ]
	[ -z "$(find . -maxdepth 1 -iname '*:')" ]
}

@test "nobody there is one clear sentence, and the command does not start" {
	run -125 cuward run --sim --trace=net://127.0.0.1:1:1 -- touch started
	[[ $output == "cuward: --trace: LTTng could not "*" in net://127.0.0.1:1:1: "*"; does lttng-relayd listen there, and can it be reached?"* ]]
	[ "${#lines[@]}" = 1 ]
	[ ! -e started ]
	run -3 cuward trace start -o net://127.0.0.1:1:1
	[[ $output == "cuward: trace start: LTTng could not "* ]]
	run -0 cuward trace status
	[ "$output" = "no trace is on" ]
	# Nothing of it stays that stop could find.
	run -1 cuward trace stop
	[ "$output" = "cuward: trace stop: no trace is on" ]
}
