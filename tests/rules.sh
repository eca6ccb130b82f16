#!/bin/bash
# rules.sh - the house rules that a few lines of grep can hold; TAP output.
cd "$(dirname "$0")/.." || exit 1
B=${B:-build}
bad=0 number=0

# rule TEXT COMMAND...: what the command prints breaks the rule.
rule() {
	local out
	number=$((number + 1))
	out=$("${@:2}" 2>&1)
	if [ -z "$out" ]; then
		echo "ok $number - $1"
	else
		bad=1
		echo "not ok $number - $1"
		printf '%s\n' "$out" | sed 's/^/# /'
	fi
}

rule "lttng headers only in shim/provider and session_control.c" \
	sh -c "grep -rlE '#include.*lttng/' shim tools --include=*.[ch] --exclude-dir=provider | grep -v tools/session_control.c"
rule "sys/mman.h in shim only in share.c, ledger.c, index.c, kernel.c and bypass.c" \
	sh -c "grep -l 'sys/mman.h' shim/*.[ch] | grep -vE 'shim/(share|ledger|index|kernel|bypass)\.c'"
rule "WHOLE_PAGES is of a type, or its neighbours are wiped too" \
	grep -nE '[a-z_] WHOLE_PAGES;' shim/*.[ch]
rule "the format of traces is known to ctf*.c and tsdl*.c alone" \
	sh -c "grep -lE '#include \"(tsdl|ctf_[a-z]+)' tools/*.[ch] | grep -vE 'tools/(ctf|tsdl)(_[a-z]+)?\.[ch]'"
rule "the core of the shim knows no cuda.h" \
	grep -lE '#include.*(cuda|driver)\.h|cuda_headers' shim/quota.h shim/ledger.c shim/ledger.h \
	shim/index.c shim/index.h shim/limit.c shim/limit.h shim/report.c shim/json.c shim/share.c
rule "the simulated driver includes no shim code" \
	grep -rnE '#include "(\.\./)*(shim|cuward)/' tests/sim
rule "no file over 600 lines" \
	sh -c "wc -l \$(git ls-files 'shim/*.[chS]' 'tools/*.[ch]' 'include/*.h' 'tests/sim/*.[ch]') |
	awk '\$2 != \"total\" && \$1 > 600'"
rule "no line over 100 columns in C, give or take five" \
	sh -c "for f in \$(git ls-files 'shim/*.[ch]' 'tools/*.[ch]' 'include/*.h'); do
	expand -t 4 \$f | awk -v f=\$f 'length(\$0) > 105 { print f \":\" NR }'; done"
rule "every C file begins with what it is for" \
	sh -c "for f in \$(git ls-files 'shim/*.[chS]' 'tools/*.[ch]' 'include/*.h' 'tests/*.c'); do
	head -1 \$f | grep -q '^/\*' || echo \$f; done"
rule "nothing unfinished" \
	git grep -nE 'TODO|FIXME|\bXXX\b|not implemented' -- shim tools include docs README.md Makefile
rule "every setting is in the README's table" \
	sh -c "sed -n 's/.*X([a-z_]*, \"\\(CUWARD_[A-Z_]*\\)\".*/\\1/p' include/cuward/settings.h |
	while read -r name; do grep -q \"\\\`\$name\\\`\" README.md || echo \$name; done"
# What it exports: the table, the forwards, the look-ups and exits; and of the public API what there is.
exported() { nm -D --defined-only "$B/libcuward.so" | awk '{ print $3 }' | LC_ALL=C sort -u; }
rows_of() { sed -n 's/^\tX(\([A-Za-z0-9_]*\)[,)].*/\1/p' "$@"; }
export_list() {
	rows_of "$B/gen/driver_calls.h" shim/forward_names.h
	printf '%s\n' dlsym dlvsym _exit _Exit
}
public_api() { sed -n 's/^extern .*\(cuward_[a-z_]*\)(.*/\1/p' include/cuward/cuward.h; }
differences() {
	LC_ALL=C comm -13 <(exported) <(export_list | LC_ALL=C sort -u) | sed 's/$/ is missing/'
	LC_ALL=C comm -23 <(exported) <((export_list; public_api) | LC_ALL=C sort -u) | sed 's/$/ is too much/'
}
rule "the shim exports the driver's names, the look-ups, the exits and the API, and all of them" differences
not_exported() {
	LC_ALL=C comm -13 <(exported) \
		<(awk -F'\t' '!/^#/ && $5 != "future" && $5 != "newer" { print $1 }' tests/sim/driver_facts.tsv | LC_ALL=C sort)
}
rule "the shim exports whatever a driver is known to export" not_exported
rule "every driver call is decided upon, and hooked where that was decided" \
	sh -c "for o in '$B'/obj/shim/*.c.o; do nm \$o; done | sed -n 's/.* T on_//p' > '$B/hooks'
	awk -f shim/decided.awk shim/decided.txt '$B/gen/driver_calls.h' '$B/hooks'"
rule "the shim needs libc only" \
	sh -c "readelf -d '$B/libcuward.so' | grep NEEDED |
	grep -vE '\\[(libc\\.so\\.6|ld-linux-[a-z0-9-]*\\.so\\.[0-9]|libdl\\.so\\.2|libpthread\\.so\\.0|lib[atu][a-z]*san\\.so\\.[0-9]+)\\]'"
rule "no static TLS, no undefined driver names" \
	sh -c "readelf -d '$B/libcuward.so' '$B/libcuward-lttng.so' 2>/dev/null | grep STATIC_TLS
	nm -D -u '$B/libcuward.so' | grep -E ' cu[A-Z]'"
# errexit does not look at `! command`, unless it is the last one of its function.
rule "no check in the tests that cannot fail" \
	sh -c "awk 'FNR == 1 { before = \"\" } before ~ /^[ \t]+! / && before !~ /\\|\\|/ && !/^[ \t]*(}|X\$|END\$)/ {
		print FILENAME \":\" FNR - 1 \":\" before } { before = \$0 }' tests/*/*.bats tests/*/*.bash"
rule "no path of a build machine in tracked files" \
	git grep -nIE '/work/|/root/' -- ':!tests/rules.sh'
echo "1..$number"
exit $bad
