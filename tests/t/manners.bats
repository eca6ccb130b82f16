#!/usr/bin/env bats
# The guest is unharmed: output, status, files and state are the same bare and under the preload.

load guest

setup() {
	guest_setup
	export CUWARD_MEMORY=4M
}

teardown() {
	rm -rf "${there:-}"
}

# outcome FILE COMMAND...: everything COMMAND says, its status, and the files it leaves.
outcome() {
	local status=0
	rm -rf work
	mkdir work
	(cd work && exec "${@:2}") >"$1.out" 2>"$1.err" </dev/null || status=$?
	echo "status $status" >>"$1.out"
	(cd work && find . -type f -printf '%P %m\n' -exec cat {} + | sort) >"$1.files" 2>/dev/null
}

# same COMMAND...: with the preload as without. It must say something, or leave a file.
same() {
	outcome bare "$@"
	LD_PRELOAD=$shim outcome with "$@"
	local what
	for what in out err files; do
		diff -a bare.$what with.$what || { echo "$*: $what"; false; }
	done
	[ "$(cat bare.out bare.err bare.files | wc -l)" -gt "${least:-0}" ]
}

# ---- programs that have nothing to do with CUDA ----

@test "shells, tools, interpreters" {
	same true
	same false
	same ls -la /etc
	same bash -c 'echo $((1 + 1)); (exit 3); echo $?; cat <(echo sub) | tr a-z A-Z; kill -TERM $$'
	same bash -c 'for i in {1..30}; do /bin/echo $i & done | sort'
	same sh -c 'ls /nowhere'
	same find /etc -maxdepth 1 -name 'p*'
	same sh -c 'echo data | gzip -n | gunzip'
	same awk 'BEGIN { print 1 / 3; "date +%Y" | getline y; print y }'
	same perl -e 'use POSIX; $SIG{USR1} = sub { print "usr1\n" }; kill "USR1", $$; if (fork == 0) { exit 7 }
		wait; print $? >> 8, "\n"; printf "%o\n", umask; die "the end\n"'
	same python3 -c 'import sys, os, threading, subprocess, ctypes
t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()
print(subprocess.run(["sh", "-c", "exit 4"]).returncode)
print(ctypes.CDLL(None).strlen(b"four"))
pid = os.fork()
if pid == 0: os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])); sys.exit(5)'
	same python3 -c 'import multiprocessing as m
if __name__ == "__main__":
    with m.get_context("fork").Pool(2) as p: print(p.map(abs, [-1, -2, -3]))'
}

@test "compilers" {
	echo 'int main(void) { return 42; }' >p.c
	same gcc -O2 -frandom-seed=1 -c -o p.o "$PWD/p.c"
	same gcc -o p "$PWD/p.c"
	same gcc -c "$PWD/absent.c"
	same make -f - <<<'all: ; @echo made'
}

@test "virtual machines" {
	command -v java >/dev/null || command -v node >/dev/null || skip "neither java nor node here"
	if command -v java >/dev/null; then
		same java -Xshare:auto -XX:+UseSerialGC -version
		! command -v javac >/dev/null || java_program
	fi
	! command -v node >/dev/null || node_program
}

