#!/bin/sh
# cuda_headers.sh - print the folder of the CUDA headers (>= 13.0) to build with, or "none".
#
# CUDA_HOME first, then the usual prefixes, pip's nvidia packages, and what setup.sh fetched.
top=$(cd "$(dirname "$0")/.." && pwd)
for folder in ${CUDA_HOME:+"$CUDA_HOME/include"} /usr/local/cuda/include /opt/cuda/include \
	/usr/include /usr/local/include \
	"$HOME"/.local/lib/python3*/site-packages/nvidia/cu13/include \
	/usr/local/lib/python3*/dist-packages/nvidia/cu13/include \
	/usr/lib/python3/dist-packages/nvidia/cu13/include \
	"$top"/build/cuda/nvidia/cu13/include; do
	[ -r "$folder/cuda.h" ] && [ -r "$folder/cudaProfiler.h" ] || continue
	version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$folder/cuda.h")
	if [ "${version:-0}" -ge 13000 ]; then
		echo "$folder"
		exit 0
	fi
done
echo none
