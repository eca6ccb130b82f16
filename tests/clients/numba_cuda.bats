#!/usr/bin/env bats
# NVIDIA's own Numba, which took the place of the CUDA part of Numba's: it calls through cuda-python, compiles
# kernels by NVVM and loads them as PTX.

load client.bash

setup() {
	client_setup
	export PATH=/usr/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 HOME=$PWD
	export PYTHONPATH=$TOP/build/clients/numba-cuda
	export CUDA_HOME=$PYTHONPATH/nvidia/cu13 LD_LIBRARY_PATH=$PYTHONPATH/nvidia/cu13/lib
	# Nothing of the system's packages: an older Numba may be there.
	use=(python3 -S "$TOP/tests/clients/use_numba_cuda.py")
	[ -d "$PYTHONPATH" ] || skip "there is no numba-cuda"
	export CUWARD_SIM_MEMORY=100M CUWARD_SIM_CONTEXT_BYTES=0
	with="-m 100M"
}

teardown() { client_teardown; }

@test "numba-cuda: a training loop of kernels in Python" {
	with="-m 100M --fail-on leak"
	both "${use[@]}" train
	settled ward
	printf '%s\n' "['numba_cuda', 'numba', 'cuda', '__init__.py']" "loss (262144,)" "loss (262144,)" "loss (262144,)" \
		"time True" | diff - ward.out
	ask ward.timeline '[.kernels[].launches]' '[12,12]'
	ask ward.timeline '[.kernels[] | .name | test("forward|backward")]' '[true,true]'
	# The weights, twelve batches; the loss three times.
	ask ward.timeline '.processes[0].copies | [.htod, .dtoh | .count, .bytes]' "[13,$((13 * MiB)),3,$((3 * MiB))]"
	ask ward.json '.processes[0].memory | [.device, .pinned | .allocs, .frees]' '[14,14,1,1]'
	ask ward.json '.processes[0].devices[0].peak_bytes >= 3145728' true
}

@test "numba-cuda: a GPU that is full, by the driver's word and by ours" {
	both "${use[@]}" refused
	settled ward
	grep -q 'CUDA_ERROR_OUT_OF_MEMORY' ward.out
	grep -qx 'held 6' ward.out
	grep -qx "went on $MiB" ward.out
	mv ward.out full.out
	rm -r ward.*
	export CUWARD_SIM_MEMORY=1G
	warded ward "${use[@]}" refused
	[ $status -eq 0 ]
	diff full.out ward.out
	settled ward
	went_through ward
	ask ward.json '[.processes[0].denials[] | [.api, .bytes, .limit_bytes, .used_bytes]] | unique' \
		"[[\"cuMemAlloc_v2\",$((16 * MiB)),$((100 * MiB)),$((96 * MiB))]]"
}
