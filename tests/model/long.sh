#!/bin/bash
# long.sh - what `make check-model` runs: the model for longer than `make check` does.
set -eu
cd "$(dirname "$0")/../.."
B=${B:-$PWD/build}
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
unset "${!CUWARD_@}" CUDA_VISIBLE_DEVICES
export CUWARD_DIR=$state LD_LIBRARY_PATH=$B/sim

model() {
	echo "model $*"
	LD_PRELOAD=$B/libcuward.so "$B/model/model" --from "$from" "$@"
}

from=${SEED:-$((RANDOM * 32768 + RANDOM))}
echo "seeds from $from on; SEED=$from runs the same again"
model --seeds 20 --steps 500000 --rows tests/model/rows.tsv
model --seeds 20 --steps 500000 --threads 4

# Seeds of four threads that once differed: handles used again at once, limits that graphs meet.
for from in 1006 2008 2014 3007 3012 3019 3038 3050; do
	model --seeds 1 --steps 100000 --threads 4
done

contend() {
	echo "contend $*"
	CUWARD_SIM_DEVICES=2 LD_PRELOAD=$B/libcuward.so "$B/model/contend" "$@"
}

export CUWARD_LOG=off
CUWARD_MEMORY=0=6M contend 16 1000000 tight
CUWARD_MEMORY=0=1G contend 16 1000000 roomy
