#!/usr/bin/env bats
# Debian's PyCUDA: linked with libcuda.so.1 and bound at once, 150 functions, those of CUDA 2 too.

load client.bash

setup() {
	client_setup
	root=$TOP/build/clients/pycuda/unpacked/usr/lib
	[ -d "$root" ] || skip "there is no PyCUDA"
	# The system's Python, which that PyCUDA is built for.
	export PYTHONPATH=$root/python3/dist-packages PATH=/usr/bin:$PATH PYTHONDONTWRITEBYTECODE=1
	export LD_LIBRARY_PATH=$(dirname "$(find "$root" -name 'libcurand.so.10')")
	use=(python3 "$TOP/tests/clients/use_pycuda.py")
}

teardown() { client_teardown; }

@test "pycuda: all kinds of memory, copies and events" {
	export CUWARD_SIM_MEMORY=1G
	with="-m 1G"
	both "${use[@]}" memory
	settled ward
	printf '%s\n' "device True" "pinned True" "managed 0" "pitch True True" "array 256 256" \
		"range $((256 << 10))" "event True True" "total 1024 MiB" | diff - ward.out
	ask ward.json '.processes[0].memory | [.device, .managed, .pinned | .allocs, .frees]' \
		'[3,3,1,1,1,1]'
	ask ward.json '.processes[0].memory | [.managed, .pinned | .peak_bytes]' "[8000,$((256 << 10))]"
	ask ward.json '.processes[0].objects | [.context, .stream, .event | .created, .live]' '[1,0,1,0,2,0]'
	# Three from the host to the device (one by rows of 100 bytes), one within, three back, one set.
	ask ward.timeline '.processes[0].copies | [.htod, .dtoh, .dtod, .set | .count]' '[3,3,1,1]'
	ask ward.timeline '.processes[0].copies | [.htod, .dtoh, .dtod, .set | .bytes]' \
		"[$((2 * (256 << 10) + 1000)),$((2 * (256 << 10) + 100)),$((256 << 10)),$((256 << 10))]"
}

@test "pycuda: a limit is the size of the GPU" {
	with="-m 200M"
	warded ward "${use[@]}" memory
	[ $status -eq 0 ]
	grep -qx "total 200 MiB" ward.out
}

@test "pycuda: its memory pool" {
	with="-m 1G"
	both "${use[@]}" pool
	settled ward
	printf '%s\n' "4 0" "4 0" "4 0" "0 4" "0 0" | diff - ward.out
	# It takes blocks of its own size classes: a little over what it was asked for.
	ask ward.json '.processes[0].memory.device | [.allocs, .frees]' '[4,4]'
	peak=$(jq '.processes[0].memory.device.peak_bytes' ward.json)
	[ "$peak" -ge $((4 * MiB)) ]
	[ "$peak" -lt $((5 * MiB)) ]
	ask ward.timeline ".processes[0].devices[0].memory | map(.[1] / $peak)" '[0.25,0.5,0.75,1,0.75,0.5,0.25,0]'
}

@test "pycuda: a refusal is its MemoryError, and the program goes on" {
	# Bare it is the GPU that is full.
	export CUWARD_SIM_MEMORY=300M CUWARD_SIM_CONTEXT_BYTES=0
	with="-m 300M"
	both "${use[@]}" refused
	settled ward
	printf '%s\n' "pycuda._driver MemoryError cuMemAlloc failed: out of memory" "held 4" \
		"cuMemAllocPitch failed: out of memory" "went on with 4 1" | diff - ward.out
	# An allocation is tried again after a garbage collection, from another place in the code.
	ask ward.json '[.processes[0].denials[] | [.scope, .limit_bytes, .used_bytes]] | unique' \
		"[[\"process\",$((300 * MiB)),$((256 * MiB))]]"
	ask ward.json '[.processes[0].denials | group_by(.api)[] | [.[0].api, ([.[].count] | add)]]' \
		'[["cuMemAllocPitch_v2",1],["cuMemAlloc_v2",2]]'
	ask ward.timeline '.processes[0].devices[0] | [.denied, .peak_bytes, .limit_bytes]' \
		"[3,$((256 * MiB)),$((300 * MiB))]"
	with="-m 300M --fail-on denied"
	rm -r ward.*
	warded ward "${use[@]}" refused
	[ $status -eq 25 ]
}

