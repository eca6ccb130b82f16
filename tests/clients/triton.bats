#!/usr/bin/env bats
# Triton's driver layer: C that it compiles while it runs, linked to the driver, launching what its own
# compiler and ptxas made of a kernel in Python.

load client.bash

setup() {
	client_setup
	export PATH=/usr/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 HOME=$PWD
	export PYTHONPATH=$TOP/build/clients/triton TRITON_LIBCUDA_PATH=$B/sim
	python3 -c 'import triton' >/dev/null 2>&1 || skip "there is no Triton"
	use=(python3 "$TOP/tests/clients/use_triton.py")
	export CUWARD_SIM_MEMORY=1G CUWARD_SIM_CONTEXT_BYTES=0
	with="-m 2M"
}

teardown() { client_teardown; }

@test "triton: a kernel is compiled, loaded and launched" {
	both "${use[@]}"
	settled ward
	grep -qx 'kernel more [0-9]*' ward.out
	grep -qx done ward.out
	ask ward.timeline '[.kernels[] | [.name, .launches]]' '[["more",50]]'
	ask ward.json '.processes[0] | [.calls.cuLaunchKernelEx.count, .memory.device.allocs, .devices[0].peak_bytes]' \
		"[50,2,$((2 * MiB))]"
}

@test "triton: a limit that is too small is an error of the driver" {
	CUWARD_SIM_FAULT=cuMemAlloc_v2:2:2 bare bare "${use[@]}"
	[ $status -eq 1 ]
	with="-m 1M"
	warded ward "${use[@]}"
	[ $status -eq 1 ]
	diff bare.out ward.out
	[ "$(words_of bare)" = "error 2" ]
	[ "$(words_of ward)" = "error 2" ]
	ask ward.json '.processes[0].denials | map([.api, .bytes, .limit_bytes])' "[[\"cuMemAlloc_v2\",$MiB,$MiB]]"
	went_through ward
}
