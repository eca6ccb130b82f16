#!/usr/bin/env bats
# What others find by dlsym is what they find without us, whoever else is in the process.

load guest

setup_file() {
	export built=$BATS_FILE_TMPDIR
	local version level
	version=$(objdump -T /lib/*/libc.so.6 | awk '$NF == "getenv" { gsub(/[()]/, "", $(NF-1)); print $(NF-1) }')
	for level in O0 O2; do
		$CC -$level -fPIC -shared -D_GNU_SOURCE -DGLIBC="\"$version\"" -o "$built/asker-$level.so" \
			"$TOP/tests/apps/plugins/asker.c" -ldl
		$CC -$level -D_GNU_SOURCE -DGLIBC="\"$version\"" -rdynamic -o "$built/who-$level" \
			"$TOP/tests/apps/plugins/who.c" -ldl -lpthread
	done
	$CC -O1 -D_GNU_SOURCE -DGLIBC="\"$version\"" -o "$built/linked" -x c - -x none \
		"$built/asker-O0.so" -ldl <<<'void ask_all(const char *); int main(void) { ask_all("linked"); return 0; }'
	for name in overrider shadow hoard; do
		$CC -O0 -fPIC -shared -D_GNU_SOURCE -DGLIBC="\"$version\"" -o "$built/$name.so" \
			"$TOP/tests/apps/plugins/$name.c" -ldl
	done
	for level in O0 O2; do
		$CC -$level -finstrument-functions -D_GNU_SOURCE -DGLIBC="\"$version\"" -rdynamic \
			-o "$built/who-cyg-$level" "$TOP/tests/apps/plugins/who.c" -ldl -lpthread
		for name in address thread; do
			for compiler in gcc clang; do
				$compiler -fsanitize=$name -g -$level -D_GNU_SOURCE -DGLIBC="\"$version\"" -rdynamic \
					-o "$built/$compiler-$name-$level" "$TOP/tests/apps/plugins/who.c" -ldl -lpthread
			done
		done
	done
}

setup() {
	guest_setup
	export ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=report_bugs=1
}

# asks LINES PRELOAD COMMAND...: the same answers with PRELOAD, and with us before and after it.
asks() {
	local order status bare_status=0
	env ${2:+LD_PRELOAD="$2"} "${@:3}" >bare 2>bare.err || bare_status=$?
	[ "$bare_status" -eq 0 ] || { cat bare.err; false; }
	[ "$(wc -l <bare)" -ge "$1" ]
	for order in "${2:+$2:}$shim" ${2:+"$shim:$2"}; do
		case $order in *:*san.so*) continue ;; esac # must come first
		status=0
		env LD_PRELOAD="$order" "${@:3}" >with 2>with.err || status=$?
		[ "$status" -eq 0 ] || { echo "$order: status $status"; cat with.err; false; }
		diff bare with || { echo "$order"; false; }
		diff bare.err with.err || { echo "$order"; false; }
	done
}

# preload NAME: the library of that name, if the machine has it; it must, where the packages are ours.
preload() {
	ls /usr/lib/*/"$1" /lib/*/"$1" 2>/dev/null | head -1 | grep . || { echo "no $1" >&2; false; }
}

everybody() { # PRELOAD
	local level
	for level in O0 O2; do
		asks 500 "$1" "$built/who-$level" "$built/asker-O0.so" "$built/asker-O2.so"
	done
	asks 200 "$1" "$built/linked"
}

@test "alone" {
	everybody ""
	# The test can tell a difference: with another malloc in front, the answers change.
	"$built/who-O0" >one
	LD_PRELOAD=$(preload libjemalloc.so.2) "$built/who-O0" >other
	! cmp -s one other
}

@test "with other allocators" {
	everybody "$(preload libjemalloc.so.2)"
	everybody "$(preload libtcmalloc_minimal.so.4)"
}

lttngs=(libc-wrapper pthread-wrapper dl fork fd cyg-profile cyg-profile-fast)

@test "with lttng's own preloads" {
	[ -e "$B/libcuward-lttng.so" ] || skip "built without LTTng"
	export LTTNG_HOME=$PWD LTTNG_UST_REGISTER_TIMEOUT=0
	for library in "${lttngs[@]}"; do
		everybody "$(preload liblttng-ust-$library.so.1)"
	done
	# Those are called by programs that tell them of each function.
	for library in cyg-profile cyg-profile-fast; do
		for level in O0 O2; do
			nm -D "$built/who-cyg-$level" | grep -q ' U __cyg_profile_func_enter'
			asks 500 "$(preload liblttng-ust-$library.so.1)" "$built/who-cyg-$level" "$built/asker-O0.so" "$built/asker-O2.so"
		done
	done
	asks 200 "$(preload liblttng-ust-libc-wrapper.so.1):$(preload liblttng-ust-dl.so.1)" "$built/linked"
}

@test "with others that override dlsym or shadow libc" {
	everybody "$built/hoard.so"
	everybody "$built/shadow.so"
	# It is a C wrapper, so it changes answers; with us behind or before it they are its own.
	asks 200 "$built/overrider.so" "$built/linked"
}

@test "in programs built with AddressSanitizer and ThreadSanitizer" {
	for name in address thread; do
		for level in O0 O2; do
			for asker in O0 O2; do
				asks 300 "" "$built/clang-$name-$level" "$built/asker-$asker.so"
				asks 300 "$(gcc -print-file-name=lib${name:0:1}san.so)" "$built/gcc-$name-$level" \
					"$built/asker-$asker.so"
			done
		done
	done
}

@test "under Valgrind, without a complaint" {
	for level in O0 O2; do
		asks 500 "" valgrind -q --error-exitcode=9 "$built/who-$level" "$built/asker-O0.so" "$built/asker-O2.so"
	done
	asks 0 "" valgrind -q --error-exitcode=9 true
}

# In a search for leaks memcheck would look through all that the simulated driver keeps for GPUs.
memcheck() { valgrind -q --error-exitcode=9 --leak-check=no "$@" 2>&1; }

@test "whole CUDA programs under Valgrind: the same answers and books, without a complaint" {
	"$CC" --version | grep -qi clang && skip "valgrind cannot read what this compiler writes"
	books='.processes[0] | [.devices, .memory, .objects, .findings, .calls]'
	cat >addresses.c <<-'END'
	#include <cuda.h>
	#include <stdio.h>
	#include <stdlib.h>
	int main(void)
	{
		CUcontext context;
		CUdeviceptr pointers[8];
		int uninitialised = malloc(1) == NULL;

		cuInit(0);
		cuDevicePrimaryCtxRetain(&context, 0);
		cuCtxSetCurrent(context);
		for (int i = 0; i < 8; i++)
			printf("%d %d", i, cuMemAlloc(&pointers[i], 1000ul << 2 * i)), printf(" %#llx\n", pointers[i] - pointers[0]);
		for (int i = 0; i < 8; i += 2)
			cuMemFree(pointers[i]);
		return uninitialised;
	}
	END
	"$CC" -g -isystem "$("$TOP/tests/cuda_headers.sh")" -o addresses addresses.c -L"$B/sim" -lcuda
	for program in ./addresses "$apps/train"; do
		memcheck "$program" >bare
		LD_PRELOAD=$shim CUWARD_REPORT=$PWD/natively.json "$program" >natively
		LD_PRELOAD=$shim CUWARD_REPORT=$PWD/checked.json memcheck "$program" >checked
		diff bare checked
		diff natively checked
		diff <(jq "$books" natively.json) <(jq "$books" checked.json)
		[ "$(wc -l <checked)" -ge 4 ]
	done
	[ "$(jq '.processes[0].memory.device | [.allocs, .frees] | add' checked.json)" -gt 10 ]
}

# driven PRELOAD COMMAND...: a CUDA program with the others in the process; the limit holds.
driven() {
	LD_PRELOAD=$1 CUWARD_MEMORY=8M CUWARD_REPORT=$PWD/d.json "${@:2}" >said 2>&1 || { echo "$1"; cat said; false; }
	ask '[.devices[0].denied, .calls.cuMemAlloc_v2.count]' '[1,2]' d.json
	rm d.json
}

@test "CUDA programs in that company" {
	local library
	export LTTNG_HOME=$PWD LTTNG_UST_REGISTER_TIMEOUT=0
	local others=("$(preload libjemalloc.so.2)" "$(preload libtcmalloc_minimal.so.4)" "$built/shadow.so"
		"$built/overrider.so" "$built/hoard.so")
	[ ! -e "$B/libcuward-lttng.so" ] || for library in "${lttngs[@]}"; do
		others+=("$(preload liblttng-ust-$library.so.1)")
	done
	for library in "${others[@]}"; do
		driven "$library:$shim" "$apps/play" init device 0 alloc 4M refused 5M
		driven "$shim:$library" "$apps/play" init device 0 alloc 4M refused 5M
	done
	for name in address thread; do
		clang -fsanitize=$name -g -D_GNU_SOURCE -w -rdynamic -o play-clang "$TOP/tests/apps/play.c" -ldl
		driven "$shim" ./play-clang init device 0 alloc 4M refused 5M fork '(' ')' wait
		gcc -fsanitize=$name -g -D_GNU_SOURCE -w -rdynamic -o play-gcc "$TOP/tests/apps/play.c" -ldl
		driven "$(gcc -print-file-name=lib${name:0:1}san.so):$shim" ./play-gcc init device 0 alloc 4M refused 5M
	done
}

# An auditor of the loader is told of each binding, and sees calls before they are made.
@test "with an auditor (LD_AUDIT)" {
	cat >audit.c <<-'END'
		#include <link.h>
		unsigned la_version(unsigned version) { return version; }
		unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie) { return LA_FLG_BINDTO | LA_FLG_BINDFROM; }
		#ifdef __x86_64__
		uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned n, uintptr_t *by, uintptr_t *in, unsigned *flags, const char *name)
		{ return symbol->st_value; }
		Elf64_Addr la_x86_64_gnu_pltenter(Elf64_Sym *symbol, unsigned n, uintptr_t *by, uintptr_t *in, La_x86_64_regs *regs,
			unsigned *flags, const char *name, long *bytes)
		{ return symbol->st_value; }
		#endif
	END
	$CC -w -D_GNU_SOURCE -shared -fPIC -o audit.so audit.c
	for level in O0 O2; do
		LD_AUDIT=$PWD/audit.so asks 500 "" "$built/who-$level" "$built/asker-O0.so" "$built/asker-O2.so"
	done
	LD_AUDIT=$PWD/audit.so driven "$shim" "$apps/play" init device 0 alloc 4M refused 5M
}

@test "libraries come and go in four threads while two look up" {
	cat >small.c <<-'END'
		#include <dlfcn.h>
		int small(void) { return dlsym(RTLD_DEFAULT, "getpid") && dlsym(RTLD_NEXT, "puts") ? 42 : 0; }
		__attribute__((constructor)) static void begin(void) { dlsym(RTLD_DEFAULT, "puts"); }
	END
	for i in 0 1 2 3; do $CC -w -D_GNU_SOURCE -shared -fPIC -o small$i.so small.c -ldl; done
	cat >busy.c <<-'END'
		#include <dlfcn.h>
		#include <pthread.h>
		#include <stdio.h>
		#include <stdlib.h>
		static void *come_and_go(void *number)
		{
			char name[40];
			sprintf(name, "./small%ld.so", (long)number);
			for (int i = 0; i < 1500; i++) {
				void *library = dlopen(name, (long)number & 1 ? RTLD_NOW : RTLD_LAZY | RTLD_DEEPBIND);
				int (*small)(void) = (int (*)(void))dlsym(library, "small");
				if (!small || small() != 42 || dlclose(library)) exit(1);
			}
			return NULL;
		}
		static void *look(void *stop)
		{
			while (!*(volatile int *)stop) {
				void *library = dlopen("libm.so.6", RTLD_NOW);
				if (!dlsym(library, "cos") || !dlsym(RTLD_DEFAULT, "malloc") || dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")) exit(2);
				dlclose(library);
			}
			return NULL;
		}
		int main(void)
		{
			pthread_t threads[6];
			volatile int stop = 0;
			for (long i = 0; i < 6; i++) pthread_create(&threads[i], NULL, i < 4 ? come_and_go : look, i < 4 ? (void *)i : (void *)&stop);
			for (int i = 0; i < 6; i++) { if (i == 4) stop = 1; pthread_join(threads[i], NULL); }
			puts("done");
			return 0;
		}
	END
	$CC -w -D_GNU_SOURCE -o busy busy.c -ldl -lpthread
	[ "$(timeout 120 ./busy)" = done ]
	for _ in 1 2 3; do
		[ "$(LD_PRELOAD=$shim timeout 120 ./busy 2>&1)" = done ]
	done
}

@test "the driver closed and opened again" {
	cat >again.c <<-'C'
		#include <dlfcn.h>
		#include <stdio.h>
		typedef int (*call)();
		int main(void)
		{
			for (int i = 0; i < 5; i++) {
				void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
				unsigned long long pointer;
				int r = ((call)dlsym(driver, "cuInit"))(0);
				r |= ((call)dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
				r |= ((call)dlsym(driver, "cuCtxSetCurrent"))(context);
				r |= ((call)dlsym(driver, "cuMemAlloc_v2"))(&pointer, 1ul << 20);
				r |= ((call)dlsym(driver, "cuMemFree_v2"))(pointer);
				printf("%d %d ", r, dlclose(driver));
			}
			puts(dlsym(RTLD_DEFAULT, "cuInit") ? "there" : "gone");
			return 0;
		}
	C
	$CC -w -o again again.c -ldl
	./again >bare
	guest 0 ./again
	[ "$output" = "$(cat bare)" ]
	ask '[.calls.cuInit.count, .memory.device.allocs, .memory.device.frees]' '[5,5,5]'
}

@test "a session of gdb" {
	printf '%s\n' "set confirm off" "set breakpoint pending on" "set startup-with-shell off" \
		"break cuMemAlloc_v2" run backtrace delete finish continue >script
	$CC -g -w -O0 -o debugged -x c - -L"$B/sim" -lcuda <<-'C'
		int cuInit(int), cuDevicePrimaryCtxRetain(void *, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(void *, long);
		static int ask(void) { long pointer; return cuMemAlloc_v2(&pointer, 4096); }
		int main(void) { void *context; return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
			cuCtxSetCurrent(context) || ask() ? 1 : 7; }
	C
	timeout -k 5 100 gdb -nx -batch -ex "set env LD_PRELOAD=$shim" -ex "set env CUWARD_MEMORY=8M" \
		-x script ./debugged >said 2>&1 || true
	grep -q '^Breakpoint 1' said || { cat said; false; }
	grep -q ' ask ()' said
	grep -q ' main ()' said
	grep -q 'Value returned is .* = CUDA_SUCCESS' said || { cat said; false; }
	grep -q 'exited with code 07' said || { cat said; false; }
}
