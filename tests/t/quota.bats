#!/usr/bin/env bats
# Limits and counts of one process: what the program sees, the report, and the driver's truth.

load guest

setup() { guest_setup; }

teardown() { guest_teardown; }

# What a report says of memory and calls, whatever the route to the driver.
essence() {
	jq -c '.processes[0] | [.devices, .memory, .objects, .findings, .in_flight, .dropped_records,
		(.leaks | map([.verdict, .kind, .api, .device, .bytes, .count])),
		(.denials | map([.bytes, .api, .device, .scope, .limit_bytes, .used_bytes, .count])),
		(.calls | del(.cuGetProcAddress, .cuGetProcAddress_v2))]' r.json
}

# story NAME: by every route. `check` looks at the first report; the others must be equal.
story() {
	local route first
	for route in linked dlsym default gpa gpa2 deep; do
		echo "route $route"
		ROUTE=$route guest 0 "$apps/quota" "$1"
		[ -z "$output" ]
		if [ $route = linked ]; then
			check
			first=$(essence)
		else
			[ "$(essence)" = "$first" ] || { essence; false; }
		fi
	done
}

@test "to the byte" {
	export CUWARD_MEMORY=1M
	check() {
		used $MiB $MiB
		ask '.devices[0].denied' 4
		ask '.devices[0].denied_bytes > 1.8e19' true
		ask '[.denials[] | [.bytes, .api, .limit_bytes, .used_bytes, .count, .scope]]' \
			"[[1,\"cuMemAlloc_v2\",$MiB,$MiB,4,\"process\"]]"
		kind device $MiB 1 1 0
		leaks "[[\"leak\",\"device\",$MiB,1]]"
		ask '.calls.cuMemAlloc_v2' '{"count":5,"errors":4}'
		truth process.0.device.0.device.allocs 1
		agrees
	}
	story to_the_byte
}

@test "a refused request does not reach the driver" {
	export CUWARD_MEMORY=1M CUWARD_SIM_CALL_LOG=$PWD/calls
	check() {
		[ "$(grep -c ' cuMemAlloc_v2 ' calls)" -eq 1 ]
	}
	story to_the_byte
	[ "$(grep -c ' cuMemAlloc_v2 ' calls)" -eq 6 ]
}

@test "freed memory may be had again" {
	export CUWARD_MEMORY=1M
	check() {
		used $MiB $MiB
		denied 0 0
		kind device $MiB 1 2 1
		leaks "[[\"leak\",\"device\",$MiB,1]]"
		agrees
	}
	story again
}

@test "size 0 is the driver's to refuse" {
	export CUWARD_MEMORY=1M
	check() {
		used $MiB $MiB
		denied 1 $KiB
		kind device $MiB 1 1 0
		agrees
	}
	story nothing
}

@test "the driver runs out although there is room" {
	export CUWARD_MEMORY=1M CUWARD_SIM_FAULT=cuMemAlloc_v2:1:2
	check() {
		used 0 0
		denied 0 0
		kind device 0 0 0 0
		ask '[.denials, .leaks, (.findings - [.findings[] | select(.code == "context-overhead")])]' '[[],[],[]]'
		ask '.calls.cuMemAlloc_v2' '{"count":1,"errors":1}'
		agrees
	}
	story one_fails
}

@test "frees that fail keep everything" {
	export CUWARD_MEMORY=1M CUWARD_SIM_FAULT=cuMemFree_v2:1:1
	check() {
		used $MiB $MiB
		denied 1 1
		kind device $MiB 1 2 1
		findings '[]'
		agrees
	}
	story free_fails
}

@test "freed twice, nothing, inside, unknown" {
	export CUWARD_MEMORY=1M
	check() {
		used 1024 2048
		kind device 1024 1 2 1
		findings '[["double-free",1]]'
		agrees
	}
	story free_twice
	check() {
		used 1024 1024
		kind device 1024 1 1 0
		findings "$wanted"
		ask '.calls.cuMemFree_v2.count' 1
		agrees
	}
	wanted='[]' story free_null
	wanted='[["interior-free",1]]' story free_inside
	wanted='[["invalid-free",1]]' story free_unknown
}

@test "32 threads, room for 16" {
	export CUWARD_MEMORY=16M
	check() {
		used $((16 * MiB)) $((16 * MiB))
		denied 16 $((16 * MiB))
		kind device $((16 * MiB)) 16 16 0
		agrees
	}
	story threads
	CUWARD_SIM_CALL_DELAY_NS=cuMemAlloc_v2=5000000 story threads
}

