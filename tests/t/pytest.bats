#!/usr/bin/env bats
# The pytest plug-in, and the functions of cuward/cuward.h behind it.

setup() {
	cd "$BATS_TEST_TMPDIR"
	unset LD_PRELOAD "${!CUWARD_@}" CUDA_VISIBLE_DEVICES PYTEST_ADDOPTS
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$TOP/tools/share
	# Debian's packages are for Debian's Python, wherever else another one is first.
	python=python3
	python3 -c 'import pytest' 2>/dev/null || python=/usr/bin/python3
	cat >gpu.py <<-'END'
		import ctypes
		driver = ctypes.CDLL("libcuda.so.1")
		context = ctypes.c_void_p()
		def check(result):
		    assert result == 0, result
		def take(size):
		    pointer = ctypes.c_uint64()
		    check(driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)))
		    return pointer
		def give(pointer):
		    check(driver.cuMemFree_v2(pointer))
		check(driver.cuInit(0))
		check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
		check(driver.cuCtxSetCurrent(context))
	END
}

# outcome NAME RESULT: of a test in r.xml, by what it says where it failed.
outcome() {
	python3 - "$1" "$2" <<-'END'
		import sys, xml.etree.ElementTree as xml
		case = [c for c in xml.parse("r.xml").iter("testcase") if c.attrib["name"] == sys.argv[1]][0]
		said = [child.attrib["message"] for child in case if child.tag in ("failure", "error")]
		assert (said and sys.argv[2] in said[0]) if sys.argv[2] != "passed" else not said, said
	END
}

pytests() {
	timeout 100 "${@}" $python -m pytest -q -p pytest_cuward -p no:cacheprovider --junit-xml=r.xml test_gpu.py >said 2>&1 || true
	cat said
}

@test "limits on memory and leaks of a test" {
	cat >test_gpu.py <<-'END'
		import pytest
		from gpu import give, take

		@pytest.fixture
		def before():
		    pointer = take(64 << 20)
		    yield pointer
		    give(pointer)

		@pytest.mark.gpu_limit_memory("24MB")
		def test_below():
		    pointers = [take(8_000_000) for i in range(3)]
		    for pointer in pointers: give(pointer)

		@pytest.mark.gpu_limit_memory("24MB")
		def test_above():
		    pointers = [take(8_000_001) for i in range(3)]
		    for pointer in pointers: give(pointer)

		@pytest.mark.gpu_limit_memory("1MB")
		def test_what_was_there_does_not_count(before):
		    give(take(1_000_000))

		@pytest.mark.gpu_limit_memory("1K")
		def test_peak_between():
		    give(take(1 << 20))

		@pytest.mark.gpu_limit_leaks("1MB")
		def test_leaves():
		    take(1_000_001)

		@pytest.mark.gpu_limit_leaks("1MB")
		def test_leaves_little():
		    take(1_000_000)

		cache = []
		@pytest.mark.gpu_limit_leaks(0, warmups=2)
		def test_cache_that_warms_up():
		    if len(cache) < 2: cache.append(take(1 << 20))

		again = []
		@pytest.mark.gpu_limit_leaks(0, warmups=2)
		def test_leaks_each_time():
		    again.append(take(1 << 20))

		def test_warmups_ran():
		    assert len(again) == 3

		@pytest.mark.gpu_limit_leaks("1 MiB", warmups=0)
		def test_fails_by_itself():
		    take(5 << 20)
		    assert False, "its own words"

		@pytest.mark.gpu_limit_memory("lots")
		def test_wrong_size():
		    pass

		@pytest.mark.gpu_limit_leaks("1M")
		@pytest.mark.gpu_limit_memory("4M")
		@pytest.mark.parametrize("size", [1, 5])
		def test_both(size):
		    give(take(size << 20))

		def test_unmarked():
		    take(1 << 20)
	END
	pytests "$B/cuward" run -q --sim -m 1G
	outcome test_below passed
	outcome test_above "held 22.89 MiB of GPU memory at once, the limit is 22.89 MiB"
	outcome test_what_was_there_does_not_count passed
	outcome test_peak_between "held 1.00 MiB of GPU memory at once, the limit is 1.00 KiB"
	outcome test_leaves "left 976.56 KiB of GPU memory behind"
	outcome test_leaves_little passed
	outcome test_cache_that_warms_up passed
	outcome test_leaks_each_time "left 1.00 MiB of GPU memory behind, the limit is 0 bytes"
	outcome test_warmups_ran passed
	outcome test_fails_by_itself "its own words"
	outcome test_wrong_size "'lots' is no size"
	outcome 'test_both[1]' passed
	outcome 'test_both[5]' "held 5.00 MiB"
	outcome test_unmarked passed
	! grep -q PytestUnknownMarkWarning said
}

@test "without cuward the marks do nothing, and that is said" {
	cat >test_gpu.py <<-'END'
		import pytest
		from gpu import take

		@pytest.mark.gpu_limit_leaks(0)
		def test_leaves():
		    take(1 << 20)
	END
	timeout 100 env LD_LIBRARY_PATH="$B/sim" $python -m pytest -p pytest_cuward -p no:cacheprovider --junit-xml=r.xml test_gpu.py >said 2>&1
	outcome test_leaves passed
	grep -q "cuward: not preloaded" said
	grep -q "1 passed" said
}

@test "sizes" {
	$python - <<-'END'
		from pytest_cuward import parse_size
		for text, value in (("0", 0), ("17", 17), ("17B", 17), ("1KB", 1000), ("24 MB", 24000000), ("1K", 1024),
		                    ("1.5GiB", 3 << 29), ("2Mi", 2 << 20), ("1t", 1 << 40), (4096, 4096)):
		    assert parse_size(text) == value, text
		for text in ("", "x", "1Q", "-1", "1e9", "1 I", "MB", -1, True, None):
		    try:
		        parse_size(text)
		    except ValueError:
		        continue
		    assert False, text
	END
}

@test "the functions: now, at most, and at most since" {
	cat >test_api.py <<-'END'
		import ctypes, gpu
		us = ctypes.CDLL(None)
		us.cuward_live_bytes.restype = us.cuward_peak_bytes.restype = ctypes.c_uint64
		tell = lambda: (us.cuward_live_bytes(), us.cuward_peak_bytes())
		assert tell() == (0, 0)
		a, b = gpu.take(4096), gpu.take(8192)
		assert tell() == (12288, 12288)
		gpu.give(b)
		assert tell() == (4096, 12288)
		us.cuward_reset_peak()
		assert tell() == (4096, 4096)
		gpu.give(gpu.take(100))
		assert tell() == (4096, 4196)
		assert us.cuward_mark(b"x") == 0 and us.cuward_mark(b"") == -1 and us.cuward_label(b"a", b"b") == 0
	END
	"$B/cuward" run -q --sim --report r.json python3 test_api.py
	# The report's own peak is not touched.
	[ "$(jq -c '.processes[0] | [.devices[0].peak_bytes, .labels.a]' r.json)" = '[12288,"b"]' ]
}