# Both: threads, children with a status and with a signal, signals of its own, the end by status and by signal.
java_program() {
	cat >Guest.java <<-'END'
		import java.util.concurrent.*;
		import java.util.stream.*;
		import sun.misc.Signal;
		class Guest {
			static native void absent();
			static int child(String... command) throws Exception {
				return new ProcessBuilder(command).inheritIO().start().waitFor();
			}
			public static void main(String[] arguments) throws Exception {
				ExecutorService pool = Executors.newFixedThreadPool(6);
				var sums = pool.invokeAll(IntStream.range(0, 24).mapToObj(n -> (Callable<Long>)
					() -> LongStream.rangeClosed(0, 200_000L * n).sum()).collect(Collectors.toList()));
				for (var sum : sums)
					System.out.println(sum.get());
				pool.shutdown();
				System.out.println(child("sh", "-c", "echo a child; exit 3"));
				System.out.println(child("sh", "-c", "kill -9 $$"));
				CountDownLatch came = new CountDownLatch(2);
				for (String name : new String[] { "HUP", "USR2" }) {
					Signal.handle(new Signal(name), got -> { came.countDown(); });
					Signal.raise(new Signal(name));
				}
				System.out.println(came.await(60, TimeUnit.SECONDS));
				int[] none = null;
				try { System.out.println(none[0]); } catch (NullPointerException e) { System.out.println("null"); }
				try { deep(0); } catch (StackOverflowError e) { System.out.println("deep"); }
				try { absent(); } catch (UnsatisfiedLinkError e) { System.out.println(e.getMessage()); }
				Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("the end")));
				if (arguments.length > 0)
					child("kill", "-TERM", "" + ProcessHandle.current().pid());
				else
					System.exit(7);
				Thread.sleep(60000);
			}
			static int deep(int n) { return deep(n + 1) + 1; }
		}
	END
	javac -nowarn -d . Guest.java 2>said || { cat said; false; }
	least=30
	for how in "" killed; do
		# shellcheck disable=SC2086
		same java -Xshare:auto -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$PWD" Guest $how
		[ "$(tail -n 2 bare.out)" = "the end"$'\n'"status ${how:+143}$([ -n "$how" ] || echo 7)" ]
	done
}

node_program() {
	cat >guest.js <<-'END'
		const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
		const { spawnSync, spawn, fork } = require("child_process");
		if (process.argv[2] === "child")
			process.on("message", (n) => process.send(n * n, () => process.exit(5)));
		else if (!isMainThread) {
			let sum = 0;
			for (let i = 0; i < 100000 * workerData; i++) sum += i;
			parentPort.postMessage(sum);
		} else (async () => {
			const sums = [1, 2, 3, 4].map((n) => new Promise((done) =>
				new Worker(__filename, { workerData: n }).on("message", done)));
			console.log(await Promise.all(sums));
			const ran = spawnSync("sh", ["-c", "cat; echo words >&2; exit 3"], { input: "to it\n" });
			console.log(ran.status, String(ran.stdout), String(ran.stderr));
			const slept = spawn("sleep", ["60"]);
			slept.kill("SIGKILL");
			console.log(await new Promise((done) => slept.on("exit", (...how) => done(how))));
			const forked = fork(__filename, ["child"]);
			forked.send(12);
			console.log(await new Promise((done) => forked.on("message", done)));
			console.log(await new Promise((done) => forked.on("exit", done)));
			const waiting = setInterval(() => {}, 1000);
			for (const name of ["SIGUSR2", "SIGHUP"]) {
				const came = new Promise((done) => process.on(name, done));
				process.kill(process.pid, name);
				console.log(await came);
			}
			clearInterval(waiting);
			require("fs").writeFileSync("left", "here");
			process.on("exit", (code) => console.log("the end", code));
			if (process.argv[2] === "killed") process.kill(process.pid, "SIGTERM");
			else process.exitCode = 6;
		})();
	END
	least=10
	same node "$PWD/guest.js"
	[ "$(tail -n 2 bare.out)" = $'the end 6\nstatus 6' ]
	[ -n "$(grep '^left' bare.files)" ]
	same node "$PWD/guest.js" killed
	[ "$(tail -n 1 bare.out)" = "status 143" ]
}

@test "the loader and the C library as programs" {
	local loader libc
	loader=$(readelf -l "$(type -P true)" | sed -n 's/.*interpreter: \(.*\)\]/\1/p')
	libc=$(ldd "$(type -P true)" | awk '/libc\.so/ { print $3 }')
	same "$libc"
	same "$loader" --version
	same "$loader" "$(type -P echo)" hello
	# --list shows the preload itself, and nothing else is new.
	"$loader" --list "$(type -P true)" | awk '{ print $1 }' >bare
	LD_PRELOAD=$shim "$loader" --list "$(type -P true)" | awk '{ print $1 }' | grep -vxF "$shim" >with
	diff bare with
}

