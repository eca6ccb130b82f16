#!/usr/bin/env bats
# Taichi brings LLVM of its own and no NVRTC, and all its arrays are stream-ordered memory. Its library is
# opened with RTLD_DEEPBIND: the dlsym that finds the driver's functions is libc's, not ours.

load client.bash

setup() {
	client_setup
	export PATH=/usr/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 HOME=$PWD
	export PYTHONPATH=$TOP/build/clients/taichi
	python3 -c 'import taichi' >/dev/null 2>&1 || skip "there is no Taichi"
	use=(python3 "$TOP/tests/clients/use_taichi.py")
	export CUWARD_SIM_MEMORY=1G CUWARD_SIM_CONTEXT_BYTES=0
	with="-m 1G"
}

teardown() { client_teardown; }

@test "taichi: a simulation" {
	both "${use[@]}"
	settled ward
	grep -qx done ward.out
	# A copy there and back of a field, of an array and of an array of NumPy's, at least.
	bytes=$((4 * (256 * 256 + 64 * 64)))
	ask ward.timeline ".processes[0].copies | .dtoh.bytes > $bytes and .htod.bytes > 0" true
	ask ward.timeline '.processes[0] | [.launches, ([.copies[].count] | add)]' \
		"[$(calls_of ward cuLaunchKernel),$(awk '$3 ~ /^cuMem(cpy|set)/' ward.calls | wc -l)]"
	ask ward.json '.processes[0] | .calls.cuMemAllocAsync.count > 20 and .memory.pool.allocs > 20' true
	# The field, two ints and the array at least; no copy of all of it twice.
	ask ward.json ".processes[0].devices[0] | .peak_bytes >= $bytes and .peak_bytes < 2 * $bytes" true
	ask ward.json '.processes[0].findings | map(select(.code == "deepbind"))' '[]'
}

@test "taichi: a limit that is too small is to it a GPU that is full" {
	CUWARD_SIM_FAULT=cuMemAllocAsync:1+:2 bare bare "${use[@]}"
	[ $status -eq 1 ]
	with="-m 100K"
	warded ward "${use[@]}"
	[ $status -eq 1 ]
	diff bare.out ward.out
	error='^RuntimeError: .*CUDA_ERROR_OUT_OF_MEMORY: out of memory while calling malloc_async_impl (cuMemAllocAsync)$'
	grep -q "$error" bare.err
	grep -q "$error" ward.err
	ask ward.json '.processes[0].denials | map([.api, .bytes, .limit_bytes])' \
		"[[\"cuMemAllocAsync\",$((256 * 256 * 4)),$((100 << 10))]]"
	went_through ward
}
