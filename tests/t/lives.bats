#!/usr/bin/env bats
# Memory that ends otherwise than by its free, and what is no memory: tests/apps/lives.c looks at each step itself; here
# the report, and the driver's truth.

load guest

setup() {
	guest_setup
	export CUWARD_MEMORY=0=64M CUWARD_SIM_DEVICES=2
}

teardown() { guest_teardown; }

story() { guest 0 "$apps/lives" "$1"; }

objects() { ask ".objects.$1 | [.created, .live]" "[$2,$3]"; }

@test "addresses: never charged, never refused, no leak, and counted" {
	story ranges
	used 0 $((64 * MiB))
	ask '[.denials[] | [.api, .bytes, .count]]' "[[\"cuMemCreate\",$((2 * MiB)),1]]"
	objects address_range 4 3
	objects mapping 1 0
	leaks '[]'
	findings '[]'
	kind vmm 0 0 1 1
	# Nobody is told of them at the end.
	CUWARD_LEAK=exit story ranges
	[ -z "$output" ]
}

@test "multicast objects: no memory, whatever is mapped and bound, and a handle that may be left" {
	story multicasts
	used 0 $((32 * MiB))
	objects multicast 1 1
	objects mapping 1 0
	ask '.memory | [.vmm.allocs, .vmm.live, .pinned.allocs, .imported.allocs]' '[1,0,0,0]'
	leaks '[]'
	findings '[["objects-live",1]]'
	RELEASE=1 story multicasts
	objects multicast 1 0
	findings '[]'
	agrees
}

@test "registered memory that was freed without the driver being told is a leak of its own kind" {
	story registered
	kind pinned $((MiB + 256 * KiB)) 2 3 1
	used 0 0
	ask '[.leaks[] | [.verdict, .kind, .api, .bytes, .count]] | sort' \
		"[[\"leak\",\"pinned\",\"cuMemHostRegister_v2\",$((256 * KiB)),1],[\"leak\",\"pinned\",\"cuMemHostRegister_v2\",$MiB,1]]"
	findings '[]'
	truth process.0.device.0.host.bytes $((MiB + 256 * KiB))
	# It is what makes a build red.
	status=0
	rm -f r.json
	"$B/cuward" run -q --sim --fail-on leak --report r.json "$apps/lives" registered || status=$?
	[ $status -eq 23 ]
}

@test "a primary context is reset: what it owned is gone, handles and pools stay" {
	for first in "-u FIRST" FIRST=1; do
		# shellcheck disable=SC2086
		guest 0 env $first "$apps/lives" reset
		kind device 0 0 2 2
		kind managed 0 0 1 1
		kind pinned 0 0 1 1
		kind array 0 0 2 2
		kind pool 0 0 1 1
		kind vmm $((2 * MiB)) 1 1 0
		for object in stream event module; do
			objects $object 1 0
			truth process.0.object.$object.live 0
		done
		leaks "[[\"leak\",\"vmm\",$((2 * MiB)),1]]"
		findings '[["context-reclaimed",5]]'
		agrees
	done
}

@test "a free on a stream that is captured is no free" {
	story capture_frees
	kind pool 0 0 1 1
	kind device 0 0 1 1
	used 0 $((12 * MiB))
	leaks '[]'
	agrees
}

@test "stream-ordered: live at the return of the call, what is kept at the next wait" {
	story live
	kind pool 0 0 1 1
	used 0 $MiB
	truth process.0.device.0.pool_reserved 0
	truth process.0.device.0.pool_reserved_high $((2 * MiB))
}

@test "what pools keep is looked at again before anything is refused for it" {
	CUWARD_POOLS=reserved story resampled
	ask '.devices[0] | [.used_bytes, .denied]' '[0,1]'
	ask '[.denials[] | [.api, .bytes]]' "[[\"cuMemAlloc_v2\",$((40 * MiB))]]"
	truth process.0.device.0.pool_reserved 0
	leaks '[]'
}

