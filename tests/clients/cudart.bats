#!/usr/bin/env bats
# NVIDIA's runtime, shared and static. It does not work with a driver that is not NVIDIA's and says so; what can
# be seen is that all its look-ups come by us, and that its words stay the same.

load client.bash

setup() {
	client_setup
	toolkit
	$CC -O1 -o shared -isystem "$toolkit/include" "$TOP/tests/clients/use_cudart.c" \
		"$toolkit/lib/libcudart.so.13" -Wl,-rpath,"$toolkit/lib"
	$CC -O1 -o static -isystem "$toolkit/include" "$TOP/tests/clients/use_cudart.c" \
		"$toolkit/lib/libcudart_static.a" -ldl -lrt -lpthread
}

teardown() { client_teardown; }

@test "cudart: every look-up is seen, and only graphics is not hooked" {
	for kind in shared static; do
		with="-m 1G"
		bare bare ./$kind
		[ $status -eq 0 ]
		warded ward ./$kind
		[ $status -eq 0 ]
		diff bare.out ward.out
		diff <(words_of bare) <(words_of ward)
		same_calls bare ward
		settled ward
		ask ward.json '[.processes[] | [.ended, .complete, .trace.lost, .dropped_records]]' '[["exit",true,0,0]]'
		ask ward.json '[.processes[].coverage | .unhooked[] | select(test("GL|EGL|Egl|VDPAU") | not)]' '[]'
		grep -q '^cudaMalloc: cudaError' ward.out
		count=$(calls_of ward cuGetProcAddress_v2)
		[ "$count" -ge 430 ]
		ask ward.json ".processes[0].coverage | .looked_up >= $count - 5 and .looked_up <= $count + 5" true
		ask ward.json '.processes[0].coverage | .hooked >= 400 and .passed_through == .looked_up - .hooked' true
		if grep -qx 'runtime 13000' ward.out; then
			ask ward.json '.processes[0].coverage | [.looked_up, .hooked, .passed_through]' '[440,411,29]'
			ask ward.json '.processes[0].coverage.unhooked | length' 27
		fi
		rm -r bare.* ward.*
	done
}

@test "cudart: a driver that is too old for it" {
	for kind in shared static; do
		use_profile 12.2
		bare bare ./$kind
		warded ward ./$kind
		diff bare.out ward.out
		grep -qx 'driver 12020' ward.out
		[ "$(calls_seen ward cuGetProcAddress_v2)" -ge 430 ]
		diff <(logged bare) <(logged ward)
		rm -r bare.* ward.*
	done
}
