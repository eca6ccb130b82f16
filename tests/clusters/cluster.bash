# cluster.bash - real daemons of containers and clusters, unpacked by tests/setup.sh, in namespaces of their own
# that end with the test; used by `load`.

# cluster_setup NAME: that its packages are there.
cluster_setup() {
	box_setup
	here=$TOP/build/clusters/$1/unpacked
	[ -d "$here" ] || skip "no $1: tests/setup.sh clusters"
	namespaces="-mpf --mount-proc"
	unshare $namespaces true 2>/dev/null || skip "no pid namespaces here"
	common_setup
	share=$TOP/tools/share
	export here share
	triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || gcc -print-multiarch)
	export triplet
	cat >>"$public/enter" <<-'X'
		export PATH=$here/usr/bin:$here/usr/sbin:$here/sbin:$PATH
		# The programs of the packages, with their libraries; ours do without.
		theirs() { LD_LIBRARY_PATH=$here/usr/lib/$triplet "$@"; }
		until_true() { # within a minute
			local i
			for i in $(seq 300); do
				"$@" && return
				sleep 0.2
			done
			echo "never: $*"
			return 1
		}
		same() { [ "$1" = "$2" ] || { echo "$1 is not $2"; return 1; }; }
	X
}

# Where containers run: one cgroup tree, as on a machine of today.
container_setup() {
	cluster_setup "$1"
	make_image
	cat >>"$public/enter" <<-'X'
		umount -R /sys/fs/cgroup 2>/dev/null || true
		mount -t cgroup2 none /sys/fs/cgroup
	X
}

# What is left of their cgroups, which are not in a namespace; those in use stay.
container_teardown() {
	[ -z "${public-}" ] || unshare -m sh -c '
		mount -t cgroup2 none /mnt && find /mnt/cuward-tests /mnt/libpod_parent -depth -type d -exec rmdir {} +' 2>/dev/null || true
	common_teardown
	box_teardown
}

# What a CUDA image of somebody looks like: a C library, a few programs, a CUDA program; the driver where
# the container runtime would have put it.
make_image() {
	local program library
	mkdir -p "$public/image"/{bin,dev,etc,proc,sys,tmp,usr/lib/$triplet}
	ln -s usr/lib "$public/image/lib"
	cp -L /bin/dash "$public/image/bin/sh"
	cp -L "$(command -v env)" "$(command -v sleep)" "$play" "$public/image/bin"
	for program in "$public/image/bin"/*; do
		ldd "$program" | grep -oE '/[^ ]+' | while read -r library; do
			mkdir -p "$public/image${library%/*}"
			cp -nL "$library" "$public/image$library"
		done
	done
	cp -L "$B/sim/libcuda.so.1" "$public/image/usr/lib/$triplet"
	echo 'root:x:0:0::/:/bin/sh' >"$public/image/etc/passwd"
}
