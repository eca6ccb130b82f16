# get_pycuda.sh - unpack Debian's PyCUDA, and the cuRAND it links, into build/clients/pycuda.
#
# Sourced by tests/setup.sh. Both are in sections that few machines have enabled and depend on
# NVIDIA's driver and toolkit, so they are not installed; the Python packages and Boost libraries
# that PyCUDA needs join $packages. Where this fails its tests are skipped.

pycuda=$top/build/clients/pycuda

fetch_pycuda() {
	[ "$(id -u)" != 0 ] || apt-get -qq update >&2
	"$top/tests/get_debs.sh" "$pycuda" "$(dpkg --print-architecture)" "contrib non-free" \
		python3-pycuda libcurand10 || return 1
	# One name a line, without versions; abi packages are virtual.
	dpkg-deb -f "$pycuda"/debs/python3-pycuda_*.deb Depends | tr ',' '\n' |
		sed -n 's/^ *\(python3-[a-z0-9.+-]*\|libboost-[a-z0-9.+-]*\)\( .*\)\?$/\1/p' |
		grep -v -e '-abi[0-9]*$' -e '-py3[0-9]*$' >"$pycuda/needs" || return 1
	rm -rf "$pycuda/debs"
}

if command -v apt-get >/dev/null && [ ! -e "$pycuda/needs" ]; then
	echo "setup: fetching PyCUDA into build/clients" >&2
	fetch_pycuda || echo "setup: there is no PyCUDA; its tests will be skipped" >&2
fi
[ ! -e "$pycuda/needs" ] || packages="$packages $(cat "$pycuda/needs")"