@test "an empty environment" {
	# shellcheck disable=SC2016
	for program in "$(type -P true)" "$(type -P ls)" "$BASH"; do
		[ "$(env -i LD_PRELOAD="$shim" "$program" </dev/null 2>&1)" = \
			"$(env -i "$program" </dev/null 2>&1)" ]
	done
	alone() {
		local program
		program=$(type -P "$1")
		[ "$(env -i LD_PRELOAD="$shim" "$program" "${@:2}" </dev/null 2>&1; echo $?)" = \
			"$(env -i "$program" "${@:2}" </dev/null 2>&1; echo $?)" ]
	}
	alone python3 -c 'import sys, subprocess; print(sys.argv, subprocess.run(["/bin/false"]).returncode); sys.exit(3)'
	alone perl -e 'print 6 * 7, "\n"; system("/bin/false"); exit($? >> 8)'
	alone gcc --version
	alone gcc -x c -E -P -
	alone gcc -c /nowhere.c
	env -i LD_PRELOAD="$shim" LD_LIBRARY_PATH="$B/sim" CUWARD_DIR="$CUWARD_DIR" \
		"$apps/play" init device 0 alloc 4M free 0
}

# ---- CUDA programs with habits ----

# habit NAME: before its first CUDA call, and after.
habit() {
	least=1
	same "$apps/manners" "$@"
	same "$apps/manners" "$@" used
	grep -q '^status 0$' bare.out
}

@test "errno, rounding, umask" {
	habit errno
	habit rounding
	habit umask
}

@test "signal handlers, restarted calls, handlers that call the driver" {
	habit handlers
	habit restart
	for how in storm elsewhere; do
		habit $how
		# And no allocation was lost count of.
		guest 0 "$apps/manners" $how
		[[ $output == "failed 0, in handlers 0, enough 1"* ]]
		ask '[.memory.device.live, .devices[0].used_bytes, .memory.device.allocs - .memory.device.frees]' '[0,0,0]'
		ask '.calls.cuMemAlloc_v2.count == .memory.device.allocs and .memory.device.allocs >= 160000' true
	done
}

@test "children of every kind" {
	habit children
}

@test "forks while threads are inside calls; a sampling profiler" {
	habit forks
	habit profiler
	# The simulated driver keeps no books for a child by clone.
	CUWARD_SIM_TRUTH='' CUWARD_SIM_POISON_FORK=0 habit children
}

# children_count: whatever child there was, each has its own books, and the parent's are its own.
children_count() {
	local how
	for how in fork clone "fork launch" "clone launch"; do
		CUWARD_SIM_POISON_FORK=0 guest 0 "$apps/forked" $how
		[ "$output" = "parent 0, child 0 2, parent 0 2" ] || { echo "$how: $output"; false; }
		ask '[.memory.device.allocs, .devices[0].used_bytes, .devices[0].denied]' "[2,$((4 * MiB)),1]"
	done
}

@test "kernels that do not wipe a forked child's memory, or only say so" {
	unset CUWARD_SIM_TRUTH # it keeps no books for a child by clone
	children_count
	"$CC" -shared -fPIC -D_GNU_SOURCE -o agrees.so "$TOP/tests/apps/plugins/agrees.c"
	shim="$PWD/agrees.so $shim"
	for KERNEL_OLD in '' 1; do
		export KERNEL_OLD
		[ -n "$KERNEL_OLD" ] || unset KERNEL_OLD
		children_count
		habit children
		habit forks
		CUWARD_SIM_POISON_FORK=0 habit children
	done
}

@test "all memory locked" {
	habit locked
	grep -q '^0 [0-9]* little$' bare.out
}

@test "descriptors closed, reused, and run out of" {
	habit descriptors
	habit few
}

