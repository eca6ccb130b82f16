# fault_calls.awk - driver_calls.h in; every driver call as a function of an array of arguments out.
#
#	FAULT_CALLS   definitions of try_NAME(argument)
#	FAULT_ROWS    { "NAME", try_NAME, { "TYPE PARAMETER", ... } },

/^#define PARAMS_/ {
	name = substr($2, 8)
	params = $0
	sub(/^#define PARAMS_[A-Za-z0-9_]+ \(/, "", params)
	sub(/\)$/, "", params)
	count = params == "void" || params == "" ? 0 : split(params, param, /, */)
	call = ""
	texts = ""
	for (i = 1; i <= count; i++) {
		type = param[i]
		sub(/[A-Za-z_][A-Za-z0-9_]*(\[\])?$/, "", type)
		if (param[i] ~ /\[\]$/)
			type = type "*"
		call = call (i > 1 ? ", " : "") "*(" type " *)argument[" i - 1 "].value"
		texts = texts (i > 1 ? ", " : "") "\"" param[i] "\""
	}
	calls[++rows] = sprintf("static CUresult try_%s(struct argument *argument)\n{\n\treturn %s(%s);\n}\n", \
		name, name, call)
	if (!count)
		sub(/\{\n/, "{\n\t(void)argument;\n", calls[rows])
	row[rows] = sprintf("\t{ \"%s\", try_%s, { %s } },", name, name, texts == "" ? "NULL" : texts)
}

END {
	print "/* fault_calls.h - made by tests/model/fault_calls.awk; do not edit. */"
	for (i = 1; i <= rows; i++)
		print calls[i]
	print "static const struct row rows[] = {"
	for (i = 1; i <= rows; i++)
		print row[i]
	print "};"
}
