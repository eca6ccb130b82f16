#!/usr/bin/env bats
# tests/gpu/run.sh, which is for real GPUs, on the simulated driver: that it comes to its end, and fails when it should.

load guest

setup() {
	guest_setup
	script=$TOP/tests/gpu/run.sh
	mkdir none fake
	# What this machine happens to have is not met.
	for name in torch cupy jax; do
		echo 'raise ImportError("not here")' >none/$name.py
		cp none/$name.py fake
	done
	cp "$TOP/tests/gpu/fake/torch.py" fake
	export PYTHONPATH=$PWD/none PYTHONDONTWRITEBYTECODE=1
}

# runs STATUS [VARIABLE=VALUE...]: the script; its table in $output.
runs() {
	local status=0
	output=$(env "${@:2}" timeout 300 "$script" 2>&1) || status=$?
	[ "$status" -eq "$1" ] || { echo "status $status"; echo "$output"; return 1; }
}

# count VERDICT NUMBER: so many rows.
count() { [ "$(grep -c "^$1 " <<<"$output")" -eq "$2" ] || { echo "$output"; return 1; }; }

# told VERDICT NAME TEXT: a row of the table.
told() {
	grep -qxF "$(printf '%-5s %-38s %s' "$1" "$2" "$3")" <<<"$output" || { echo "$output"; return 1; }
}

@test "the whole of it without frameworks: a table, all held, and what was skipped why" {
	runs 0
	count FAIL 0
	count skip 3
	told skip PyTorch "not present"
	told skip CuPy "not present"
	told skip JAX "not present"
	told ok "train, 384M: refusals" 1
	told ok "memory: graph_memory" 0
	told ok "memory: auto_free" 0
	told ok "2 GiB live: ledger" $((2 * GiB))
	told ok "2 GiB live: within 64 MiB of the driver" True
	told ok "look-ups: all versions, same answers" ""
	told info "driver is the simulator" True
	[ "$(grep -c '^ok    memory: ' <<<"$output")" -eq 24 ]
	grep -qE '^info  cost of launch  +[0-9.]+ ns bare, [0-9.]+ ns under cuward$' <<<"$output"
	grep -qE '^info  not hooked ' <<<"$output"
	grep -qE '^took [0-9]+ seconds$' <<<"$output"
	# Nothing is left behind.
	[ -z "$(find /dev/shm -maxdepth 1 -name 'cuward-gpu-*' -newer none)" ]
}

@test "a framework in its three allocators: same losses, refused cleanly, within the limit" {
	runs 0 GPU_PARTS=torch PYTHONPATH="$PWD/fake"
	count FAIL 0
	for conf in native expandable_segments:True backend:cudaMallocAsync; do
		told ok "PyTorch $conf: same losses" ""
		told ok "PyTorch $conf: refusal and recovery" "total ok, out of memory, recovered, graph ok"
		told ok "PyTorch $conf: peak within the limit" True
		told info "PyTorch $conf: peak, refusals" "($((2 * GiB)), 2)"
	done
	# Losses that differ under cuward are seen, and so is one that is not there.
	sed 's/0\.9/0.9 if "CUWARD_MEMORY" not in os.environ else 0.8/' "$TOP/tests/gpu/fake/torch.py" >fake/torch.py
	runs 1 GPU_PARTS=torch PYTHONPATH="$PWD/fake"
	count FAIL 3
	sed 's/raise OutOfMemoryError/raise RuntimeError/' "$TOP/tests/gpu/fake/torch.py" >fake/torch.py
	runs 1 GPU_PARTS=torch PYTHONPATH="$PWD/fake"
	[ "$(grep -c '^FAIL .*: refusal and recovery' <<<"$output")" -eq 3 ]
}

@test "what hangs is cut off, and the whole ends in time" {
	runs 1 GPU_PARTS="driver memory" GPU_SECONDS=4 CUWARD_SIM_KERNEL_NS=never
	told FAIL "train, bare: status" "took too long"
	told FAIL memory "no time left"
	# One that does not listen, and hangs beyond its time.
	runs 1 GPU_PARTS=driver GPU_SECONDS=2 CUWARD_SIM_CALL_DELAY_NS=cuMemAlloc_v2=60000000000
	told FAIL "train, 1G: status" "took too long"
}

@test "without a driver, without python3: said so" {
	runs 77 LD_LIBRARY_PATH=
	[ "$output" = "check-gpu: no CUDA driver works here; nothing was checked" ]
	mkdir bin
	for tool in bash timeout env dirname mktemp rm head git date diff tail cut sed wc awk cat grep; do
		ln -s "$(command -v $tool)" bin/$tool
	done
	runs 0 GPU_PARTS="driver torch" PATH="$PWD/bin"
	told skip PyTorch "not present"
	told skip "train: launches counted" "no python3 to read reports"
	told ok "train, 1G: status" 0
}
