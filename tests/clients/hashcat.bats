#!/usr/bin/env bats
# Debian's hashcat, as far as it needs no compiler: what it tells about the GPUs.

load client.bash

setup() {
	client_setup
	command -v hashcat >/dev/null || skip "no hashcat"
	export HOME=$PWD LD_LIBRARY_PATH=$PWD/lib
	compiler
	look=(hashcat -I --backend-ignore-opencl)
}

teardown() { client_teardown; }

# hashcat does not see CUDA without NVRTC, even to look around; this one has a version and no more.
compiler() {
	mkdir lib
	{
		echo "int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 0; return 0; }"
		for name in AddNameExpression CompileProgram CreateProgram DestroyProgram GetErrorString \
			GetLoweredName GetPTX GetPTXSize GetProgramLog GetProgramLogSize; do
			echo "int nvrtc$name(void) { return 7; }"
		done
	} | ${CC:-cc} -shared -fPIC -o lib/libnvrtc.so -x c -
}

@test "hashcat: two GPUs" {
	export CUWARD_SIM_DEVICES=2 CUWARD_SIM_MEMORY=4G,8G
	both "${look[@]}"
	settled ward
	grep -q 'Backend Device ID #2' ward.out
	[ "$(grep -c 'Name\.*: Simulated GPU' ward.out)" -eq 2 ]
	grep -q 'Memory.Total\.*: 4096 MB' ward.out
	grep -q 'Memory.Total\.*: 8192 MB' ward.out
	ask ward.json '.processes[0].objects.context' '{"created":2,"live":0}'
	ask ward.json '.processes[0].coverage.looked_up >= 50' true
	ask ward.timeline '[.processes[0] | .contexts, .launches, ([.devices[].total_bytes])]' \
		"[2,0,[$((4 << 30)),$((8 << 30))]]"
}

@test "hashcat: a limit is the size of the GPU" {
	export CUWARD_SIM_DEVICES=2 CUWARD_SIM_MEMORY=4G,8G
	bare bare "${look[@]}"
	with="-m 1=1G"
	warded ward "${look[@]}"
	[ $status -eq 0 ]
	same_calls bare ward
	whole ward
	# Of the GPU that is limited, total and free memory; no other line.
	diff <(sed '/Device ID #2/,$ { s/\(Memory.Total\.*: \).*/\11024 MB/; s/\(Memory.Free\.*: \).*/\11024 MB/ }' bare.out) ward.out
}
