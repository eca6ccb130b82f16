#!/usr/bin/env bats
# The newest Python, with the libc of the Debian it is from: where in Python a leak comes from.

setup() {
	cd "$BATS_TEST_TMPDIR"
	root=$TOP/build/clients/python/unpacked
	python=$(echo "$root"/usr/bin/python3.*)
	loader=$(find "$root" -name 'ld-linux*.so.*' -print -quit)
	[ -x "$python" ] || skip "there is no newer Python"
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state
}

# Its loader is run as a program: it is told the preload itself.
leaked() { # OPTIONS... of the script
	rm -f r.json
	CUWARD_STACK=full CUWARD_LEAK=exit CUWARD_REPORT=$PWD/r.json timeout 120 "$loader" \
		--library-path "$(dirname "$(find "$root" -name 'libc.so.6' -print -quit)"):$B/sim" \
		--preload "$B/libcuward.so" "$python" script.py "$@" 2>said
	cat said
}

ask() {
	answer=$(jq -c ".processes[0] | $1" r.json)
	echo "$1 is $answer"
	[ "$answer" = "$2" ]
}

@test "python: lines of the newest, with and without its lock" {
	cat >script.py <<-'END'
		import ctypes, gc, sys, threading
		driver = ctypes.CDLL("libcuda.so.1") if "hold" not in sys.argv else ctypes.PyDLL("libcuda.so.1")
		def allocate():
		    p = ctypes.c_uint64()
		    assert driver.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4096)) == 0
		context = ctypes.c_void_p()
		assert driver.cuInit(0) == driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
		def work():
		    driver.cuCtxSetCurrent(context)
		    for i in range(200):
		        allocate()
		threads = [threading.Thread(target=work) for i in range(4)]
		for t in threads: t.start()
		for t in threads: t.join()
		driver.cuCtxSetCurrent(context)
		before = sys.getrefcount(allocate.__code__), gc.isenabled(), sys.exc_info()
		class Trainer:
		    def step(self):
		        allocate()
		try:
		    raise ValueError("kept")
		except ValueError:
		    Trainer().step()
		    assert "kept" in str(sys.exc_info()[1])
		assert before == (sys.getrefcount(allocate.__code__), gc.isenabled(), sys.exc_info())
	END
	for how in "" hold; do
		# shellcheck disable=SC2086
		leaked $how
		ask '[.leaks[] | select(.count == 1).python[] | [.line, .function]]' \
			'[[5,"allocate"],[19,"Trainer.step"],[23,"<module>"]]'
		ask '[.leaks[] | select(.count != 1) | [.count, .bytes, .python[0].line, .python[1].function]]' \
			'[[800,3276800,5,"work"]]'
		grep -q 'from allocate, script.py:5 (python)' said
	done
}