@test "pool memory is freed by every call that frees, and outlives its pool" {
	story crossed
	kind pool 0 0 4 4
	used 0 $((16 * MiB))
	findings '[["double-free",2]]'
	objects mem_pool 1 0
	leaks '[]'
	agrees
}

@test "memory of the host is no GPU's, and a place that is none is the driver's to refuse" {
	story places
	used $((64 * MiB)) $((64 * MiB))
	used $GiB $GiB 1
	denied 0 0
	kind pinned 0 0 "$output" "$output"
	ask .memory.pinned.peak_bytes $((128 * MiB))
	kind vmm $GiB 1 1 0
	agrees
}

@test "shapes that are nothing, and more than 64 bits: never little" {
	story shapes
	used 0 0
	kind array 0 0 0 0
	ask '[.denials[].bytes] | min >= 67108864' true
	agrees
}

@test "after each refusal the next small request is served" {
	CUWARD_PINNED=8M story small_next
	ask '.denials | group_by(.api) | map("\(.[0].api) \(map(.count) | add)") | join(" ")' "\"$(xargs <<-END
		cuArray3DCreate_v2 3 cuArrayCreate_v2 3 cuGraphLaunch 3 cuMemAlloc 3 cuMemAllocAsync 3 cuMemAllocFromPoolAsync 3
		cuMemAllocManaged 3 cuMemAllocPitch 3 cuMemAllocPitch_v2 3 cuMemAlloc_v2 3 cuMemCreate 6 cuMipmappedArrayCreate 3
	END
	)\""
	used 0 $((32 * MiB + 1))
	leaks '[]'
	agrees
}

@test "heaps of contexts: shown, or charged as they grow and shrink" {
	export CUWARD_SIM_CONTEXT_BYTES=0
	story heaps
	[ "$output" = "0 0 0 0 0 0 0" ]
	ask '.devices[0] | [.used_bytes, .overhead_bytes, .untracked_bytes]' "[0,$((8 * MiB)),0]"
	CUWARD_OVERHEAD=charge story heaps
	[ "$output" = "0 16 24 24 8 40 8" ]
	used $((8 * MiB)) $((40 * MiB))
}

@test "freed by threads without a context, with another one, of another GPU" {
	for who in nobody context device gone; do
		WHO=$who guest 0 "$apps/lives" elsewhere
		echo "$who: $output"
		agrees
		ask '.devices[0].used_bytes' "$output"
		for kind in device pool managed vmm array; do
			truth process.0.device.0.$kind.bytes "$(jq ".processes[0].memory.$kind.live_bytes" r.json)"
			truth process.0.device.0.$kind.live "$(jq ".processes[0].memory.$kind.live" r.json)"
		done
		used 0 0 1
		# What can be freed anywhere was: a MiB is left on purpose.
		[ "$output" -ge $MiB ]
		[ "$output" -le $((2 * MiB)) ]
	done
}

@test "a primary context that was retained around everybody takes its memory along all the same" {
	CUWARD_SIM_CONTEXT_BYTES=0 story unseen
	used 0 $((64 * MiB))
	kind device 0 0 4 4
	findings '[["context-reclaimed",2]]'
	leaks '[]'
	agrees
}

@test "the trace names the stream that was meant, whatever its twin calls it" {
	[ -e "$B/libcuward-lttng.so" ] || skip "built without LTTng"
	"$B/cuward" run -q --sim --trace=trace "$apps/lives" streams
	# 1 is the legacy default stream, 2 that of the thread.
	[ "$(babeltrace2 trace | sed -n 's/.*cuward:alloc:.* bytes = \([0-9]*\),.* stream = \(0x[0-9A-Fa-f]*\).*/\1 \2/p' | xargs)" = \
		"1000 0x1 2000 0x2 3000 0x2 4000 0x1" ]
}
