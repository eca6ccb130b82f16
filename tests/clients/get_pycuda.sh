# get_pycuda.sh - unpack Debian's PyCUDA, and the cuRAND it links, into build/clients/pycuda.
#
# Sourced by tests/setup.sh. Both are in sections that few machines have enabled and depend on
# NVIDIA's driver and toolkit, so they are downloaded by lists of our own and not installed; the
# Python packages and Boost libraries that PyCUDA needs join $packages. Where this fails its tests are
# skipped.

pycuda=$top/build/clients/pycuda

# Where this machine gets Debian's main section from.
debian_mirror() {
	[ -e /etc/os-release ] || return 1
	. /etc/os-release
	apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' \
		'Origin: Debian' 'Component: main' | awk -v name="$VERSION_CODENAME" '$2 == name { print; exit }'
}

other_apt() {
	tool=$1
	shift
	"$tool" -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$pycuda/apt/sources" \
		-o Dir::State::lists="$pycuda/apt/lists" -o Dir::Cache="$pycuda/apt/cache" \
		-o APT::Sandbox::User=root "$@"
}

fetch_pycuda() {
	[ "$(id -u)" != 0 ] || apt-get -qq update >&2
	mirror=$(debian_mirror) && [ -n "$mirror" ] || return 1
	mkdir -p "$pycuda/apt/sources" "$pycuda/apt/lists/partial" "$pycuda/apt/cache/archives/partial" || return 1
	keys=/usr/share/keyrings/debian-archive-keyring.gpg
	[ -e $keys ] && keys="[signed-by=$keys] " || keys=
	echo "deb $keys$mirror contrib non-free" >"$pycuda/apt/sources/debian.list"
	other_apt apt-get update >&2 && (cd "$pycuda/apt" && other_apt apt-get download python3-pycuda libcurand10) >&2 ||
		return 1
	for package in "$pycuda"/apt/*.deb; do
		dpkg -x "$package" "$pycuda/unpacked" || return 1
	done
	# One name a line, without versions; abi packages are virtual.
	dpkg-deb -f "$pycuda"/apt/python3-pycuda_*.deb Depends | tr ',' '\n' |
		sed -n 's/^ *\(python3-[a-z0-9.+-]*\|libboost-[a-z0-9.+-]*\)\( .*\)\?$/\1/p' |
		grep -v -e '-abi[0-9]*$' -e '-py3[0-9]*$' >"$pycuda/needs" || return 1
	rm -rf "$pycuda/apt"
}

if command -v apt-get >/dev/null && [ ! -e "$pycuda/needs" ]; then
	echo "setup: fetching PyCUDA into build/clients" >&2
	fetch_pycuda || echo "setup: there is no PyCUDA; its tests will be skipped" >&2
fi
[ ! -e "$pycuda/needs" ] || packages="$packages $(cat "$pycuda/needs")"
