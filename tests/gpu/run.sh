#!/bin/bash
# run.sh - what only a real GPU can show: a table of checks and figures, in less than 8 minutes whatever hangs.
#
# Needs an NVIDIA driver with at least 4 GiB free on GPU 0, and libcuward.so with the test programs
# beside it: no LTTng, no package, no command. PyTorch, CuPy and JAX are tried where python3 has them.
# Exit 0 all held, 1 something did not, 77 no GPU here. Keep what it prints in docs/hardware.md.
#
# Every part has a time of its own; when GPU_SECONDS are over (450) what is left is skipped, and 20 seconds later
# all ends. GPU_PARTS names the parts to run: driver memory lookups torch cupy jax cost.
set -u
seconds=${GPU_SECONDS:-450}
[ -n "${GPU_STARTED-}" ] || GPU_STARTED=1 exec timeout -k 5 $((seconds + 20)) "$0" "$@"
cd "$(dirname "$0")/../.." || exit 1
B=${B:-$PWD/build}
export CUWARD_DIR
CUWARD_DIR=$(mktemp -d /dev/shm/cuward-gpu-XXXXXX)
tmp=$(mktemp -d)
trap 'rm -rf "$CUWARD_DIR" "$tmp"' EXIT
trap 'printf "%-5s %-38s %s\n" FAIL "the time" "was not enough: nothing is said of what is missing above"; exit 1' TERM
failed=0
here=$PWD/tests/gpu

row() { # VERDICT NAME TEXT
	[ "$1" = FAIL ] && failed=1
	printf '%-5s %-38s %s\n' "$1" "$2" "$3"
}

# limited SECONDS COMMAND...: so long at most, and not beyond the end. Status 124: it took too long, or could not begin.
# In the background, so that the end of all is heard while it runs.
limited() {
	local most=$1 left=$((seconds - SECONDS))
	shift
	[ $left -gt 0 ] || return 124
	[ $left -ge "$most" ] || most=$left
	timeout -k 5 "$most" "$@" <&0 &
	wait $!
}

# same NAME EXPECTED ACTUAL
same() {
	case $3 in
	"no python3"*) row skip "$1" "$3" ;;
	"$2") row ok "$1" "$3" ;;
	*) row FAIL "$1" "${3:-nothing}, expected ${2:-nothing}" ;;
	esac
}
# ended NAME STATUS [FILE]: 0, or what it said last.
ended() {
	case $2 in
	0) row ok "$1" 0 ;;
	124 | 137) row FAIL "$1" "took too long" ;;
	*) row FAIL "$1" "status $2: $(tail -n 1 "${3:-/dev/null}" | cut -c 1-120)" ;;
	esac
}
json() { # EXPRESSION of p, the process
	[ -n "$python" ] || { echo "no python3 to read reports"; return; }
	python3 -c "import json; p=json.load(open('$tmp/r.json'))['processes'][0]; print($1)" 2>&1 | tail -1
}
# under LIMIT SECONDS COMMAND...
under() {
	rm -f "$tmp"/r*.json
	limited "$2" env LD_PRELOAD="$B/libcuward.so" CUWARD_MEMORY="$1" CUWARD_REPORT="$tmp/r.json" "${@:3}"
}
has() { [ -n "$python" ] && limited 60 python3 -c "import $1" >/dev/null 2>&1; }
# part NAME: is it wanted, and is there time for it?
part() {
	case " ${GPU_PARTS:-driver memory lookups torch cupy jax cost} " in
	*" $1 "*) ;;
	*) return 1 ;;
	esac
	[ $SECONDS -lt "$seconds" ] && return
	row FAIL "$1" "no time left"
	return 1
}

python=$(command -v python3)
if ! limited 60 "$B/apps/play" init >/dev/null 2>&1; then
	echo "check-gpu: no CUDA driver works here; nothing was checked"
	exit 77
fi

echo "driver: $(head -1 /proc/driver/nvidia/version 2>/dev/null)"
echo "GPU:    $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader -i 0 2>/dev/null)"
echo "cuward: $(git describe --always 2>/dev/null)"
echo "date:   $(date -u +%Y-%m-%d)"
printf '%-5s %-38s %s\n' '' check found
printf '%-5s %-38s %s\n' ----- -------------------------------------- -----

# ---- the driver itself: bare, and under a limit it does not reach ----

if part driver; then
	limited 60 "$B/apps/train" >"$tmp/bare" 2>&1
	ended "train, bare: status" $? "$tmp/bare"
	under 1G 60 "$B/apps/train" >"$tmp/shim" 2>&1
	ended "train, 1G: status" $? "$tmp/shim"
	same "train, 1G: output unchanged" "" "$(diff "$tmp/bare" "$tmp/shim")"
	same "train: leaked bytes" 3145728 "$(json 'sum(l["bytes"] for l in p["leaks"] if l["verdict"] == "leak")')"
	same "train: launches counted" 90 "$(json 'p["calls"]["cuLaunchKernel"]["count"]')"
	row info "driver is the simulator" "$(json 'p["driver"]["simulated"]')"
	row info "driver, CUDA" "$(json 'p["driver"]["version"]')"
	under 384M 60 "$B/apps/train" >"$tmp/small" 2>&1
	ended "train, 384M: status" $? "$tmp/small"
	same "train, 384M: refusals" 1 "$(json 'p["devices"][0]["denied"]')"
fi

# ---- every family of memory, its sizes and lifetimes, as the simulated driver taught us ----

