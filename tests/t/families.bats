#!/usr/bin/env bats
# Every way to get GPU memory beside plain allocations: what is charged, step by step (the program
# itself checks that, see tests/apps/families.c), then the report, and the driver's truth.

load guest

setup() {
	guest_setup
	export CUWARD_MEMORY=0=256M CUWARD_SIM_DEVICES=2
}

teardown() { guest_teardown; }

# story NAME: one story under a limit of 256 MiB.
story() { guest 0 "$apps/families" "$1"; }

# Live memory is what the driver's truth says, family by family.
agrees() {
	local family
	for family in device pool managed vmm array; do
		truth process.0.device.0.$family.bytes "$(jq ".processes[0].memory.$family.live_bytes" r.json)"
		# The driver counts the levels of a mipmap one by one, and no array without memory.
		[ $family = array ] ||
			truth process.0.device.0.$family.live "$(jq ".processes[0].memory.$family.live" r.json)"
	done
}

objects() { ask ".objects.$1 | [.created, .live]" "[$2,$3]"; }

@test "physical memory: any order of release and unmap" {
	story vmm_orders
	kind vmm 0 0 6 6
	objects mapping 5 0
	objects address_range 1 0
	findings '[]'
	leaks '[]'
	agrees
}

@test "physical memory: the limit, host memory, a release too many" {
	story vmm_limit
	kind vmm $((2 * MiB)) 1 2 1
	kind pinned 0 0 1 1
	denied 1 $((2 * MiB))
	ask '[.denials[] | [.api, .count]]' '[["cuMemCreate",1]]'
	leaks "[[\"leak\",\"vmm\",$((2 * MiB)),1]]"
	findings '[["double-free",1]]'
	agrees
}

@test "physical memory outlives the context" {
	story vmm_context
	leaks "[[\"leak\",\"vmm\",$((2 * MiB)),1]]"
	findings '[]'
	agrees
}

@test "physical memory: odd requests, handle types, many handles in one range" {
	story vmm_odd
	kind vmm 0 0 20 20
	ask '[.denials[] | [.api, .bytes, .count]]' "[[\"cuMemCreate\",$((258 * MiB)),1]]"
	leaks '[]'
	agrees
}

@test "an exported descriptor is no leak" {
	story exported_and_kept
	leaks "[[\"leak\",\"vmm\",$((2 * MiB)),1]]"
}

@test "physical memory of another process" {
	report=$PWD/r-%p.json
	importer() { mv "$(grep -l cuMemImportFromShareableHandle r-*.json)" r.json; }
	story vmm_export
	importer
	kind imported 0 0 1 1
	ask '.memory.imported.peak_bytes' $((8 * MiB))
	leaks '[]'
	used 0 0
	CUWARD_IMPORTED=charge story vmm_export
	importer
	used 0 $((8 * MiB))
	LEAVE=1 story vmm_export
	importer
	leaks "[[\"imported\",\"imported\",$((8 * MiB)),1]]"
}

@test "sparse arrays hold what is mapped into them" {
	story sparse
	kind vmm 0 0 2 2
	objects mapping 3 0
	leaks '[]'
	findings '[]'
	agrees
}

@test "ten thousand stream-ordered allocations: no drift" {
	story pool_cycles
	kind pool 0 0 10000 10000
	findings '[]'
	agrees
}

@test "pool memory of another process" {
	report=$PWD/r-%p.json
	story pool_export
	mv "$(grep -l cuMemPoolImportPointer r-*.json)" r.json
	kind imported 0 0 1 1
	ask '.memory.imported.peak_bytes' $((4 * MiB))
	leaks '[]'
}

@test "one limit for all paths and families" {
	story three_paths
	used $((240 * MiB)) $((240 * MiB))
	denied 2 $((34 * MiB))
	agrees
}

@test "multicast objects hold no memory" {
	story multicast
	ask '[.memory[].allocs] | add' 0
	objects multicast 2 1
	objects mapping 1 0
	leaks '[]'
	findings "[[\"objects-live\",1]]"
}

@test "our own memory imported again is no second charge" {
	story import_own
	leaks '[]'
	findings '[]'
	ask '.devices[0].peak_bytes' $((2 * MiB))
	agrees
}

@test "arrays: sizes of shapes and formats" {
	story arrays
	[ "$output" = $'320\n24576\n1024\n128\n400\n384\n0' ]
	kind array 26832 7 9 2
	denied 1 $((512 * MiB))
	findings '[["double-free",1]]'
	agrees
}

