#!/usr/bin/env bats
# cuward doctor: every check fine, and every check failing.

setup() {
	export CUWARD_DIR=$BATS_TEST_TMPDIR/state LD_LIBRARY_PATH=$B/sim
	unset LD_PRELOAD CUWARD_MEMORY CUWARD_JOB_MEMORY CUWARD_DISABLE
	cd "$BATS_TEST_TMPDIR"
}

# verdict CHECK EXPECTED TEXT COMMAND...: that check, in the JSON and in the words for people.
verdict() {
	local status=0 json
	json=$("${@:4}" --json) || status=$?
	echo "$json"
	[ "$(jq -r ".checks[] | select(.check == \"$1\").verdict" <<<"$json")" = "$2" ]
	[[ $(jq -r ".checks[] | select(.check == \"$1\").text" <<<"$json") == *"$3"* ]]
	if [ "$2" = ok ]; then return 0; fi
	[ "$status" -eq 1 ]
	[ "$(jq -r ".checks[] | select(.check == \"$1\").advice" <<<"$json")" != null ]
	"${@:4}" | grep -q "^$2 *$1 "
}

doctor() { "$B/cuward" doctor "$@"; }

@test "all is well" {
	run doctor
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(grep -c '^ok ' <<<"$output")" -eq 11 ]
	verdict driver ok "the simulated one, CUDA 13.0" doctor
	[ "$(doctor --json | jq '.schema, (.checks | length)' | xargs)" = "1 11" ]
}

@test "no shim, and no preload without it" {
	mkdir alone
	cp "$B/cuward" alone/
	[ ! -e /usr/local/lib/cuward/libcuward.so ] || skip "cuward is installed here"
	verdict shim fail "neither beside the command nor in" alone/cuward doctor
	verdict preload fail "does not work" alone/cuward doctor
}

@test "a shim that cannot be loaded" {
	mkdir broken
	cp "$B/cuward" broken/
	echo "not a library" >broken/libcuward.so
	verdict shim ok "broken/libcuward.so" broken/cuward doctor
	verdict preload fail "does not work" broken/cuward doctor
	verdict provider warn "does not load" broken/cuward doctor
}

@test "another preload" {
	verdict other-preload warn "libm.so.6" env LD_PRELOAD=libm.so.6 "$B/cuward" doctor
}

@test "switched off" {
	verdict switch fail "nothing is enforced" env CUWARD_DISABLE=1 "$B/cuward" doctor
}

@test "limits that are none" {
	verdict limits fail "CUWARD_MEMORY" env CUWARD_MEMORY=8X "$B/cuward" doctor
	verdict limits fail "CUWARD_JOB_MEMORY" env CUWARD_JOB_MEMORY=8X "$B/cuward" doctor
	verdict limits ok "limited to CUWARD_JOB_MEMORY=8G" env CUWARD_JOB_MEMORY=8G "$B/cuward" doctor
	verdict limits ok "limited to CUWARD_MEMORY=8G" env CUWARD_MEMORY=8G "$B/cuward" doctor
}

@test "no driver" {
	mkdir none
	echo "not a library" >none/libcuda.so.1
	verdict driver warn "no CUDA driver" env LD_LIBRARY_PATH=$PWD/none "$B/cuward" doctor
}

@test "folders of shared state that cannot be used" {
	: >file
	verdict folder fail "is not a folder" env CUWARD_DIR=$PWD/file "$B/cuward" doctor
	verdict folder fail "cannot be made" env CUWARD_DIR=$PWD/not/there "$B/cuward" doctor
	mkdir open foreign
	chmod 777 open
	verdict folder fail "writable by others" env CUWARD_DIR=$PWD/open "$B/cuward" doctor
	[ "$(id -u)" -eq 0 ] || return 0
	chown 12345 foreign
	verdict folder fail "belongs to uid 12345" env CUWARD_DIR=$PWD/foreign "$B/cuward" doctor
}

@test "little space" {
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	mkdir small
	verdict space warn "are free in" unshare -m sh -c "mount -t tmpfs -o size=4m,mode=700 none '$PWD/small' &&
		CUWARD_DIR='$PWD/small' '$B/cuward' doctor \"\$@\"" sh
}

@test "no session daemon" {
	mkdir bin
	verdict session-daemon warn "not in PATH" env PATH=$PWD/bin "$B/cuward" doctor
}

@test "arguments it does not know" {
	run doctor nonsense
	[ "$status" -eq 2 ]
}
