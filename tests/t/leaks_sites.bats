#!/usr/bin/env bats
# Where a leak comes from: source lines, inlined functions, C++ names, native and Python frames.

load leaks

setup() {
	leaks_setup
	cat >cuda.h <<-'END'
		#ifdef __cplusplus
		extern "C" {
		#endif
		int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
		int cuMemAlloc_v2(unsigned long *, unsigned long), cuMemFree_v2(unsigned long);
		#ifdef __cplusplus
		}
		#endif
		static inline void start(void)
		{
			void *context;
			cuInit(0);
			cuDevicePrimaryCtxRetain(&context, 0);
			cuCtxSetCurrent(context);
		}
	END
}

teardown() { leaks_teardown; }

# build OUTPUT FLAG...: a C program from stdin, linked with the driver.
build() {
	cat >"$1.c"
	cc -g -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -I. -o "$1" "$1.c" "${@:2}" \
		-L"$B/sim" -lcuda -ldl -lpthread
}

frames() { ask '.leaks[0].native | map([.function, .line])' "$1"; }

a_leak() {
	build leak "$@" <<-'END'
		#include "cuda.h"
		static inline __attribute__((always_inline)) void inner(void)
		{
			unsigned long p;
			cuMemAlloc_v2(&p, 4096);
		}
		static __attribute__((noinline)) void outer(void)
		{
			inner();
		}
		int main(void)
		{
			start();
			outer();
			return 0;
		}
	END
}

@test "a static function, and what was inlined into it" {
	a_leak
	leaked 0 -- ./leak
	[[ $output == *"4 KiB in 1 allocation (device memory, GPU 0) from inner, leak.c:5 (leak+0x"* ]]
	frames '[["inner",5],["outer",9]]'
	ask '.leaks[0].native | map([.module, .inlined, (.file | split("/") | last)])' \
		'[["leak",true,"leak.c"],["leak",false,"leak.c"]]'
	ask '.leaks[0].native | map(.offset) | unique | length' 1
}

@test "without debug information: the function; without symbols: the offset" {
	a_leak
	objcopy --strip-debug leak plain
	leaked 0 -- ./plain
	[[ $output == *" from outer (plain+0x"* ]]
	frames '[["outer",null]]'
	strip -o bare leak
	leaked 0 -- ./bare
	[[ $output == *" from bare+0x"* ]]
	frames '[[null,null]]'
}

@test "debug information in a file of its own, by debuglink" {
	a_leak
	objcopy --only-keep-debug leak leak.debug
	strip leak
	objcopy --add-gnu-debuglink=leak.debug leak
	leaked 0 -- ./leak
	frames '[["inner",5],["outer",9]]'
}

@test "another file than the one that ran: offsets, and why" {
	a_leak -Wl,--build-id
	cp leak other
	build other2 -Wl,--build-id <<<'int main(void) { return 0; }'
	# The program replaces itself, as an update does.
	leaked 0 -- sh -c './leak; cp other2 new; mv new leak'
	ask '.leaks[0].native[0].note' '"the file is not the one that ran (its build id differs)"'
	frames '[[null,null]]'
	leaked 0 -- sh -c './other; rm other'
	ask '.leaks[0].native[0].note' '"the file is gone, so source lines are not known"'
	frames '[[null,null]]'
}

@test "a plugin that was opened by a relative path, from a folder that is left" {
	mkdir plugins
	build plugins/part.so -shared -fPIC <<-'END'
		#include "cuda.h"
		void part(void) { unsigned long p; cuMemAlloc_v2(&p, 4096); }
	END
	build host <<-'END'
		#include "cuda.h"
		#include <dlfcn.h>
		#include <unistd.h>
		int main(void)
		{
			void *plugin = dlopen("./plugins/part.so", RTLD_NOW);
			start();
			if (chdir("/")) return 1;
			((void (*)(void))dlsym(plugin, "part"))();
			return 0;
		}
	END
	leaked 0 -- ./host
	ask '.leaks[0].native | map([.module, .function, .line])' '[["part.so","part",2]]'
	ask '.leaks[0].native[0].path' "\"$PWD/plugins/part.so\""
}

