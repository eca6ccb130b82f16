#!/usr/bin/env bats
# What leak finders of others got wrong: intentional leaks, silent CI, objects, managed memory, the killed.

load leaks

setup() {
	leaks_setup
	play=$B/apps/play
}

teardown() { leaks_teardown; }

start='int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long *, unsigned long), cuMemFree_v2(unsigned long);
static unsigned long p; static void *c;
static inline void start(void) { cuInit(0); cuDevicePrimaryCtxRetain(&c, 0); cuCtxSetCurrent(c); }'

@test "a framework that leaks on purpose, and one real leak" {
	cc -shared -fPIC -o libframework.so -x c - -L"$B/sim" -lcuda <<-'END'
		int cuMemAlloc_v2(unsigned long *, unsigned long);
		void framework_open(void) { unsigned long p; for (int i = 0; i < 3; i++) cuMemAlloc_v2(&p, 1 << 20); }
	END
	cc -g -o train -x c - -L. -lframework -L"$B/sim" -lcuda -Wl,-rpath,"$PWD" <<-END
		$start
		void framework_open(void);
		static void load_batch(void) { cuMemAlloc_v2(&p, 4096); }
		int main(int argc, char **argv)
		{
			start();
			framework_open();
			if (argc > 1)
				load_batch();
			return 0;
		}
	END
	echo 'lib:^libframework.so$' >known.supp
	leaked 23 --fail-on leak -- ./train
	leaked 0 --fail-on leak --suppressions known.supp -- ./train
	ask_report '.processes[0].leaks | map([.count, .suppressed_by])' '[[3,"lib:^libframework.so$"]]'
	leaked 23 --fail-on leak --suppressions known.supp -- ./train too
	[[ $output == *"leaked 4 KiB in 1 allocation:"*"from load_batch, "* ]]
	ask_report '.run | [.leaked, .leaked_bytes]' '[1,4096]'
	leaked 0 --fail-on leak:4097 --suppressions known.supp -- ./train too
	leaked 23 --fail-on leak:4096 --suppressions known.supp -- ./train too
}

@test "a leak that CI sees: status, and the program's own status first" {
	leaked 0 -- "$play" init device 0 alloc 1M
	ask_report '.run | [.command_status, .exit_status, .failed_on, .leaked]' '[0,0,null,1]'
	leaked 23 --fail-on=leak -- "$play" init device 0 alloc 1M
	ask_report '.run | [.command_status, .exit_status, .failed_on, .leaked]' '[0,23,"leak",1]'
	[[ $output == *$'\ncuward: exit status 23, as --fail-on leak has it' ]]
	leaked 23 -q --fail-on=leak -- "$play" init device 0 alloc 1M
	[ -z "$output" ]
	leaked 3 --fail-on=leak -- "$play" init device 0 alloc 1M exit 3
	ask_report '.run | [.command_status, .exit_status, .failed_on, .leaked]' '[3,3,null,1]'
	[[ $output != *"as --fail-on"* ]]
	leaked 9 --fail-on=leak --error-exitcode 9 -- "$play" init device 0 alloc 1M
	[[ $output == *$'\ncuward: exit status 9, as --fail-on leak has it' ]]
	leaked 0 --fail-on=leak -- "$play" init device 0 alloc 1M freeall
}

@test "no allocation leaks, and modules, streams and events do" {
	cc -o hoard -x c - -L"$B/sim" -lcuda <<-END
		$start
		int cuModuleLoadData(void **, const void *), cuStreamCreate(void **, unsigned), cuEventCreate(void **, unsigned);
		int cuStreamDestroy_v2(void *), cuModuleUnload(void *);
		static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry f() { ret; }\n";
		int main(void)
		{
			void *m, *s, *e;
			start();
			for (int i = 0; i < 1000; i++)
				if (cuModuleLoadData(&m, ptx) || cuStreamCreate(&s, 0) || cuEventCreate(&e, 0)) return 1;
			return cuModuleUnload(m) || cuStreamDestroy_v2(s);
		}
	END
	leaked 0 --fail-on leak -- ./hoard
	ask_report '.processes[0].objects | [.module, .stream, .event] | map([.created, .live])' '[[1000,999],[1000,999],[1000,1000]]'
	ask_report '[.processes[0].findings[] | select(.code == "objects-live") | .count]' '[2998]'
	ask_report '.processes[0].leaks' '[]'
}

@test "managed memory is seen, with and without a prefetch" {
	cc -g -o managed -x c - -L"$B/sim" -lcuda <<-END
		$start
		int cuMemAllocManaged(unsigned long *, unsigned long, unsigned), cuMemPrefetchAsync(unsigned long, unsigned long, int, void *);
		int main(int argc, char **argv)
		{
			start();
			if (cuMemAllocManaged(&p, 8 << 20, 1)) return 1;
			if (argc > 1) cuMemPrefetchAsync(p, 8 << 20, 0, 0);
			if (argc > 2) cuMemFree_v2(p);
			return 0;
		}
	END
	for arguments in "" prefetch; do
		# shellcheck disable=SC2086
		leaked 23 --fail-on leak -- ./managed $arguments
		ask_report '.processes[0].leaks | map([.verdict, .kind, .bytes])' '[["leak","managed",8388608]]'
		[[ $output == *"(managed memory, GPU 0) from main, "* ]]
	done
	leaked 0 --fail-on leak -- ./managed prefetch free
}

@test "what a killed process held is free at once for others" {
	for signal in 9 11; do
		leaked 0 --job-memory 4M -- "$play" fork '(' init device 0 alloc 3M kill $signal ')' wait \
			fork '(' init device 0 alloc 3M freeall ')' wait
		ask_report '[.processes[] | .ended] | sort' '["exit","unknown"]'
		ask_report '[.processes[].devices[0].denied] | add' 0
	done
}
