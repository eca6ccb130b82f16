#!/bin/sh
# setup.sh WHAT - make sure that what WHAT (build, check, clients, clusters) needs is installed.
#
# Debian packages, all at once: as root they are installed, otherwise the exact command is printed and
# we stop. CUDA headers (>= 13.0): used where they are found; else two small NVIDIA packages with just
# the headers are fetched from PyPI into build/cuda. The real programs of `clients` that Debian's main
# section does not have are fetched into build/clients.
set -eu
what=${1:?usage: setup.sh build|check|clients|clusters}
top=$(cd "$(dirname "$0")/.." && pwd)

packages="gcc libc6-dev make pkg-config libjansson-dev libdw-dev uthash-dev
	libmicrohttpd-dev scdoc"
[ "${WITH_LTTNG:-1}" = 0 ] || packages="$packages liblttng-ust-dev liblttng-ctl-dev lttng-tools"
case $what in
build) ;;
check) packages="$packages libcmocka-dev bats jq babeltrace2 chromium python3 gdb clang valgrind util-linux
	libclang-rt-14-dev procps libcap2-bin g++ binutils libjemalloc2 libtcmalloc-minimal4
	python3-jsonschema python3-pytest python3-yaml zsh fish"
	[ "$(uname -m)" != x86_64 ] ||
		packages="$packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" ;;
clients) packages="$packages libcmocka-dev bats jq python3 procps g++ ffmpeg python3-numba hashcat
	gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-bad" ;;
clusters) packages="$packages libcmocka-dev bats jq python3 python3-yaml procps util-linux iproute2" ;;
*) echo "setup.sh: unknown part '$what'" >&2; exit 2 ;;
esac
headers=$("$top/tests/cuda_headers.sh")
if [ "$headers" = none ]; then
	packages="$packages python3"
fi
if [ "$headers" = none ] || [ "$what" != build ]; then
	command -v pip3 >/dev/null || command -v pip >/dev/null || packages="$packages python3-pip"
fi
# What a client of another section needs, which only its package tells.
[ "$what" != clients ] || . "$top/tests/clients/get_pycuda.sh"

missing_packages() {
	for package in "$@"; do
		status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || status=none
		[ "$status" = installed ] || printf '%s ' "$package"
	done
}

install_packages() {
	missing=$(missing_packages "$@")
	[ -n "$missing" ] || return 0
	if ! command -v apt-get >/dev/null; then
		echo "setup: not a Debian system; install the like of: $missing" >&2
		exit 1
	fi
	command="apt-get install -y --no-install-recommends $missing"
	if [ "$(id -u)" != 0 ]; then
		echo "setup: missing packages; run: sudo $command" >&2
		exit 1
	fi
	echo "setup: installing $missing" >&2
	log=$(mktemp)
	if ! { apt-get update && DEBIAN_FRONTEND=noninteractive $command; } >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		rm -f "$log"
		echo "setup: could not install; the command was: $command" >&2
		exit 1
	fi
	rm -f "$log"
}

# shellcheck disable=SC2086
install_packages $packages

# The unit tests of the other machine; without it they are skipped.
cross=$top/build/aarch64-cmocka
if [ "$what" = check ] && [ "$(uname -m)" = x86_64 ] && [ ! -d "$cross/unpacked" ]; then
	"$top/tests/get_debs.sh" "$cross" arm64 main libcmocka0 libcmocka-dev ||
		echo "setup: there is no libcmocka-dev:arm64; the unit tests run on this machine alone" >&2
fi

# A real Prometheus to scrape the exporter: unpacked, not installed, since that would start a service.
prometheus=$top/build/prometheus
if [ "$what" = check ] && [ ! -d "$prometheus/unpacked" ]; then
	"$top/tests/get_debs.sh" "$prometheus" "$(dpkg --print-architecture)" main prometheus ||
		echo "setup: there is no prometheus; the exporter is not scraped by one" >&2
	rm -rf "$prometheus/debs"
fi

# Perfetto's own messages, and what reads them.
if [ "$what" = check ] && [ ! -d "$top/build/perfetto" ]; then
	"$top/tests/get_wheels.sh" "$top/build/perfetto" perfetto==0.59.1 protobuf==6.31.1 ||
		echo "setup: there is no package perfetto; traces are not decoded by its messages" >&2
fi

# Daemons of containers and clusters: unpacked, not installed, as above. Those that are not there are skipped.
clusters=$top/build/clusters
get_cluster() {
	folder=$clusters/$1
	shift
	[ -d "$folder/unpacked" ] || NEEDS=1 "$top/tests/get_debs.sh" "$folder" "$(dpkg --print-architecture)" main "$@" ||
		echo "setup: there is no $1; what is about it is skipped" >&2
	rm -rf "$folder/debs"
}
if [ "$what" = clusters ]; then
	get_cluster slurm slurmctld slurmd slurm-client munge
	get_cluster docker docker.io docker-compose
	get_cluster podman podman runc catatonit
	get_cluster kubectl kubernetes-client
fi

if [ "$headers" = none ]; then
	echo "setup: fetching CUDA headers into build/cuda" >&2
	"$top/tests/get_headers.sh" "$top/build/cuda" '==13.0.*' >/dev/null
	if [ "$("$top/tests/cuda_headers.sh")" = none ]; then
		echo "setup: the fetched packages hold no cuda.h >= 13.0" >&2
		exit 1
	fi
fi
[ "$what" != clients ] || . "$top/tests/clients/get_pypi.sh"
[ "$what" != clients ] || . "$top/tests/clients/get_python.sh"
