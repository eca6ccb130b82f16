#!/usr/bin/env bats
# Memory that graphs allocate: tests/apps/graphs.c looks at each step itself; here the report, and the driver's truth.

load guest

setup() {
	guest_setup
	export CUWARD_MEMORY=0=64M CUWARD_SIM_DEVICES=2
}

teardown() { guest_teardown; }

# story NAME: it went well, and nothing but graphs was charged at the end.
story() {
	guest 0 "$apps/graphs" "$1"
	[ -z "$output" ]
	truth process.0.device.0.graph_reserved "$(jq '.processes[0].memory.graph.live_bytes' r.json)"
	truth process.0.device.0.requested 0
	ask '.devices[0].peak_bytes <= 67108864' true
}

denials() { ask '.denials | group_by([.api, .bytes]) | map([.[0].api, .[0].bytes, (map(.count) | add)])' "$1"; }

@test "freed on launch: launched again and again, memory once, no leak once it is trimmed" {
	story auto_free
	kind graph 0 0 1 1
	used 0 $((32 * MiB))
	truth process.0.device.0.graph_reserved_high $((32 * MiB))
	leaks '[]'
	findings '[]'
	denials '[]'
	ask '[.objects.graph, .objects.graph_exec | [.created, .live]]' '[[1,0],[2,0]]'
	ask '.calls | [.cuGraphLaunch.count, .cuGraphLaunch_ptsz.count]' '[6,1]'
	# What was never trimmed is held by the device until the process ends; nobody leaked it.
	LEAVE=1 story auto_free
	used $((16 * MiB)) $((32 * MiB))
	kind graph $((16 * MiB)) 1 1 0
	leaks "[[\"held\",\"graph\",$((16 * MiB)),1]]"
}

@test "freed on launch, right at the limit" {
	story auto_free_at_the_limit
	used 0 $((64 * MiB))
	denials "[[\"cuGraphLaunch\",$((2 * MiB)),4],[\"cuMemAlloc_v2\",1,4]]"
}

@test "freed on launch, and the launch fails: what was freed is taken anew" {
	export CUWARD_SIM_MEMORY=96M CUWARD_SIM_CONTEXT_BYTES=16M
	story launch_fails
	used 0 $((56 * MiB))
	truth process.0.device.0.taken_high $((56 * MiB))
	denials "[[\"cuGraphLaunch\",$((16 * MiB)),1]]"
}

@test "not freed on launch: by hand, by any call, and what was freed may be trimmed" {
	story freed_by_hand
	used $((8 * MiB)) $((8 * MiB))
	findings '[["invalid-free",1],["objects-live",2]]'
	kind graph $((8 * MiB)) 1 2 1
	leaks "[[\"held\",\"graph\",$((8 * MiB)),1]]"
	denials '[]'
}

@test "an upload takes what the launch would, also in the call that instantiates" {
	story uploaded
	used 0 $((48 * MiB))
	denials "[[\"cuGraphInstantiateWithParams\",$((48 * MiB)),1],[\"cuGraphInstantiateWithParams_ptsz\",$((48 * MiB)),1]]"
	ask '.objects.graph_exec' '{"created":2,"live":0}'
}

@test "nodes by every call that makes one" {
	calls="cuGraphAddMemAllocNode cuGraphAddNode cuGraphAddNode_v2"
	export LD_LIBRARY_PATH=$B/sim/future
	! grep -q '^	X(cuGraphAddNode_v3,' "$B/gen/driver_calls.h" || calls+=" cuGraphAddNode_v3"
	story nodes
	used 0 $((24 * MiB))
	denials "$(for call in $calls; do echo "[\"$call\",$((64 * MiB + 1)),1]"; done | jq -sc .)"
	leaks '[]'
}

@test "a graph in a graph" {
	story inner
	denials "[[\"cuGraphLaunch\",$((40 * MiB)),1],[\"cuGraphUpload\",$((40 * MiB)),1]]"
}

@test "captured by both kinds of streams" {
	story captured
	used 0 $((40 * MiB))
	kind pool 0 0 0 0
	denials "[[\"cuMemAllocAsync_ptsz\",$((64 * MiB + 1)),1]]"
	leaks '[]'
}