@test "pycuda: a module, and every way to launch" {
	export CUWARD_SIM_KERNEL_NS=1000
	with="-m 1G"
	both "${use[@]}" launch
	settled ward
	printf '%s\n' "table True 400" "cuModuleGetFunction failed: named symbol not found" \
		"cuFuncSetBlockShape failed: invalid argument" | diff - ward.out
	ask ward.json '.processes[0].calls | [.cuLaunchKernel, .cuLaunch, .cuLaunchGrid, .cuLaunchGridAsync | .count]' \
		'[8,1,1,1]'
	ask ward.timeline '.processes[0].launches' 11
	# No stream (allocations), the default stream, and the one made there.
	ask ward.timeline '[.processes[0].devices[0].streams[].launches]' '[0,8,3]'
}

@test "pycuda: a module that nvcc makes" {
	command -v nvcc >/dev/null || export PATH=$PATH:/usr/local/cuda/bin
	nvcc --version >/dev/null 2>&1 || skip "no nvcc"
	with="-m 1G"
	both "${use[@]}" compiled
	settled ward
	echo "sum 400" | diff - ward.out
	ask ward.timeline '[.processes[0] | .launches, .copies.htod.bytes]' '[1,400]'
	# The compiler and its helpers ran under cuward too, and used no CUDA.
	ask ward.json '[.processes[].command]' '["python3"]'
}

@test "pycuda: what is left to the context is no leak" {
	with="-m 1G --fail-on leak"
	both "${use[@]}" reclaimed
	settled ward
	ask ward.json '.processes[0].memory.device' \
		"{\"live_bytes\":0,\"live\":0,\"peak_bytes\":$((3 * MiB)),\"allocs\":3,\"frees\":3}"
	ask ward.json '.processes[0].findings | map(select(.code == "context-reclaimed"))' \
		'[{"code":"context-reclaimed","count":3,"text":"memory left to the destruction of its context"}]'
	[ "$(calls_of ward cuMemFree_v2)" -eq 0 ]
	ask ward.timeline '.processes[0].devices[0] | [.peak_bytes, .final_bytes]' "[$((3 * MiB)),0]"
}

@test "pycuda: what is lost is a leak" {
	with="-m 1G --fail-on leak"
	warded ward "${use[@]}" leak
	[ $status -eq 23 ]
	grep -q "^cuward: python3 (pid [0-9]*) leaked 3 MiB in 3 allocations:$" ward.err
	ask ward.json '.processes[0].leaks[] | [.verdict, .kind, .api, .bytes, .count]' \
		"[\"leak\",\"device\",\"cuMemAlloc_v2\",$((3 * MiB)),3]"
	ask ward.json '.processes[0].leaks[0].native[0].module | startswith("_driver.cpython-")' true
	ask ward.timeline '.processes[0] | [.leaks.leak | .count, .bytes]' "[3,$((3 * MiB))]"
}

@test "pycuda: a thread a GPU, a limit a GPU" {
	export CUWARD_SIM_DEVICES=2 CUWARD_SIM_CONTEXT_BYTES=0 CUWARD_SIM_MEMORY=128M,200M
	with="-m 0=128M,1=200M"
	both "${use[@]}" threads
	settled ward
	echo "4 6" | diff - ward.out
	ask ward.json '[.processes[0].devices[] | [.limits[0].bytes, .peak_bytes, .denied, .denied_bytes]]' \
		"[[$((128 * MiB)),$((128 * MiB)),2,$((64 * MiB))],[$((200 * MiB)),$((192 * MiB)),2,$((64 * MiB))]]"
	ask ward.timeline '[.processes[0] | .threads, .contexts, (.devices[] | .allocs, .denied)]' '[2,2,4,2,6,2]'
}
