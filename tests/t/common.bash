# common.bash - the administrator's folder where all users meet, for the tests of several users; used by `load`.
# It cannot be elsewhere than in /run, and /etc/cuward not elsewhere than in /etc: each test has both of
# its own, in a mount namespace, and a place that other users can read.

common_setup() {
	local file
	[ "$(id -u)" = 0 ] || skip "needs root" || return
	unshare -m true 2>/dev/null || skip "no mount namespaces here" || return
	public=$(mktemp -d)
	chmod 755 "$public"
	mkdir "$public/bin" "$public/etc"
	cp "$shim" "$play" "$cuward" "$public/bin"
	for file in group killat filtered leap tardy; do
		[ ! -e "$apps/$file" ] || cp "$apps/$file" "$public/bin"
	done
	cp -r "$B/sim" "$public/bin/sim"
	for file in passwd group nsswitch.conf ld.so.cache localtime alternatives; do
		[ ! -e "/etc/$file" ] || cp -a "/etc/$file" "$public/etc"
	done
	mkdir -m 755 "$public/etc/cuward"
	touch "$public/etc/cuward/cuward.conf"
	cat >"$public/enter" <<-'X'
		mount --bind "$public/etc" /etc
		mount -t tmpfs -o mode=755 tmpfs /run
		mount -t tmpfs -o mode=1777 tmpfs /dev/shm # nobody else's state
		[ -n "${no_common-}" ] || {
			# As the shipped unit has it, line by line.
			while read -r what path mode owner group _; do
				case $what:$path in
				d:/run/*) mkdir -m "$mode" "$path" ;;
				f:/run/*) : >"$path"; chmod "$mode" "$path" ;;
				*) continue ;;
				esac
				chown "$owner:$group" "$path"
			done <"$TOP/tools/share/cuward.tmpfiles.conf"
		}
		cd "$public"
		export LD_LIBRARY_PATH=$public/bin/sim PATH=$public/bin:$PATH
		unset CUWARD_DIR
		# as UID COMMAND...: in a folder of state of his own; GROUPS_OF_UID may name more groups.
		as() {
			local uid=$1 more
			shift
			eval "more=\${groups_$uid-}"
			[ -d "$public/state-$uid" ] || {
				mkdir -p -m 700 "$public/state-$uid"
				chown "$uid" "$public/state-$uid"
			}
			CUWARD_DIR=$public/state-$uid ${exec-} setpriv --reuid "$uid" --regid "$uid" \
				$([ -n "$more" ] && echo "--groups $more" || echo --clear-groups) "$@"
		}
		# preloaded UID WORD...: play them, under the library.
		preloaded() {
			local uid=$1
			shift
			as "$uid" ${filter-} env LD_PRELOAD="$public/bin/libcuward.so" play "$@"
		}
		# holds UID WORD...: the same in the background, up to `say held`; its pid in $pid.
		holds() {
			rm -f "said-$1"
			(exec=exec preloaded "$@") >"said-$1" &
			pid=$!
			until grep -q held "said-$1"; do
				kill -0 $pid || exit 1
				sleep 0.05
			done
		}
		# told FILE FILTER: true of the JSON.
		told() {
			jq -e "$2" "$1" >/dev/null || { echo "not so: $2"; head -c 3000 "$1"; exit 1; }
		}
		finish() {
			local status=$?
			set +e
			kill -9 $(jobs -p) 2>/dev/null
			wait
			exit $status
		}
		trap finish EXIT
		MiB=1048576 GiB=1073741824
	X
}

common_teardown() {
	[ -z "${public-}" ] || rm -rf "$public"
}

# policy LINE...: of /etc/cuward/cuward.conf in there.
policy() { printf '%s\n' "$@" >"$public/etc/cuward/cuward.conf"; }

# common: what stdin says, in there.
common() {
	{ cat "$public/enter"; echo 'set -e'; cat; } >"$public/script"
	[ -z "${TRACE-}" ] || sed -i '1s,^,set -x;,' "$public/script"
	public=$public no_common=${no_common-} CUWARD_SIM_TRUTH= env -u CUWARD_SIM_TRUTH \
		unshare ${namespaces--m} bash "$public/script" 3>&-
}