if part memory; then
	for story in families/{vmm_orders,vmm_limit,vmm_context,import_own,arrays,mipmaps,array_context,graph_memory} \
		families/{graph_freed_outside,captured,pool_reserved,pool_on_host,green,objects} \
		graphs/{auto_free,freed_by_hand,uploaded,nodes,captured} lives/{reset,capture_frees,crossed,shapes,small_next}; do
		limit=0=256M
		case $story in families/*) ;; *) limit=0=64M ;; esac
		pinned=none
		[ "$story" != lives/small_next ] || pinned=8M
		under $limit 30 env CUWARD_PINNED=$pinned "$B/apps/${story%/*}" "${story#*/}" >"$tmp/out" 2>&1
		ended "memory: ${story#*/}" $? "$tmp/out"
	done
	# The ledger against the driver: what nobody is known to hold. Blocks of the driver are larger than requests.
	under 3G 60 "$B/apps/play" init device 0 alloc 1G alloc 1G >"$tmp/out" 2>&1
	ended "2 GiB live: status" $? "$tmp/out"
	same "2 GiB live: ledger" 2147483648 "$(json 'p["devices"][0]["used_bytes"]')"
	same "2 GiB live: within 64 MiB of the driver" True \
		"$(json '(lambda u: u is not None and -(64 << 20) < u < 64 << 20)(p["devices"][0]["untracked_bytes"])')"
	row info "2 GiB live: untracked, overhead" "$(json '(p["devices"][0]["untracked_bytes"], p["devices"][0]["overhead_bytes"])')"
fi

# ---- what the driver hands out identifies its functions ----

if part lookups; then
	# The library differs, the symbol must not.
	facts=tests/sim/driver_facts.tsv
	under none 60 "$B/apps/versions" $facts 2>&1 | sed 's/@[^ ]*//g' >"$tmp/shim"
	limited 60 "$B/apps/versions" $facts 2>&1 | sed 's/@[^ ]*//g' >"$tmp/bare"
	row info "look-ups asked" "$(wc -l <"$tmp/bare")"
	same "look-ups: more than a hundred" 1 "$(($(wc -l <"$tmp/bare") > 100))"
	same "look-ups: all versions, same answers" "" "$(diff "$tmp/bare" "$tmp/shim" | head -3)"
	row info "coverage" "$(json '{k: v if k != "unhooked" else len(v) for k, v in p["coverage"].items()}')"
	row info "not hooked" "$(json '" ".join(p["coverage"]["unhooked"])[:200]')"
fi

# ---- frameworks ----

if part torch && ! has torch; then
	row skip PyTorch "not present"
elif part torch; then
	for conf in "" expandable_segments:True backend:cudaMallocAsync; do
		name="PyTorch ${conf:-native}"
		export PYTORCH_CUDA_ALLOC_CONF=$conf
		limited 60 python3 "$here/train_torch.py" >"$tmp/bare" 2>"$tmp/err"
		ended "$name: bare" $? "$tmp/err"
		under 3G 60 python3 "$here/train_torch.py" >"$tmp/shim" 2>"$tmp/err"
		ended "$name: status" $? "$tmp/err"
		same "$name: losses" 20 "$(wc -l <"$tmp/bare")"
		same "$name: same losses" "" "$(diff "$tmp/bare" "$tmp/shim" | head -3)"
		under 2G 60 python3 "$here/limit_torch.py" >"$tmp/out" 2>"$tmp/err"
		same "$name: refusal and recovery" "total ok, out of memory, recovered, graph ok" "$(tail -1 "$tmp/out")"
		row info "$name: peak, refusals" "$(json '(p["devices"][0]["peak_bytes"], p["devices"][0]["denied"])')"
		same "$name: peak within the limit" True "$(json 'p["devices"][0]["peak_bytes"] <= 2 << 30')"
		row info "$name: untracked, overhead" "$(json '(p["devices"][0]["untracked_bytes"], p["devices"][0]["overhead_bytes"])')"
	done
fi
if part cupy && ! has cupy; then
	row skip CuPy "not present"
elif part cupy; then
	under 2G 60 python3 -c '
import cupy
try:
    cupy.empty(3 << 30, dtype=cupy.uint8); print("no refusal")
except cupy.cuda.memory.OutOfMemoryError:
    print(float(cupy.arange(1000).sum()))' >"$tmp/out" 2>&1
	same "CuPy: refusal and recovery" 499500.0 "$(tail -1 "$tmp/out")"
fi
if part jax && ! has jax; then
	row skip JAX "not present"
elif part jax; then
	under 4G 60 python3 -c '
import jax, jax.numpy as np
print(jax.devices()[0].platform, float((np.ones((512, 512)) @ np.ones((512, 512)))[0, 0]))' >"$tmp/out" 2>&1
	same "JAX under 4G" "gpu 512.0" "$(tail -1 "$tmp/out")"
fi

# ---- the cost on a real driver, as additions to bare calls ----

if part cost; then
	limited 60 "$B/bench/bench" time 0 >"$tmp/bare" 2>&1
	ended "cost: bare" $? "$tmp/bare"
	limited 60 env LD_PRELOAD="$B/libcuward.so" "$B/bench/bench" time 0 >"$tmp/shim" 2>&1
	ended "cost: under cuward" $? "$tmp/shim"
	for what in launch mem_get_info pair_0 pair_async; do
		x=$(awk -v n=$what '$1 == n { print $2 }' "$tmp/bare")
		y=$(awk -v n=$what '$1 == n { print $2 }' "$tmp/shim")
		row info "cost of $what" "${x:-?} ns bare, ${y:-?} ns under cuward"
	done
fi
echo "took $SECONDS seconds"
exit $failed
