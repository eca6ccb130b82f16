#!/usr/bin/env bats
# NVRTC, NVIDIA's compiler as a library: it looks for the driver on its own account.

load client.bash

setup() {
	client_setup
	toolkit
	$CC -O1 -o use -isystem "$toolkit/include" "$TOP/tests/clients/use_nvrtc.c" \
		"$toolkit/lib/libnvrtc.so.13" -L"$B/sim" -lcuda
	export LD_LIBRARY_PATH=$toolkit/lib
}

teardown() { client_teardown; }

@test "nvrtc: compiled, loaded, launched" {
	with="-m 1G"
	both ./use
	settled ward
	printf '%s\n' "compiled, 1" "done" | diff - ward.out
	bytes=$((4 << 16))
	ask ward.timeline '[.processes[0] | .launches, (.copies | .htod, .dtoh, .set | .count, .bytes)]' \
		"[5,1,$bytes,1,$bytes,1,$bytes]"
	ask ward.json '.processes[0].memory.device | [.allocs, .frees, .peak_bytes]' "[2,2,$((2 * bytes))]"
	ask ward.json '.processes[0].objects | [.context, .module | .created, .live]' '[1,0,1,0]'
	# The compiler asks for one of the driver's private tables, and does without.
	ask ward.json '.processes[0].calls.cuGetExportTable | .count > 0 and .count == .errors' true
}

@test "nvrtc: what it says of an error" {
	bare bare ./use broken
	[ $status -eq 3 ]
	warded ward ./use broken
	[ $status -eq 3 ]
	diff bare.out ward.out
	grep -q 'identifier "b" is undefined' ward.out
}

@test "nvrtc: a limit that is too small for both" {
	with="-m 300K --fail-on denied"
	warded ward ./use
	[ $status -eq 1 ]
	[ "$(tail -n 1 ward.out)" = "cuMemAlloc(&y, bytes): 2" ]
	whole ward
	ask ward.json '.processes[0].denials[] | [.bytes, .limit_bytes, .used_bytes, .count]' \
		"[$((4 << 16)),$((300 << 10)),$((4 << 16)),1]"
}
