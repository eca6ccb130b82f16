# driver_calls.awk - cuda.h, preprocessed, in; the X-macro DRIVER_CALLS(X) out.
#
# Input: the output of `cc -E -P -D__CUDA_API_VERSION_INTERNAL` on a file that includes cuda.h and
# cudaProfiler.h. With that define the header declares every ABI version and every stream twin
# under its literal name. Output rows, sorted by name as strcmp sorts:
#
#	X(name, (parameter declarations), (argument names))
#
# and for hooks that exist in many variants PARAMS_name and ARGS_name, the same by name.
#
# Everything else of cuward that must know the driver's functions is made from these rows. A
# declaration this file cannot parse stops the build: a call that is silently missing here would
# be a call without a quota.

function fail(why, text)
{
	printf "driver_calls.awk: %s: %s\n", why, text > "/dev/stderr"
	failed = 1
	exit 1
}

# The name of one parameter: the last identifier of its declaration, before any [].
function parameter_name(text, name)
{
	name = text
	sub(/(\[[^]]*\][ \t]*)+$/, "", name)
	if (name ~ /[()]/)
		fail("cannot parse parameter", text)
	if (!match(name, /[A-Za-z_][A-Za-z0-9_]*[ \t]*$/) || RSTART == 1)
		fail("parameter without a name", text)
	name = substr(name, RSTART, RLENGTH)
	sub(/[ \t]+$/, "", name)
	return name
}

function add_call(text, name, params, args, part, n, i)
{
	sub(/^[ \t]*CUresult[ \t]+/, "", text)
	if (!match(text, /^cu[A-Za-z0-9_]+[ \t]*\(/))
		fail("cannot parse declaration", text)
	name = substr(text, 1, RLENGTH - 1)
	sub(/[ \t]+$/, "", name)
	params = substr(text, RLENGTH + 1)
	sub(/[ \t]*;[ \t]*$/, "", params)
	if (params !~ /\)$/)
		fail("no closing parenthesis", text)
	sub(/[ \t]*\)$/, "", params)
	gsub(/[ \t]+/, " ", params)
	sub(/^ /, "", params)
	args = ""
	if (params != "void") {
		n = split(params, part, /,/)
		if (n == 0)
			fail("empty parameter list", text)
		for (i = 1; i <= n; i++)
			args = args (i > 1 ? ", " : "") parameter_name(part[i])
	}
	if (name in row)
		fail("declared twice", name)
	row[name] = sprintf("X(%s, (%s), (%s))", name, params, args)
	parts[name] = sprintf("#define PARAMS_%s (%s)\n#define ARGS_%s (%s)", name, params, name, args)
	names[++count] = name
}

function sort_names(i, j, key)
{
	for (i = 2; i <= count; i++) {
		key = names[i]
		for (j = i - 1; j >= 1 && names[j] "" > key ""; j--)
			names[j + 1] = names[j]
		names[j + 1] = key
	}
}

{ text = text " " $0 }

# Declarations end at a semicolon and may span lines; braces of structs and enums never contain a
# declaration of a function, so a statement that starts with CUresult and a cu name is one.
/;/ {
	while ((end = index(text, ";")) > 0) {
		statement = substr(text, 1, end)
		text = substr(text, end + 1)
		sub(/^.*[{}]/, "", statement)
		if (statement ~ /^[ \t]*(extern[ \t]+)?CUresult[ \t]+cu[A-Z]/)
			add_call(statement)
		else if (statement !~ /typedef/ && statement ~ /[ \t]cu[A-Z][A-Za-z0-9_]*[ \t]*\(/)
			fail("a function that does not return CUresult", statement)
	}
}

END {
	if (failed)
		exit 1
	if (count < 600)
		fail("only " count " calls found, expected the CUDA 13.0 header or newer", "cuda.h")
	sort_names()
	print "/* driver_calls.h - made by shim/driver_calls.awk from the installed cuda.h; do not edit. */"
	print "#ifndef CUWARD_DRIVER_CALLS_H"
	print "#define CUWARD_DRIVER_CALLS_H"
	printf "#define DRIVER_CALL_COUNT %d\n", count
	printf "#define DRIVER_CALLS(X)"
	for (i = 1; i <= count; i++)
		printf " \\\n\t%s", row[names[i]]
	print "\n"
	for (i = 1; i <= count; i++)
		print parts[names[i]]
	print "#endif"
}
