#!/usr/bin/env bats
# Fuzz targets, some seconds each: what reads files of others neither crashes nor hangs. FUZZ_SECONDS=600 for longer.
# They begin with what was found before, tests/fuzz/NAME.tar.gz; FUZZ_KEEP=1 keeps what they find, too. Where clang cannot
# fuzz, what was kept is played again by a program that gcc made.
# beside: fuzzers.

bats_require_minimum_version 1.5.0

setup() {
	tmp=$BATS_TEST_TMPDIR
	echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { (void)d; (void)n; return 0; }' >"$tmp/try.c"
	replay=
	clang -fsanitize=fuzzer,address "$tmp/try.c" -o "$tmp/try" 2>/dev/null || replay=yes
	mkdir "$tmp/corpus" "$tmp/new"
}

# build TARGET SOURCE...
build() {
	local flags="-std=gnu11 -D_GNU_SOURCE -DFUZZ -I$TOP/include -I$TOP/tools -I$TOP/shim -I$TOP/tests/sim -I$B/gen"
	local compiler="clang -fsanitize=fuzzer" main=

	[ -z "$replay" ] || { compiler=gcc main=$TOP/tests/fuzz/replay.c; }
	# shellcheck disable=SC2086
	$compiler -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined $flags ${cuda-} \
		-o "$1" $main "${@:2}" -ljansson -lpthread -lm
}

# fuzz CORPUS NAME SOURCE...: build tests/fuzz/NAME.c with them and let it run on the corpus.
fuzz() {
	local kept=$TOP/tests/fuzz/$1.tar.gz target=$tmp/$2

	build "$target" "$TOP/tests/fuzz/$2.c" "${@:3}"
	mkdir "$tmp/kept"
	[ ! -e "$kept" ] || tar -C "$tmp/kept" -xzf "$kept"
	[ -z "$replay" ] || { play "$target"; return; }
	(cd "$tmp/new" && timeout 900 "$target" -max_total_time="${FUZZ_SECONDS:-8}" -timeout=10 -rss_limit_mb=2048 \
		-max_len=65536 -artifact_prefix="$tmp/" "$tmp/new" "$tmp/corpus" "$tmp/kept" >"$tmp/log" 2>&1) || {
		tail -n 40 "$tmp/log"
		ls "$tmp"
		return 1
	}
	grep -E '^Done|DONE' "$tmp/log"
	# It got somewhere, and not only to the first mistake.
	[ "$(sed -n 's/.*cov: \([0-9]*\).*/\1/p' "$tmp/log" | tail -n 1)" -gt "${least:-200}" ]
	[ -z "${FUZZ_KEEP-}" ] || keep "$kept" "$target"
}

