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
	[ "$(grep -c '^ok ' <<<"$output")" -eq 16 ]
	verdict driver ok "the simulated one, CUDA 13.0" doctor
	[ "$(doctor --json | jq '.schema, (.checks | length)' | xargs)" = "1 16" ]
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

@test "the administrator's files: none, good, with a mistake, somebody else's" {
	[ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null || skip "needs root and mount namespaces"
	# with WORDS OWNER COMMAND...: with these as /etc/cuward/cuward.conf.
	with() {
		unshare -m sh -c 'mount -t tmpfs -o mode=755 none /etc/cuward && printf "$1" >/etc/cuward/cuward.conf &&
			chown "$2" /etc/cuward/cuward.conf && shift 2 && "$@"' - "$1" "$2" "$B/cuward" doctor "${@:3}"
	}
	made=
	if [ ! -d /etc/cuward ]; then
		verdict policy ok "the administrator sets no limit" doctor
		mkdir /etc/cuward
		made=1
	fi
	verdict policy ok "can be read" with '[default]\nprocess_max = 8M\n' 0
	verdict policy fail "/etc/cuward/cuward.conf:2: unknown key" with '[default]\nproces_max = 8M\n' 0
	verdict policy warn "/etc/cuward/cuward.conf is ignored" with '[default]\nprocess_max = 8M\n' 12345
	[ -e /run/cuward ] || {
		verdict common fail "/run/cuward is not there, and /etc/cuward has a group_max or a reserve" with '[default]\nreserve = 8M\n' 0
		verdict common ok "users do not meet" with '[default]\nuser_max = 8M\n[group 4200]\ngroup_max = 8M\n' 0
	}
	[ -z "$made" ] || rmdir /etc/cuward
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

@test "NVML: there, missing, failing, hanging" {
	nvml() { LD_LIBRARY_PATH=$B/sim:$B/sim/nvml doctor "$@"; }
	verdict nvml ok "is not here" doctor
	CUWARD_SIM_DEVICES=2 verdict nvml ok "tells of 2 GPUs" nvml
	CUWARD_NVML_FAIL=nvmlInit_v2=9 verdict nvml warn "answers with error 9" nvml
	status=0
	CUWARD_NVML_HANG=nvmlInit_v2 nvml --json >out || status=$?
	[ "$status" -eq 1 ]
	[[ "$(jq -c '.checks[] | select(.check == "nvml") | [.verdict, .text]' out)" == '["warn","NVML does not answer within 5 s:'* ]]
}

@test "hard walls: MIG, MPS, dmem" {
	nvml() { LD_LIBRARY_PATH=$B/sim:$B/sim/nvml doctor "$@"; }
	verdict mig ok "not known without NVML" doctor
	verdict mig ok "no GPU is divided" nvml
	CUWARD_NVML_MIG=4 CUWARD_SIM_DEVICES=2 verdict mig ok \
		"a hard wall here: nobody gets memory of another slice; GPU 0 into 4.00 GiB, 4.00 GiB, 4.00 GiB, 4.00 GiB" nvml
	CUDA_VISIBLE_DEVICES=MIG-GPU-51000000/1/0 verdict mig ok "a hard wall here: CUDA_VISIBLE_DEVICES=MIG-GPU-51000000/1/0" doctor
	CUWARD_NVML_MIG=0 verdict mig ok "GPU 0 into nothing yet" nvml
	export CUDA_MPS_PIPE_DIRECTORY=$PWD/mps
	mkdir mps
	verdict mps ok "no MPS daemon has its pipes in $PWD/mps" doctor
	mkfifo mps/control
	verdict mps ok "it limits nobody's memory" doctor
	CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G verdict mps ok "a hard wall here: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G" doctor
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	verdict dmem ok "has no dmem controller" unshare -m sh -c 'mount -t tmpfs none /sys/fs/cgroup && "$@"' - "$B/cuward" doctor
	# limit GROUP TEXT: what is said where GROUP, ours or one above it, has this limit.
	own=$(sed -n 's/^0:://p' /proc/self/cgroup)
	capacity='drm/0000:01:00.0/vram0 17163091968'
	group() {
		unshare -m sh -c 'mount -t tmpfs none /sys/fs/cgroup && cd /sys/fs/cgroup && echo "$1" >dmem.capacity &&
			mkdir -p "./$2" && { [ -z "$3" ] || echo "$3" >"./$4/dmem.max"; } && shift 4 && "$@"' - \
			"$capacity" "$own" "$1" "$2" "$B/cuward" doctor "${@:3}"
	}
	verdict dmem ok "knows of $capacity, and limits nobody here" group '' ''
	verdict dmem ok "limits nobody here" group 'drm/0000:01:00.0/vram0 max' "$own"
	verdict dmem ok "a hard wall here: drm/0000:01:00.0/vram0 1073741824" group 'drm/0000:01:00.0/vram0 1073741824' "$own"
	verdict dmem ok "a hard wall here: drm/0000:01:00.0/vram0 1073741824" group 'drm/0000:01:00.0/vram0 1073741824' /
	capacity=
	verdict dmem ok "NVIDIA's driver has not told it" group '' ''
}

@test "arguments it does not know" {
	run doctor nonsense
	[ "$status" -eq 2 ]
}
