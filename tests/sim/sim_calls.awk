# sim_calls.awk - driver_calls.h and driver_facts.tsv in; the simulator's own X-macros out.
#
#	SIM_BASES(X)  X(symbol, (parameters), (arguments))        calls that have a behaviour of their own
#	SIM_TWINS(X)  X(symbol, base, (parameters), (arguments))  _ptsz and _ptds twins of a base
#	SIM_FACTS(X)  X(symbol, name, variant, version, profiles, before_init), by name, then version
#
#	SIM_UNDECLARED(X)  the same for symbols that the installed headers do not declare
#
# Calls of a newer header that the table does not know get a default behaviour, and the profile `future`
# exports them; no look-up finds them.

FNR == NR {
	if (match($0, /^\tX\(cu[A-Za-z0-9_]+, /)) {
		line = $0
		sub(/ \\$/, "", line)
		symbol = substr(line, 4, RLENGTH - 5)
		rest[symbol] = substr(line, RLENGTH + 1)
		order[++count] = symbol
	}
	next
}

/^#/ { next }

{
	profiles = $5 == "future" || $5 == "newer" ? 8 : 9 + ($5 == "y" ? 2 : 0) + ($6 == "y" ? 4 : 0)
	answer = $7 == "works" ? -1 : $7
	fact = sprintf("X(%s, %s, %s, %s, %d, %d)", $1, $2, $3, $4, profiles, answer)
	facts[++known] = fact
	if (!($1 in rest))
		undeclared[++others] = fact
}

function base_of(symbol, base)
{
	base = symbol
	return sub(/_pt[ds][sz]$/, "", base) && base in rest ? base : ""
}

END {
	print "/* sim_calls.h - made by tests/sim/sim_calls.awk; do not edit. */"
	printf "#define SIM_BASES(X)"
	for (i = 1; i <= count; i++)
		if (base_of(order[i]) == "")
			printf " \\\n\tX(%s, %s", order[i], rest[order[i]]
	printf "\n#define SIM_TWINS(X)"
	for (i = 1; i <= count; i++)
		if (base_of(order[i]) != "")
			printf " \\\n\tX(%s, %s, %s", order[i], base_of(order[i]), rest[order[i]]
	printf "\n#define SIM_FACTS(X)"
	for (i = 1; i <= known; i++)
		printf " \\\n\t%s", facts[i]
	printf "\n#define SIM_UNDECLARED(X)"
	for (i = 1; i <= others; i++)
		printf " \\\n\t%s", undeclared[i]
	print ""
}
