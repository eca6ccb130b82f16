#!/bin/sh
# update.sh - write the expected outputs of the golden traces anew; look at the diff before you commit.
set -eu
cd "$(dirname "$0")"
cuward=${B:-../../build}/cuward
export LC_ALL=C.UTF-8 COLUMNS=100 TZ=UTC
for events in *.events; do
	status=0
	"$cuward" timeline "$events" >"${events%.events}.txt" 2>&1 || status=$?
	echo "exit $status" >>"${events%.events}.txt"
	"$cuward" timeline --json "$events" >"${events%.events}.json" || true
done
