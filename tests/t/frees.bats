#!/usr/bin/env bats
# Frees of what may not be freed: by every call there is, the driver is asked once and its answer is the
# program's, nothing moves in the ledger, and the report says what it was. tests/apps/frees.c is the table.

load guest

setup() {
	guest_setup
	export CUWARD_SIM_CALL_LOG=$PWD/calls
}

teardown() { guest_teardown; }

# What reached the driver of the calls in the table, in order, with its answers.
reached() {
	awk 'NR == FNR { of[$1] = 1; next } $3 in of { print $3, $4 }' <(echo "$bare") calls
	rm calls
}

# wrong CASE CODE [CALL CODE]...: each call's one fault is CODE, that of a CALL named another; `-` is none.
wrong() {
	local asked call code=$2 each expected= said
	declare -A others=()
	bare=$("$apps/frees" "$1")
	asked=$(reached)
	guest 0 "$apps/frees" "$1"
	[ "$output" = "$bare" ]
	[ "$(reached)" = "$asked" ]
	# Once each, and once more where a first free had to be fine.
	each=1
	[ "$1" != twice ] || each=2
	for call in $(cut -d' ' -f1 <<<"$bare" | grep -v cuMemRelease); do
		[ "$(grep -c "^$call " <<<"$asked")" -eq $each ]
	done
	for ((i = 3; i < $#; i += 2)); do
		others[${!i}]=${@:i + 1:1}
	done
	while read -r call _; do
		said=${others[$call]-$code}
		[ "$said" = - ] || expected+="$call $said 1"$'\n'
	done <<<"$bare"
	diff <(jq -r '.processes[0].faults[] | "\(.api) \(.code) \(.count)"' r.json) <(printf %s "$expected")
	ask '[.findings[] | select(.code | endswith("-free")) | .count] | add // 0' "$(grep -c . <<<"$expected")"
	same_memory
}

# Kind by kind, ledger and driver.
same_memory() {
	local family='device|pool|managed|array|vmm|host|imported'
	diff <("$B/sim/truth" truth | sed -nE "s/^process\.0\.device\.0\.($family)\.(bytes|live)=/\1 \2 /p" |
		sed 's/^host/pinned/' | sort) \
		<(jq -r '.processes[0].memory | to_entries[] | select(.key != "graph") | .key as $kind |
			"\($kind) bytes \(.value.live_bytes)", "\($kind) live \(.value.live)"' r.json | sort)
	agrees
}

# Unmapping frees nothing by itself, and addresses are no memory.
addresses="cuMemUnmap - cuMemAddressFree -"

@test "nothing at all: no fault" {
	wrong null -
	[ "$(wc -l <<<"$bare")" -eq 13 ]
}

@test "freed twice" {
	wrong twice double-free $addresses
	ask '.memory.vmm.live' 1
}

@test "into the middle" {
	wrong interior interior-free $addresses cuArrayDestroy invalid-free cuMipmappedArrayDestroy invalid-free \
		cuMemRelease invalid-free cuDestroyExternalMemory invalid-free
	ask '.memory | [.device, .pool, .vmm, .array, .pinned, .imported] | map(.live)' '[2,2,3,2,2,2]'
}

@test "never handed out" {
	wrong unknown invalid-free $addresses
}

@test "of another family: it stays, and both places are told" {
	wrong other invalid-free $addresses
	ask '.memory | [.device, .array, .pinned] | map(.live)' '[5,3,5]'
	ask '[.faults[] | select(.api == "cuMemFree_v2") | [.bytes, .allocated_at != null]]' "[[$MiB,true]]"
}

@test "imported: freed where that is the way, else it stays" {
	wrong imported invalid-free $addresses cuMemFreeAsync_ptsz - cuMipmappedArrayDestroy -
	ask '.memory.imported | [.live, .frees]' '[10,2]'
}

@test "physical memory released too often: while it is mapped, and of a multicast object" {
	CUWARD_MEMORY=256M CUWARD_SIM_DEVICES=2 guest 0 "$apps/families" released
	ask '.findings | map(select(.code | endswith("-free"))) | map([.code, .count])' '[["double-free",3]]'
	ask '[.faults[].api] | unique' '["cuMemRelease"]'
}

# The driver is asked all the same, and its answer is the program's.
@test "after the driver shut down: by every call, and no leak" {
	local calls_of call asked
	"$CC" -shared -fPIC -o late.so -x c - <<-'END'
		void (*hook)(void);
		__attribute__((destructor)) static void end(void) { hook(); }
	END
	calls_of=$("$apps/frees" null | cut -d' ' -f1)
	[ "$(wc -w <<<"$calls_of")" -eq 13 ]
	export CUWARD_SIM_DEINIT=1
	for call in $calls_of; do
		rm -f calls
		bare=$("$apps/frees" late "$call")
		[ "$bare" = "$call 4" ]
		asked=$(reached)
		guest 0 "$apps/frees" late "$call"
		[ "$output" = "$bare" ]
		[ "$(reached)" = "$asked" ]
		[ "$(grep -c " 4$" <<<"$asked")" -eq 1 ]
		ask '[.faults[] | [.api, .code, .count]]' "[[\"$call\",\"free-after-shutdown\",1]]"
		# What it was exported from is another matter.
		ask '[.leaks[].kind]' "$([ $call = cuDestroyExternalMemory ] && echo '["vmm"]' || echo '[]')"
	done
}
