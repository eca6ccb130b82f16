#!/usr/bin/env bats
# Builds: what must be built again when flags change, without LTTng, with other headers.
# beside: compiles the whole project several times.

setup() {
	unset LD_PRELOAD LD_LIBRARY_PATH "${!CUWARD_@}" CUDA_HOME MAKEFLAGS MFLAGS MAKELEVEL CFLAGS LDFLAGS
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
	# Headers that set-up fetched lie below build/, which is not copied.
	export CUDA_HOME
	CUDA_HOME=$(dirname "$("$TOP/tests/cuda_headers.sh")")
	mkdir "$BATS_TEST_TMPDIR/copy"
	cd "$TOP"
	tar -cf - --exclude=./build --exclude=./.git . | tar -xf - -C "$BATS_TEST_TMPDIR/copy"
	cd "$BATS_TEST_TMPDIR/copy"
}

# built ARG...: what make has to do for it, in its words.
built() {
	timeout 600 make -s -j2 CC="$CC" "$@" >log 2>&1 || {
		tail -n 20 log >&2
		return 1
	}
	sed -n 's/^  //p' log
}

@test "other flags, another compiler: built again, and only then" {
	object=build/obj/shim/limit.c.o
	built $object >words
	grep -q 'CC *shim/limit.c' words
	[ -z "$(built $object)" ]
	for flags in CFLAGS=-O0 CFLAGS=-O1 "CC=$CC -DOTHER"; do
		built $object "$flags" >words
		[ "$(grep -c 'CC *shim/limit.c' words)" -eq 1 ]
		[ -z "$(built $object "$flags")" ]
	done
	# Where the command finds its libraries is compiled into it alone.
	built $object "CC=$CC" build/obj/tools/libraries.c.o >words
	built $object build/obj/tools/libraries.c.o prefix=/opt >words
	[ "$(cat words)" = "CC     tools/libraries.c" ]
}

@test "a tree with LTTng becomes one without" {
	[ -e "$B/libcuward-lttng.so" ] || skip "built without LTTng"
	export CFLAGS=-O0
	built >words
	grep -q 'LD *build/libcuward-lttng.so' words
	built build/apps/train
	export LD_LIBRARY_PATH=$PWD/build/sim
	build/cuward run --trace=trace true
	[ -d trace ]

	built all build/apps/train WITH_LTTNG=0 >words
	grep -q 'CC *tools/session_control.c' words
	[ "$(grep -c 'shim/provider\|CC *tests/sim' words)" -eq 0 ]
	[ ! -e build/libcuward-lttng.so ]
	status=0
	build/cuward run --trace=other true 2>words || status=$?
	[ $status -eq 125 ]
	grep -q '^cuward: --trace: .*without LTTng' words
	build/cuward run -m 1G --report r.json build/apps/train >words 2>&1
	[ "$(jq '.processes[0].memory.device.live' r.json)" -eq 3 ]

	# Nothing that is not there by choice is a fault.
	build/cuward doctor >words
	cat words
	[ "$(sed '/^$/,$d' words | grep -vc '^ok \|built without LTTng')" -eq 0 ]
	[ "$(grep -c 'built without LTTng' words)" -eq 2 ]
	B=$PWD/build tests/demo.sh >words 2>&1
	grep -q '^train: done$' words
	grep -q ' leaked 3 MiB in 3 allocations:$' words
	grep -q 'built without LTTng' words
	[ "$(grep -c 'trace$\|trace-\|timeline TRACE' words)" -eq 0 ]

	built all >words
	grep -q 'LD *build/libcuward-lttng.so' words
	build/cuward run --trace=again true
	[ -d again ]
}

# invent DECLARATION: a newer header has it, too.
invent() {
	awk -v new="$1" '{ print } /^CUresult CUDAAPI cuInit\(/ { print new }' "$real/include/cuda.h" >newer/include/cuda.h
}

fails() { # COMMAND...: with what it says in the file log
	if "$@" >log 2>&1; then return 1; fi
}

