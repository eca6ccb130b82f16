#!/usr/bin/env bats
# Every way to the driver's functions leads through the shim; every other look-up is as without it.

load guest

setup_file() {
	export plugins=$BATS_FILE_TMPDIR
	local include name version
	include=$("$TOP/tests/cuda_headers.sh")
	version=$(objdump -T /lib/*/libc.so.6 | awk '$NF == "getenv" { gsub(/[()]/, "", $(NF-1)); print $(NF-1) }')
	for name in plugin wrapper; do
		$CC -O0 -fPIC -shared -D_GNU_SOURCE -D__CUDA_API_VERSION_INTERNAL -isystem "$include" \
			-o "$plugins/$name.so" "$TOP/tests/apps/plugins/$name.c" -L"$B/sim" -lcuda -ldl
	done
	for name in overrider shadow; do
		$CC -O0 -fPIC -shared -D_GNU_SOURCE -DGLIBC="\"$version\"" -o "$plugins/$name.so" \
			"$TOP/tests/apps/plugins/$name.c" -ldl
	done
	mkdir "$plugins/stubs"
	$CC -fPIC -shared -o "$plugins/stubs/libcuda.so" "$TOP/tests/apps/plugins/stub.c"
}

setup() { guest_setup; }

teardown() { guest_teardown; }

# limited HOW LIBRARY: of two allocations the first fits, one byte more does not.
limited() {
	CUWARD_MEMORY=1M guest 0 "$apps/routes" "$@"
	[ "$output" = "0 2" ] || { echo "$*: $output"; false; }
	ask '[.memory.device.allocs, .devices[0].used_bytes, .devices[0].denied]' "[1,$MiB,1]"
	truth process.0.device.0.device.allocs 1
}

@test "routes: handles, scopes, namespaces" {
	for how in open global next main deep space early; do
		limited $how libcuda.so.1
		LD_LIBRARY_PATH=$B/sim/12.2 limited $how libcuda.so.1
	done
	for how in open global deep space; do
		limited $how libcuda.so
		limited $how "$B/sim/libcuda.so.1"
		(cd "$B" && LD_LIBRARY_PATH='' CUWARD_MEMORY=1M LD_PRELOAD=$shim \
			"$apps/routes" $how sim/libcuda.so) >said
		[ "$(cat said)" = "0 2" ]
	done
	LD_LIBRARY_PATH=$B/sim/11.0 limited open libcuda.so.1
}

@test "routes: plug-ins that nobody else sees" {
	limited plugin "$plugins/plugin.so"
	limited within "$plugins/plugin.so"
}

@test "routes: a library with a wrapper of its own" {
	limited wrapper "$plugins/wrapper.so"
	ask '.calls.cuMemAlloc_v2.count' 2
}

# The names before the driver's own are the wrapper's, and must not be taken for the driver's.
@test "routes: a wrapper linked into the program" {
	cp "$apps/routes" wrapped
	LD_PRELOAD=$shim:$plugins/wrapper.so CUWARD_MEMORY=1M CUWARD_REPORT=r.json \
		./wrapped open libcuda.so.1 >said
	[ "$(cat said)" = "0 2" ]
	LD_PRELOAD=$plugins/wrapper.so:$shim CUWARD_MEMORY=1M ./wrapped global libcuda.so.1 >said
	[ "$(cat said)" = "0 2" ]
	LD_PRELOAD=$shim:$plugins/wrapper.so CUWARD_MEMORY=1M ./wrapped global libcuda.so.1 >said
	[ "$(cat said)" = "0 2" ]
}

@test "routes: a stub that was met first" {
	CUWARD_MEMORY=1M guest 1 "$apps/routes" open "$plugins/stubs/libcuda.so"
	[ "$output" = "no cuInit" ]
	CUWARD_MEMORY=1M guest 0 "$apps/two_drivers" "$plugins/stubs/libcuda.so" libcuda.so.1
	[ "$output" = "34 0 0 2" ]
	CUWARD_MEMORY=1M guest 0 "$apps/two_drivers" "$B/sim/libcuda.so.1" "$plugins/stubs/libcuda.so"
	[[ $output == "0 "* ]]
}

@test "routes: another override of dlsym, on either side" {
	for order in "$plugins/overrider.so:$shim" "$shim:$plugins/overrider.so"; do
		output=$(LD_PRELOAD=$order CUWARD_MEMORY=1M "$apps/routes" open libcuda.so.1 2>told)
		[ "$output" = "0 2" ]
		[ "$(cat told)" != "" ]
		output=$(LD_PRELOAD=$order CUWARD_MEMORY=1M "$apps/routes" early libcuda.so.1 2>told)
		[ "$output" = "0 2" ]
	done
}

@test "look-ups of others see who asks, at -O0 too" {
	printf '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { return puts(getenv("SHADOWED")) < 0; }' >p.c
	$CC -O0 -o p p.c
	for order in "$plugins/shadow.so" "$plugins/shadow.so:$shim" "$shim:$plugins/shadow.so"; do
		[ "$(LD_PRELOAD=$order ./p)" = "shadowed: yes" ]
	done
}

@test "RUNPATH of the library that opens another" {
	mkdir -p lib/sub sub
	echo 'int two(void) { return 42; }' >two.c
	printf '#include <dlfcn.h>\n#include <stdio.h>\nint one(void) { void *h = dlopen("libtwo.so", 2), *t = h ? dlsym(h, "two") : 0;
		if (!t) puts(dlerror()); return t ? ((int (*)(void))t)() : 1; }' >one.c
	printf 'int one(void); int main(void) { return one(); }' >p.c
	$CC -shared -fPIC -o lib/sub/libtwo.so two.c
	for level in O0 O2; do
		for tags in enable disable; do
			for place in '$ORIGIN/sub' '$ORIGIN/nowhere'; do
				$CC -$level -shared -fPIC -o lib/libone.so one.c -Wl,-rpath,"$place" -Wl,--$tags-new-dtags -ldl
				readelf -d lib/libone.so | grep -q "$([ $tags = enable ] && echo RUNPATH || echo RPATH)"
				$CC -$level -o p p.c -Llib -lone -Wl,-rpath,"$PWD/lib"
				status=0
				./p >bare || status=$?
				[ $status -eq $([ "$place" = '$ORIGIN/sub' ] && echo 42 || echo 1) ]
				with=0
				LD_PRELOAD=$shim ./p >with || with=$?
				[ $with -eq $status ]
				diff bare with
			done
		done
	done
}

@test "names that look like the driver's" {
	printf 'const char *cudnnCreate(void) { return "cudnn"; }
		const char *cuMyOwn(void) { return "own"; }
		const char *cublasCreate_v2(void) { return "cublas"; }
		const char *curl_easy_init(void) { return "curl"; }
		const char *culaXYZ(void) { return "cula"; }
		const char *cuMemAlloc_v9(void) { return "v9"; }' >real.c
	printf '#include <dlfcn.h>\n#define F(name) const char *name(void) { static const char *(*f)(void); \\
		if (!f) f = (const char *(*)(void))dlsym(dlopen("./real.so", 1), #name); return f(); }
		F(cudnnCreate) F(cuMyOwn) F(cublasCreate_v2) F(curl_easy_init) F(culaXYZ) F(cuMemAlloc_v9)' >forward.c
	printf '#include <stdio.h>\nconst char *cudnnCreate(void), *cuMyOwn(void), *cublasCreate_v2(void),
		*curl_easy_init(void), *culaXYZ(void), *cuMemAlloc_v9(void); int main(void) { printf("%%s %%s %%s %%s %%s %%s\\n",
		cudnnCreate(), cuMyOwn(), cublasCreate_v2(), curl_easy_init(), culaXYZ(), cuMemAlloc_v9()); }' >p.c
	$CC -shared -fPIC -o real.so real.c
	$CC -O0 -shared -fPIC -o libcudnn_like.so forward.c -ldl
	$CC -o p p.c "$PWD/libcudnn_like.so"
	[ "$(LD_PRELOAD=$shim ./p)" = "cudnn own cublas curl cula v9" ]
	mkdir odd
	cp "$shim" odd/libcuda.so.9
	[ "$(LD_PRELOAD=odd/libcuda.so.9 ./p)" = "cudnn own cublas curl cula v9" ]
}

# same COMMAND...: it prints the same with and without the preload, whoever answers.
same() {
	"$@" | normal >bare
	LD_PRELOAD=$shim "$@" | normal >preloaded
	diff bare preloaded
	[ "$(grep -c . bare)" -gt 100 ]
}

sort_symbols() { grep -o '[A-Za-z0-9_]*@libcuda' "$1" | sed 's/@.*//' | LC_ALL=C sort -u; }

# The driver and we are one and the same; so are our dlsym and libc's.
normal() {
	sed -E -e 's/(dlsym|_exit) libcuward\.so$/\1 libc.so.6/' -e 's/libcu(da\.so(\.1)?|ward\.so)$/DRIVER/'
}

@test "what is absent stays absent, what is there stays there" {
	for CUWARD_DISABLE in 0 1; do
		export CUWARD_DISABLE
		for profile in . 12.2 11.0 future; do
			export LD_LIBRARY_PATH=$B/sim/$profile
			same "$apps/lookups"
			same "$apps/lookups_linked"
			for mode in local global deepbind; do
				same "$apps/lookups" $mode libcuda.so.1
			done
			same "$apps/lookups" local "$plugins/wrapper.so"
			same "$apps/lookups" local "$plugins/stubs/libcuda.so" local libcuda.so.1
		done
		export LD_LIBRARY_PATH=
		same "$apps/lookups"
		same "$apps/lookups" local libcuda.so.1
		same "$apps/lookups" global "$plugins/stubs/libcuda.so"
	done
}

# The header does not declare them; who is linked to them comes through us all the same.
@test "functions for graphics keep their arguments, and are absent where the driver has none" {
	mkdir whole part
	$CC -DWHOLE -shared -fPIC -Wl,-soname,libcuda.so.1 -o whole/libcuda.so.1 \
		"$TOP/tests/apps/plugins/graphics.c"
	$CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o part/libcuda.so.1 "$TOP/tests/apps/plugins/graphics.c"
	for bind in lazy now; do
		$CC -O1 -D_GNU_SOURCE -o linked "$TOP/tests/apps/plugins/linked_graphics.c" -ldl \
			whole/libcuda.so.1 -Wl,-z,$bind
		export LD_LIBRARY_PATH=$PWD/whole
		for FIRST in '' 1; do
			export FIRST
			[ -n "$FIRST" ] || unset FIRST
			for CUWARD_DISABLE in 0 1; do
				export CUWARD_DISABLE
				./linked >bare
				LD_PRELOAD=$shim ./linked >preloaded
				diff bare preloaded
				[ "$(grep -cx $((87654321 + 9 + 20 + 33 + 48 + 65 + 84 + 105 + 128 + 153)) bare)" -eq 2 ]
				[ "$(grep -c ' cuGraphicsGLRegisterImage$' bare)" -eq 4 ]
			done
		done
	done
	# As with every other function, the program starts and the call fails.
	export LD_LIBRARY_PATH=$PWD/part
	LD_PRELOAD=$shim ./linked >preloaded
	[ "$(grep -cx 801 preloaded)" -eq 2 ]
	[ "$(grep -cx 77 preloaded)" -eq 2 ]
	[ "$(grep -c ' absent$' preloaded)" -eq 4 ]
}

# Each by itself, as who is linked to it calls it: a driver that has them all, and answers with which it is.
@test "each function that the header does not declare is the driver's, and its own" {
	LC_ALL=C comm -13 <(sed -n 's/^\tX(\([A-Za-z0-9_]*\),.*/\1/p' "$B/gen/driver_calls.h" | LC_ALL=C sort) \
		<(awk -F'\t' '!/^#/ && ($5 == "y" || $5 == "n") { print $1 }' "$TOP/tests/sim/driver_facts.tsv" |
			LC_ALL=C sort) >names
	[ "$(wc -l <names)" -gt 30 ]
	{
		echo 'int cuInit(unsigned); int cuInit(unsigned flags) { return flags; }'
		awk '{ printf "long %s(long, long);\nlong %s(long a, long b) { return %d * a + b; }\n", $1, $1, NR }' names
	} >driver.c
	$CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o libcuda.so.1 driver.c
	{
		printf '#include <stdio.h>\nint cuInit(unsigned);\n'
		awk '{ printf "long %s(long, long);\n", $1 }' names
		printf 'int main(int argc, char **argv) { (void)argv; if (argc > 1) cuInit(0);\n'
		awk '{ printf "\tprintf(\"%s %%ld\\n\", %s(1000, 7));\n", $1, $1 }' names
		echo '	return 0; }'
	} >p.c
	for bind in lazy now; do
		$CC -o p p.c libcuda.so.1 -Wl,-z,$bind
		[ "$(LD_LIBRARY_PATH=$PWD LD_PRELOAD=$shim LD_DEBUG=bindings LD_BIND_NOW=1 ./p 2>&1 |
			grep -c "file ./p .*libcuward.so .*: normal symbol \`cu\(GL\|EGL\|VDPAU\|Graphics\|MemGetAttribute\)")" -ge "$(wc -l <names)" ]
		for first in '' first; do
			LD_LIBRARY_PATH=$PWD LD_PRELOAD=$shim ./p $first >said
			diff said <(awk '{ print $1, NR * 1000 + 7 }' names)
		done
	done
}

# answered: every pointer of the driver in LD_LIBRARY_PATH is its own choice, and ours in its place where we
# have a hook. The names of all others are in the file theirs.
answered() {
	sed -n 's/^\tX(\([A-Za-z0-9_]*\),.*/\1/p' "$B/gen/driver_calls.h" | LC_ALL=C sort >hooked
	"$apps/versions" "$TOP/tests/sim/driver_facts.tsv" >bare
	guest 0 "$apps/versions" "$TOP/tests/sim/driver_facts.tsv"
	diff bare <(sed 's/@libcuward\.so/@libcuda.so.1/g' <<<"$output")
	[ "$(wc -l <bare)" -gt 700 ]
	[ "$(grep -c within bare)" -eq 0 ]
	grep -o '[A-Za-z0-9_]*@libcuda' <<<"$output" | sed 's/@.*//' | LC_ALL=C sort -u >theirs
	grep -o '[A-Za-z0-9_]*@libcuward' <<<"$output" | sed 's/@.*//' | LC_ALL=C sort -u >ours
	diff theirs <(LC_ALL=C comm -13 hooked <(sort_symbols bare))
	diff ours <(LC_ALL=C comm -12 hooked <(sort_symbols bare))
	[ "$(wc -l <ours)" -gt 350 ]
}

# asked LEAST: so many questions, at all versions that brought anything, and at each from 11.0 to 13.10.
asked() {
	tail -n 1 bare | awk -v least="$1" '/^[0-9]+ asked, at [0-9]+ versions$/ { fine = $1 >= least && $4 > 100 }
		END { exit !fine }'
}

@test "each name, version and flag is answered as the driver does" {
	for profile in . 12.2 11.0 future; do
		export LD_LIBRARY_PATH=$B/sim/$profile
		answered
		asked $([ $profile = 11.0 ] && echo 0 || echo 300000)
	done
	# A row of the table for whatever the header has, or nobody would have asked for it.
	[ -z "$(LC_ALL=C comm -23 hooked <(cut -f 1 "$TOP/tests/sim/driver_facts.tsv" | LC_ALL=C sort))" ]
	# The last one is that of the future.
	[ "$(grep -cx 'cuFutureCall\(_ptsz\)\?\|cuMemAlloc_v3\|cuMemAllocAsync_v2\(_ptsz\)\?' theirs)" -eq 5 ]
	ask '.coverage.unhooked | map(select(. == "cuFutureCall")) | length' 1
}

@test "each driver from 11.2 to 13.5: as it answers, and limited" {
	count=0 before=0
	while read -r driver; do
		export LD_LIBRARY_PATH=$driver
		answered
		case $driver in
		*/11.2) asked 0 ;;
		*) asked 300000 ;;
		esac
		# No driver took a name away.
		[ "$(wc -l <ours)" -ge $before ]
		before=$(wc -l <ours)
		limited open libcuda.so.1
		case $driver in */11.*) ;; *) limited early libcuda.so.1 ;; esac
		count=$((count + 1))
	done < <(printf '%s\n' "$B"/drivers/*.* | sort -V)
	[ $count -eq 20 ]
	[ $before -gt 600 ]
}

# The list was made with CUDA's own runtime; tests/clients/cudart.bats plays the real one.
@test "the look-ups of CUDA's runtime: what the driver chooses, and ours in its place" {
	list=$TOP/tests/sim/cudart13_lookups.tsv
	sed -n 's/^\tX(\([A-Za-z0-9_]*\),.*/\1/p' "$B/gen/driver_calls.h" >hooked
	for profile in . 12.2 future; do
		export LD_LIBRARY_PATH=$B/sim/$profile
		"$apps/versions" asked "$list" >bare
		guest 0 "$apps/versions" asked "$list"
		[ "$(wc -l <bare)" -eq 439 ]
		diff <(awk 'NR == FNR { ours[$1 "@libcuda.so.1"] = $1 "@libcuward.so"; next }
			$4 in ours { $4 = ours[$4] } { print }' hooked bare) <(echo "$output")
		[ $profile != 12.2 ] || diff <(grep -v '^#' "$list" | tr '\t' ' ') \
			<(sed 's/@libcuda\.so\.1$//; s/ null$/ -/' bare)
	done
	LD_LIBRARY_PATH=$B/sim guest 0 "$apps/versions" asked "$list"
	[ "$(grep -c '@libcuward\.so$' <<<"$output")" -eq 410 ]
	# Two by dlsym.
	ask '.coverage | [.looked_up, .hooked, .passed_through]' '[442,413,29]'
	grep '@libcuda\.so\.1$' <<<"$output" | cut -d' ' -f1 | sort -u >others
	[ "$(wc -l <others)" -eq 27 ]
	[ "$(grep -vc 'GL\|EGL\|Egl\|VDPAU' others)" -eq 0 ]
}
