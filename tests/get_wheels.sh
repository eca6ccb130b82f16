#!/bin/sh
# get_wheels.sh FOLDER PACKAGE... - packages of PyPI, unpacked into FOLDER and not installed.
#
# Wheels only, without what they depend on, for the Python of this system. FOLDER is there when all of
# them are, or not at all.
set -eu
folder=$1
shift
pip=$(command -v pip3 || command -v pip)
python=/usr/bin/python3
[ -x $python ] || python=python3
version=$($python -c 'import sys; print("%d.%d" % sys.version_info[:2])')

rm -rf "$folder" "$folder.part"
mkdir -p "$folder.part"
trap 'rm -rf "$folder.part"' EXIT
timeout 300 "$pip" download -q --no-deps --only-binary=:all: --python-version "$version" \
	-d "$folder.part/wheels" "$@" >&2
for wheel in "$folder.part"/wheels/*.whl; do
	$python -m zipfile -e "$wheel" "$folder.part/all"
done
mv "$folder.part/all" "$folder"
