#!/usr/bin/env bats
# cuward explain: a page on every code there is.

load guest

setup() {
	guest_setup
	cuward=$B/cuward
}

# words LIST FILE: the words of one X-macro list.
words() {
	sed -n "/^#define $1(/,/^\$/p" "$TOP/$2" | sed -n 's/^\tX([A-Z_]*, "\([a-z-]*\)".*/\1/p'
}

@test "every finding, leak, verdict and exit status has a page, and no page is about nothing" {
	{
		words CUWARD_FINDINGS include/cuward/events.h
		words CUWARD_VERDICTS include/cuward/events.h
		words WHY_VERDICTS tools/why.h
		words CUWARD_SCOPES include/cuward/events.h
		printf '%s\n' promised reserve queue denied stall idle
		sed -n 's/^\tEXIT_[A-Z_]* = \([0-9]*\),$/\1/p' "$TOP/include/cuward/events.h"
	} | sort -u >codes
	[ "$(wc -l <codes)" -gt 45 ]
	"$cuward" explain | sed 's/^[a-z ]*://' | tr ' ' '\n' | sed '/^$/d' | sort >pages
	diff codes pages
	while read -r code; do
		"$cuward" explain "$code" >page
		[ "$(head -1 page | cut -d' ' -f1)" = "$code" ]
		[ "$(wc -w <page)" -gt 5 ]
		[ "$(wc -L <page)" -le 80 ]
	done <codes
}

@test "a code within a message, in any case, and what is no code" {
	run "$cuward" explain 'cuward: found POOL-RESERVED (2), untracked-not'
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "pool-reserved (finding)" ]
	[ "$(grep -c ' (finding)$' <<<"$output")" -eq 1 ]
	run "$cuward" explain 25
	[ "${lines[1]}" = "  \`cuward run\`: the command succeeded, and a limit refused it memory (--fail-on" ]
	run "$cuward" explain cuward: exit status 25, as --fail-on denied has it
	[ "$(grep -c '^[^ ]' <<<"$output")" -eq 1 ]
	[ "${lines[0]}" = "25 (exit status)" ]
	run "$cuward" explain $'no\e[2Jcode'
	[ "$status" -eq 1 ]
	[ "$output" = "cuward: there is no page on 'no\\x1b[2Jcode'; \`cuward explain\` lists them" ]
	run "$cuward" explain a b
	[ "$status" -eq 1 ]
	[ "$output" = "cuward: there is no page on 'a b'; \`cuward explain\` lists them" ]
	run "$cuward" explain --what
	[ "$status" -eq 2 ]
}
