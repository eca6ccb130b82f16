#!/usr/bin/env bats
# The unit tests and threaded programs under AddressSanitizer, UBSan and TSan: not one report.

setup_file() {
	cd "$TOP"
	for san in address undefined thread; do
		make -j2 SAN=$san test-programs >"$BATS_FILE_TMPDIR/$san.log" 2>&1 || {
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

gcc_only() { # these runtimes belong to gcc
	"$CC" --version | grep -qi clang && skip "the sanitizers of another compiler" || true
}

@test "AddressSanitizer" {
	gcc_only
	sanitized address libasan.so
}

@test "UndefinedBehaviorSanitizer" {
	gcc_only
	sanitized undefined libubsan.so
}

@test "ThreadSanitizer" {
	gcc_only
	sanitized thread libtsan.so
}