@test "C++ names" {
	cat >model.cc <<-'END'
		#include "cuda.h"
		namespace net { template <typename T> struct Layer { void load(int); }; }
		template <typename T> __attribute__((noinline)) void net::Layer<T>::load(int)
		{
			unsigned long p;
			cuMemAlloc_v2(&p, 4096);
		}
		int main() { start(); net::Layer<float>().load(1); }
	END
	g++ -g -O1 -I. -o model model.cc -L"$B/sim" -lcuda
	leaked 0 -- ./model
	frames '[["net::Layer<float>::load(int)",6]]'
	[[ $output == *" from net::Layer<float>::load(int), model.cc:6 (model+0x"* ]]
}

a_deep_leak() {
	build deep "$@" <<-'END'
		#include "cuda.h"
		#include <pthread.h>
		#include <signal.h>
		#include <stdlib.h>
		#include <string.h>
		#include <ucontext.h>
		#include <unistd.h>
		static ucontext_t here, there;
		static void __attribute__((noinline)) leaf(void) { unsigned long p; cuMemAlloc_v2(&p, 4096); }
		static void __attribute__((noinline)) middle(void) { leaf(); }
		static void __attribute__((noinline)) upper(void) { middle(); }
		static void *thread(void *unused) { start(); upper(); return unused; }
		static void handler(int unused) { (void)unused; upper(); }
		int main(int argc, char **argv)
		{
			const char *how = argc > 1 ? argv[1] : "";
			start();
			if (!strcmp(how, "thread")) {
				pthread_attr_t small;
				pthread_t id;
				pthread_attr_init(&small);
				pthread_attr_setstacksize(&small, 16384 + 8192);
				pthread_create(&id, &small, thread, NULL);
				pthread_join(id, NULL);
			} else if (!strcmp(how, "signal")) {
				stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };
				struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
				sigaltstack(&stack, NULL);
				sigaction(SIGUSR1, &action, NULL);
				raise(SIGUSR1);
			} else if (!strcmp(how, "coroutine")) {
				getcontext(&there);
				there.uc_stack.ss_sp = malloc(65536);
				there.uc_stack.ss_size = 65536;
				there.uc_link = &here;
				makecontext(&there, upper, 0);
				swapcontext(&here, &there);
			} else {
				upper();
			}
			return 0;
		}
	END
}

@test "native frames" {
	a_deep_leak
	leaked 0 --stack native -- ./deep
	ask '.leaks[0].native[:4] | map(.function)' '["leaf","middle","upper","main"]'
	ask '.leaks[0].native[:3] | map(.line)' '[9,10,11]'
	leaked 0 --stack addr -- ./deep
	ask '.leaks[0].native | map(.function)' '["leaf"]'
	leaked 0 --stack none -- ./deep
	ask '.leaks[0].native' '[]'
	# Asking for leaks asks for how they came about.
	leaked 0 --leak exit -- ./deep
	ask '.leaks[0].native[:4] | map(.function)' '["leaf","middle","upper","main"]'
}

@test "native frames of a thread with a small stack" {
	a_deep_leak
	leaked 0 --stack full -- ./deep thread
	ask '.leaks[0].native[:4] | map(.function)' '["leaf","middle","upper","thread"]'
}

@test "on a foreign stack the caller is all, and nothing is read beyond" {
	a_deep_leak
	for how in signal coroutine; do
		leaked 0 --stack full -- ./deep $how
		ask '.leaks[0].native | map(.function)' '["leaf"]'
	done
}

@test "without frame pointers: by the call frame information" {
	a_deep_leak -fomit-frame-pointer -O2
	for how in "" thread; do
		# shellcheck disable=SC2086
		leaked 0 --stack full -- ./deep $how
		ask '.leaks[0].native[:3] | map([.function, .line])' '[["leaf",9],["middle",10],["upper",11]]'
		ask ".leaks[0].native[3].function" "\"${how:-main}\""
	done
	for how in signal coroutine; do
		leaked 0 --stack full -- ./deep $how
		ask '.leaks[0] | [.bytes, (.native | map(.function))]' '[4096,["leaf"]]'
	done
}

