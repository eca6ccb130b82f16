#!/usr/bin/env bats
# A whole tree of processes in one trace, without a flag: fork, exec, spawn, and all that Python's
# multiprocessing does.

load ../trace/lttng.bash

setup() {
	unset LD_PRELOAD "${!CUWARD_@}" CUDA_VISIBLE_DEVICES LTTNG_HOME
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
	cd "$BATS_TEST_TMPDIR"
	# Each process takes memory of a size of its own.
	cat >tree.py <<-'END'
		import ctypes, multiprocessing, os, subprocess, sys

		def use(megabytes):
		    cuda = ctypes.CDLL("libcuda.so.1")
		    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
		    for name, *arguments in (("cuInit", 0), ("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0),
		                             ("cuCtxSetCurrent", context),
		                             ("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(megabytes << 20)),
		                             ("cuMemFree_v2", pointer)):
		        if getattr(cuda, name)(*arguments):
		            sys.exit(99)

		def wait(pid):
		    assert os.waitpid(pid, 0)[1] == 0

		if __name__ == "__main__":
		    if len(sys.argv) > 1:
		        use(int(sys.argv[1]))
		        sys.exit(0)
		    for number, how in enumerate(("fork", "spawn", "forkserver")):
		        child = multiprocessing.get_context(how).Process(target=use, args=(number + 1,))
		        child.start()
		        child.join()
		        assert child.exitcode == 0, how
		    with multiprocessing.get_context("fork").Pool(2) as pool:
		        pool.map(use, [4, 4], chunksize=1)
		    pid = os.fork()
		    if pid == 0:
		        os.execv(sys.executable, [sys.executable, sys.argv[0], "5"])
		    wait(pid)
		    wait(os.posix_spawn(sys.executable, [sys.executable, sys.argv[0], "6"], os.environ))
		    subprocess.run([sys.executable, sys.argv[0], "7"], check=True)
		    subprocess.run("exec %s %s 8" % (sys.executable, sys.argv[0]), shell=True, check=True)
		    use(9)
	END
}

# Every size once, in processes that were recorded; Python's pool ends its workers by a signal.
whole_tree() {
	run "$B/cuward" timeline --json "$1"
	jq -c '[.processes[] | [.devices[0].peak_bytes / 1048576, .recorded, .ended]] | sort' <<<"$output"
	[ "$(jq -c '[.processes[] | .devices[0].peak_bytes / 1048576] | unique' <<<"$output")" = '[1,2,3,4,5,6,7,8,9]' ]
	[ "$(jq -c '[.processes[] | select(.devices[0].peak_bytes != 4194304) | .ended] | unique' <<<"$output")" = '["exit"]' ]
	[ "$(jq -c '[.processes[] | .recorded] | unique' <<<"$output")" = '[true]' ]
	[ "$(jq -c '[.processes[].pid] | length == (unique | length)' <<<"$output")" = true ]
	equal "$1" 50
}

@test "run --trace: fork, exec, spawn, multiprocessing" {
	"$B/cuward" run -q --sim --trace=trace -- python3 tree.py 3>&-
	whole_tree trace
}

@test "run --record: the same into a flight recorder" {
	run -23 "$B/cuward" run -q --sim --record=on-leak --fail-on leak --trace=trace -- sh -c 'python3 tree.py &&
		exec "$1" init device 0 alloc 10M' sh "$B/apps/play" 3>&-
	run "$B/cuward" timeline --json trace
	[ "$(jq -c '[.processes[] | .devices[0].peak_bytes / 1048576] | unique' <<<"$output")" = '[1,2,3,4,5,6,7,8,9,10]' ]
}
