#!/usr/bin/env bats
# However a process ends: the right report, once, of the right process; and nothing that is freed late leaks.

load leaks

setup() {
	leaks_setup
	export CUWARD_SIM_POISON_FORK=0
	ends=$B/apps/ends
	ulimit -c 0
}

teardown() { leaks_teardown; }

# ended STATUS WAY EXPECTED: processes as [ended, status, verdicts and bytes, complete], smallest first;
# once by cuward run, and once by themselves, where only orderly ends are seen.
ended() {
	local status=0
	rm -rf r.json alone
	timeout 60 "$B/cuward" run -q --sim --report r.json "$ends" $2 >said 2>&1 || status=$?
	echo "$2: status $status $(cat said)"
	[ "$status" -eq "$1" ]
	[ ! -s said ]
	said=$(jq -c '[.processes[] | [.ended, .status, ([.leaks[] | [.verdict, .bytes, .count]]), .complete]] | sort_by(.[2][0][1])' r.json)
	echo "$said"
	[ "$said" = "$3" ]
	mkdir alone
	status=0
	LD_LIBRARY_PATH=$B/sim LD_PRELOAD=$B/libcuward.so CUWARD_REPORT=$PWD/alone/%p.json \
		timeout 60 "$ends" $2 >said 2>&1 || status=$?
	[ "$status" -eq "$1" ]
	for i in $(seq 100); do
		said=$(cat alone/*.json 2>/dev/null | jq -sc '[.[].processes[] | [.ended, .status, ([.leaks[] | [.verdict, .bytes, .count]]), .complete]] | sort_by(.[2][0][1])')
		[ "$said" = "${4-$3}" ] && break
		sleep 0.1
	done
	echo "alone: $said"
	[ "$said" = "${4-$3}" ]
}

two='[["leak",8192,2]]' held='[["killed",8192,2]]' big='[["leak",65536,1]]'

@test "orderly ends of one process" {
	ended 0 return '[["exit",0,'$two',true]]'
	ended 5 thread_exit '[["exit",5,'$two',true]]'
	ended 4 _exit '[["exit",4,'$two',true]]'
	ended 4 _Exit '[["exit",4,'$two',true]]'
	ended 4 quick_exit '[["exit",4,'$two',true]]'
	ended 0 pthread_exit '[["exit",0,[["leak",8192,2],["leak",4096,1]],true]]'
}

@test "quick_exit: its handlers come first, whoever registered them when" {
	ended 4 quick_frees '[["exit",4,'$two',true]]'
	ended 4 quick_fork '[["exit",4,'$two',true],["exit",3,'$big',true]]'
	# A library that is opened registers in its constructor, and takes its handler along when it is closed.
	for name in linked opened; do
		[ $name = opened ] && when="__attribute__((constructor)) static void" || when="void"
		cc -shared -fPIC -o $name.so -x c - -L"$B/sim" -lcuda <<-END
			#include <stdlib.h>
			int cuMemAlloc_v2(unsigned long *, unsigned long), cuMemFree_v2(unsigned long);
			static unsigned long p;
			void ${name}_take(void) { if (cuMemAlloc_v2(&p, 4096)) abort(); }
			static void at_end(void) { if (p && cuMemFree_v2(p)) abort(); }
			$when ${name}_start(void) { if (at_quick_exit(at_end)) abort(); }
		END
	done
	cat >quick.c <<-'END'
		#include <dlfcn.h>
		#include <stdlib.h>
		int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
		void linked_take(void), linked_start(void);
		int main(int argc, char **argv)
		{
			void *context, *opened = dlopen("./opened.so", RTLD_NOW);
			if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) abort();
			linked_start();
			linked_take();
			((void (*)(void))dlsym(opened, "opened_take"))();
			if (argc > 1) dlclose(opened);
			quick_exit(9);
		}
	END
	cc -o quick quick.c ./linked.so -L"$B/sim" -lcuda -ldl -Wl,-rpath,"$PWD"
	LD_LIBRARY_PATH=$B/sim ./quick || [ $? -eq 9 ]
	for close in "" close; do
		rm -f r.json
		status=0
		LD_LIBRARY_PATH=$B/sim LD_PRELOAD=$B/libcuward.so CUWARD_LEAK=exit CUWARD_REPORT=$PWD/r.json \
			./quick $close 2>said || status=$?
		[ $status -eq 9 ]
		cat said r.json
		# What a closed library left behind is a leak, and said in words too.
		[ "$(jq -c '.processes[0] | [.ended, .status, .complete, (.leaks | map([.verdict, .bytes]))]' r.json)" = \
			'["exit",9,true,'"${close:+[[\"leak\",4096]]}$([ -n "$close" ] || echo '[]')"']' ]
		[ "$(grep -c 'leaked 4 KiB in 1 allocation' said)" -eq "$([ -z "$close" ]; echo $?)" ]
	done
}

@test "ends without order: what was held is told by cuward run, and no leak" {
	ended 4 syscall_exit '[["exit",4,'$held',false]]' '[]'
	ended 134 abort '[["signal",134,'$held',false]]' '[]'
	for signal in 1 2 9 11 15; do
		ended $((128 + signal)) signal$signal '[["signal",'$((128 + signal))','$held',false]]' '[]'
	done
	# Killed alone, each leaves its ledger, which goes with the next one in its slot.
	[ "$(find state -name '*.ledger' | wc -l)" -eq 1 ]
	ended 0 return '[["exit",0,'$two',true]]'
	[ -z "$(find state -name '*.ledger')" ]
}

@test "another program in its place, and beside it" {
	ended 0 exec '[["exec",null,'$held',false],["exit",0,'$big',true]]' '[["exit",0,'$big',true]]'
	# One that does not use CUDA, by whose name it is seen; a name may be a process's own, so not of who is killed.
	ended 4 exec_other '[["exec",null,'$held',false]]' '[]'
	ended 137 exec_killed '[["signal",137,'$held',false]]' '[]'
	ended 4 exec_fails '[["exit",4,'$held',false]]' '[]'
	ended 0 vfork '[["exit",0,'$two',true]]'
	for way in vfork_exec spawn; do
		ended 0 $way '[["exit",0,'$two',true],["exit",0,'$big',true]]'
	done
}

@test "forked children report on their own" {
	ended 0 fork_exit '[["exit",0,'$two',true],["exit",3,'$big',true]]'
	ended 0 fork__exit '[["exit",0,'$two',true],["exit",3,'$big',true]]'
	ended 0 child_first '[["exit",0,'$two',true],["exit",3,'$big',true]]'
	ended 0 clone '[["exit",0,'$two',true],["exit",0,'$big',true]]'
}

@test "a daemon reports at its end" {
	mkdir alone
	LD_LIBRARY_PATH=$B/sim LD_PRELOAD=$B/libcuward.so CUWARD_REPORT=$PWD/alone/%p.json "$ends" daemon
	for i in $(seq 100); do [ -n "$(ls alone)" ] && break; sleep 0.1; done
	[ "$(ls alone | wc -l)" -eq 1 ]
	[ "$(jq -c '.processes[0].leaks | map([.verdict, .bytes])' alone/*.json)" = '[["leak",8192]]' ]
	# The command waits for it here; one that outlives the command is said to run.
	mkfifo gone
	timeout 60 "$B/cuward" run -q --sim --report r.json sh -c '"$1" daemon 9>gone & cat gone' - "$ends"
	[ "$(jq -c '[.processes[] | [.ended, .status, .complete, (.leaks | map([.verdict, .bytes]))]]' r.json)" = \
		'[["exit",0,true,[["leak",8192]]]]' ]
}

@test "the report calls no driver that has ended" {
	export CUWARD_SIM_DEINIT=abort
	for way in return _exit quick_exit thread_exit fork_exit; do
		status=0
		timeout 60 "$B/cuward" run -q --sim "$ends" $way || status=$?
		[ "$status" -lt 128 ]
		status=0
		LD_LIBRARY_PATH=$B/sim LD_PRELOAD=$B/libcuward.so CUWARD_LEAK=exit CUWARD_REPORT=$PWD/%p-$way.json \
			timeout 60 "$ends" $way 2>said || status=$?
		[ "$status" -lt 128 ]
		grep -q "leaked 8 KiB in 2 allocations" said
	done
}

@test "Python: os._exit, multiprocessing by every start method, exceptions, atexit" {
	cat >gpu.py <<-'END'
		import ctypes
		def take(size):
		    driver, context, pointer = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
		    for result in (driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
		                   driver.cuCtxSetCurrent(context),
		                   driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))):
		        assert result == 0, result
		    return pointer
		def give(pointer):
		    assert ctypes.CDLL("libcuda.so.1").cuMemFree_v2(pointer) == 0
		def work(n):
		    take(4096 * (n + 1))
		    return n
	END
	cat >pool.py <<-'END'
		import multiprocessing, sys
		from gpu import work
		if __name__ == "__main__":
		    context = multiprocessing.get_context(sys.argv[1])
		    with context.Pool(3) as pool:
		        assert pool.map(work, range(6), 2) == list(range(6))
		        pool.close(); pool.join()
	END
	leaked() { # STATUS EXPECTED COMMAND...: [verdict, bytes] over all processes
		local status=0
		rm -f r.json
		timeout 60 "$B/cuward" run -q --sim --report r.json "${@:3}" 2>said || status=$?
		echo "status $status: $(cat said) $(jq -c '[.processes[] | [.ended, .status, .leaks[0].verdict]]' r.json)"
		[ "$status" -eq "$1" ]
		[ "$(jq -c '[.processes[].leaks[] | [.verdict, .bytes]] | sort_by(.[1])' r.json)" = "$2" ]
	}
	leaked 3 '[["leak",4096]]' python3 -c 'import gpu, os; gpu.take(4096); os._exit(3)'
	leaked 1 '[["leak",4096]]' python3 -c 'import gpu; gpu.take(4096); raise ValueError'
	leaked 2 '[["leak",4096]]' python3 -c 'import gpu, sys; gpu.take(4096); sys.exit(2)'
	leaked 0 '[]' python3 -c 'import atexit, gpu; p = gpu.take(4096); atexit.register(gpu.give, p)'
	leaked 0 '[]' python3 -c '
import gpu
class Buffer:
    def __init__(self): self.p, self.give = gpu.take(4096), gpu.give
    def __del__(self): self.give(self.p)
buffer = Buffer()'
	for method in fork spawn forkserver; do
		rm -f r.json
		timeout 60 "$B/cuward" run -q --sim --report r.json python3 pool.py $method
		# Which worker did what is chance; all of it is there, once.
		said=$(jq -c '[.processes[].leaks[]] | [(map(.bytes) | add), (map(.count) | add), (map(.verdict) | unique)]' r.json)
		echo "$method: $said"
		[ "$said" = '[86016,6,["leak"]]' ]
	done
}

late_library() { # NAME: takes when it is told to, and frees in its destructor
	cc -shared -fPIC -o "$1.so" -x c - -L"$B/sim" -lcuda <<-END
		#include <stdlib.h>
		int cuMemAlloc_v2(unsigned long *, unsigned long), cuMemFree_v2(unsigned long);
		static unsigned long a, b;
		static void at_exit(void) { if (cuMemFree_v2(b)) abort(); }
		void $1_take(void)
		{
			if (cuMemAlloc_v2(&a, 4096) || cuMemAlloc_v2(&b, 4096)) abort();
			atexit(at_exit);
		}
		__attribute__((destructor)) static void end(void) { if (a && cuMemFree_v2(a)) abort(); }
	END
}

@test "frees in destructors, statics, thread_locals and handlers come in time" {
	late_library linked
	late_library opened
	cat >late.cc <<-'END'
		#include <dlfcn.h>
		#include <cstdlib>
		#include <cstring>
		#include <memory>
		#include <thread>
		#include <unistd.h>
		extern "C" {
		int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
		int cuMemAlloc_v2(unsigned long *, unsigned long), cuMemFree_v2(unsigned long);
		void linked_take(void);
		}
		static void *context;
		static void start()
		{
			if (!context && (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0))) abort();
			cuCtxSetCurrent(context);
		}
		struct Buffer {
			unsigned long p;
			Buffer() { start(); if (cuMemAlloc_v2(&p, 4096)) abort(); }
			~Buffer() { if (cuMemFree_v2(p)) abort(); }
		};
		static Buffer before_main;
		static std::unique_ptr<Buffer> made_later;
		static Buffer &function_static() { static Buffer one; return one; }
		static Buffer &of_thread() { thread_local Buffer one; return one; }
		static unsigned long of_handler;
		int main(int argc, char **argv)
		{
			void *opened = dlopen("./opened.so", RTLD_NOW | RTLD_LOCAL);
			made_later.reset(new Buffer);
			function_static();
			of_thread();
			std::thread([] { start(); of_thread(); }).join();
			if (cuMemAlloc_v2(&of_handler, 4096)) abort();
			atexit([] { cuMemFree_v2(of_handler); });
			linked_take();
			reinterpret_cast<void (*)()>(dlsym(opened, "opened_take"))();
			if (argc > 1 && !strcmp(argv[1], "thread")) std::thread([] { exit(0); }).join();
			if (argc > 1 && !strcmp(argv[1], "leak")) new Buffer;
			return 0;
		}
	END
	g++ -g -O1 -o late late.cc ./linked.so -L"$B/sim" -lcuda -ldl -lpthread -Wl,-rpath,"$PWD"
	LD_LIBRARY_PATH=$B/sim ./late
	rm -f r.json
	"$B/cuward" run -q --sim --report r.json --fail-on leak ./late
	[ "$(jq -c '.processes[0] | [.leaks, .memory.device.allocs, .memory.device.frees]' r.json)" = '[[],10,10]' ]
	# exit from a thread: the thread_local of main stays, as it does without us.
	rm r.json
	"$B/cuward" run -q --sim --report r.json ./late thread
	[ "$(jq -c '.processes[0].leaks | map([.verdict, .count])' r.json)" = '[["leak",1]]' ]
	rm r.json
	"$B/cuward" run -q --sim --report r.json ./late leak
	[ "$(jq -c '.processes[0].leaks | map([.verdict, .count])' r.json)" = '[["leak",1]]' ]
	# By itself, too.
	rm r.json
	LD_LIBRARY_PATH=$B/sim LD_PRELOAD=$B/libcuward.so CUWARD_LEAK=exit CUWARD_REPORT=$PWD/r.json ./late 2>said
	[ ! -s said ]
	[ "$(jq -c '.processes[0].leaks' r.json)" = '[]' ]
}
