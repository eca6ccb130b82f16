#!/usr/bin/env bats
# Waiting for memory of the whole GPU, and of a group of users: the order between users.

load guest
load box
load common

setup() { box_setup; common_setup; }
teardown() { box_teardown; common_teardown; }

# What both need in there.
prelude() {
	cat <<-'X'
		waiting() { [ "$(cuward ps --json | jq '[.processes[] | select(.waiting)] | length')" = $1 ]; }
		rm -f order go some freed
		touch order
		chmod 666 order
		chmod 1777 .
		# waits UID NAME PRIORITY WORD...: in the background; NAME into `order` when it has it. Its pid in $pid.
		waits() {
			(exec=exec as $1 env CUWARD_PRIORITY=$3 CUWARD_ON_LIMIT=wait=120s LD_PRELOAD=$public/bin/libcuward.so \
				play init device 0 "${@:4}" sh "echo $2 >>$public/order") &
			pid=$!
		}
		# Until so many wait, the last that was started among them.
		wait_for() {
			until waiting $1; do
				kill -0 $pid || { wait $pid; echo "ended: $?"; cat order; exit 1; }
				sleep 0.02
			done
		}
		ordered() { [ "$(tr '\n' ' ' <order)" = "$1" ] || { cat order; exit 1; }; }
		until_go="while [ ! -e $public/go ]; do sleep 0.02; done"
	X
}

@test "the order of six of three users with three priorities: of the GPU, and of a group" {
	for limit in reserve group_max; do
		if [ $limit = reserve ]; then
			policy '[default]' "reserve = $(((16 << 30) - (8 << 20)))" '[user 4103]' 'priority_max = 1'
		else
			policy '[group 4200]' 'group_max = 8M' '[user 4103]' 'priority_max = 1'
		fi
		common < <(prelude; cat <<-'X'
			groups_4101=4200 groups_4102=4200 groups_4103=4200
			holds 4101 init device 0 alloc 8M say held sh "$until_go" freeall sleep 600000
			holder=$pid
			number=0
			pids=
			# What 4103 may have is 1, whatever it wants.
			for who in 4101:0:a 4102:0:b 4102:5:c 4103:20:d 4101:5:e 4103:-3:f; do
				IFS=: read -r uid priority name <<<"$who"
				waits $uid $name $priority alloc 8M
				pids="$pids $pid"
				number=$((number + 1))
				wait_for $number
			done
			touch go
			for pid in $pids; do wait $pid; done
			ordered "c e d a b f "
			kill -9 $holder
		X
		)
	done
}

@test "priority_max of all and of a group: what may be wanted above it does not count" {
	for section in default 'group 4201'; do
		policy '[default]' "reserve = $(((16 << 30) - (8 << 20)))" "[$section]" 'priority_max = 1'
		section=$section common < <(prelude; cat <<-'X'
			groups_4101=4201
			holds 4103 init device 0 alloc 8M say held sh "$until_go" freeall sleep 600000
			number=0
			pids=
			for who in 4102:0:a 4101:5:b 4101:20:c 4102:2:d; do
				IFS=: read -r uid priority name <<<"$who"
				waits $uid $name $priority alloc 8M
				pids="$pids $pid"
				number=$((number + 1))
				wait_for $number
			done
			touch go
			for pid in $pids; do wait $pid; done
			[ "$section" = default ] && ordered "b c d a " || ordered "d b c a "
		X
		)
	done
}

