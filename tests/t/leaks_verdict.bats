#!/usr/bin/env bats
# What counts as a leak: at exit, by growth, between marks; what is held, reclaimed, imported; faulty frees.

load leaks

setup() {
	leaks_setup
	shapes=$B/apps/shapes
}

teardown() { leaks_teardown; }

verdicts() { ask '.leaks | map([.verdict, .count])' "$1"; }

@test "growth: what keeps rising" {
	for shape in leak:100 wave_leak:30; do
		leaked 23 --leak growth --fail-on leak -- "$shapes" ${shape%:*}
		verdicts "[[\"growth\",${shape#*:}]]"
		ask '.leaks[0].growth | [.grows, .confidence_percent > 80]' '[true,true]'
		ask '.leaks[0].native[0].function' '"take"'
		[[ $output == *" leaked "*" from take, shapes.c:"*", growing by "*" a second"* ]]
	done
	ask '.leak_mode' '"growth"'
}

@test "growth: what does not" {
	for shape in wave:30 warm_up:60 cache:64 pool:100 few:3; do
		leaked 0 --leak growth --fail-on leak -- "$shapes" ${shape%:*}
		verdicts "[[\"held\",${shape#*:}]]"
		[[ $output != *leaked* ]]
		# By the plain rule all of it is a leak.
		leaked 23 --fail-on leak -- "$shapes" ${shape%:*}
		verdicts "[[\"leak\",${shape#*:}]]"
	done
}

@test "growth: allocated one by one at the start, and then no more" {
	leaked 0 --leak growth --fail-on leak -- "$shapes" weights
	verdicts '[["held",200]]'
}

@test "marks: what came to stay between the first and the last" {
	leaked 23 --leak marks --fail-on leak -- "$shapes" marks
	ask '.leaks | map([.verdict, .count, .bytes, .native[0].function])' \
		'[["leak",3,24576,"take_between"],["leak",2,16384,"take_between"],["held",9,36864,"take"],["held",7,28672,"take"],["held",2,16384,"take_between"]]'
	ask '.marks | map([.name, .live, .live_bytes])' '[["begin",7,28672],["end",12,69632]]'
	# By return address alone, whoever called.
	leaked 23 --leak marks --stack addr --fail-on leak -- "$shapes" marks
	ask '.leaks | map([.verdict, .count, .bytes, .native[0].function])' \
		'[["leak",5,40960,"take_between"],["held",16,65536,"take"],["held",2,16384,"take_between"]]'
	[[ $output == *"leaked 40 KiB in 5 allocations between its first and last mark:"* ]]
	leaked 0 --leak marks --fail-on leak -- "$shapes" one_mark
	ask '.findings | map(.code) | index("too-few-marks") != null' true
	grep -Eq '^cuward: pid [0-9]+: --leak marks compares two marks at least, and there was one: ' <<<"$output"
	ask '.leaks | map(.verdict) | unique' '["held"]'
	# A program that sets marks runs without cuward, and under another rule.
	LD_LIBRARY_PATH=$B/sim "$shapes" marks
	leaked 0 -- "$shapes" marks
	ask '.marks' '[]'
}

@test "marks from outside" {
	mkfifo lines took
	"$B/cuward" run -q --sim --leak marks --report r.json "$shapes" wait <lines >took &
	exec 8>lines 9<took
	read -r -t 20 <&9
	pid=$(pgrep -P $!)
	expect_mark() { # STATUS TEXT ARG...
		local status=0 said
		said=$("$B/cuward" mark "${@:3}" 2>&1) || status=$?
		echo "$status: $said"
		[ "$status" -eq "$1" ] && [[ $said == *"$2"* ]]
	}
	expect_mark 0 "" "$pid" "first mark"
	for i in 1 2 3; do echo >&8; read -r -t 20 <&9; done
	expect_mark 0 "" "$pid" middle
	expect_mark 0 "" "$pid" "last: a name that is longer than there is room for"
	expect_mark 1 "no process with this pid" 1 x
	expect_mark 2 "is no pid" x y
	expect_mark 2 "which process" "$pid"
	echo >&8
	read -r -t 20 <&9
	exec 8>&-
	wait
	ask '.marks | map([.name, .live])' \
		'[["first mark",1],["middle",4],["last: a name that is longer than there ",4]]'
	ask '.leaks | map([.verdict, .count])' '[["leak",3],["held",5]]'
}