@test "small stacks, cancelled threads" {
	habit stack
	export CUWARD_SIM_KERNEL_NS=endless=never
	habit cancel
}

# tight WHAT: the same, and it does more under a limit that is met there.
tight() {
	least=1
	export CUWARD_MEMORY=6M
	same "$apps/tight" "$1"
	TOO_MUCH=1 CUWARD_JOB=j CUWARD_JOB_MEMORY=6M CUWARD_LEAK=full CUWARD_LOG=warn guest "$2" "$apps/tight" "$1"
	grep -q '^\(0 \)\?0 0, too much 2, wrong 1$' <<<"$output" || { echo "$output"; false; }
	ask '[.memory.device.allocs, .memory.device.live, .devices[0].denied, (.leaks | length)]' "$3"
}

@test "the smallest stacks there are: first calls, refusals, the end" {
	tight smallest 3 '[5001,5000,1,1]'
	grep -q 'leaked 1.22 MiB in 5000 allocations' <<<"$output"
}

@test "a thread that was cancelled before its first call" {
	unset CUWARD_SIM_TRUTH # the simulated driver opens a file for it
	tight pending 0 '[5002,5000,1,1]'
	[ "$(tail -n 2 bare.out)" = $'1 0\nstatus 0' ]
}

@test "little address space; the last words of a thread" {
	least=1
	same "$apps/tight" space
	[ "$(head -n 1 bare.out)" = "0 0" ]
	same "$apps/tight" specific
	[ "$(grep -c '^0 given back 0$' bare.out)" -eq 3 ]
}

@test "exceptions and jumps out of a function that the driver calls" {
	cat >thrown.cc <<-'END'
		#include <csetjmp>
		#include <cstdio>
		#include <cuda.h>
		#include <stdexcept>
		static jmp_buf back;
		static size_t leave(int block) { if (block > 0) throw std::runtime_error("thrown"); return 0; }
		static size_t jump(int block) { if (block > 0) longjmp(back, 1); return 0; }
		int main(int argc, char **)
		{
			static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry k() { ret; }\n";
			CUcontext context; CUmodule module; CUfunction kernel; CUdeviceptr pointer; int a, b;
			cuInit(0); cuDevicePrimaryCtxRetain(&context, 0); cuCtxSetCurrent(context);
			cuModuleLoadData(&module, ptx); cuModuleGetFunction(&kernel, module, "k");
			for (int i = 0; i < 3; i++) {
				try { std::printf("returned %d\n", cuOccupancyMaxPotentialBlockSize(&a, &b, kernel, leave, 0, 0)); }
				catch (std::exception &what) { std::printf("%s\n", what.what()); }
				std::printf("%d ", cuMemAlloc(&pointer, 4 << 20)); std::printf("%d\n", cuMemFree(pointer));
			}
			if (!setjmp(back)) cuOccupancyMaxPotentialBlockSize(&a, &b, kernel, jump, 0, 0);
			else std::printf("jumped\n");
			std::printf("%d\n", cuMemAlloc(&pointer, argc > 1 ? 8 << 20 : 4096));
		}
	END
	g++ -w -isystem "$("$TOP/tests/cuda_headers.sh")" -o thrown thrown.cc -L"$B/sim" -lcuda
	least=8
	same "$PWD/thrown"
	[ "$(grep -c '^thrown$' bare.out) $(grep -c '^jumped$' bare.out)" = "3 1" ]
	# What follows is counted as before: nobody takes it for a call of the driver's own.
	guest 0 ./thrown over
	[ "$(tail -n 1 <<<"$output")" = 2 ]
	ask '[.calls.cuMemAlloc_v2.count, .devices[0].denied]' '[4,1]'
}

