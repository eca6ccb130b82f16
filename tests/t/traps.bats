#!/usr/bin/env bats
# What broke other interposers in the field: each test is one kind of it.

load guest

setup() { guest_setup; }

# traced COMMAND...: number of launches by call, allocations and frees in the trace.
traced() {
	rm -rf trace
	"$B/cuward" run -q --trace=trace --report r.json "$@"
	babeltrace2 trace | awk '
		/cuward:api:/ { match($0, /api = [0-9]+/); n = substr($0, RSTART + 6, RLENGTH - 6)
			match($0, /name = "[^"]*/); name[n] = substr($0, RSTART + 8, RLENGTH - 8) }
		/cuward:launch(ed)?:/ { match($0, /api = [0-9]+/); launches[substr($0, RSTART + 6, RLENGTH - 6)]++ }
		/cuward:(alloc|free):/ { match($0, /cuward:[a-z]*/); others[substr($0, RSTART + 7, RLENGTH - 7)]++ }
		END { for (n in launches) print name[n], launches[n]; for (o in others) print o, others[o] }' | sort
}

@test "launches of every class are seen as what they are, looked up or linked" {
	[ -e "$B/libcuward-lttng.so" ] || skip "built without LTTng"
	printf '%s\n' 'alloc 3' 'cuGraphLaunch 5' 'cuLaunchCooperativeKernel 3' 'cuLaunchKernel 10' \
		'cuLaunchKernelEx 10' 'free 2' | sort >expected
	# Frameworks have no libcuda among what they are linked to.
	"$CC" -w -D_GNU_SOURCE -DUNLINKED -isystem "$("$TOP/tests/cuda_headers.sh")" -o unlinked "$TOP/tests/apps/classes.c" -ldl
	[ -z "$(readelf -d unlinked | grep libcuda)" ]
	for how in "$apps/classes" "$apps/classes lookup" "./unlinked lookup"; do
		# shellcheck disable=SC2086
		traced $how | diff expected -
		ask '[.calls | .cuLaunchKernel, .cuLaunchKernelEx, .cuLaunchCooperativeKernel, .cuGraphLaunch,
			.cuMemAlloc_v2, .cuMemFree_v2 | .count]' '[10,10,3,5,3,2]'
	done
}

@test "no version of a symbol is asked for by name" {
	[ -z "$(nm -D -u "$shim" | grep -E ' dl(v)?sym')" ]
	[ -z "$(grep -rE 'GLIBC_[0-9]' "$TOP/shim" --include='*.[chS]')" ]
	if command -v clang >/dev/null; then
		clang --target=aarch64-linux-gnu -fPIC -c -o dlsym.o "$TOP/shim/dlsym.S"
		[ "$(readelf -sW dlsym.o | awk '$4 == "FUNC" && $5 == "GLOBAL" && $7 != "UND" { print $8 }' | sort | xargs)" = \
			"dlsym dlvsym" ]
	fi
}

@test "an old driver: nothing is missing that was not missing before" {
	export LD_LIBRARY_PATH=$B/sim/11.0
	for program in true "bash -c :" "ls /"; do
		# shellcheck disable=SC2086
		[ "$(LD_PRELOAD=$shim LD_BIND_NOW=1 $program 2>&1)" = "$($program 2>&1)" ]
	done
	CUWARD_MEMORY=8M guest 0 "$apps/play" init device 0 alloc 4M refused 5M managed 4M freeall
	ask '[.driver.version, .devices[0].denied, .memory.device.allocs]' '[11000,1,1]'
	for name in cuMemAllocAsync cuMemCreate cuGraphLaunch cuGetProcAddress cuGetProcAddress_v2 cuLaunchKernelEx; do
		[ "$("$apps/lookups" local libcuda.so.1 | grep -c "^handle0 $name .*libcuda")" = \
			"$(LD_PRELOAD=$shim "$apps/lookups" local libcuda.so.1 | grep -c "^handle0 $name .*libcuward")" ]
	done
}