@test "memory is freed from another device's context" {
	export CUWARD_MEMORY=1M CUWARD_SIM_DEVICES=2
	check() {
		used $((MiB - 1)) $MiB 0
		used $MiB $MiB 1
		denied 0 0 0
		denied 2 2 1
		kind device $((2 * MiB - 1)) 2 3 1
		agrees
	}
	story free_elsewhere
}

@test "pitched memory costs what the driver made of it" {
	check() {
		used $MiB $MiB
		kind device $MiB 2 2 0
		denied 1 $((MiB - 5120 + 1))
		agrees
	}
	CUWARD_MEMORY=1M story pitched
	check() {
		used 4096 4096
		kind device 4096 1 1 0
		denied 1 5120
		truth process.0.device.0.requested 4096
	}
	CUWARD_MEMORY=4096 story pitched_too_far
	check() {
		used 0 0
		kind device 0 0 0 0
		truth process.0.device.0.requested_high 0
	}
	CUWARD_MEMORY=1G story pitched_oddly
	CUWARD_MEMORY=none story pitched_oddly
}

@test "the first ABI, 32 bits wide" {
	export CUWARD_MEMORY=1M
	check() {
		used $MiB $MiB
		kind device $MiB 2 3 1
		denied 2 $((1 + MiB - 5120 + 1))
		findings '[["double-free",1]]'
		ask '[.calls.cuMemAlloc.count, .calls.cuMemAlloc_v2.count]' '[2,2]'
		agrees
	}
	story first_abi
}

@test "each device has its limit" {
	export CUWARD_MEMORY=0=1M,1=2M CUWARD_SIM_DEVICES=2
	check() {
		used 0 0 0
		used $((2 * MiB)) $((2 * MiB)) 1
		denied 1 $((MiB + 1)) 0
		denied 1 1 1
		agrees
	}
	story two_devices
}

@test "without a limit nothing is refused and all is counted" {
	check() {
		used $((3 * GiB)) $((3 * GiB))
		denied 0 0
		ask '.devices[0].limits' '[]'
		agrees
	}
	story unlimited
	CUWARD_MEMORY=none story unlimited
}

@test "a context dies, and takes with it what it owned" {
	export CUWARD_MEMORY=1M
	check() {
		used $MiB $MiB
		kind device $MiB 1 2 1
		denied $wanted $wanted
		leaks "[[\"leak\",\"device\",$MiB,1]]"
		findings '[["context-reclaimed",1]]'
		agrees
	}
	wanted=1 story context_dies
	wanted=2 story primary_released
	check() {
		used $MiB $MiB
		kind pool $MiB 1 1 0
		leaks "[[\"leak\",\"pool\",$MiB,1]]"
		findings '[]'
		agrees
	}
	story pool_memory_stays
	check() {
		used $MiB $MiB
		kind device $MiB 1 2 1
		kind pinned 0 0 1 1
		ask '.objects | [.stream, .event, .context]' \
			'[{"created":1,"live":0},{"created":1,"live":0},{"created":2,"live":1}]'
		findings '[["context-reclaimed",2]]'
		agrees
	}
	story primary_reset
}

@test "stream-ordered memory" {
	export CUWARD_MEMORY=1M
	for PTSZ in "" 1; do
		[ -z "$PTSZ" ] && unset PTSZ || export PTSZ
		check() {
			used 0 $MiB
			kind pool 0 0 2 2
			denied 1 1
			ask '.leaks' '[]'
			ask ".calls.cuMemAllocAsync${PTSZ:+_ptsz}.count" 2
			ask ".calls.cuMemAllocAsync$([ "${PTSZ-}" ] || echo _ptsz)" null
			agrees
		}
		story async
		check() {
			used $MiB $MiB
			kind pool 0 0 1 1
			kind device $MiB 1 2 1
			agrees
		}
		story async_crossed
		check() {
			used $MiB $MiB
			kind pool $MiB 1 1 0
			denied 1 1
		}
		CUWARD_SIM_FAULT=cuMemFreeAsync:1:1,cuMemFreeAsync_ptsz:1:1 story async_free_fails
		check() {
			used $MiB $MiB
			kind pool $MiB 1 1 0
			denied 1 $((MiB + 1))
			truth process.0.device.0.pool.allocs 1
			agrees
		}
		story async_refused
	done
}