@test "mipmaps: levels, and none twice" {
	story mipmaps
	kind array 320 1 2 1
	leaks '[["leak","array",320,1]]'
	agrees
}

@test "arrays die with their context" {
	story array_context
	kind array 0 0 1 1
	findings '[["context-reclaimed",1]]'
	leaks '[]'
	agrees
}

@test "graph memory: refused as a node, refused at launch, charged as reserved" {
	story graph_memory
	kind graph 0 0 1 1
	ask '.denials | map([.api, .count]) | sort' \
		'[["cuGraphAddMemAllocNode",1],["cuGraphAddNode",1],["cuGraphAddNode_v2",1],["cuGraphLaunch",1],["cuGraphUpload",1]]'
	ask '.devices[0].peak_bytes <= 268435456' true
	findings '[]'
}

@test "a graph that is launched again gives up first what it left behind" {
	story graph_again
	denied 0 0
	kind graph 0 0 2 2
	ask '.devices[0].peak_bytes' $((224 * MiB))
}

@test "graph memory freed outside its graph is no invalid free" {
	story graph_freed_outside
	findings '[]'
	leaks '[]'
}

@test "a captured allocation is the graph's" {
	story captured
	kind pool 0 0 0 0
	kind graph 0 0 1 1
	denied 1 $((512 * MiB))
	findings '[]'
}

@test "external memory" {
	story external
	kind imported 0 0 2 2
	ask '.memory.imported.peak_bytes' $((4 * MiB))
	leaks '[]'
	agrees
}

@test "IPC memory: opened twice, closed once" {
	report=$PWD/r-%p.json
	story ipc
	mv "$(grep -l '"imported": { "live_bytes": 8388608' r-*.json)" r.json
	kind imported $((8 * MiB)) 1 1 0
	leaks "[[\"imported\",\"imported\",$((8 * MiB)),1]]"
	findings '[["invalid-free",1]]'
	used 0 0
	CLOSE_ALL=1 story ipc
	mv "$(grep -l '"imported": { "live_bytes": 0, "live": 0, "peak_bytes": 8388608' r-*.json)" r.json
	kind imported 0 0 1 1
	leaks '[]'
}

@test "IPC memory can be charged" {
	report=$PWD/r-%p.json
	CUWARD_IMPORTED=charge story ipc_charged
	mv "$(grep -l cuIpcOpenMemHandle_v2 r-*.json)" r.json
	ask '.denials | map([.api, .bytes, .count]) | sort' \
		"[[\"cuIpcOpenMemHandle\",$((8 * MiB)),1],[\"cuIpcOpenMemHandle_v2\",$((8 * MiB)),1]]"
	used 0 $((252 * MiB))
	# A driver that does not say how large it is when it is asked is asked again.
	NOT_TOLD=1 CUWARD_SIM_FAULT=cuMemGetAddressRange_v2:5:999 CUWARD_IMPORTED=charge story ipc_charged
}

@test "every import can be charged, and is refused where there is no room" {
	export CUWARD_IMPORTED=charge
	story external
	ask '.denials | map([.api, .bytes, .count])' "[[\"cuImportExternalMemory\",$((4 * MiB)),1]]"
	kind imported 0 0 2 2
	export report=$PWD/r-%p.json FILL=1
	for row in vmm_export:cuMemImportFromShareableHandle:8 pool_export:cuMemPoolImportPointer:4; do
		IFS=: read -r name api size <<<"$row"
		story "$name"
		mv "$(grep -l "\"$api\"" r-*.json)" r.json
		ask '.denials | map([.api, .bytes, .count])' "[[\"$api\",$((size * MiB)),1]]"
		kind imported 0 0 1 1
		used 0 $(((256 - 2) * MiB))
	done
}

@test "pools: what is live, or what they keep" {
	story pool_reserved
	used 0 $((100 * MiB))
	findings "[[\"pool-not-destroyed\",1],[\"pool-reserved\",1]]"
	CUWARD_POOLS=reserved story pool_reserved
	used 0 $((200 * MiB))
	denied 1 $((200 * MiB))
}

@test "pools charged for what they keep: it may be had again, and none of it counts twice" {
	CUWARD_POOLS=reserved story pool_reused
	used 0 $((200 * MiB))
	denied 2 $((200 * MiB))
	kind pool 0 0 103 103
}

@test "hundreds of pools: each GPU pays for its own, and none for the host's" {
	story pool_many
	used $((100 * MiB)) $((100 * MiB))
	used $((200 * MiB)) $((200 * MiB)) 1
	kind pool $((300 * MiB)) 2 2 0
	kind pinned $((300 * MiB)) 1 1 0
	denied 1 $((200 * MiB))
}

