#!/usr/bin/env bats
# The unit tests and threaded programs under AddressSanitizer, UBSan and TSan: not one report.
# beside: compiles and runs everything three times.

setup_file() {
	cd "$TOP"
	for san in address undefined thread; do
		make -j2 SAN=$san sanitized >"$BATS_FILE_TMPDIR/$san.log" 2>&1 || {
			tail -30 "$BATS_FILE_TMPDIR/$san.log"
			return 1
		}
	done
}

# sanitized SAN LIBRARY: everything that can run in that tree.
sanitized() {
	local tree=$TOP/build/san-$1 log=$BATS_TEST_TMPDIR/log unit
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state ASAN_OPTIONS=detect_leaks=0:exitcode=99 \
		UBSAN_OPTIONS=halt_on_error=1:exitcode=99 TSAN_OPTIONS=exitcode=99
	for unit in "$tree"/unit/test_*; do
		[[ $unit == *.d ]] || { echo "$unit"; "$unit" 2>&1; }
	done
	export LD_LIBRARY_PATH=$tree/sim
	LD_PRELOAD="$("$CC" -print-file-name="$2") $tree/libcuward.so" CUWARD_MEMORY=384M \
		CUWARD_REPORT=$BATS_TEST_TMPDIR/train.json "$tree/apps/train" >"$log" 2>&1
	cat "$log"
	[ "$(grep -c refused "$log")" -eq 1 ]
	LD_PRELOAD="$("$CC" -print-file-name="$2") $tree/libcuward.so" CUWARD_MEMORY=64M \
		CUWARD_REPORT=$BATS_TEST_TMPDIR/threads.json "$tree/apps/threads" 4 20000 16777216 >"$log" 2>&1
	cat "$log"
	[ "$(cat "$log")" = "refused 0" ]
	jq -e '.processes[0].memory | .device.live == 0 and .pool.live == 0' "$BATS_TEST_TMPDIR/threads.json"
	# With whole stacks, and each call site watched.
	LD_PRELOAD="$("$CC" -print-file-name="$2") $tree/libcuward.so" CUWARD_LEAK=growth \
		CUWARD_REPORT=$BATS_TEST_TMPDIR/growth.json "$tree/apps/threads" 4 5000 16777216 >"$log" 2>&1
	cat "$log"
	[ "$(cat "$log")" = "refused 0" ]
	jq -e '.processes[0].memory | .device.live == 0 and .pool.live == 0' "$BATS_TEST_TMPDIR/growth.json"
}

# models SAN LIBRARY: random calls of every family, of one thread and of four; and calls that fail.
models() {
	local tree=$TOP/build/san-$1 preload seed
	preload="$("$CC" -print-file-name="$2") $tree/libcuward.so"
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state LD_LIBRARY_PATH=$tree/sim CUWARD_LOG=off \
		ASAN_OPTIONS=detect_leaks=0:exitcode=99 UBSAN_OPTIONS=halt_on_error=1:exitcode=99 \
		TSAN_OPTIONS=exitcode=99:history_size=7:suppressions=$TOP/tests/model/tsan.supp CUWARD_SIM_DEVICES=2 \
		CUWARD_SIM_CONTEXT_BYTES=16M CUWARD_SIM_KERNEL_NS=3000 CUWARD_SIM_HANDLES=immediate
	CUWARD_MEMORY=0=900M,1=400M LD_PRELOAD=$preload "$tree/model/model" --child 3 --steps 10000 2>&1
	for seed in 4 7; do
		CUWARD_MEMORY=0=900M,1=400M LD_PRELOAD=$preload "$tree/model/model" --child $seed \
			--steps 20000 --threads 4 2>&1
	done
	CUWARD_MEMORY=0=8M LD_PRELOAD=$preload "$tree/model/contend" 8 10000 tight 2>&1
	CUWARD_MEMORY=0=24M LD_PRELOAD=$preload "$tree/model/contend" 4 2000 graphs 2>&1
	CUWARD_MEMORY=0=900M CUWARD_SIM_REUSE=never LD_PRELOAD=$preload "$tree/model/dying" 3 100 2>&1
	CUWARD_MEMORY=0=900M CUWARD_SIM_MODULE_BYTES=2M CUWARD_SIM_CALL_DELAY_NS=cuCtxGetCurrent=1000000 \
		CUWARD_SIM_RETURN_DELAY_NS=cuMemGetInfo_v2=20000000 LD_PRELOAD=$preload "$tree/model/births" 10 2>&1
	CUWARD_SIM_RETURN_DELAY_NS=cuMemPoolDestroy=100000000,cuGreenCtxDestroy=100000000 \
		LD_PRELOAD=$preload "$tree/model/reissued" 2 2>&1
	LD_PRELOAD=$preload "$tree/model/faults" "$tree/model/hooked" 2>&1
}

gcc_only() { # these runtimes belong to gcc
	"$CC" --version | grep -qi clang && skip "the sanitizers of another compiler" || true
}

@test "AddressSanitizer" {
	gcc_only
	sanitized address libasan.so
	models address libasan.so
}

@test "UndefinedBehaviorSanitizer" {
	gcc_only
	sanitized undefined libubsan.so
	models undefined libubsan.so
}

@test "ThreadSanitizer" {
	gcc_only
	sanitized thread libtsan.so
	models thread libtsan.so
}
