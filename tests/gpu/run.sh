#!/bin/bash
# run.sh - what only a real GPU can show: a table of checks and figures, under 8 minutes.
#
# Needs an NVIDIA driver with at least 4 GiB free on GPU 0, and libcuward.so with the test programs
# beside it: no LTTng, no package, no command. PyTorch, CuPy and JAX are tried where python3 has them.
# Exit 0 all held, 1 something did not, 77 no GPU here. Keep what it prints in docs/hardware.md.
set -u
cd "$(dirname "$0")/../.." || exit 1
B=${B:-$PWD/build}
export CUWARD_DIR
CUWARD_DIR=$(mktemp -d /dev/shm/cuward-gpu-XXXXXX)
tmp=$(mktemp -d)
trap 'rm -rf "$CUWARD_DIR" "$tmp"' EXIT
failed=0
here=$PWD/tests/gpu

if ! "$B/apps/play" init >/dev/null 2>&1; then
	echo "check-gpu: no CUDA driver works here; nothing was checked"
	exit 77
fi

row() { # VERDICT NAME TEXT
	[ "$1" = FAIL ] && failed=1
	printf '%-5s %-38s %s\n' "$1" "$2" "$3"
}
# same NAME EXPECTED ACTUAL
same() { [ "$2" = "$3" ] && row ok "$1" "$3" || row FAIL "$1" "$3, expected $2"; }
json() { # EXPRESSION of p, the process
	python3 -c "import json; p=json.load(open('$tmp/r.json'))['processes'][0]; print($1)" 2>&1 | tail -1
}
# under LIMIT COMMAND...
under() {
	rm -f "$tmp"/r*.json
	LD_PRELOAD=$B/libcuward.so CUWARD_MEMORY=$1 CUWARD_REPORT=$tmp/r.json timeout 120 "${@:2}"
}
has() { python3 -c "import $1" 2>/dev/null; }

echo "driver: $(cat /proc/driver/nvidia/version 2>/dev/null | head -1)"
echo "cuward: $(git describe --always 2>/dev/null)"

# ---- the driver itself: bare, and under a limit it does not reach ----

"$B/apps/train" >"$tmp/bare" 2>&1
same "train, bare: status" 0 $?
under 1G "$B/apps/train" >"$tmp/shim" 2>&1
same "train, 1G: status" 0 $?
same "train, 1G: output unchanged" "" "$(diff "$tmp/bare" "$tmp/shim")"
same "train: leaked bytes" 3145728 "$(json 'sum(l["bytes"] for l in p["leaks"] if l["verdict"] == "leak")')"
same "train: launches counted" 90 "$(json 'p["calls"]["cuLaunchKernel"]["count"]')"
row info "driver is the simulator" "$(json 'p["driver"]["simulated"]')"
under 384M "$B/apps/train" >"$tmp/small" 2>&1
same "train, 384M: status" 0 $?
same "train, 384M: refusals" 1 "$(json 'p["devices"][0]["denied"]')"

# Every family of memory, its sizes and lifetimes, as the simulated driver taught us.
for story in vmm_orders vmm_limit vmm_context import_own arrays mipmaps array_context graph_memory \
	graph_freed_outside captured pool_reserved pool_on_host green objects; do
	text=$(under 0=256M "$B/apps/families" $story 2>&1 | tail -1)
	status=${PIPESTATUS[0]}
	[ "$status" -eq 0 ] && row ok "memory: $story" "" || row FAIL "memory: $story" "$text"
done

# The ledger against the driver: what nobody is known to hold.
under 3G "$B/apps/play" init device 0 alloc 1G alloc 1G >/dev/null
row info "2 GiB live: untracked, overhead" "$(json '(p["devices"][0]["untracked_bytes"], p["devices"][0]["overhead_bytes"])')"

# ---- what the driver hands out identifies its functions ----

# The library differs, the symbol must not.
facts=tests/sim/driver_facts.tsv
under none "$B/apps/versions" $facts 2>&1 | sed 's/@[^ ]*//g' >"$tmp/shim"
"$B/apps/versions" $facts 2>&1 | sed 's/@[^ ]*//g' >"$tmp/bare"
row info "look-ups asked" "$(wc -l <"$tmp/bare")"
same "look-ups: all versions, same answers" "" "$(diff "$tmp/bare" "$tmp/shim" | head -3)"
row info "coverage" "$(json '{k: v if k != "unhooked" else len(v) for k, v in p["coverage"].items()}')"
row info "not hooked" "$(json '" ".join(p["coverage"]["unhooked"])[:200]')"

# ---- frameworks ----

if has torch; then
	for conf in "" expandable_segments:True backend:cudaMallocAsync; do
		name="PyTorch ${conf:-native}"
		PYTORCH_CUDA_ALLOC_CONF=$conf python3 "$here/train_torch.py" >"$tmp/bare" 2>"$tmp/err"
		PYTORCH_CUDA_ALLOC_CONF=$conf under 3G python3 "$here/train_torch.py" >"$tmp/shim" 2>"$tmp/err"
		same "$name: status" 0 $?
		same "$name: same losses" "" "$(diff "$tmp/bare" "$tmp/shim" | head -3)"
		PYTORCH_CUDA_ALLOC_CONF=$conf under 2G python3 "$here/limit_torch.py" >"$tmp/out" 2>"$tmp/err"
		same "$name: refusal and recovery" "total ok, out of memory, recovered, graph ok" "$(tail -1 "$tmp/out")"
		row info "$name: peak, refusals" "$(json '(p["devices"][0]["peak_bytes"], p["devices"][0]["denied"])')"
		row info "$name: untracked, overhead" "$(json '(p["devices"][0]["untracked_bytes"], p["devices"][0]["overhead_bytes"])')"
	done
else
	row skip PyTorch "not present"
fi
if has cupy; then
	under 2G python3 -c '
import cupy
try:
    cupy.empty(3 << 30, dtype=cupy.uint8); print("no refusal")
except cupy.cuda.memory.OutOfMemoryError:
    print(float(cupy.arange(1000).sum()))' >"$tmp/out" 2>&1
	same "CuPy: refusal and recovery" 499500.0 "$(tail -1 "$tmp/out")"
else
	row skip CuPy "not present"
fi
if has jax; then
	under 4G python3 -c '
import jax, jax.numpy as np
print(jax.devices()[0].platform, float((np.ones((512, 512)) @ np.ones((512, 512)))[0, 0]))' >"$tmp/out" 2>&1
	same "JAX under 4G" "gpu 512.0" "$(tail -1 "$tmp/out")"
else
	row skip JAX "not present"
fi

# ---- the cost on a real driver, as additions to bare calls ----

for what in launch mem_get_info pair_0 pair_async; do
	x=$("$B/bench/bench" time 0 | awk -v n=$what '$1 == n { print $2 }')
	y=$(LD_PRELOAD=$B/libcuward.so "$B/bench/bench" time 0 | awk -v n=$what '$1 == n { print $2 }')
	row info "cost of $what" "$x ns bare, $y ns under cuward"
done
exit $failed
