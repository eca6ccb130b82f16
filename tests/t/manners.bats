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