@test "without any information nothing faults" {
	a_deep_leak -fomit-frame-pointer -O2 -fno-asynchronous-unwind-tables -fno-unwind-tables
	for how in "" thread signal coroutine; do
		# shellcheck disable=SC2086
		leaked 0 --stack full -- ./deep $how
		ask '.leaks[0] | [.bytes, .native[0].function]' '[4096,"leaf"]'
	done
	# With frame pointers they are enough.
	a_deep_leak -O1 -fno-asynchronous-unwind-tables -fno-unwind-tables
	leaked 0 --stack full -- ./deep
	ask '.leaks[0].native[:4] | map(.function)' '["leaf","middle","upper","main"]'
}

@test "frames of odd shapes: large, aligned, of variable size, through C++ and qsort" {
	cat >odd.cc <<-'END'
		#include "cuda.h"
		#include <alloca.h>
		#include <stdlib.h>
		#include <string.h>
		#include <functional>
		#define APART __attribute__((noinline))
		static volatile char sink;
		static void APART leaf() { unsigned long p; cuMemAlloc_v2(&p, 4096); sink = 1; }
		static void APART large() { char room[100000]; memset(room, 1, sizeof room); leaf(); sink = room[7]; }
		static void APART variable(int n) { char *room = (char *)alloca(n); memset(room, 1, n); large(); sink = room[1]; }
		static void APART aligned(int n) { char __attribute__((aligned(64))) room[256]; memset(room, 1, n); variable(n); sink = room[3]; }
		static int APART compare(const void *a, const void *b) { static int once; if (!once++) aligned(77); return *(int *)a - *(int *)b; }
		static void APART sorted() { int all[3] = { 3, 1, 2 }; qsort(all, 3, sizeof(int), compare); sink = all[0]; }
		struct Thrower { ~Thrower() { sink = 2; } };
		static void APART guarded() { Thrower t; sorted(); sink = 3; }
		int main() { start(); std::function<void()> f = [] { guarded(); sink = 4; }; f(); return 0; }
	END
	for flags in "-O2 -fomit-frame-pointer" "-O0" "-O3 -march=x86-64-v3" "-O2 -fno-omit-frame-pointer"; do
		[ "$(uname -m)" = x86_64 ] || flags=${flags/-march=x86-64-v3/}
		# shellcheck disable=SC2086
		g++ -g $flags -fno-optimize-sibling-calls -I. -o odd odd.cc -L"$B/sim" -lcuda
		leaked 0 --stack native -- ./odd
		echo "$flags: $(jq -c '.processes[0].leaks[0].native | map(.function)' r.json)"
		ask '.leaks[0].native | map(.function // "" | split("(")[0]) |
			[.[] | select(IN("leaf", "large", "variable", "aligned", "compare", "sorted", "guarded", "main"))]' \
			'["leaf","large","variable","aligned","compare","sorted","guarded","main"]'
	done
}

@test "a C++ program without frame pointers" {
	cat >deep.cc <<-'END'
		#include "cuda.h"
		#include <vector>
		static void __attribute__((noinline)) leaf(unsigned long *p) { cuMemAlloc_v2(p, 4096); if (!*p) start(); }
		static void __attribute__((noinline)) upper(std::vector<unsigned long> &all)
		{
			for (auto &p : all) leaf(&p);
			all.push_back(1);
		}
		int main() { start(); std::vector<unsigned long> all(3); upper(all); return all.size() == 1; }
	END
	g++ -g -O2 -fomit-frame-pointer -I. -o deep deep.cc -L"$B/sim" -lcuda
	leaked 0 --stack native -- ./deep
	ask '.leaks | map([.count, (.native[:3] | map(.function | split("(")[0]))])' '[[3,["leaf","upper","main"]]]'
}

@test "equal stacks are one leak, others are not" {
	build many <<-'END'
		#include "cuda.h"
		static void __attribute__((noinline)) leaf(void) { unsigned long p; cuMemAlloc_v2(&p, 4096); }
		static void __attribute__((noinline)) one(void) { leaf(); }
		static void __attribute__((noinline)) two(void) { leaf(); }
		int main(void)
		{
			start();
			for (int i = 0; i < 1000; i++) { one(); if (i % 2) two(); }
			return 0;
		}
	END
	leaked 0 --stack native -- ./many
	ask '.leaks | map([.count, .native[1].function])' '[[1000,"one"],[500,"two"]]'
	leaked 0 --stack addr -- ./many
	ask '.leaks | map(.count)' '[1500]'
}