# Who has nothing to do with CUDA makes no system call of ours at its end, however it ends.
@test "a sandbox that kills for all but four system calls" {
	cat >killed.c <<-'END'
		#include <dlfcn.h>
		#include <linux/filter.h>
		#include <linux/seccomp.h>
		#include <stddef.h>
		#include <stdlib.h>
		#include <string.h>
		#include <sys/prctl.h>
		#include <sys/syscall.h>
		#include <sys/wait.h>
		#include <unistd.h>
		static void enter(void)
		{
			struct sock_filter filter[] = {
				BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
				BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 4, 0),
				BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 3, 0),
				BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
				BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
				BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
				BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
			};
			struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };
			prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
			if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(99);
		}
		int main(int argc, char **argv)
		{
			const char *how = argv[1];
			int status = 0;
			if (!strcmp(how, "opened")) dlsym(dlopen("libm.so.6", RTLD_NOW), "cos");
			if (!strcmp(how, "child") && fork() != 0) return wait(&status), status >> 8;
			enter();
			write(1, "in\n", 3);
			if (!strcmp(how, "_exit") || !strcmp(how, "child")) _exit(4);
			if (!strcmp(how, "quick")) quick_exit(5);
			if (!strcmp(how, "more")) getppid();
			return 3;
		}
	END
	$CC -w -D_GNU_SOURCE -o killed killed.c -ldl
	least=1
	for how in return:3 opened:3 _exit:4 child:4 quick:5 more:159; do
		same "$PWD/killed" "${how%:*}"
		[ "$(tail -n 1 bare.out)" = "status ${how#*:}" ]
	done
}

# Where the administrator's limits cannot be read, nobody starts.
@test "a sandbox that forbids files" {
	[ ! -e /etc/cuward ] || skip "limits are set on this machine"
	unset CUWARD_SIM_TRUTH
	habit sandbox
	CUWARD_MEMORY=3M LD_PRELOAD=$shim "$apps/manners" sandbox >said
	[ "$(sed -n 2p said)" = 2 ]
}

@test "the environment is read once" {
	least=1
	same "$apps/manners" environment
	same "$apps/manners" environment used
}

@test "the end: in a thread, with status 300" {
	least=3
	same "$apps/manners" end
	grep -q '^status 44$' bare.out
}

