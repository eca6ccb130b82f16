#!/usr/bin/env bats
# Every route to the driver, times every version and twin of the calls that matter: each call reaches
# its hook, and the driver is called by the very function that the program called.

load guest

setup_file() {
	export built=$BATS_FILE_TMPDIR
	local include variant version
	include=$("$TOP/tests/cuda_headers.sh")
	version=$(objdump -T /lib/*/libc.so.6 | awk '$NF == "dlsym" { v = $(NF-1); gsub(/[()]/, "", v); print v; exit }')
	for variant in lazy:-Wl,-z,lazy now:-Wl,-z,now noplt:-fno-plt O0:-O0 fixed:-no-pie\ -fno-pic \
		plugin_lazy:-shared\ -DPLUGIN\ -Wl,-z,lazy plugin_now:-shared\ -DPLUGIN\ -Wl,-z,now \
		plugin_noplt:-shared\ -DPLUGIN\ -fno-plt; do
		# shellcheck disable=SC2086
		$CC -O2 -fPIC -D_GNU_SOURCE= -D__CUDA_API_VERSION_INTERNAL -DGLIBC_DLSYM="\"$version\"" \
			-isystem "$include" ${variant#*:} -o "$built/${variant%%:*}" "$TOP/tests/apps/matrix.c" \
			-L"$B/sim" -lcuda -ldl
	done
	# The same program without the driver among its libraries: it must look everything up.
	{
		sed '/^static __typeof__(cu) taken/,/^$/c static __typeof__(cu) taken;' "$TOP/tests/apps/matrix.c" |
			sed -e 's/(is("linked") ? name(__VA_ARGS__) : cu.name(__VA_ARGS__))/cu.name(__VA_ARGS__)/' \
			-e 's/look_up = cuGetProcAddress_v2;/look_up = NULL;/'
	} >"$built/unlinked.c"
	$CC -O2 -D_GNU_SOURCE= -DGLIBC_DLSYM="\"$version\"" -D__CUDA_API_VERSION_INTERNAL \
		-isystem "$include" -o "$built/unlinked" "$built/unlinked.c" -ldl
	[ -z "$(readelf -d "$built/unlinked" | grep libcuda)" ]
	printf '%s\n' 'cuLaunchKernel 5' 'cuLaunchKernelEx 7' 'cuLaunchKernelEx_ptsz 8' \
		'cuLaunchKernel_ptsz 6' 'cuMemAlloc 1' 'cuMemAllocAsync 3' 'cuMemAllocAsync_ptsz 4' \
		'cuMemAlloc_v2 2' >"$built/expected"
}

setup() {
	guest_setup
	export CUWARD_SIM_CALL_LOG=$PWD/log CUWARD_MEMORY=6G
}

# route ROUTE PROGRAM [ARG...]: the hooks counted what the driver saw, and nothing else got there.
route() {
	rm -f log
	ROUTE=$1 guest 0 "${@:2}"
	[ -z "$output" ]
	awk '$3 ~ /^cu(MemAlloc|LaunchKernel)/ { if ($4) exit 1; n[$3]++ } END { for (s in n) print s, n[s] }' \
		log | LC_ALL=C sort >called
	diff "$built/expected" called || { echo "$*"; false; }
	jq -r '.processes[0].calls | to_entries[] | select(.key | test("^cu(MemAlloc|LaunchKernel)")) |
		"\(.key) \(.value.count)"' r.json | LC_ALL=C sort >counted
	diff "$built/expected" counted || { echo "$*"; false; }
	# Charged once each, in the ABI that was called: 5 GiB do not shrink to 32 bits.
	ask '[.memory.device, .memory.pool | .allocs, .live_bytes]' \
		"[3,$((5 * GiB + 1 + MiB + 4096)),7,7168]"
	# Nothing but us called the driver for memory.
	[ -z "$(awk '$3 ~ /^cuMemAlloc/ && $5 != "libcuward.so"' log)" ]
}

@test "bound by the loader: late, at once, without a table, at -O0, at a fixed address" {
	for program in lazy now noplt O0 fixed; do
		route linked "$built/$program"
		route taken "$built/$program"
		route linkedgpa "$built/$program"
		route default "$built/$program"
	done
	LD_BIND_NOW=1 route linked "$built/lazy"
}

@test "found by dlsym, in every scope and from every program" {
	for program in lazy unlinked; do
		for how in open deep space global next dlvsym; do
			route $how "$built/$program"
		done
		LIBRARY=libcuda.so route open "$built/$program"
		LIBRARY=$B/sim/libcuda.so.1 route open "$built/$program"
		LIBRARY=$B/sim/libcuda.so LD_LIBRARY_PATH='' route deep "$built/unlinked"
	done
}

@test "found by cuGetProcAddress: both ABIs, of itself, as the first call" {
	for program in lazy unlinked; do
		for how in gpa1 gpa2 deepgpa entry; do
			route $how "$built/$program"
		done
	done
}

@test "a plug-in: local, global, under RTLD_DEEPBIND, in another namespace" {
	for plugin in plugin_lazy plugin_now plugin_noplt; do
		for how in local global deep deeplazy space; do
			route linked "$apps/host" $how "$built/$plugin"
			route taken "$apps/host" $how "$built/$plugin"
			route linkedgpa "$apps/host" $how "$built/$plugin"
		done
		for how in default open gpa2 deepgpa; do
			route $how "$apps/host" local "$built/$plugin"
			route $how "$apps/host" global "$built/$plugin"
		done
	done
}

# The first drivers that have all of the calls, and each ABI of the look-up.
@test "found by cuGetProcAddress of older and newer drivers" {
	for how in open gpa1; do
		LD_LIBRARY_PATH=$B/drivers/11.8 route $how "$built/unlinked"
	done
	for driver in 12.0 12.9 13.5; do
		LD_LIBRARY_PATH=$B/drivers/$driver route deepgpa "$built/unlinked"
	done
}

# dlvsym of a name with a version it does not have answers what it would without us.
@test "versions that the driver has none of" {
	run env ROUTE=versioned "$built/lazy"
	bare="$status $output"
	run env ROUTE=versioned LD_PRELOAD=$shim "$built/lazy"
	[ "$status $output" = "$bare" ]
}
