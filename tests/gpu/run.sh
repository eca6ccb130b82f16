#!/bin/bash
# run.sh - what only a real GPU can show: a table of checks and figures, under 8 minutes.
#
# Needs an NVIDIA driver with at least 2 GiB free on GPU 0; no LTTng, no package. PyTorch is tried
# where python3 has it. Exit 0 all held, 1 something did not, 77 no GPU here.
set -u
cd "$(dirname "$0")/../.." || exit 1
B=${B:-$PWD/build}
export CUWARD_DIR
CUWARD_DIR=$(mktemp -d /dev/shm/cuward-gpu-XXXXXX)
tmp=$(mktemp -d)
trap 'rm -rf "$CUWARD_DIR" "$tmp"' EXIT
failed=0

if ! "$B/apps/play" init >/dev/null 2>&1; then
	echo "check-gpu: no CUDA driver works here; nothing was checked"
	exit 77
fi

row() { # VERDICT NAME TEXT
	[ "$1" = ok ] || failed=1
	printf '%-5s %-34s %s\n' "$1" "$2" "$3"
}
# same NAME EXPECTED ACTUAL
same() { [ "$2" = "$3" ] && row ok "$1" "$3" || row FAIL "$1" "$3, expected $2"; }
json() { python3 -c "import json,sys; p=json.load(open('$tmp/r.json'))['processes'][0]; print($1)"; }
under() { rm -f "$tmp/r.json"; "$B/cuward" run -q --report "$tmp/r.json" "$@"; }

echo "driver: $(cat /proc/driver/nvidia/version 2>/dev/null | head -1)"

# The same program, bare and under a limit it does not reach.
"$B/apps/train" >"$tmp/bare" 2>&1
same "train, bare, status" 0 $?
under -m 1G -- "$B/apps/train" >"$tmp/shim" 2>&1
same "train, -m 1G, status" 0 $?
same "train, output unchanged" "" "$(diff "$tmp/bare" "$tmp/shim")"
same "train, leaked bytes" 3145728 "$(json 'sum(l["bytes"] for l in p["leaks"] if l["verdict"] == "leak")')"
same "train, launches counted" 90 "$(json 'p["calls"]["cuLaunchKernel"]["count"]')"
same "not the simulator" False "$(json 'p["driver"]["simulated"]')"

# A refusal it recovers from.
under -m 384M -- "$B/apps/train" >"$tmp/small" 2>&1
same "train, -m 384M, status" 0 $?
same "train, refusals" 1 "$(json 'p["devices"][0]["denied"]')"

if python3 -c 'import torch; torch.zeros(1).cuda()' 2>/dev/null; then
	cat >"$tmp/torch.py" <<'P'
import torch
print(torch.cuda.mem_get_info()[1] <= 2 << 30)
try:
    torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError:
    print("out of memory")
x = torch.randn(512, 512, device="cuda")
print(torch.isfinite(x @ x).all().item())
P
	for conf in "" expandable_segments:True backend:cudaMallocAsync; do
		got=$(PYTORCH_CUDA_ALLOC_CONF=$conf under -m 2G -- python3 "$tmp/torch.py" 2>"$tmp/err" | tr '\n' ' ')
		same "PyTorch ${conf:-native}" "True out of memory True " "$got"
	done
else
	row ok "PyTorch" "not present, not tried"
fi

# The cost on a real driver, as additions to bare calls.
for what in launch mem_get_info pair_0 pair_async; do
	x=$("$B/bench/bench" time 0 | awk -v n=$what '$1 == n { print $2 }')
	y=$(LD_PRELOAD=$B/libcuward.so "$B/bench/bench" time 0 | awk -v n=$what '$1 == n { print $2 }')
	row ok "cost of $what" "$x ns bare, $y ns under cuward"
done
exit $failed