@test "pools, of another device and of the host" {
	export CUWARD_MEMORY=0=2M,1=1M CUWARD_SIM_DEVICES=2
	check() {
		used $((2 * MiB)) $((2 * MiB)) 0
		used $MiB $MiB 1
		denied 1 1 0
		denied 2 2 1
		kind pool $MiB 1 2 1
		ask '.objects.mem_pool' '{"created":1,"live":0}'
		agrees
	}
	story pools
	PTSZ=1 story pools
	export CUWARD_MEMORY=1M CUWARD_SIM_DEVICES=1
	check() {
		used $MiB $MiB
		kind pool 0 0 0 0
		kind pinned $((8 * MiB)) 1 1 0
		denied 1 1
	}
	story host_pool
	check() {
		used $MiB $MiB
		kind pool 0 0 10000 10000
		denied 0 0
	}
	story pool_keeps
}

@test "host memory costs no GPU" {
	export CUWARD_MEMORY=1M
	check() {
		used $MiB $MiB
		kind pinned 65536 1 5 4
		ask '.memory.pinned.peak_bytes' $((8 * MiB))
		denied 0 0
		findings '[["double-free",1]]'
		ask '[.leaks[] | select(.kind == "pinned") | [.verdict, .bytes, .api]]' \
			'[["leak",65536,"cuMemHostRegister_v2"]]'
		agrees
	}
	story host
}

@test "managed memory: charged, or ignored" {
	check() {
		used $MiB $MiB
		kind managed $MiB 1 1 0
		denied 1 $((8 * MiB))
		agrees
	}
	CUWARD_MEMORY=4M story managed
	check() {
		used 0 0
		kind managed $((9 * MiB)) 2 2 0
		denied 0 0
	}
	CUWARD_MEMORY=4M CUWARD_MANAGED=ignore story managed
}

@test "queries show the limit" {
	export CUWARD_MEMORY=0=4G CUWARD_SIM_DEVICES=2
	check() { used $GiB $GiB; }
	story info
	LD_PRELOAD= "$apps/play" init device 0 alloc 13G say up sleep 60000 >said 3>&- &
	other=$!
	for i in $(seq 50); do [ -s said ] && break; sleep 0.1; done
	OTHERS=13 keep_truth=r.json story info || { kill $other; false; }
	kill $other
	check() { used 0 0; }
	CUWARD_SIM_TRUTH= story info_without_context
}

@test "a driver's failure passes, and nothing is charged" {
	for call in cuMemAlloc_v2 cuMemAllocPitch_v2 cuMemAllocManaged cuMemAllocHost_v2 \
		cuMemHostAlloc cuMemAllocAsync cuMemHostRegister_v2 cuMemAlloc cuMemAllocPitch \
		cuMemAllocHost; do
		for code in 1 2 201 800 999; do
			CUWARD_MEMORY=1G CUWARD_SIM_FAULT=$call:1:$code FAULT=$call CODE=$code \
				guest 0 "$apps/quota" faults
			ask "[([.memory[].allocs] | add), ([.memory[].live] | add), .calls.$call.count,
				.calls.$call.errors, .denials, (.findings | map(select(.code != \"context-overhead\"))), .devices[0].denied]" \
				'[9,9,1,1,[],[],0]'
			agrees
		done
	done
}

@test "a free that fails passes, and everything stays" {
	for call in cuMemFree_v2 cuMemFree cuMemFreeAsync cuMemFreeHost cuMemHostUnregister; do
		for code in 1 2 201 800 999; do
			CUWARD_SIM_FAULT=$call:1:$code CODE=$code guest 0 "$apps/quota" free_faults
			ask "[([.memory[].allocs] | add), ([.memory[].frees] | add), .calls.$call.count,
				.calls.$call.errors, .leaks, (.findings | map(select(.code != \"context-overhead\"))), .devices[0].used_bytes,
				.devices[0].peak_bytes]" '[5,5,2,1,[],[],0,3072]'
			agrees
		done
	done
}

@test "stream-ordered memory: nobody waits for the GPU because of us" {
	LD_LIBRARY_PATH=$B/sim CUWARD_SIM_TRUTH=$PWD/bare "$apps/threads" 4 5000 16777216
	bare=$("$B/sim/truth" bare process.0.synchronised)
	[ "$bare" -gt 0 ]
	CUWARD_MEMORY=8G guest 0 "$apps/threads" 4 5000 16777216
	truth process.0.synchronised "$bare"
	ask '.calls.cuMemAllocAsync.count > 0' true
}
