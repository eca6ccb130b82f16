#!/bin/sh
# setup.sh WHAT - make sure that what WHAT (build, check, clients) needs is installed.
#
# Debian packages: as root they are installed, otherwise the exact command is printed and we stop.
# CUDA headers (>= 13.0): used where they are found; else two small NVIDIA packages with just the
# headers are fetched from PyPI into build/cuda. Nothing else is downloaded.
set -eu
what=${1:?usage: setup.sh build|check|clients}
top=$(cd "$(dirname "$0")/.." && pwd)

packages="gcc libc6-dev make pkg-config liblttng-ust-dev lttng-tools libjansson-dev libinih-dev
	liblttng-ctl-dev libdw-dev uthash-dev libbabeltrace2-dev scdoc"
case $what in
build) ;;
check) packages="$packages libcmocka-dev bats jq babeltrace2 python3 gdb clang valgrind util-linux
	libclang-rt-14-dev procps libcap2-bin" ;;
clients) packages="$packages libcmocka-dev bats jq python3 procps ffmpeg python3-numba hashcat
	gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-bad" ;;
*) echo "setup.sh: unknown part '$what'" >&2; exit 2 ;;
esac

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
[ "$what" != clients ] || . "$top/tests/clients/get_pycuda.sh"

if [ "$("$top/tests/cuda_headers.sh")" = none ]; then
	install_packages python3 python3-pip
	echo "setup: fetching CUDA headers into build/cuda" >&2
	mkdir -p "$top/build/cuda/wheels"
	pip=$(command -v pip3 || command -v pip)
	"$pip" download -q --no-deps --only-binary=:all: -d "$top/build/cuda/wheels" \
		'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-profiler-api==13.0.*' >&2
	for wheel in "$top"/build/cuda/wheels/*.whl; do
		python3 -m zipfile -e "$wheel" "$top/build/cuda/unpacked"
	done
	if [ "$("$top/tests/cuda_headers.sh")" = none ]; then
		echo "setup: the fetched packages hold no cuda.h >= 13.0" >&2
		exit 1
	fi
fi