@test "a mark for a process that keeps none" {
	mkfifo lines took
	cp "$shapes" $'na\e[31m\nme'
	"$B/cuward" run -q --sim ./$'na\e[31m\nme' wait <lines >took &
	exec 8>lines 9<took
	read -r -t 20 <&9
	run "$B/cuward" mark "$(pgrep -P $!)" x
	exec 8>&-
	wait
	[ "$status" -eq 1 ]
	[ "$output" = 'cuward: na\x1b[31m\x0ame: this process was not started with --leak marks' ]
}

a_library() { # FILE FUNCTION: that allocates once
	mkdir -p "$(dirname "$1")"
	cc -shared -fPIC -o "$1" -x c - -L"$B/sim" -lcuda <<-END
		int cuMemAlloc_v2(unsigned long *, unsigned long);
		void $2(void) { unsigned long p; if (cuMemAlloc_v2(&p, 4096)) __builtin_trap(); }
	END
}

@test "caches of frameworks are held, by the library that called" {
	a_library ./libc10_cuda.so torch_takes
	a_library ./libc11_cuda.so other_takes
	a_library ./cupy/backends/memory.so cupy_takes
	a_library ./libcudart.so.13 runtime_takes
	cc -g -o train -x c - -L. -l:libc10_cuda.so -l:libc11_cuda.so -l:./cupy/backends/memory.so \
		-l:libcudart.so.13 -L"$B/sim" -lcuda -Wl,-rpath,"$PWD" <<-'END'
		void torch_takes(void), other_takes(void), cupy_takes(void), runtime_takes(void);
		int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
		int main(void)
		{
			void *context;
			cuInit(0);
			cuDevicePrimaryCtxRetain(&context, 0);
			cuCtxSetCurrent(context);
			for (int i = 0; i < 3; i++) torch_takes();
			for (int i = 0; i < 2; i++) cupy_takes();
			runtime_takes();
			return 0;
		}
	END
	leaked 23 --fail-on leak -- ./train
	ask '.leaks | map([.verdict, .count, .native[0].module])' \
		'[["leak",1,"libcudart.so.13"],["held",3,"libc10_cuda.so"],["held",2,"memory.so"]]'
	[[ $output == *"leaked 4 KiB in 1 allocation:"* ]]
	cc -o near -x c - -L. -l:libc11_cuda.so -L"$B/sim" -lcuda -Wl,-rpath,"$PWD" <<-'END'
		void other_takes(void);
		int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
		int main(void)
		{
			void *context;
			cuInit(0);
			cuDevicePrimaryCtxRetain(&context, 0);
			cuCtxSetCurrent(context);
			other_takes();
			return 0;
		}
	END
	leaked 23 --fail-on leak -- ./near
	verdicts '[["leak",1]]'
}