@test "a set-uid program is left alone, also where everybody is preloaded" {
	[ "$(id -u)" = 0 ] || skip "only root can make one"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	there=$(mktemp -d /tmp/cuward-test-XXXXXX)
	chmod 755 "$there"
	cp "$apps/play" "$B/sim/libcuda.so.1" "$shim" "$there"
	cp "$apps/play" "$there/suid"
	chown 12345 "$there/suid"
	chmod 4755 "$there/suid"
	mkdir -m 777 "$there/out"
	cp -a /etc etc
	echo "$there/libcuward.so" >etc/ld.so.preload
	echo "$there" >etc/ld.so.conf.d/00-test.conf
	export CUWARD_MEMORY=1M CUWARD_DIR=$there/out/state CUWARD_REPORT=$there/out/r.json
	unset CUWARD_SIM_TRUTH
	# The same program without the bit shows that the preload is there, and works.
	unshare -m sh -c "mount --bind etc /etc && ldconfig -C '$PWD/cache' -f etc/ld.so.conf &&
		cp cache /etc/ld.so.cache && '$there/play' init device 0 alloc 1M refused 1"
	[ -s "$there/out/r.json" ] && [ -d "$there/out/state" ]
	rm -rf "$there"/out/*
	unshare -m sh -c "mount --bind etc /etc && exec '$there/suid' init device 0 alloc 4M say done" >said 2>&1
	cat said
	[ "$(cat said)" = done ]
	[ -z "$(ls "$there/out")" ]
}

# ---- other ways to be in a process ----

@test "without anything but libc" {
	[ "$(id -u)" = 0 ] || skip "only root can change the root"
	local file
	mkdir -p root/lib
	for file in /bin/true /bin/echo /bin/env $(ldd /bin/true /bin/echo /bin/env | grep -o '/[^ ]*'); do
		[ -f "$file" ] || continue
		mkdir -p "root/$(dirname "$file")"
		cp -L "$file" "root/$file"
	done
	cp "$shim" root/libcuward.so
	run chroot root /bin/env LD_PRELOAD=/libcuward.so CUWARD_MEMORY=1G /bin/true
	[ "$status" -eq 0 ] && [ -z "$output" ] || { echo "$status $output"; false; }
	run chroot root /bin/env LD_PRELOAD=/libcuward.so CUWARD_MEMORY=1G /bin/echo hello
	[ "$status" -eq 0 ] && [ "$output" = hello ]
}

@test "opened late, after forty libraries that are heavy on TLS" {
	local i
	for i in {1..40}; do
		printf '__thread char room_%d[%d]; __thread long quick_%d __attribute__((tls_model("%s")));
			long touch_%d(void) { room_%d[1] = 1; return quick_%d++; }' \
			$i $([ $i -le 8 ] && echo 8 || echo 4000) $i "$([ $i -le 8 ] && echo initial-exec || echo global-dynamic)" $i $i $i >tls.c
		$CC -fPIC -shared -o "tls$i.so" tls.c
	done
	cat >late.c <<-'C'
		#include <dlfcn.h>
		#include <stdio.h>
		int main(int argc, char **argv)
		{
			char name[40];
			for (int i = 1; i <= 40; i++) {
				void *one;
				sprintf(name, "./tls%d.so", i);
				if (!(one = dlopen(name, RTLD_NOW))) { puts(dlerror()); return 1; }
				sprintf(name, "touch_%d", i);
				((long (*)(void))dlsym(one, name))();
			}
			void *late = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
			if (argc > 1 && !late) { puts(dlerror()); return 2; }
			void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
			void *from = late ? late : driver;
			unsigned long pointer;
			int r = ((int (*)(int))dlsym(from, "cuInit"))(0);
			r |= ((int (*)(void *, int))dlsym(from, "cuDevicePrimaryCtxRetain"))(&context, 0);
			r |= ((int (*)(void *))dlsym(from, "cuCtxSetCurrent"))(context);
			printf("%d %d\n", r, ((int (*)(void *, long))dlsym(from, "cuMemAlloc_v2"))(&pointer, 8 << 20));
			return 0;
		}
	C
	$CC -w -o late late.c -ldl
	[ "$(./late)" = "0 0" ] || { ./late; false; }
	[ "$(LD_PRELOAD=$shim ./late)" = "0 2" ]
	[ "$(./late "$shim")" = "0 2" ]
	[ -z "$(readelf -d "$shim" "$B"/libcuward-lttng.so 2>/dev/null | grep STATIC_TLS)" ]
	[ $(($(readelf -lW "$shim" | awk '$1 == "TLS" { print $6 }'))) -le 1024 ]
}

# In the parent, in the child, in both.
@test "switched off for one program" {
	export CUWARD_REPORT=$PWD/r-%p.json
	LD_PRELOAD=$shim CUWARD_DISABLE=1 "$apps/play" init device 0 alloc 8M \
		sh "CUWARD_DISABLE=0 $apps/play init device 0 alloc 1M refused 4M"
	[ "$(cat r-*.json | jq -s -c 'map(.processes[0].calls.cuMemAlloc_v2.count)')" = '[2]' ]
	rm r-*.json
	LD_PRELOAD=$shim "$apps/play" init device 0 alloc 1M refused 4M \
		sh "CUWARD_DISABLE=1 $apps/play init device 0 alloc 8M"
	[ "$(cat r-*.json | jq -s -c 'map(.processes[0].calls.cuMemAlloc_v2.count)')" = '[2]' ]
	rm r-*.json
	LD_PRELOAD=$shim CUWARD_DISABLE=1 "$apps/play" init device 0 alloc 8M sh "$apps/play init device 0 alloc 8M"
	[ ! -e "$(echo r-*.json)" ]
}
