#!/bin/sh
# get_headers.sh FOLDER [VERSION] - NVIDIA's headers for a build, out of two small packages of PyPI.
#
# They are unpacked below FOLDER, and the place to give as CUDA_HOME is printed. VERSION is what pip
# takes (==13.0.*); without it, the newest there is.
set -eu
folder=$1 version=${2-}
pip=$(command -v pip3 || command -v pip)

rm -rf "$folder"
mkdir -p "$folder/wheels"
timeout 300 "$pip" download -q --no-deps --only-binary=:all: -d "$folder/wheels" \
	"nvidia-cuda-runtime$version" "nvidia-cuda-profiler-api$version" >&2
for wheel in "$folder"/wheels/*.whl; do
	python3 -m zipfile -e "$wheel" "$folder/unpacked"
done
header=$(find "$folder/unpacked" -name cuda.h | head -n 1)
home=${header%/include/cuda.h}
if [ -z "$header" ] || [ ! -r "$home/include/cudaProfiler.h" ]; then
	echo "get_headers: the packages hold no cuda.h and cudaProfiler.h" >&2
	exit 1
fi
echo "$home"