# play TARGET: everything that was kept, and what a corpus begins with.
play() {
	local inputs=("$tmp/corpus"/* "$tmp/kept"/*)

	[ "${#inputs[@]}" -gt 20 ]
	timeout 300 "$1" "${inputs[@]}" 2>"$tmp/log" >"$tmp/played" || {
		tail -n 40 "$tmp/log"
		return 1
	}
	[ "$(cat "$tmp/played")" = "${#inputs[@]} inputs" ]
}

# keep FILE TARGET: the fewest inputs that get as far, small ones only.
keep() {
	mkdir "$tmp/few"
	"$2" -merge=1 -max_len=4096 "$tmp/few" "$tmp/kept" "$tmp/new" "$tmp/corpus" >"$tmp/log" 2>&1
	tar -C "$tmp/few" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - . | gzip -9n >"$1"
	ls -l "$1"
}

ctf_sources() { echo "$TOP"/tools/ctf.c "$TOP"/tools/ctf_[a-z]*.c "$TOP"/tools/tsdl*.c "$TOP"/tools/{arena,map,event,format}.c; }
model_sources() { echo "$TOP"/tools/model*.c "$TOP"/tools/{spans,histogram,map,event,format,table,protobuf}.c; }

@test "metadata" {
	for seed in 1 2 3; do
		python3 "$TOP/tests/make_zoo.py" "$tmp/zoo" --seed $seed
		cp "$tmp/zoo/metadata" "$tmp/corpus/zoo$seed"
	done
	fuzz tsdl fuzz_tsdl "$TOP"/tools/tsdl*.c "$TOP/tools/arena.c"
}

@test "streams" {
	python3 "$TOP/tests/make_ctf.py" "$TOP/tests/golden/two.events" "$tmp/ours"
	python3 "$TOP/tests/make_zoo.py" "$tmp/zoo" --seed 4
	cp "$tmp/ours/channel0_0" "$tmp/corpus/ours"
	export FUZZ_METADATA=$tmp/ours/metadata
	# shellcheck disable=SC2046
	fuzz ours fuzz_ctf $(ctf_sources)
	rm -rf "$tmp/corpus" "$tmp/new" "$tmp/kept" "$tmp/few"
	mkdir "$tmp/corpus" "$tmp/new"
	cp "$tmp/zoo/stream_0" "$tmp/corpus/zoo"
	export FUZZ_METADATA=$tmp/zoo/metadata
	# shellcheck disable=SC2046
	fuzz zoo fuzz_ctf $(ctf_sources)
}

@test "streams without metadata, and metadata in packets" {
	"${CC:-cc}" -O2 -std=gnu11 -D_GNU_SOURCE -I"$TOP/include" -DPACKET_BYTES=4096 -o "$tmp/big" "$TOP/tests/trace/big.c"
	"$tmp/big" "$tmp/trace" 40 1 1
	{ printf 0; cat "$tmp/trace/process_0"; printf '\n\0'; cat "$tmp/trace/calls_0"; } >"$tmp/corpus/orphans"
	{ printf 1; cat "$tmp/trace/metadata"; printf '\n\0'; cat "$tmp/trace/memory_0"; } >"$tmp/corpus/metadata"
	# shellcheck disable=SC2046
	fuzz salvage fuzz_salvage $(ctf_sources)
}

@test "events as text, the model and the views" {
	cp "$TOP"/tests/golden/*.events "$tmp/corpus"
	# shellcheck disable=SC2046
	fuzz text fuzz_text "$TOP/tools/events_text.c" $(model_sources) \
		"$TOP"/tools/view_{csv,json,lanes,terminal,stats,stats_json,findings,perfetto}.c
}

@test "places in the queue, and reserves" {
	local gpus='"gpus":[{"uuid":"GPU-51000000-0000-4000-8000-000000000000","bytes":1}]'

	echo '{"pid":1,"pid_ns":1,"priority":0,"job":"j","command":"c","any":false,'"$gpus}" >"$tmp/corpus/place"
	echo '{"whose":"user","who":1,"since_ns":1,"until_ns":2,'"$gpus}" >"$tmp/corpus/reserve"
	least=90 fuzz queue fuzz_queue "$TOP"/tools/{queue_text,queue_order,reserve_text}.c
}

@test "limits, and CUDA_VISIBLE_DEVICES" {
	printf 8G >"$tmp/corpus/one"
	printf '0=2G,GPU-8932=4G,1=none,50%%' >"$tmp/corpus/many"
	least=150 fuzz limit fuzz_limit "$TOP/shim/limit.c"
	rm -rf "$tmp/corpus" "$tmp/new" "$tmp/kept" "$tmp/few"
	mkdir "$tmp/corpus" "$tmp/new"
	printf '1,0,GPU-51000000' >"$tmp/corpus/one"
	cuda="-isystem $("$TOP/tests/cuda_headers.sh")" least=30 fuzz visible fuzz_visible "$TOP/tests/sim/sim_visible.c"
}

@test "without a fuzzer what was kept is played again, and a mistake shows" {
	replay=yes
	printf 8G >"$tmp/corpus/one"
	fuzz limit fuzz_limit "$TOP/shim/limit.c"
	echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return n == 2 && d[n] == 7; }' >"$tmp/bad.c"
	build "$tmp/bad" "$tmp/bad.c"
	run -0 "$tmp/bad" "$tmp/bad.c"
	[ "${lines[-1]}" = "1 inputs" ]
	run ! "$tmp/bad" "$tmp/bad.c" "$tmp/corpus/one" # of two bytes, it looks at a third
	[[ $output == *heap-buffer-overflow* ]]
}