# The program's own copy (12.2) by DT_RPATH, another (13.0) in LD_LIBRARY_PATH, a stub beside them.
@test "the driver that is called is the one the program would have had" {
	mkdir -p own stubs
	cp "$B/sim/12.2/libcuda.so.1" own
	$CC -fPIC -shared -Wl,-soname,libcuda.so.1 -o stubs/libcuda.so.1 "$TOP/tests/apps/plugins/stub.c"
	ln -s libcuda.so.1 stubs/libcuda.so
	cat >which.c <<-'C'
		#include <dlfcn.h>
		#include <stdio.h>
		int cuInit(int), cuDriverGetVersion(int *);
		int main(int argc, char **argv)
		{
			int version = 0;
			void *driver = dlopen(argc > 1 ? argv[1] : "libcuda.so.1", RTLD_NOW);
			int (*init)(int) = (int (*)(int))dlsym(driver, "cuInit");
			int (*get)(int *) = (int (*)(int *))dlsym(driver, "cuDriverGetVersion");
			printf("%d ", init(0));
			if (get) get(&version);
			printf("%d\n", version);
			return 0;
		}
	C
	$CC -w -o rpath which.c -Wl,--disable-new-dtags -Wl,-rpath,"$PWD/own" -ldl
	$CC -w -o runpath which.c -Wl,--enable-new-dtags -Wl,-rpath,"$PWD/own" -ldl
	$CC -w -o plain which.c -ldl
	$CC -w -o linked which.c -Lown -l:libcuda.so.1 -Wl,--no-as-needed -Wl,--disable-new-dtags \
		-Wl,-rpath,"$PWD/own" -ldl
	for paths in "$B/sim" "$B/sim:$PWD/stubs" "$PWD/stubs:$B/sim" ''; do
		export LD_LIBRARY_PATH=$paths
		for program in ./rpath ./runpath ./linked "./plain $PWD/own/libcuda.so.1" "./plain $B/sim/libcuda.so" \
			"./plain $PWD/stubs/libcuda.so"; do
			# shellcheck disable=SC2086
			bare=$($program)
			# shellcheck disable=SC2086
			[ "$(LD_PRELOAD=$shim CUWARD_MEMORY=1G $program)" = "$bare" ] || { echo "$paths $program"; false; }
			echo "$bare" >>answers
		done
	done
	# All three were met: the copy, the one in the path, the stub.
	[ "$(sort -u answers | xargs)" = "0 12020 0 13000 34 0" ]
	LD_LIBRARY_PATH=$B/sim guest 0 ./rpath
	ask .driver.version 12020
}

# The parent never called CUDA: nobody initialised it on its behalf.
@test "CUDA in a child only, and never by our own hand" {
	export CUWARD_SIM_CALL_LOG=$PWD/log CUWARD_REPORT=$PWD/r-%p.json CUWARD_MEMORY=8M
	LD_PRELOAD=$shim "$apps/play" fork '(' init device 0 alloc 4M refused 5M ')' wait say done >said
	[ "$(cat said)" = done ]
	[ "$(awk '$3 == "cuInit"' log | wc -l)" -eq 1 ]
	[ "$(cat r-*.json | jq -s -c 'map(.processes[0].devices[0].denied)')" = '[1]' ]
	rm log r-*.json
	# Opened and looked up, but not called: the driver hears nothing from us.
	LD_PRELOAD=$shim "$apps/lookups" global libcuda.so.1 >/dev/null
	[ ! -s log ]
	LD_PRELOAD=$shim "$apps/lookups_linked" >/dev/null || true
	[ "$(awk '$3 == "cuInit"' log | wc -l)" -eq 1 ]
	[ -z "$(awk '$3 ~ /^cu(Ctx|DevicePrimaryCtx|Mem|Stream)/' log)" ]
}

@test "a launch costs 40 instructions more, and no system call" {
	[ "$(uname -m)" = x86_64 ] || skip "steps counts on x86-64"
	readelf -p .comment "$shim" | grep -q GCC || skip "measured with gcc"
	make -s -C "$TOP" build/bench/bench build/bench/steps
	local bench=$TOP/build/bench/bench steps=$TOP/build/bench/steps before after calls
	read -r before _ < <("$steps" 100 "$bench" steps launch)
	[ -n "$before" ] || skip "no ptrace here"
	read -r after calls < <(LD_PRELOAD=$shim CUWARD_MEMORY=60G "$steps" 100 "$bench" steps launch)
	echo "launch: $before, $after instructions, $calls system calls"
	awk -v a="$after" -v b="$before" 'BEGIN { exit !(a > b && a - b <= 41) }'
	[ "$calls" = 0.00 ]
}

# Limited, or refused with a word: never unlimited.
@test "an installation in an odd place" {
	local place status
	for place in plain '$LIB' '$ORIGIN' 'a b' 'a:b' "a'b" 'a"b' 'ü' '*' '%s' $'new\nline'; do
		mkdir "$place"
		cp "$B/cuward" "$shim" "$place"
		status=0
		rm -f r.json
		"./$place/cuward" run -q -m 1M --report r.json -- "$apps/play" init device 0 alloc 1M refused 1 \
			>said 2>&1 || status=$?
		case $place in
		plain | *\'* | *\"* | ü | [*%]*) [ $status -eq 0 ] && ask '.devices[0].denied' 1 ;;
		*) [ $status -eq 125 ] && grep -q '^cuward: ' said || ask '.devices[0].denied' 1 ;;
		esac || { echo "$place: $status"; cat said; false; }
	done
	mkdir real
	cp "$B/cuward" "$shim" real
	ln -s real link
	(cd real && ../link/cuward run -q -m 1M -- "$apps/play" init device 0 alloc 1M refused 1)
	# The library is there, but not for us.
	: >real/libcuward.so
	status=0
	real/cuward run -q -m 1M -- "$apps/play" init device 0 alloc 8M >said 2>&1 || status=$?
	[ $status -eq 125 ]
}
