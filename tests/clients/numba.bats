#!/usr/bin/env bats
# Debian's Numba: it calls by ctypes, tries each name with _v2 first, and frees with no context.

load client.bash

setup() {
	client_setup
	export PATH=/usr/bin:$PATH PYTHONDONTWRITEBYTECODE=1
	python3 -c 'import numba.cuda' 2>/dev/null || skip "no numba"
	# It does not work with drivers that know names of CUDA 13.
	use_profile 12.2
	use=(python3 "$TOP/tests/clients/use_numba.py")
	export CUWARD_SIM_MEMORY=300M CUWARD_SIM_CONTEXT_BYTES=0
	with="-m 300M"
}

teardown() { client_teardown; }

@test "numba: arrays in all kinds of memory" {
	with="-m 300M --fail-on leak"
	both "${use[@]}" arrays
	settled ward
	printf '%s\n' "device True" "stream True" "sums 1000 1000 2000" "event True" "total 300 MiB" |
		diff - ward.out
	ask ward.json '.processes[0].driver' '{"version":12020,"simulated":true}'
	# The registered array is pinned memory too.
	ask ward.json '.processes[0].memory | [.device, .managed, .pinned | .allocs, .frees, .peak_bytes]' \
		"[2,2,$((512 << 10)),1,1,8000,3,3,$((256 << 10))]"
	ask ward.json '.processes[0].objects | [.context, .stream, .event | .created, .live]' '[1,0,1,0,2,0]'
	ask ward.timeline '.processes[0].copies | [.htod, .dtoh, .dtod | .count, .bytes]' \
		"[2,$((512 << 10)),2,$((512 << 10)),1,$((256 << 10))]"
}

@test "numba: a refusal is its exception, and the program goes on" {
	both "${use[@]}" refused
	settled ward
	printf '%s\n' "CudaAPIError [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY" "held 4" \
		"went on with 4 1" | diff - ward.out
	ask ward.json '[.processes[0].denials[] | [.api, .bytes, .limit_bytes, .used_bytes]] | unique' \
		"[[\"cuMemAlloc_v2\",$((64 * MiB)),$((300 * MiB)),$((256 * MiB))]]"
	# Once, and again after it has freed what it keeps for later.
	ask ward.timeline '.processes[0].devices[0] | [.denied, .allocs, .frees, .peak_bytes]' \
		"[2,5,5,$((256 * MiB))]"
}

@test "numba: a kernel out of PTX text" {
	both "${use[@]}" launch
	settled ward
	ask ward.timeline '[.processes[0] | .launches, .copies.htod.bytes]' '[7,1024]'
	ask ward.json '.processes[0].objects.module' '{"created":1,"live":0}'
}

@test "numba: what it does not give back at the end is told" {
	with="-m 300M --fail-on leak"
	bare bare "${use[@]}" kept
	warded ward "${use[@]}" kept
	[ $status -eq 23 ]
	same_calls bare ward
	whole ward
	ask ward.json '.processes[0].leaks[] | [.verdict, .kind, .bytes, .count]' "[\"leak\",\"device\",$MiB,1]"
	ask ward.json '.processes[0].objects.context' '{"created":1,"live":1}'
}
