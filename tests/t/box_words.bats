#!/usr/bin/env bats
# What somebody types who does not know the command: help, options that are none; and that the pages and the
# completion have every option.

load guest

setup() {
	guest_setup
	cuward=$B/cuward
	PATH=$B:$PATH # completion asks it for codes
}

commands() { "$cuward" --help | awk '/^Commands:/ { on = 1 } on && /^  [a-z]+ / { print $1 }'; }
options_of() { "$cuward" "$1" --help | sed -En 's/^ +(-[a-zA-Z0-9?], )?(--[a-z-]+).*/\2/p' | grep -vx -e --usage -e --version; }

@test "help, in every way that is tried" {
	"$cuward" help >one
	"$cuward" --help >two
	diff one two
	grep -q '^  ps  *[a-zA-Z]' one
	[ "$(commands | wc -l)" -ge 20 ]
	for command in $(commands); do
		"$cuward" $command --help >one
		"$cuward" help $command >two
		diff one two
		grep -q "^Usage: cuward $command" one
	done
	run "$cuward" help nothing
	[ "$status" -eq 2 ]
	[[ "$output" == "cuward: there is no command 'nothing'"* ]]
}

@test "an option that is none: the nearest is told, where one is near" {
	near() { # WANT STATUS ARGUMENT...
		run "$cuward" "${@:3}"
		[ "$status" -eq "$2" ]
		[ "$(grep -o "did you mean '.*'" <<<"$output")" = "${1:+did you mean '$1'}" ] || { echo "$output"; return 1; }
	}
	near --memory 125 run --memroy 1G true
	near --memory 125 run -m 1G --memroy=1G true
	near --json 2 ps --jsn
	near --perfetto 2 timeline --perfeto x
	near '' 2 ps --frobnicate
	near '' 2 ps --json extra
	near '' 125 run --nope true
	# What belongs to the command is none of ours.
	near '' 125 run -m bad prog --memroy
	near '' 125 run -m bad -- --memroy
	near '' 0 ps --js
}

@test "every option is in a manual page, and completed" {
	for command in $(commands); do
		for option in $(options_of $command); do
			[ $option = --help ] || grep -qE -- "(^|[^a-z-])$option([^a-z-]|$)" "$TOP"/docs/*.scd ||
				echo "no page has: $command $option"
			bash -c 'source "$1"; COMP_WORDS=(cuward $2 $3) COMP_CWORD=2; _cuward; printf "%s\n" "${COMPREPLY[@]}" | grep -qx -- $3' \
				- "$TOP/tools/share/cuward.bash-completion" $command $option || echo "not completed: $command $option"
		done
		bash -c 'source "$1"; COMP_WORDS=(cuward $2) COMP_CWORD=1; _cuward; printf "%s\n" "${COMPREPLY[@]}" | grep -qx -- $2' \
			- "$TOP/tools/share/cuward.bash-completion" $command || echo "not completed: $command"
	done >missing
	cat missing
	[ ! -s missing ]
}

@test "completion after the first word: the command after help, options after a verb, words after an option" {
	completed() { # WORD...: what is offered for the last one
		bash -c 'source "$1"; COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2)); _cuward; echo "${COMPREPLY[*]}"' \
			- "$TOP/tools/share/cuward.bash-completion" "$@"
	}
	[ "$(completed cuward help timel)" = timeline ]
	[ "$(completed cuward trace start --o)" = --output ]
	[ "$(completed cuward trace st)" = "start stop status" ]
	[ -z "$(completed cuward run -m '')" ]
	[[ " $(completed cuward run -m 1G -- ec) " == *" echo "* ]] # without the package bash-completion too
	[ "$(completed cuward limit get 1 --j)" = --json ]
	[ "$(completed cuward top -s a)" = active ]
	[ "$(completed cuward report --by j)" = job ]
}

# The specifications that the function gives to _arguments, which is zsh's own.
zsh_specifications() {
	zsh -fc '_arguments() { print -rl -- "$@"; [[ $1 == -C ]] && state=argument; true; }
		_describe() { print -rl -- "${(@P)4}"; }
		_alternative() { : }
		file=$1; shift
		words=("$@") CURRENT=2
		source $file' - "$TOP/tools/share/cuward.zsh-completion" "$@"
}

@test "zsh and fish complete every command and option, too" {
	zsh -n "$TOP/tools/share/cuward.zsh-completion"
	fish --no-execute "$TOP/tools/share/cuward.fish"
	fish --no-config -c 'source $argv[1]; complete -C "cuward "' "$TOP/tools/share/cuward.fish" | cut -f1 >fish_commands
	zsh -fc 'compdef() { : }; _arguments() { state=command }; _describe() { print -rl -- "${(@P)4}" }
		_alternative() { _cuward_commands }; source $1' - "$TOP/tools/share/cuward.zsh-completion" | cut -d: -f1 >zsh_commands
	for command in $(commands); do
		fish --no-config -c 'source $argv[1]; complete -C "cuward $argv[2] -"' "$TOP/tools/share/cuward.fish" $command | cut -f1 >fish_options
		zsh_specifications $command >zsh_options
		for shell in zsh fish; do
			grep -qx -- $command ${shell}_commands || echo "$shell: not completed: $command"
		done
		for option in $(options_of $command); do
			grep -qx -- $option fish_options || echo "fish: not completed: $command $option"
			grep -qE -- "^(\\([^)]*\\))?$option(=-?)?\\[" zsh_options || echo "zsh: not completed: $command $option"
		done
		# And nothing that is no option.
		{
			grep -oE '^--[a-z-]+' fish_options
			sed -nE 's/^(\([^)]*\))?(--[a-z-]+).*/\2/p' zsh_options
		} | grep -vx -e --version -e --help | sort -u >offered
		options_of $command | grep -vx -- --help | sort -u | diff - offered || true
	done >missing
	cat missing
	[ ! -s missing ]
}

@test "fish: words after an option, verbs, the command of run" {
	completed() { fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$TOP/tools/share/cuward.fish" "$1" | cut -f1 | xargs; }
	[ "$(completed 'cuward help timel')" = timeline ]
	[ "$(completed 'cuward trace st')" = "start status stop" ]
	[ "$(completed 'cuward trace start --o')" = --output ]
	[ "$(completed 'cuward top -s a')" = active ]
	[ "$(completed 'cuward report --by j')" = job ]
	[ "$(completed 'cuward run --leak ')" = "exit growth marks off" ]
	[ "$(completed 'cuward run -m 1G unsha')" = unshare ]
	[ -z "$(completed 'cuward run -- unshare --repor')" ]
	[ "$(completed 'cuward explain near')" = near-limit ]
}