@test "a pool of host memory costs no GPU" {
	story pool_on_host
	kind pinned 0 0 1 1
	ask '.memory.pinned.peak_bytes' $((512 * MiB))
	used 0 0
}

@test "managed and pinned memory with limits of their own" {
	CUWARD_MANAGED=8M CUWARD_PINNED=2M story kinds
	ask '[.denials[] | [.api, .bytes, .limit_bytes, .used_bytes]]' \
		"[[\"cuMemAllocManaged\",$((4 * MiB + 1)),$((8 * MiB)),$((4 * MiB))],[\"cuMemHostAlloc\",1,$((2 * MiB)),$((2 * MiB))]]"
	kind managed $((8 * MiB)) 1 2 1
	used 0 0
}

@test "contexts: what they take is shown, charged, or a fixed charge" {
	export CUWARD_SIM_CONTEXT_BYTES=345M
	overhead='[.devices[0].overhead_bytes, (.findings | map(select(.code == "context-overhead").text))]'
	taken=$((346 * MiB)) # in blocks of 2 MiB
	story overhead
	[ "$output" = "$((256 * MiB)) of $((256 * MiB))" ]
	ask "$overhead" "[$taken,[\"contexts and modules took memory of their own: 346 MiB\"]]"
	ask '.devices[0].untracked_bytes' 0
	used $((256 * MiB)) $((256 * MiB))
	CUWARD_OVERHEAD=charge story overhead
	[ "$output" = "0 of $((256 * MiB))" ]
	used $taken $taken
	CUWARD_OVERHEAD=100M story overhead
	[ "$output" = "$((156 * MiB)) of $((256 * MiB))" ]
	used $((256 * MiB)) $((256 * MiB))
	CUWARD_SIM_CONTEXT_BYTES=0 story overhead
	ask "$overhead" '[null,[]]'
}

@test "modules: what they take goes with them" {
	CUWARD_SIM_CONTEXT_BYTES=0 CUWARD_SIM_MODULE_BYTES=50M story modules
	ask '.devices[0] | [.overhead_bytes, .untracked_bytes]' "[$((50 * MiB)),0]"
}

@test "green contexts own nothing; their streams outlive them" {
	story green
	kind device 0 0 1 1
	ask '[.findings[].code] | sort' \
		'["context-overhead","context-reclaimed","double-free","green-context"]'
	objects green_context 1 0
	STREAM_FIRST=1 story green
	ask '[.findings[].code] | sort' '["context-overhead","context-reclaimed","double-free"]'
	objects stream 1 0
}

@test "objects are counted" {
	story objects
	for object in library kernel link texture_reference user_object graph; do
		objects $object 1 0
	done
	LEAVE=1 story objects
	for object in library kernel link texture_reference user_object graph; do
		objects $object 1 1
	done
}

@test "objects of all kinds: the report, the program and the driver agree" {
	guest 0 "$apps/handles"
	[ "$(wc -l <<<"$output")" -eq 12 ]
	while read -r name made there; do
		[ "$name" != stream ] || made=$((made + 1)) # one more was captured
		objects "$name" "$made" "$there"
		truth "process.0.object.$name.created" "$made"
		truth "process.0.object.$name.live" "$there"
	done <<<"$output"
	objects context 2 1
	findings '[["pool-not-destroyed",1],["objects-live",20]]'
	ask '.memory.array | [.live, .live_bytes]' '[1,256]'
}

@test "a setting that is no word is refused" {
	for setting in MANAGED=some PINNED=-1 IMPORTED=yes POOLS=all OVERHEAD=hide; do
		CUWARD_LOG=off guest 1 env CUWARD_$setting "$apps/families" vmm_limit
		[[ "$output" == *'is 0x320, not 0'* ]] # cuInit: not permitted
	done
	run env CUWARD_POOLS=all "$B/cuward" run --sim -- true
	[ "$status" -eq 125 ]
	[ "$output" = 'cuward: CUWARD_POOLS: "all" must be live or reserved' ]
}

@test "overhead of a fixed size, before anybody asked the driver: the rest is unknown" {
	CUWARD_OVERHEAD=200M guest 0 "$apps/play" init device 0
	ask '.devices[0] | [.used_bytes, .overhead_bytes, .untracked_bytes]' "[$((200 * MiB)),$((200 * MiB)),null]"
}