# refused NAME...: the build stops, and says of each of these what is to be done.
refused() {
	local name
	fails timeout 600 make -s -j2 CC="$CC" build/libcuward.so
	for name; do
		grep -qx "a new driver call: say in shim/decided.txt what it means for memory: $name" log
	done
	[ "$(grep -c '^a new driver call' log)" -eq $# ]
	[ ! -e build/gen/driver_calls.h ]
	[ ! -e build/libcuward.so ]
}

@test "a driver call of a newer header stops the build until somebody decides what it means" {
	real=$CUDA_HOME
	mkdir -p newer
	cp -rs "$real/include" newer/include
	rm newer/include/cuda.h
	export CUDA_HOME=$PWD/newer CFLAGS=-O0
	invent 'CUresult CUDAAPI cuMemAllocQuux(CUdeviceptr *dptr, size_t bytesize);'
	refused cuMemAllocQuux
	# Its versions and twins, however they are written; twins go with their name.
	invent 'CUresult CUDAAPI cuMemAllocQuux(CUdeviceptr *dptr, size_t bytesize);
CUresult CUDAAPI cuMemAllocQuux_v2(CUdeviceptr *dptr,
	size_t bytesize,
	CUstream hStream);
CUresult CUDAAPI cuMemAllocQuux_v2_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream);
CUresult CUDAAPI cuQuuxNothing(void);'
	refused cuMemAllocQuux cuMemAllocQuux_v2 cuMemAllocQuux_v2_ptsz cuQuuxNothing
	# One decision is none for the others.
	printf '\npass a test says so\n\tcuMemAllocQuux cuQuuxNothing\n' >>shim/decided.txt
	refused cuMemAllocQuux_v2 cuMemAllocQuux_v2_ptsz
	printf '\tcuMemAllocQuux_v2\n' >>shim/decided.txt
	built build/libcuward.so >words
	grep -q 'LD *build/libcuward.so' words
	# It is passed on, as all that are decided so, and told in the coverage.
	exports build/libcuward.so | grep -qx cuMemAllocQuux_v2_ptsz
	# What is decided to be hooked must be, and nothing that is not.
	sed -n 's/.* T on_//p' <(nm build/obj/shim/*.c.o) >hooks
	awk -f shim/decided.awk shim/decided.txt build/gen/driver_calls.h hooks
	sed -i 's/^pass a test says so/hook &/' shim/decided.txt
	fails awk -f shim/decided.awk shim/decided.txt build/gen/driver_calls.h hooks
	[ "$(sort log)" = "$(printf 'decided to hook, and no hook: %s\n' cuMemAllocQuux cuMemAllocQuux_v2 \
		cuMemAllocQuux_v2_ptsz cuQuuxNothing)" ]
	printf '\tcuMemAllocQuux\n' >>shim/decided.txt
	fails make -s build/libcuward.so
	grep -qx 'decided twice: cuMemAllocQuux' log
	# The header becomes newer where it is, and all was built.
	cp "$TOP/shim/decided.txt" shim/decided.txt
	invent ''
	built build/gen/driver_calls.h >words
	grep -q 'GEN *build/gen/driver_calls.h' words
	[ -z "$(built build/gen/driver_calls.h)" ]
	invent 'CUresult CUDAAPI cuMemAllocQuux(CUdeviceptr *dptr, size_t bytesize);'
	fails make -s CC="$CC" build/libcuward.so
	grep -q 'say in shim/decided.txt .*: cuMemAllocQuux$' log
}

exports() { nm -D --defined-only "$1" | awk '{ print $3 }' | LC_ALL=C sort; }

# with_headers VERSION: a build with what PyPI has of it, and nothing else of NVIDIA's.
with_headers() {
	headers=$(tests/get_headers.sh "$BATS_TEST_TMPDIR/cuda" "$1") || skip "PyPI does not answer"
	built lib sim build/apps/routes WITH_LTTNG=0 CFLAGS=-O0 CUDA_HOME="$headers" >words
	grep -qE " $headers/include( |$)" build/flags
	for form in open global deep; do
		export LD_PRELOAD=$PWD/build/libcuward.so LD_LIBRARY_PATH=$PWD/build/sim
		said=$(CUWARD_MEMORY=1M build/apps/routes $form libcuda.so.1)
		unset LD_PRELOAD LD_LIBRARY_PATH
		[ "$said" = "0 2" ]
	done
}

@test "headers of PyPI's alone: 13.0" {
	with_headers '==13.0.*'
	# Those of the installed toolkit are 13.0 or newer.
	[ -z "$(LC_ALL=C comm -23 <(exports build/libcuward.so) <(exports "$B/libcuward.so"))" ]
}

@test "headers of PyPI's alone: the newest" {
	with_headers ''
	# Whatever is hooked stays hooked.
	[ -z "$(LC_ALL=C comm -13 <(exports build/libcuward.so) <(exports "$B/libcuward.so"))" ]
	[ "$(grep -c '^	X(' build/gen/driver_calls.h)" -ge 634 ]
	# Whatever the tests are made of is built with it, and every call there is then gets its limit, its
	# count and its way out; `make check-newest` runs all the rest.
	# The command knows no header of NVIDIA's.
	cp "$B/cuward" build
	lttng=
	[ ! -e "$B/libcuward-lttng.so" ] || lttng=build/libcuward-lttng.so
	built programs $lttng CFLAGS=-O0 CUDA_HOME="$headers" >words
	for program in apps unit model bench; do
		grep -q "build/$program/" words
	done
	# Those that a test compiles by itself.
	while read -r source; do
		$CC -std=gnu11 -fsyntax-only -D_GNU_SOURCE -D__CUDA_API_VERSION_INTERNAL -isystem "$headers/include" \
			-Iinclude -Itests/sim "$source"
	done < <(echo tests/apps/sim_*.c | tr " " "\n"; grep -l "#include <cuda" tests/apps/plugins/*.c)
	# What is decided to be hooked is.
	sed -n 's/.* T on_//p' <(nm build/obj/shim/*.c.o) >hooks
	awk -f shim/decided.awk shim/decided.txt build/gen/driver_calls.h hooks
	for unit in build/unit/test_*; do
		[[ $unit == *.d ]] || B=$PWD/build "$unit" >said 2>&1 || { cat said; false; }
	done
	(
		export CUDA_HOME=$headers TOP=$PWD B=$PWD/build
		unset "${!BATS_@}"
		tests/run.sh tests/t/{matrix,routes,families,graphs,quota}.bats || exit
		bats --tap --filter 'five codes: unchanged|an older driver lacks|no way around a limit|profiles export' \
			tests/t/{model,sim}.bats || exit
		[ -z "$lttng" ] || bats --tap --filter 'every form of launch' tests/t/trace_gputime.bats
	) >said 2>&1 </dev/null || { cat said; false; }
	cat said
	[ "$(grep -c ' 0 failed, 0 skipped$' said)" -eq 1 ]
	[ "$(grep -c '^ok' said)" -eq "$([ -n "$lttng" ]; echo $((5 - $?)))" ]
}
