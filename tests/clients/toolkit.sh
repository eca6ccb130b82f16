#!/bin/sh
# toolkit.sh - print the folder of a CUDA 13 toolkit that has the compiler NVRTC and both runtimes, or "none".
top=$(cd "$(dirname "$0")/../.." && pwd)
for folder in ${CUDA_HOME:+"$CUDA_HOME"} /usr/local/cuda /opt/cuda "$top/build/clients/toolkit/nvidia/cu13"; do
	[ -r "$folder/include/nvrtc.h" ] && [ -r "$folder/include/cuda_runtime_api.h" ] &&
		[ -r "$folder/lib/libnvrtc.so.13" ] && [ -r "$folder/lib/libcudart.so.13" ] &&
		[ -r "$folder/lib/libcudart_static.a" ] || continue
	echo "$folder"
	exit 0
done
echo none
