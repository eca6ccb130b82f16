# decided.awk - is every call of the header decided upon? awk -f decided.awk decided.txt driver_calls.h [hooks]
#
# driver_calls.h is the generated table; hooks, if given, names the hooks that were built, one a line:
# then each `hook` must be among them, as far as the header has it, and no other call.

FILENAME == ARGV[1] && /^#/ { next }
FILENAME == ARGV[1] && /^(hook|pass) / { decision = $1; next }
FILENAME == ARGV[1] {
	for (i = 1; i <= NF; i++) {
		if ($i in decided)
			bad("decided twice: " $i)
		decided[$i] = decision
	}
	next
}
FILENAME == ARGV[2] && /^\tX\(/ {
	name = $1
	sub(/^X\(/, "", name)
	sub(/,.*/, "", name)
	base = name
	sub(/_pt[sd][sz]$/, "", base)
	exists[name] = base
	if (!(base in decided))
		bad("a new driver call: say in shim/decided.txt what it means for memory: " name)
	next
}
FILENAME == ARGV[3] { built[$1] = 1 }

function bad(text)
{
	print text > "/dev/stderr"
	failed = 1
}

END {
	for (name in exists) {
		if (ARGC > 3 && decided[exists[name]] == "hook" && !(name in built))
			bad("decided to hook, and no hook: " name)
		if (decided[exists[name]] == "pass" && name in built)
			bad("hooked, and decided to pass: " name)
	}
	exit failed
}
