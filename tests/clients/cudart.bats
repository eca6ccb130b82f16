#!/usr/bin/env bats
# NVIDIA's runtime, shared and static, built by the C compiler and by NVIDIA's own. It does not work with a driver
# that is not NVIDIA's, and says so once it has looked up all functions, fetched the driver's private tables and
# looked the GPUs over. What can be seen is that all of this comes by us, and that its words stay the same.

load client.bash

setup() {
	client_setup
	toolkit
	lookups=$TOP/tests/sim/cudart13_lookups.tsv
}

teardown() { client_teardown; }

# with_runtime SOURCE: the programs ./shared and ./static.
with_runtime() {
	local build=("$CC" -O1 -isystem "$toolkit/include") library=$toolkit/lib/libcudart.so.13
	if [[ $1 == *.cu ]]; then
		build=("$toolkit/bin/nvcc" -arch=sm_75 -cudart none)
	fi
	# nvcc knows libraries by the end of their names.
	ln -s "$library" libcudart_shared.so
	"${build[@]}" -o shared "$TOP/tests/clients/$1" libcudart_shared.so
	"${build[@]}" -o static "$TOP/tests/clients/$1" "$toolkit/lib/libcudart_static.a" -ldl -lrt -lpthread
	export LD_LIBRARY_PATH=$toolkit/lib
	readelf -d shared | grep -q 'NEEDED.*\[libcudart\.so\.13\]'
	[ "$(readelf -d static | grep -c 'NEEDED.*libcud')" -eq 0 ]
}

# The driver's functions that have an entry of ours.
hooked_names() { sed -n 's/^\tX(\([A-Za-z0-9_]*\),.*/\1/p' "$B/gen/driver_calls.h"; }

# played PROGRAM: bare and warded it says and does the same. Each look-up came by us and was answered with an
# entry of ours where there is one, else as the driver did.
played() {
	rm -rf bare.* ward.*
	CUWARD_SIM_LOOK_UPS=bare.asked bare bare ./$1
	[ $status -eq 0 ]
	CUWARD_SIM_LOOK_UPS=ward.asked warded ward ./$1
	[ $status -eq 0 ]
	diff bare.out ward.out
	diff <(words_of bare) <(words_of ward)
	same_calls bare ward
	settled ward
	ask ward.json '[.processes[] | [.ended, .complete, .trace.lost, .dropped_records]]' '[["exit",true,0,0]]'

	# `name version flags symbol`; one look-up is for a function without a name.
	cut -d' ' -f2- bare.asked >asked
	diff asked <(cut -d' ' -f2- ward.asked)
	count=$(wc -l <asked)
	[ "$(calls_of ward cuGetProcAddress_v2)" -eq "$count" ]
	hooked_names >names
	awk -F'[ ]' 'NR == FNR { ours[$1]; next } $4 != "-" && !($4 in ours) { print $1 }' names asked |
		LC_ALL=C sort -u >unhooked
	diff <(jq -r '.processes[0].coverage.unhooked[]' ward.json | LC_ALL=C sort) unhooked
	[ "$(grep -vc 'GL\|EGL\|Egl\|VDPAU' unhooked)" -eq 0 ]
	# The first of all was by dlsym. What there is not is not counted.
	hooked=$((1 + $(cut -d' ' -f4 asked | grep -cxFf names)))
	passed=$(cut -d' ' -f4 asked | grep -vxF -e - | grep -cvxFf names)
	ask ward.json '.processes[0].coverage | [.looked_up, .hooked, .passed_through]' \
		"[$((hooked + passed)),$hooked,$passed]"
	ask ward.json '.processes[0].coverage.hooked >= 400' true
}

# The list was made with CUDA 13.0; another runtime may ask for more.
is_13_0() { grep -q '^#define CUDART_VERSION *13000' "$toolkit/include/cuda_runtime_api.h"; }
as_listed() {
	diff <(echo ' 0 0'; grep -v '^#' "$lookups" | cut -f1-3 | tr '\t' ' ') <(cut -d' ' -f1-3 asked)
	[ "$(wc -l <asked)" -eq 440 ]
	ask ward.json '.processes[0].coverage | [.looked_up, .hooked, .passed_through]' '[440,411,29]'
}

# what it says when the driver does not prove itself, for COUNT calls.
attested() {
	[ "$(grep -c ' 103 cudaErrorSoftwareValidityNotEstablished$' ward.out)" -eq "$1" ]
}

@test "cudart: every look-up is seen, and only graphics is not hooked" {
	with="-m 1G"
	with_runtime use_cudart.c
	for kind in shared static; do
		# Without private tables, which it wants to see first of all.
		played $kind
		grep -q '^cudaMalloc: 500 cudaErrorSymbolNotFound$' ward.out
		! is_13_0 || as_listed
		# With them, up to the proof that there is none of.
		CUWARD_SIM_TABLES=1 played $kind
		! is_13_0 || as_listed
		attested 8
		[ "$(calls_of ward cuInit)" -eq 1 ]
		[ "$(calls_of ward cuGetExportTable)" -eq 7 ]
		[ "$(calls_of ward cuDeviceGetAttribute)" -gt 80 ]
	done
}

@test "cudart: programs with kernels, by NVIDIA's compiler" {
	[ -x "$toolkit/bin/nvcc" ] || skip "no nvcc in $toolkit"
	with="-m 1G"
	with_runtime use_kernel.cu
	export CUWARD_SIM_TABLES=1
	for kind in shared static; do
		played $kind
		! is_13_0 || as_listed
		attested 7
		ask ward.json '.processes[0].calls.cuDeviceTotalMem_v2.count' 1
		ask ward.timeline '[.processes[].launches]' '[0]'
	done
}

@test "cudart: a driver that is too old for it" {
	with_runtime use_cudart.c
	export CUWARD_SIM_TABLES=1
	use_profile 12.2
	for kind in shared static; do
		rm -rf bare.* ward.*
		CUWARD_SIM_LOOK_UPS=bare.asked bare bare ./$kind
		CUWARD_SIM_LOOK_UPS=ward.asked warded ward ./$kind
		diff bare.out ward.out
		diff <(logged bare) <(logged ward)
		grep -qx 'driver 12020' ward.out
		grep -q '^cudaMalloc: 35 cudaErrorInsufficientDriver$' ward.out
		cut -d' ' -f2- ward.asked >asked
		diff asked <(cut -d' ' -f2- bare.asked)
		[ "$(wc -l <asked)" -ge 430 ]
		[ "$(awk '$5 != "libcuward.so"' ward.calls | wc -l)" -eq 0 ]
		# A real one of this version answered the same.
		! is_13_0 || diff <(grep -v '^#' "$lookups" | tr '\t' ' ') <(sed 1d asked)
	done
}
