#!/usr/bin/env bats
# Drivers of another hand: linked and exported in other ways than ours, with fewer functions, handing out other
# pointers than they export. Each call reaches its hook, and the driver by the very function that was called.

load guest

setup_file() {
	export built=$BATS_FILE_TMPDIR
	local include variant version soname=-Wl,-soname,libcuda.so.1
	include=$("$TOP/tests/cuda_headers.sh")
	version=$(objdump -T /lib/*/libc.so.6 | awk '$NF == "dlsym" { v = $(NF-1); gsub(/[()]/, "", v); print v; exit }')
	echo 'CUDA_1.0 { global: *; };' >"$built/versions"
	for variant in preempted: itself:-Wl,-Bsymbolic nameless:- versioned:-Wl,--version-script,"$built/versions" \
		sysv:-Wl,--hash-style=sysv protected:'-DVISIBLE=__attribute__((visibility("protected")))' \
		ifunc:-DIFUNC inner:-DINNER bare:"-DINNER -Wl,-Bsymbolic -s"; do
		mkdir -p "$built/${variant%%:*}"
		# shellcheck disable=SC2046,SC2086
		gcc -O1 -w -shared -fPIC -D_GNU_SOURCE -DGLIBC_DLSYM="\"$version\"" -o "$built/${variant%%:*}/libcuda.so.1" \
			"$TOP/tests/apps/plugins/other.c" $([ ${variant#*:} = - ] || echo $soname ${variant#*:}) -ldl
	done
	# Nothing but the look-up is exported.
	echo '{ global: cuGetProcAddress; cuGetProcAddress_v2; local: *; };' >"$built/look-up"
	mkdir "$built/hidden"
	gcc -O1 -w -shared -fPIC -D_GNU_SOURCE -DINNER -DGLIBC_DLSYM="\"$version\"" -Wl,-soname,libcuda.so.1 \
		-Wl,--version-script,"$built/look-up" -o "$built/hidden/libcuda.so.1" "$TOP/tests/apps/plugins/other.c" -ldl
	for variant in small uncounted; do
		mkdir "$built/$variant"
		gcc -O1 -w -shared -fPIC -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -D${variant^^} \
			-o "$built/$variant/libcuda.so.1" "$TOP/tests/apps/plugins/small.c"
	done
	# By a chain of links, with neither the name nor the soname at its end.
	mkdir "$built/linked"
	cp "$built/nameless/libcuda.so.1" "$built/linked/nvidia-other-1.2.3"
	ln -s nvidia-other-1.2.3 "$built/linked/libcuda.so.99"
	ln -s libcuda.so.99 "$built/linked/libcuda.so.1"
	$CC -O2 -fPIC -D_GNU_SOURCE= -D__CUDA_API_VERSION_INTERNAL -DGLIBC_DLSYM="\"$version\"" -isystem "$include" \
		-o "$built/program" "$TOP/tests/apps/matrix.c" -L"$B/sim" -lcuda -ldl
	$CC -O2 -fPIC -shared -DPLUGIN -D_GNU_SOURCE= -D__CUDA_API_VERSION_INTERNAL -DGLIBC_DLSYM="\"$version\"" \
		-isystem "$include" -o "$built/plugin" "$TOP/tests/apps/matrix.c" -L"$B/sim" -lcuda -ldl
	printf '%s\n' 'cuLaunchKernel 5' 'cuLaunchKernelEx 7' 'cuLaunchKernelEx_ptsz 8' \
		'cuLaunchKernel_ptsz 6' 'cuMemAlloc 1' 'cuMemAllocAsync 3' 'cuMemAllocAsync_ptsz 4' \
		'cuMemAlloc_v2 2' >"$built/expected"
}

setup() {
	guest_setup
	unset CUWARD_SIM_TRUTH
	export OTHER_CALLS=$PWD/calls CUWARD_MEMORY=6G
}

# route ROUTE COMMAND...: the hooks counted what the driver saw, and all was charged.
route() {
	rm -f calls
	ROUTE=$1 guest 0 "${@:2}"
	[ -z "$output" ]
	grep -E '^cu(MemAlloc|LaunchKernel)' calls | LC_ALL=C sort | diff "$built/expected" - || { echo "$*"; false; }
	jq -r '.processes[0] | (.calls | to_entries[] | select(.key | test("^cu(MemAlloc|LaunchKernel)")) |
		"\(.key) \(.value.count)"), ([.memory.device, .memory.pool | .allocs, .live_bytes] | tojson),
		(.coverage | [.passed_through, .unhooked] | tojson)' r.json >told
	diff <(cat "$built/expected" && echo "[3,$((5 * GiB + 1 + MiB + 4096)),7,7168]" && echo '[0,[]]') told ||
		{ echo "$*"; false; }
}

# The functions it looks up, and the look-up itself; what the driver looks up meanwhile is its own affair.
counted() {
	ROUTE=gpa2 guest 0 "$built/program"
	ask '.coverage | [.looked_up, .hooked]' '[15,15]'
}

@test "however it is linked" {
	for driver in preempted itself nameless versioned sysv protected ifunc inner bare linked; do
		export LD_LIBRARY_PATH=$built/$driver
		for how in linked open deepgpa; do
			route $how "$built/program"
		done
		counted
	done
}

@test "by every route" {
	for driver in ifunc bare; do
		export LD_LIBRARY_PATH=$built/$driver
		for how in taken default deep space global next gpa1 gpa2; do
			route $how "$built/program"
		done
	done
}

@test "plug-ins bound to it under RTLD_DEEPBIND and in another namespace" {
	for driver in preempted nameless versioned sysv protected ifunc bare; do
		export LD_LIBRARY_PATH=$built/$driver
		for how in deep deeplazy space; do
			route linked "$apps/host" $how "$built/plugin"
		done
	done
}

@test "it looks up its own functions for others by dlsym" {
	export LD_LIBRARY_PATH=$built/itself
	for OTHER_LOOKS in default handle real; do
		export OTHER_LOOKS
		how=deepgpa
		[ $OTHER_LOOKS != default ] || how=linkedgpa # it must be in the global scope
		route $how "$built/program"
		counted
	done
}

@test "its handles are small numbers, counted for each kind of thing apart" {
	LD_LIBRARY_PATH=$built/small guest 0 "$apps/small" arrays
	kind array $((4 * 64 * 64 * 4)) 4 8 4
	leaks "[[\"leak\",\"array\",$((2 * 64 * 64 * 4)),2],[\"leak\",\"array\",$((2 * 64 * 64 * 4)),2]]"
	findings '[]'
}

@test "memory opened where it was made is where it is, and charged once until it is freed" {
	export CUWARD_MEMORY=8M
	for CUWARD_IMPORTED in ignore charge; do
		export CUWARD_IMPORTED
		LD_LIBRARY_PATH=$built/small guest 0 "$apps/small" opened
		used $((8 * MiB)) $((8 * MiB))
		denied 4 $((12 * MiB))
		leaks "[[\"leak\",\"device\",$((8 * MiB)),1]]"
		findings '[]'
	done
}

@test "it does not tell how many GPUs there are: the limit binds all the same" {
	CUWARD_MEMORY=8M LD_LIBRARY_PATH=$built/uncounted guest 0 "$apps/small" opened
	ask '.devices | map([.index, .total_bytes])' "[[0,$((16 * GiB))]]"
	used $((8 * MiB)) $((8 * MiB))
	denied 4 $((12 * MiB))
}

@test "it exports the look-up and nothing else" {
	export LD_LIBRARY_PATH=$built/hidden
	for how in gpa1 gpa2 deepgpa; do
		route $how "$built/program"
	done
	counted
	CUWARD_MEMORY=1G ROUTE=gpa2 guest 3 "$built/program"
	[ "$output" = "gpa2: cuMemAlloc_v2 failed" ]
	ask '.devices[0] | [.denied, .limits[0].bytes]' "[1,$GiB]"
}