@test "who comes with nothing queues behind who waits, whoever he is; the dead and the stopped are in nobody's way" {
	policy '[default]' "reserve = $(((16 << 30) - (8 << 20)))"
	common < <(prelude; cat <<-'X'
		holds 4101 init device 0 alloc 4M alloc 4M say held sh "while [ ! -e $public/some ]; do sleep 0.02; done" free 0 \
			sh "touch $public/freed" sh "$until_go" freeall sleep 600000
		waits 4102 first 0 alloc 8M sh 'sleep 0.2'
		first=$pid
		wait_for 1
		touch some
		until [ -e freed ]; do sleep 0.02; done
		waits 4103 second 0 alloc 2M sh 'sleep 0.2'
		second=$pid
		wait_for 2
		sleep 0.3
		waiting 2
		touch go
		wait $first
		wait $second
		ordered "first second "
		# Killed while it waits, in somebody's slots file that nobody else can clean.
		rm go some freed
		holds 4101 init device 0 alloc 8M say held sh "$until_go" freeall sleep 600000
		waits 4102 third 0 alloc 8M
		third=$pid
		wait_for 1
		waits 4103 fourth 0 alloc 8M
		fourth=$pid
		wait_for 2
		kill -9 $third
		touch go
		wait $fourth
		ordered "first second fourth "
		preloaded 4103 init device 0 alloc 8M refused 1 freeall
		# Stopped: for a second it is waited for, no longer.
		rm go
		holds 4101 init device 0 alloc 8M say held sh "$until_go" freeall sleep 600000
		waits 4102 fifth 0 alloc 8M
		fifth=$pid
		wait_for 1
		kill -STOP $fifth
		waits 4103 sixth 0 alloc 8M
		sixth=$pid
		touch go
		wait $sixth
		kill -CONT $fifth
		wait $fifth
		ordered "first second fourth sixth fifth "
	X
	)
}

@test "alone, and what is kept for others: refused at once, not left waiting for itself" {
	policy '[default]' 'reserve = 1G' '[user 4101]' 'reserve = 10G' '[group 4200]' 'group_max = 4G'
	common <<-'X'
		groups_4103=4200
		for who in '4102 2G 4G' '4103 3G 2G'; do
			set -- $who
			CUWARD_ON_LIMIT=wait=600s timeout 60 bash -c "$(declare -f as preloaded); public=$public groups_4103=4200
				preloaded $1 init device 0 alloc $2 refused $3"
		done
	X
}

@test "a hostile neighbour who says that he waits: no longer than he lives, nor for more than there is" {
	policy '[default]' "reserve = $(((16 << 30) - (8 << 20)))"
	cat >"$public/liar.c" <<-'X'
		#include "cuward/ledger.h"
		#include <fcntl.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		#include <sys/mman.h>
		#include <unistd.h>
		#ifndef F_OFD_SETLK
		#define F_OFD_SETLK 37
		#endif
		int main(int argc, char **argv)
		{
			int fd = open(argv[1], O_RDWR);
			struct slots_header *header = mmap(NULL, 4096 + sizeof(struct slot), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			struct slot *slot = (struct slot *)(header + 1);
			struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 4096, .l_len = sizeof(*slot) };

			if (argc < 3 || fcntl(fd, F_OFD_SETLK, &range) != 0)
				return 1;
			memset(slot->words, 0, sizeof(slot->words));
			slot->priority = 2147483647;
			slot->state = SLOT_TAKEN;
			slot->waiting_since_ns = 1;
			for (int i = 0; i < SLOT_WAITS; i++)
				slot->waits[i] = (struct slot_wait){ 1, ~0ull, strtoull(argv[2], NULL, 0), 0, i ? 65535 : 0, SCOPE_GPU };
			puts("lies");
			fflush(stdout);
			pause();
		}
	X
	"${CC:-cc}" -D_GNU_SOURCE -I"$TOP/include" -o "$public/bin/liar" "$public/liar.c"
	common < <(prelude; cat <<-'X'
		preloaded 4104 init device 0 alloc 1M
		# lies BYTES: that he waits for so much, since ever, with the highest priority.
		lies() {
			(exec=exec as 4104 liar /run/cuward/slots/slots.4104 $1) >lies &
			pid=$!
			until grep -q lies lies; do
				kill -0 $pid || exit 1
				sleep 0.02
			done
		}
		lies $((9 << 20))
		liar=$pid
		waits 4101 other 0 alloc 8M
		wait $pid
		ordered "other "
		kill -9 $liar
		wait $liar || true
		lies $((8 << 20))
		liar=$pid
		# Who cannot wait is held up for a moment, not refused.
		preloaded 4101 init device 0 alloc 8M refused 1
		waits 4101 one 0 alloc 8M
		one=$pid
		wait_for 2
		kill -9 $liar
		wait $one
		ordered "other one "
	X
	)
}
