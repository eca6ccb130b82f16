# row.sh - for the benches beside run.sh: their figures in build/bench.json, too, which record.sh keeps; source it.

# bench_row NAME UNIT VALUE BAR: at most that, or at least with a leading >; in place of an earlier one of that name.
# As run.sh has it, what is not compared with a bare call stands in the column `shim`. Status 1: it does not hold.
bench_row() {
	local table=$B/bench.json holds

	holds=$(awk -v value="$3" -v bar="$4" 'BEGIN { lower = sub(/^>/, "", bar)
		print (lower ? value + 0 >= bar + 0 : value + 0 <= bar + 0) ? "true" : "false" }')
	if [ -s "$table" ]; then # nothing was recorded where run.sh did not run
		jq --arg name "$1" --arg unit "$2" --argjson value "$3" --arg limit "$4" --argjson holds "$holds" '
			.rows |= (map(select(.name != $name)) + [{ name: $name, unit: $unit, shim: $value,
				bar: { of: "shim", limit: $limit, holds: $holds } }])' "$table" >"$table.new"
		mv "$table.new" "$table"
	fi
	[ "$holds" = true ]
}
