#!/bin/sh
# demo.sh - one run under cuward, its report and its timeline. Real driver where one works.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
B=${B:-$top/build}
trace=$(mktemp -d)/trace
trap 'rm -rf "$(dirname "$trace")"' EXIT

if "$B/apps/train" >/dev/null 2>&1; then
	driver= word="the CUDA driver of this machine"
else
	driver=--sim word="the simulated driver (no CUDA driver works here)"
fi
echo "This demo runs on $word."
echo
tracing= showing=
if [ -e "$B/libcuward-lttng.so" ]; then
	tracing=" --trace" showing="=$trace"
else
	echo "It was built without LTTng, so there is no --trace and no timeline."
	echo
fi
echo "\$ cuward run${driver:+ }$driver -m 384M$tracing -- train"
# shellcheck disable=SC2086
"$B/cuward" run $driver -m 384M $tracing$showing -- "$B/apps/train"
[ -n "$tracing" ] || exit 0
echo
echo "\$ cuward timeline TRACE"
"$B/cuward" timeline "$trace"
