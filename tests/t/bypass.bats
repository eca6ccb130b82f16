#!/usr/bin/env bats
# Plug-ins that the loader binds around us: led back where that is possible, told where it is not.

load guest

setup_file() {
	export plugins=$BATS_FILE_TMPDIR
	local include variant binding
	include=$("$TOP/tests/cuda_headers.sh")
	for variant in linked: lookup:-DLOOK_UP load:-DAT_LOAD; do
		for binding in lazy now; do
			# shellcheck disable=SC2086
			$CC -fPIC -shared -D_GNU_SOURCE -D__CUDA_API_VERSION_INTERNAL -isystem "$include" \
				-Wl,-z,$binding ${variant#*:} -o "$plugins/${variant%%:*}-$binding.so" \
				"$TOP/tests/apps/plugins/alone.c" -L"$B/sim" -Wl,--as-needed -lcuda -ldl
		done
	done
	$CC -fPIC -shared -o "$plugins/none.so" -x c - <<<'int plugin_run(void) { return 0; }'
}

setup() {
	guest_setup
	ways='[.findings[].code | select(test("deepbind|namespace"))]'
}

teardown() { guest_teardown; }

# host OUTPUT FINDINGS HOW PLUGIN [END]: the program is not told, the report is.
host() {
	CUWARD_MEMORY=1M guest 0 "$apps/host" "$3" "$plugins/$4.so" "${@:5}"
	[ "$(echo $output)" = "$1" ] || { echo "${*:3}: $output"; false; }
	ask "$ways" "$2"
}

@test "a linked plug-in is bound to us, however it was opened" {
	for binding in lazy now; do
		for how in local global; do
			host "0 2" '[]' $how linked-$binding
			ask '[.calls.cuMemAlloc_v2.count, .devices[0].denied]' '[2,1]'
		done
		host "0 2" '["deepbind"]' deep linked-$binding
		ask '[.calls.cuInit.count, .calls.cuMemAlloc_v2.count, .devices[0].denied]' '[1,2,1]'
		host "0 2" '["namespace"]' space linked-$binding
		ask '[.calls.cuInit.count, .calls.cuMemAlloc_v2.count, .devices[0].denied]' '[1,2,1]'
		host "0 2" '["deepbind"]' deep linked-$binding _exit
		host "0 2" '["deepbind"]' deep linked-$binding close
		host "0 2" '["namespace"]' space linked-$binding close
	done
	host "0 2" '[]' deeplazy linked-lazy
	ask '[.calls.cuMemAlloc_v2.count, .devices[0].denied]' '[2,1]'
}

@test "what was called before we could know is told, with no call that came by us" {
	for binding in lazy now; do
		host "0 0" '["deepbind"]' deep load-$binding quiet
		host "0 0" '["namespace"]' space load-$binding quiet
		ask '[.calls, .devices, .ended, .status]' '[{},[],"exit",0]'
		host "0 0" '["deepbind"]' deeplazy load-$binding quiet _exit
		host "0 0 0 2" '["deepbind"]' deep load-$binding
		host "0 0 0 2" '["namespace"]' space load-$binding
	done
}

@test "look-ups of a plug-in go by us, however it was opened, or are told" {
	for end in exit _exit close; do
		host "0 2" '[]' local lookup-now $end
		host "0 2" '[]' deep lookup-now $end
		ask '[.calls.cuInit.count, .calls.cuMemAlloc_v2.count, .devices[0].denied]' '[1,2,1]'
		host "0 2" '[]' deeplazy lookup-lazy $end
		host "0 0" '["namespace"]' space lookup-now $end
	done
}

@test "under the command too" {
	run "$B/cuward" run -m 1M --report "$PWD/r.json" -- "$apps/host" deep "$plugins/load-now.so" quiet
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "0 0" ]
	ask "$ways" '["deepbind"]'
	run "$B/cuward" run -q -m 1M --report "$PWD/s.json" -- "$apps/host" space "$plugins/linked-now.so"
	[ "$status" -eq 0 ]
	[ "$output" = "0 2" ]
	ask "[$ways, .devices[0].denied]" '[["namespace"],1]' s.json
}

@test "nothing of it without a driver, without a wish, or switched off" {
	guest 0 "$apps/host" deep "$plugins/none.so"
	[ -z "$output" ]
	[ ! -e r.json ]
	report= guest 0 "$apps/host" deep "$plugins/load-now.so" quiet
	[ "$output" = "0 0" ]
	[ ! -e state ]
	CUWARD_DISABLE=1 CUWARD_MEMORY=1M guest 0 "$apps/host" deep "$plugins/linked-now.so"
	[ "$output" = "0 0" ]
	[ ! -e r.json ]
	export CUWARD_LOG=warn
	CUWARD_MEMORY=1M guest 0 "$apps/host" deep "$plugins/linked-now.so"
	[ "$(grep -c '^cuward: .*linked-now.so was opened with RTLD_DEEPBIND' <<<"$output")" -eq 1 ]
}

# The words that a library keeps its imports in are read-only again afterwards.
@test "what the loader sealed stays sealed" {
	cat >sealed.c <<-'C'
		#include <dlfcn.h>
		#include <stdio.h>
		#include <stdlib.h>
		int main(int argc, char **argv)
		{
			char command[99];
			dlsym(dlopen(argv[1], RTLD_NOW | (argc > 2 ? RTLD_DEEPBIND : 0)), "plugin_run");
			sprintf(command, "awk '/linked-now/ { print $2 }' /proc/%d/maps", getpid());
			return system(command);
		}
	C
	$CC -include unistd.h -o sealed sealed.c -ldl
	bare=$(./sealed "$plugins/linked-now.so" deep)
	grep -q 'r--p' <<<"$bare"
	[ "$(LD_PRELOAD=$shim ./sealed "$plugins/linked-now.so" deep)" = "$bare" ]
}

@test "who reads the driver's symbols or private tables is not stopped, but seen: untracked bytes" {
	export CUWARD_SIM_TABLES=1
	for how in "" table; do
		# shellcheck disable=SC2086
		CUWARD_MEMORY=8M guest 0 "$apps/walker" $((64 << 20)) $how
		[ "$output" = "0 0 0" ]
		ask '.devices[0] | [.used_bytes, .untracked_bytes]' "[$((2 << 20)),$((64 << 20))]"
		ask '[.findings[].code | select(. == "untracked")]' '["untracked"]'
		ask '.calls.cuMemAlloc_v2.count' 1
	done
	# The same in the usual way is refused, and everything is known.
	CUWARD_MEMORY=8M guest 0 "$apps/play" init device 0 refused 64M alloc 1M
	ask '.devices[0].untracked_bytes' 0
	ask '[.findings[].code | select(. == "untracked")]' '[]'
}