@test "held: every library of the list, by name or by folder, and none that is only like it" {
	held="libc10_cuda.so libtorch_cuda.so libtorch_python.so xla_extension.so libjax_common.so xla_cuda_plugin.so
		libpjrt_c_api.so librmm.so libcublas.so.13 libcublasLt.so.12 libcudnn_ops.so.9 libnccl.so.2
		libcufft.so.11 libcusolver.so.11 libcusparse.so.12 libcurand.so.10 cupy/cuda.so cupy_backends/x.so
		rmm/lib.so jaxlib/lib.so"
	others="libc10.so libtorch.so myxla_extension.so librm.so libcudart.so.12 libcuda_like.so libcub.so.1 cupyx/x.so
		nccl/lib.so rmmm/lib.so plain.so"
	a_library base.so take
	cc -o host -x c - -L"$B/sim" -lcuda -ldl <<-'END'
		#include <dlfcn.h>
		int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
		int main(int argc, char **argv)
		{
			void *context;
			if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
			for (int i = 1; i < argc; i++)
				((void (*)(void))dlsym(dlopen(argv[i], RTLD_NOW), "take"))();
			return 0;
		}
	END
	mkdir -p found
	for name in $held $others; do
		mkdir -p "found/$(dirname "$name")"
		cp base.so "found/$name"
	done
	cd found
	for kind in held:0 others:23; do
		names=${kind%:*}
		# shellcheck disable=SC2086
		leaked ${kind#*:} --stack native --fail-on leak -- ../host $(printf './%s ' ${!names})
		ask '[.leaks[] | .verdict] | unique' "[\"$([ $names = held ] && echo held || echo leak)\"]"
		ask '[.leaks[] | .count] | add' "$(wc -w <<<"${!names}")"
	done
}

faulty() { # CODE: a program that does it in main
	cc -g -O0 -o faulty -x c - -L"$B/sim" -lcuda <<-END
		int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
		int cuMemAlloc_v2(unsigned long *, unsigned long), cuMemFree_v2(unsigned long);
		int cuCtxCreate_v2(void **, unsigned, int), cuCtxDestroy_v2(void *);
		int cuStreamCreate(void **, unsigned), cuMemHostAlloc(void **, unsigned long, unsigned), cuMemFreeHost(void *);
		int cuMemHostRegister_v2(void *, unsigned long, unsigned), cuMemHostUnregister(void *);
		int cuMemAddressReserve(unsigned long *, unsigned long, unsigned long, unsigned long, unsigned long);
		int cuMemPoolCreate(void **, void *), cuMemPoolDestroy(void *), cuStreamSynchronize(void *);
		int cuMemAllocAsync(unsigned long *, unsigned long, void *);
		int cuMemAllocFromPoolAsync(unsigned long *, unsigned long, void *, void *), cuMemFreeAsync(unsigned long, void *);
		void *aligned_alloc(unsigned long, unsigned long), free(void *);
		unsigned long p;
		static void take(void) { cuMemAlloc_v2(&p, 65536); }
		static void give(void) { cuMemFree_v2(p); }
		static void wrong(unsigned long q) { cuMemFree_v2(q); }
		int main(void)
		{
			void *context, *other;
			cuInit(0);
			cuDevicePrimaryCtxRetain(&context, 0);
			cuCtxSetCurrent(context);
			$1
			return 0;
		}
	END
	leaked 0 -- ./faulty
}

# The findings, and the faults behind them with their places.
cases() {
	ask '[.faults as $f | .findings[] | .code as $c | select($c != "context-overhead") | [.code, .count,
		[$f[] | select(.code == $c) | [.count, .site.function, (.freed_at // .allocated_at | .function)]]]]' "$1"
}

@test "faulty frees, with both places" {
	faulty 'take(); give(); for (int i = 0; i < 3; i++) wrong(p);'
	cases '[["double-free",3,[[3,"wrong","give"]]]]'
	ask '.leaks' '[]'
	faulty 'take(); wrong(p + 4096);'
	cases '[["interior-free",1,[[1,"wrong","take"]]]]'
	ask '.faults[0].bytes' 65536
	verdicts '[["leak",1]]'
	faulty 'take(); wrong(p + (1 << 20)); give();'
	cases '[["invalid-free",1,[[1,"wrong",null]]]]'
	# A free of nothing, and of an address that is used anew, are fine.
	faulty 'wrong(0); take(); give(); take(); give();'
	cases '[]'
}

@test "freed after the driver shut down: no leak, and told; just before: nothing" {
	cc -shared -fPIC -o late.so -x c - <<-'END'
		int (*free_it)(unsigned long);
		unsigned long pointer;
		__attribute__((destructor)) static void end(void) { free_it(pointer); }
	END
	cc -g -o order -x c - -ldl <<-'END'
		#include <dlfcn.h>
		int main(int argc, char **argv)
		{
			void *driver, *late, *context;
			if (argc > 1) late = dlopen("./late.so", RTLD_NOW);
			driver = dlopen("libcuda.so.1", RTLD_NOW);
			if (argc < 2) late = dlopen("./late.so", RTLD_NOW);
			unsigned long *pointer = dlsym(late, "pointer");
			*(void **)dlsym(late, "free_it") = dlsym(driver, "cuMemFree_v2");
			((int (*)(unsigned))dlsym(driver, "cuInit"))(0);
			((int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
			((int (*)(void *))dlsym(driver, "cuCtxSetCurrent"))(context);
			return ((int (*)(unsigned long *, unsigned long))dlsym(driver, "cuMemAlloc_v2"))(pointer, 4096);
		}
	END
	export CUWARD_SIM_DEINIT=1
	for order in "" first; do
		# shellcheck disable=SC2086
		leaked 0 --fail-on leak -- ./order $order
		echo "$order: $(jq -c '.processes[0] | [.findings, .faults]' r.json)"
		ask '.leaks' '[]'
		ask '.complete' true
		ask '[.findings[].code | select(. == "free-after-shutdown")] | length' "$([ -n "$order" ]; echo $?)"
		[ -n "$order" ] || cases '[["free-after-shutdown",1,[[1,"end","main"]]]]'
	done
}

@test "memory that its context took along is reclaimed, not leaked" {
	faulty 'cuCtxCreate_v2(&other, 0, 0); take(); cuCtxDestroy_v2(other);'
	cases '[["context-reclaimed",1,[]]]'
	ask '.leaks' '[]'
	faulty 'cuCtxCreate_v2(&other, 0, 0); take(); give(); cuCtxDestroy_v2(other);'
	cases '[]'
	# What no context owns stays.
	faulty 'cuCtxCreate_v2(&other, 0, 0); cuMemAllocAsync(&p, 65536, 0); cuCtxDestroy_v2(other);'
	ask '.leaks | map([.verdict, .kind, .bytes])' '[["leak","pool",65536]]'
	cases '[]'
	# Not destroyed: it is a leak.
	faulty 'cuCtxCreate_v2(&other, 0, 0); take();'
	verdicts '[["leak",1]]'
}

@test "objects and pinned memory are told apart" {
	faulty 'cuStreamCreate(&other, 0);'
	cases '[["objects-live",1,[]]]'
	ask '.leaks' '[]'
	faulty 'cuMemHostAlloc(&other, 4096, 0);'
	ask '.leaks | map([.verdict, .kind, .device])' '[["leak","pinned",null]]'
	faulty 'cuMemHostAlloc(&other, 4096, 0); cuMemFreeHost(other);'
	ask '.leaks' '[]'
	# Registered memory belongs to the program, which is to unregister it, whatever becomes of it.
	faulty 'other = aligned_alloc(4096, 8192); cuMemHostRegister_v2(other, 8192, 0); free(other);'
	ask '.leaks | map([.verdict, .kind, .device, .bytes])' '[["leak","pinned",null,8192]]'
	faulty 'other = aligned_alloc(4096, 8192); cuMemHostRegister_v2(other, 8192, 0); cuMemHostUnregister(other);'
	ask '.leaks' '[]'
	# A pool that gives back what is freed, and is destroyed; one that is not.
	pool='struct { int type, handles, where, id; char rest[72]; } props = { 1, 0, 1, 0 };
		cuMemPoolCreate(&other, &props); cuMemAllocFromPoolAsync(&p, 100 << 20, other, 0);
		cuMemFreeAsync(p, 0); cuStreamSynchronize(0); take(); give();'
	faulty "$pool"
	cases '[["pool-not-destroyed",1,[]]]'
	faulty "$pool cuMemPoolDestroy(other);"
	cases '[]'
	ask '.memory.pool | [.allocs, .frees, .peak_bytes]' '[1,1,104857600]'
	# A range of addresses is no memory.
	faulty 'cuMemAddressReserve(&p, 1ul << 35, 0, 0, 0);'
	ask '.leaks' '[]'
}
