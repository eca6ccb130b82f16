#!/usr/bin/env bats
# Debian's GStreamer: opens the driver through GModule, and destroys its streams by the first ABI.

load client.bash

setup() {
	client_setup
	plugins=$(find /usr/lib -path '*/gstreamer-1.0/libgstnvcodec.so' 2>/dev/null | head -n 1)
	[ -n "$plugins" ] || skip "no nvcodec plugin"
	plugins=${plugins%/*}
	command -v gst-launch-1.0 >/dev/null || skip "no gst-launch-1.0"

	# Only what is used here, known to the registry before anything is counted.
	mkdir plugins
	ln -s "$plugins"/libgst{coreelements,videotestsrc,nvcodec}.so plugins
	export HOME=$PWD GST_PLUGIN_SYSTEM_PATH=$PWD/plugins GST_PLUGIN_PATH= GST_REGISTRY=$PWD/registry
	export GST_REGISTRY_FORK=no LD_LIBRARY_PATH=$PWD/lib
	decoder
	LD_LIBRARY_PATH=$sim:$LD_LIBRARY_PATH timeout 60 gst-inspect-1.0 nvcodec | grep -q 'cudaupload: CUDA uploader' ||
		skip "the nvcodec plugin has no cudaupload"
	export GST_REGISTRY_UPDATE=no
}

teardown() { client_teardown; }

# The plugin only registers where there is a video decoder; this one cannot decode.
decoder() {
	mkdir lib
	for name in CtxLockCreate CtxLockDestroy CtxLock CtxUnlock CreateDecoder DestroyDecoder \
		DecodePicture CreateVideoParser ParseVideoData DestroyVideoParser MapVideoFrame64 \
		UnmapVideoFrame64 GetDecoderCaps; do
		echo "int cuvid$name(void) { return 801; }"
	done | ${CC:-cc} -shared -fPIC -o lib/libnvcuvid.so.1 -x c -
}

# play FILTER...: five pictures of 320 x 240 through FILTER into the file "pictures".
play() {
	pipeline=(gst-launch-1.0 -q videotestsrc num-buffers=5 ! video/x-raw,format=NV12,width=320,height=240
		"$@" ! filesink location=pictures)
}
there_and_back=(! cudaupload ! "video/x-raw(memory:CUDAMemory)" ! cudadownload ! video/x-raw)

@test "gstreamer: pictures go to the GPU and come back" {
	play
	timeout 60 "${pipeline[@]}"
	bytes=$((5 * 320 * 240 * 3 / 2))
	[ "$(stat -c %s pictures)" -eq $bytes ]
	mv pictures expected
	play "${there_and_back[@]}"
	with="-m 1G --fail-on leak"
	both "${pipeline[@]}"
	cmp expected pictures
	[ -z "$(words_of ward)" ]
	settled ward
	# Y and UV of five pictures, there and back; a pool of pictures on either side.
	[ "$(calls_of ward cuMemcpy2DAsync_v2)" -eq 20 ]
	[ "$(calls_of ward cuStreamDestroy)" -eq 2 ]
	ask ward.timeline '[.processes[0] | .launches, .streams, (.copies | .htod, .dtoh | .count, .bytes)]' \
		"[0,2,10,$bytes,10,$bytes]"
	ask ward.json '.processes[0] | [.memory.device | .allocs, .frees] == [.calls | .cuMemAllocPitch_v2, .cuMemFree_v2 | .count]' true
	ask ward.json '.processes[0].objects | [.context, .stream | .live]' '[0,0]'
}

# What it does after a refusal is not played: gst-launch-1.0 then waits for ever, now and then, on a
# GPU that is full as under a limit.
@test "gstreamer: a limit that is just enough" {
	play "${there_and_back[@]}"
	with="-m 1G"
	warded first "${pipeline[@]}"
	peak=$(jq '.processes[0].devices[0].peak_bytes' first.json)
	[ "$peak" -ge $((320 * 240 * 3 / 2)) ]
	with="-m $peak --fail-on denied"
	warded ward "${pipeline[@]}"
	[ $status -eq 0 ]
	diff <(reported first) <(reported ward)
	whole ward
	settled ward
	ask ward.timeline '.processes[0].devices[0] | [.peak_bytes, .limit_bytes, .denied]' "[$peak,$peak,0]"
}
