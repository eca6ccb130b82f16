# get_python.sh - the newest Python that we know, of a Debian to come, and the libc it needs, into
# build/clients/python. Sourced by tests/setup.sh. What cannot be had is skipped by its tests.

newest=3.14
python=$top/build/clients/python

if command -v apt-get >/dev/null && [ ! -d "$python/unpacked" ]; then
	echo "setup: fetching Python $newest into build/clients" >&2
	SUITE=sid "$top/tests/get_debs.sh" "$python" "$(dpkg --print-architecture)" main python$newest-minimal \
		libpython$newest-minimal libpython$newest-stdlib libc6 libffi8 zlib1g libexpat1 ||
		echo "setup: there is no Python $newest; its tests will be skipped" >&2
	rm -rf "$python/debs"
fi
