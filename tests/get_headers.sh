#!/bin/sh
# get_headers.sh FOLDER [VERSION] - NVIDIA's headers for a build, out of two small packages of PyPI.
#
# They are unpacked below FOLDER, and the place to give as CUDA_HOME is printed. VERSION is what pip
# takes (==13.0.*); without it, the newest there is.
set -eu
folder=$1 version=${2-}

"$(dirname "$0")/get_wheels.sh" "$folder" "nvidia-cuda-runtime$version" "nvidia-cuda-profiler-api$version"
header=$(find "$folder" -name cuda.h | head -n 1)
home=${header%/include/cuda.h}
if [ -z "$header" ] || [ ! -r "$home/include/cudaProfiler.h" ]; then
	echo "get_headers: the packages hold no cuda.h and cudaProfiler.h" >&2
	exit 1
fi
echo "$home"
