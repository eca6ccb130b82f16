#!/usr/bin/env bats
# NVIDIA's binding of the driver for Python: it looks up every function there is by cuGetProcAddress.

load client.bash

setup() {
	client_setup
	export PATH=/usr/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$TOP/build/clients/cuda-python
	python3 -c 'from cuda.bindings import driver' 2>/dev/null || skip "there is no cuda-python"
	use=(python3 "$TOP/tests/clients/use_cuda_python.py")
	export CUWARD_SIM_MEMORY=80M CUWARD_SIM_CONTEXT_BYTES=0
	with="-m 80M"
}

teardown() { client_teardown; }

@test "cuda-python: batches in pools, streams, a graph" {
	both "${use[@]}" train
	settled ward
	[ "$(cat ward.out)" = trained ]
	ask ward.json '.processes[0].coverage | .hooked > 430 and .hooked + .passed_through == .looked_up' true
	ask ward.json '.processes[0].memory | [.device, .pool | .allocs, .frees]' '[1,1,10,10]'
	ask ward.json '.processes[0].memory.pinned | [.allocs, .frees, .peak_bytes]' "[1,1,$MiB]"
	ask ward.json '.processes[0].objects | [.stream, .event, .module | .created, .live]' '[2,0,1,0,1,0]'
	# Ten launches, and ten of a graph of four kernels; the four that were captured ran in it alone.
	[ "$(calls_of ward cuLaunchKernel)" -eq 14 ]
	[ "$(calls_of ward cuGraphLaunch)" -eq 10 ]
	ask ward.timeline '.kernels | map([.name, .launches]) | sort' '[["(graph)",10],["step",14]]'
	ask ward.timeline '.processes[0].copies.htod | [.count, .bytes]' "[10,$((10 * MiB))]"
}

@test "cuda-python: segments until the GPU is full" {
	both "${use[@]}" segments
	settled ward
	printf '%s\n' CUDA_ERROR_OUT_OF_MEMORY "segments 40" | diff - ward.out
	ask ward.json '.processes[0].memory.vmm | [.allocs, .frees, .peak_bytes]' "[40,40,$((80 * MiB))]"
	ask ward.json '.processes[0].denials | map([.api, .bytes, .limit_bytes, .used_bytes, .count])' \
		"[[\"cuMemCreate\",$((2 * MiB)),$((80 * MiB)),$((80 * MiB)),1]]"
	[ "$(calls_seen ward cuMemCreate)" -eq 40 ]
}

@test "cuda-python: a limit between two segments" {
	export CUWARD_SIM_MEMORY=1G
	with="-m 31M"
	warded ward "${use[@]}" segments
	[ $status -eq 0 ]
	[ "$(tail -n 1 ward.out)" = "segments 15" ]
	settled ward
	went_through ward
}
