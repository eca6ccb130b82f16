"""pytest plug-in of cuward: limits on the GPU memory of a test.

    @pytest.mark.gpu_limit_memory("24MB")            # holds at most so much at once, beyond what was there
    @pytest.mark.gpu_limit_leaks("1MB", warmups=2)   # leaves at most so much behind

Run the tests under cuward (`cuward run -q -- pytest -p pytest_cuward`, with this file on the path, or
imported from conftest.py as `pytest_plugins = ["pytest_cuward"]`). Elsewhere the marks do nothing, and
the head of the report says so. Sizes: B, KB MB GB (decimal), K M G and KiB MiB GiB (binary).
"""
import ctypes
import gc
import re

import pytest

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DECIMAL = {"KB": 10 ** 3, "MB": 10 ** 6, "GB": 10 ** 9, "TB": 10 ** 12}


def parse_size(text):
    """Bytes of "24MB", "1.5 GiB", 4096."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", str(text))
    unit = found.group(2).upper() if found else None
    if unit in _DECIMAL:
        scale = _DECIMAL[unit]
    elif unit is not None and re.fullmatch(r"[KMGT]?(IB?)?|B", unit) and unit not in ("I", "IB"):
        scale = _UNITS[unit.rstrip("B").rstrip("I")]
    else:
        raise ValueError(f"{text!r} is no size; say 24MB or 1GiB")
    return int(float(found.group(1)) * scale) if "." in found.group(1) else int(found.group(1)) * scale


def format_size(count):
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count} {unit}" if unit == "bytes" else f"{count:.2f} {unit}"
        count /= 1024


class Memory:
    """The counters of the preloaded library; `there` is false without it."""

    def __init__(self):
        everything = ctypes.CDLL(None)
        self.there = all(hasattr(everything, f"cuward_{name}")
                         for name in ("live_bytes", "peak_bytes", "reset_peak"))
        if self.there:
            self._live, self._peak = everything.cuward_live_bytes, everything.cuward_peak_bytes
            self._live.restype = self._peak.restype = ctypes.c_uint64
            self._reset = everything.cuward_reset_peak
            self._reset.restype = None

    def live(self):
        gc.collect()
        return self._live()

    def peak(self):
        return self._peak()

    def reset_peak(self):
        self._reset()


memory = Memory()


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu_limit_memory(size): the test holds at most so much GPU memory at once")
    config.addinivalue_line("markers", "gpu_limit_leaks(size, warmups=0): the test leaves at most so much GPU "
                                       "memory, measured after it ran `warmups` times")


def pytest_report_header(config):
    return "cuward: watches GPU memory" if memory.there else \
        "cuward: not preloaded (run under `cuward run`), limits on GPU memory are not checked"


def _limit(item, name):
    """Bytes and keywords of a mark, None without it."""
    mark = item.get_closest_marker(name)
    if mark is None:
        return None
    if len(mark.args) != 1 or set(mark.kwargs) - ({"warmups"} if name == "gpu_limit_leaks" else set()):
        pytest.fail(f"{name} takes one size" + (" and warmups=N" if name == "gpu_limit_leaks" else ""), pytrace=False)
    try:
        return parse_size(mark.args[0]), int(mark.kwargs.get("warmups", 0))
    except ValueError as error:
        raise pytest.fail.Exception(f"{name}: {error}", pytrace=False) from None


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    highest, leaks = _limit(pyfuncitem, "gpu_limit_memory"), _limit(pyfuncitem, "gpu_limit_leaks")
    if not memory.there or (highest is None and leaks is None):
        yield
        return
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    for _ in range(leaks[1] if leaks else 0):
        pyfuncitem.obj(**arguments)
    before = memory.live()
    memory.reset_peak()
    outcome = yield
    outcome.get_result()  # a test that failed has said enough
    peak, left = memory.peak() - before, memory.live() - before
    if highest is not None and peak > highest[0]:
        pytest.fail(f"held {format_size(peak)} of GPU memory at once, the limit is {format_size(highest[0])}",
                    pytrace=False)
    if leaks is not None and left > leaks[0]:
        pytest.fail(f"left {format_size(left)} of GPU memory behind, the limit is {format_size(leaks[0])}",
                    pytrace=False)
