#!/bin/sh
# get_debs.sh FOLDER ARCHITECTURE COMPONENTS PACKAGE... - Debian packages, unpacked and not installed.
#
# For what is in a section or of an architecture that few machines have enabled, or would start a service.
# With NEEDS=1 also whatever those need that is not installed here. The lists are our own
# and go when we are done; what stays is FOLDER/debs and FOLDER/unpacked. Needs no root.
set -eu
folder=$1 architecture=$2 components=$3
shift 3

# Where this machine gets Debian's main section from.
debian_mirror() {
	. /etc/os-release
	apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' \
		'Origin: Debian' 'Component: main' | awk -v name="$VERSION_CODENAME" '$2 == name { print; exit }'
}

rm -rf "$folder"
mkdir -p "$folder/apt/sources" "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/debs"
folder=$(cd "$folder" && pwd)
trap 'rm -rf "$folder/apt"' EXIT

our_apt() {
	timeout 300 apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$folder/apt/sources" \
		-o Dir::State::lists="$folder/apt/lists" -o Dir::Cache="$folder/apt/cache" \
		-o APT::Architectures::="$architecture" -o APT::Sandbox::User=root "$@"
}

mirror=$(debian_mirror)
[ -n "$mirror" ]
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e $keys ] && keys=" signed-by=$keys" || keys=
[ -z "${SUITE-}" ] || mirror="${mirror% *} $SUITE"
echo "deb [arch=$architecture$keys] $mirror $components" >"$folder/apt/sources/debian.list"
our_apt update >&2
cd "$folder/debs"
for package; do
	set -- "$@" "$package:$architecture"
	shift
done
if [ -n "${NEEDS-}" ]; then
	set -- $(our_apt -s --no-install-recommends install "$@" | awk '/^Inst/ { print $2 }')
fi
our_apt download "$@" >&2
for package in *.deb; do
	dpkg -x "$package" "$folder/unpacked"
done
