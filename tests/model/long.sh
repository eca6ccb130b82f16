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
