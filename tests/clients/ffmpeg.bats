#!/usr/bin/env bats
# Debian's ffmpeg: it opens libcuda.so.1 itself and looks up 80 names, first ABIs among them.

load client.bash

setup() {
	client_setup
	command -v ffmpeg >/dev/null || skip "no ffmpeg"
	ffmpeg -v error -filters | grep -q hwupload_cuda || skip "ffmpeg without CUDA"
}

teardown() { client_teardown; }

# filter CHAIN: ten frames of a moving picture through CHAIN, a checksum of each to stdout.
filter() {
	gpu=(ffmpeg -v error -nostdin -filter_threads 1 -init_hw_device cuda=gpu -filter_hw_device gpu
		-f lavfi -i testsrc2=size=320x240:rate=10:duration=1 -vf "$1" -f framemd5 -)
}
upload=format=nv12,hwupload_cuda
download=hwdownload,format=nv12

@test "ffmpeg: frames go to the GPU and come back" {
	ffmpeg -v error -nostdin -f lavfi -i testsrc2=size=320x240:rate=10:duration=1 \
		-vf format=nv12 -f framemd5 - >cpu.out
	[ "$(grep -c '^0, ' cpu.out)" -eq 10 ]
	filter $upload,$download
	bare bare "${gpu[@]}"
	[ $status -eq 0 ]
	cmp cpu.out bare.out
	with="-m 1G --fail-on leak"
	warded ward "${gpu[@]}"
	[ $status -eq 0 ]
	cmp cpu.out ward.out
	[ -z "$(words_of ward)" ]

	same_calls bare ward
	whole ward
	settled ward
	[ "$(calls_of ward cuMemcpy2DAsync_v2)" -eq 40 ]
	# A frame of NV12 is 320 x 240 of Y and half as much of UV, a copy each.
	bytes=$((10 * 320 * 240 * 3 / 2))
	ask ward.timeline '[.processes[0] | .launches, (.copies | .htod, .dtoh | .count, .bytes), .contexts]' \
		"[0,20,$bytes,20,$bytes,2]"
	ask ward.timeline '[.processes[0].copies[].count] | add' 40
	peak=$(jq '.processes[0].memory.device.peak_bytes' ward.json)
	[ "$peak" -ge $((320 * 240 * 3 / 2)) ]
	ask ward.timeline '.processes[0].devices[0] | [.peak_bytes, .final_bytes, .limit_bytes, .allocs, .frees]' \
		"[$peak,0,$((1024 * MiB)),$(calls_of ward cuMemAlloc_v2),$(calls_of ward cuMemFree_v2)]"
	grep -q "^cuward: ffmpeg (pid [0-9]*) exited with status 0; GPU 0: peak .* of 1 GiB$" ward.err
}

@test "ffmpeg: scale_cuda launches kernels" {
	filter $upload,scale_cuda=640:480,$download
	bare bare "${gpu[@]}"
	[ $status -eq 0 ]
	with="-m 1G"
	warded ward "${gpu[@]}"
	[ $status -eq 0 ]
	cmp bare.out ward.out
	grep -qx '#dimensions 0: 640x480' ward.out
	[ "$(grep -c "^0, .* $((640 * 480 * 3 / 2)), " ward.out)" -eq 10 ]

	same_calls bare ward
	whole ward
	settled ward
	# Y and UV of ten frames: a texture, a kernel and a copy each way.
	for symbol in cuLaunchKernel cuTexObjectCreate cuTexObjectDestroy; do
		[ "$(calls_of ward $symbol)" -eq 20 ]
	done
	ask ward.timeline '[.processes[0] | .launches, (.copies | .htod, .dtoh | .count, .bytes)]' \
		"[20,20,$((10 * 320 * 240 * 3 / 2)),20,$((10 * 640 * 480 * 3 / 2))]"
	ask ward.json '.processes[0].objects | [.module, .texture | .created, .live]' '[1,0,20,0]'
}

@test "ffmpeg: a limit is to it a GPU that is full" {
	filter $upload,scale_cuda=640:480,$download
	CUWARD_SIM_FAULT=cuMemAlloc_v2:1+:2 bare bare "${gpu[@]}"
	[ $status -eq 1 ]
	grep -q 'cuMemAlloc.* failed -> CUDA_ERROR_OUT_OF_MEMORY: out of memory' bare.err
	with="-m 100K"
	warded ward "${gpu[@]}"
	[ $status -eq 1 ]
	cmp bare.out ward.out
	diff <(words_of bare) <(words_of ward)

	# The driver is not asked for what is refused.
	same_calls bare ward
	[ "$(calls_seen ward cuMemAlloc_v2)" -eq 0 ]
	whole ward
	settled ward
	denied=$(jq '.processes[0].denials[0].bytes' ward.json)
	[ "$denied" -gt $((100 << 10)) ]
	ask ward.json '.processes[0].denials[] | [.api, .scope, .limit_bytes, .used_bytes, .count]' \
		"[\"cuMemAlloc_v2\",\"process\",$((100 << 10)),0,1]"
	ask ward.json '.processes[0].denials[0].site.module | startswith("libavutil.so.")' true
	ask ward.timeline '.processes[0].devices[0] | [.denied, .denied_bytes, .allocs]' "[1,$denied,0]"
	grep -q "^cuward: ffmpeg .* status 1; .* of 100 KiB, 1 refusal (" ward.err
}

@test "ffmpeg: a limit met halfway" {
	filter $upload,scale_cuda=640:480,$download
	with="-m 800K --fail-on denied --error-exitcode 42"
	warded ward "${gpu[@]}"
	# Its own status stands, though --fail-on asked.
	[ $status -eq 1 ]
	grep -q 'CUDA_ERROR_OUT_OF_MEMORY: out of memory' ward.err
	whole ward
	settled ward
	ask ward.json '.run | [.command_status, .exit_status, .denied >= 1]' '[1,1,true]'
	ask ward.json '.processes[0].devices[0] | .peak_bytes > 0 and .peak_bytes <= 800 * 1024' true
	ask ward.json '.processes[0] | .devices[0].denied == .calls.cuMemAlloc_v2.errors' true
	ask ward.json '.processes[0].memory.device | .allocs > 0' true
}