a_python_leak() {
	cat >train.py <<-'END'
		import ctypes, gc, sys, threading, weakref
		driver = ctypes.CDLL("libcuda.so.1") if "hold" not in sys.argv else ctypes.PyDLL("libcuda.so.1")
		def check(result):
		    assert result == 0, result
		def allocate():
		    p = ctypes.c_uint64()
		    check(driver.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4096)))
		    return p
		class Trainer:
		    def step(self):
		        allocate()
		context = ctypes.c_void_p()
		check(driver.cuInit(0))
		check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
		check(driver.cuCtxSetCurrent(context))
	END
	cat >>train.py
}

@test "lines of Python, with and without its lock" {
	a_python_leak <<<'for i in range(3): Trainer().step()'
	# Every version that is here.
	for version in python3{,.8,.9,.10,.11,.12,.13,.14}; do
		$version -c '' 2>/dev/null || continue
		for how in "--stack python:" "--stack full:" "--stack full:hold"; do
			# shellcheck disable=SC2086
			leaked 0 ${how%:*} -- $version train.py ${how#*:}
			# Before 3.11 a method has no longer name than its own.
			ask '.leaks | map([.count, (.python | map([(.file | split("/") | last), .line, (.function | split(".") | last)]))])' \
				'[[3,[["train.py",7,"allocate"],["train.py",11,"step"],["train.py",16,"<module>"]]]]'
			[[ $output == *" from allocate, train.py:7 (python)"* ]]
		done
	done
	leaked 0 --stack native -- python3 train.py
	ask '.leaks[0].python' '[]'
}

@test "Python's objects, exceptions and collector stay as they are" {
	a_python_leak <<-'END'
		frame = sys._getframe()
		count = lambda: (sys.getrefcount(None), sys.getrefcount(frame), sys.getrefcount(allocate.__code__),
		    sys.getrefcount(allocate), gc.isenabled(), sys.exc_info())
		allocate()
		before = count()
		for i in range(1000): allocate()
		after = count()
		assert all(abs(a - b) < 20 for a, b in zip(before[:4], after[:4])), (before, after)
		assert before[4:] == after[4:]
		gc.disable(); allocate(); assert not gc.isenabled(); gc.enable()
		# A finalizer that runs only when its object dies, not in the middle of a call.
		seen = []
		class Thing: pass
		for i in range(2000):
		    t = Thing(); t.me = t; weakref.finalize(t, seen.append, i); allocate()
		try:
		    raise ValueError("kept")
		except ValueError:
		    allocate()
		    assert "kept" in str(sys.exc_info()[1])
		# Code that lives shortly, at one address again and again.
		for i in range(300):
		    exec(compile(f"def f{i}():\n    allocate()\nf{i}()", f"cell-{i}", "exec"), globals().copy())
	END
	for how in "" hold; do
		# shellcheck disable=SC2086
		leaked 0 --stack python -- python3 train.py $how
		ask '[.leaks[] | select(.python[1].file | startswith("cell-")) |
			.python[1] | select(.function == ("f" + (.file | ltrimstr("cell-"))))] | length' 300
	done
}

@test "threads of Python, some of which end with the interpreter" {
	a_python_leak <<-'END'
		def worker(forever):
		    check(driver.cuCtxSetCurrent(context))
		    n = 0
		    while forever or n < 200:
		        p = allocate(); check(driver.cuMemFree_v2(p)); n += 1
		    allocate()
		threads = [threading.Thread(target=worker, args=(False,)) for i in range(4)]
		daemon = threading.Thread(target=worker, args=(True,), daemon=True)
		for t in threads + [daemon]: t.start()
		for t in threads: t.join()
	END
	leaked 0 --stack full -- python3 train.py
	ask '[.leaks[] | select(.python | map(.line) | index(21)) | .count] | add' 4
}
