#!/usr/bin/env bats
# tinygrad trains a model: it finds the driver's file itself, compiles its kernels with NVRTC and keeps freed
# memory for later. This stands for any training script.

load client.bash

setup() {
	client_setup
	toolkit
	export PATH=/usr/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 HOME=$PWD
	export PYTHONPATH=$TOP/build/clients/tinygrad NVRTC_PATH=$toolkit/lib/libnvrtc.so.13
	export LD_LIBRARY_PATH=$toolkit/lib DEV=CUDA TRAINING=1 CACHELEVEL=0 PARALLEL=0
	python3 -c 'import tinygrad' 2>/dev/null || skip "there is no tinygrad"
	use=(python3 "$TOP/tests/clients/use_tinygrad.py")
	export CUWARD_SIM_MEMORY=300M CUWARD_SIM_CONTEXT_BYTES=0
	with="-m 300M"
}

teardown() { client_teardown; }

# What it holds at the end it never gives back: the books and the driver agree about what.
kept() {
	count=$(($(calls_of ward cuMemAlloc_v2) - $(calls_of ward cuMemFree_v2) - $(jq '[.processes[0].denials[].count] | add // 0' ward.json)))
	[ $count -gt 0 ]
	ask ward.json '.processes[0].memory.device.live' $count
	ask ward.json '[.processes[0].leaks[] | select(.kind == "device") | .count] | add' $count
	ask ward.json '.processes[0] | .memory.device.live_bytes == ([.leaks[] | select(.kind == "device") | .bytes] | add)' true
	"$B/sim/truth" truth process.0.device.0.requested >requested
	ask ward.json '.processes[0].devices[0].used_bytes' "$(cat requested)"
}

@test "tinygrad: a model is trained" {
	bare bare "${use[@]}" train
	[ $status -eq 0 ]
	[ "$(grep -c '^step [0-3] ' bare.out)" -eq 4 ]
	export CUWARD_SIM_TRUTH=$PWD/truth
	warded ward "${use[@]}" train
	[ $status -eq 0 ]
	diff bare.out ward.out
	diff <(words_of bare) <(words_of ward)
	same_calls bare ward
	whole ward
	kept
	ask ward.timeline '.processes[0] | .launches == ([.devices[].streams[].launches] | add)' true
	ask ward.timeline '.processes[0].launches' "$(calls_of ward cuLaunchKernel)"
	[ "$(calls_of ward cuLaunchKernel)" -gt 50 ]
	ask ward.timeline '.processes[0] | .devices[0].peak_bytes == .devices[0].final_bytes' \
		"$(jq '.processes[0].devices[0] | .peak_bytes == .used_bytes' ward.json)"
}

@test "tinygrad: a batch that does not fit is its MemoryError, as on a GPU that is full" {
	bare bare "${use[@]}" refused
	[ $status -eq 0 ]
	export CUWARD_SIM_TRUTH=$PWD/truth
	warded ward "${use[@]}" refused
	[ $status -eq 0 ]
	diff bare.out ward.out
	grep -q '^MemoryError Allocation of ' ward.out
	grep -q '^step 0 ' ward.out
	same_calls bare ward
	whole ward
	kept
	ask ward.json '.processes[0].denials | map(.api) | unique' '["cuMemAlloc_v2"]'
	with="-m 300M --fail-on denied"
	rm -r ward.* truth
	warded ward "${use[@]}" refused
	[ $status -eq 25 ]
}
