#!/usr/bin/env bats
# Leaks in CI: `cuward leaks` in all its forms, baselines, suppressions, many workers.

load leaks

setup() {
	leaks_setup
	play=$B/apps/play
}

teardown() { leaks_teardown; }

# expect STATUS TEXT COMMAND...: exit status and a part of what is said.
expect() {
	status=0
	output=$("${@:3}" 2>&1) || status=$?
	echo "status $status: $output"
	[ "$status" -eq "$1" ]
	[[ $output == *"$2"* ]]
}

cuward() { timeout 60 "$B/cuward" "$@"; }

# report FILE PROGRAM ARG...: what its leaks are.
report() {
	rm -f "$1"
	cuward run -q --sim ${with-} --report "$1" "${@:2}"
}

same() { # FILTER FILE VALUE
	local answer
	answer=$(jq -c "$1" "$2")
	echo "$1 of $2 is $answer"
	[ "$answer" = "$3" ]
}

# A program of functions that leak: LEAK NAME[=BYTES] for each argument; $1 is the file.
a_program() {
	local at
	mkdir -p "$(dirname "$1")"
	{
		printf '%s\n' 'int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);' \
			'int cuMemAlloc_v2(unsigned long *, unsigned long); unsigned long p; void *c;' "${more-}"
		for at in "${@:2}"; do
			case $at in *=*) ;; *) at=$at=4096 ;; esac
			printf 'static __attribute__((noinline)) void %s(void)\n{\n\tcuMemAlloc_v2(&p, %s);\n}\n' \
				"${at%=*}" "${at#*=}"
		done
		echo 'int main(void) { cuInit(0); cuDevicePrimaryCtxRetain(&c, 0); cuCtxSetCurrent(c);'
		for at in "${@:2}"; do echo "${at%=*}();"; done
		echo 'return 0; }'
	} >"$1.c"
	cc -g -O1 -o "$1" "$1.c" -L"$B/sim" -lcuda ${flags-}
}

@test "exit status, and what it says" {
	a_program train load_batch=1048576 log_loss
	report r.json ./train
	expect 1 "2 leaks, 1.00 MiB in 2 allocations; 1 process" cuward leaks r.json
	[[ ${output%%$'\n'*} == "new: 1.00 MiB in 1 allocation (device, cuMemAlloc_v2, GPU 0) leaked by train ["????????????????"]" ]]
	[[ $output == *"    load_batch  train.c:6  (train+0x"* ]]
	report none.json "$play" init device 0 alloc 1M freeall
	expect 0 "0 leaks; 1 process" cuward leaks none.json
	expect 1 "2 processes" cuward leaks none.json r.json none.json
	expect 2 "No such file" cuward leaks nosuch.json
	expect 2 "which report" cuward leaks
	expect 2 "exclude each other" cuward leaks --json --github r.json
	echo '{' >broken.json
	expect 1 "broken.json" cuward leaks broken.json
	echo '{"schema": 2}' >other.json
	expect 1 "no report of cuward" cuward leaks other.json
	mkdir empty
	expect 2 "no report" cuward leaks empty
	mkdir many && cp r.json many/1.json && cp none.json many/2.json && cp broken.json many
	expect 1 "2 leaks" cuward leaks many
	# What is killed leaks nothing.
	rm r.json
	cuward run -q --sim --report r.json "$play" init device 0 alloc 1M kill 9 || true
	expect 0 "0 leaks" cuward leaks r.json
}

@test "JSON" {
	a_program train load_batch=1048576 log_loss
	report r.json ./train
	expect 1 "" cuward leaks --json r.json
	echo "$output" >l.json
	same '[.failing, .failing_bytes, .failing_count]' l.json '[2,1052672,2]'
	same '.leaks | map([.state, .verdict, .bytes, .native[0].function])' l.json \
		'[["new","leak",1048576,"load_batch"],["new","leak",4096,"log_loss"]]'
	[ "$(jq -c '[.leaks[].hash]' l.json)" = "$(jq -c '[.processes[0].leaks[].hash]' r.json)" ]
}

@test "a hash is the same in every run, build path and after lines have moved" {
	hashes() { jq -c '[.processes[0].leaks | sort_by(.bytes)[].hash]' "$1"; }
	a_program one/train load_batch=1048576 log_loss
	for run in 1 2 3; do report r$run.json one/train; done
	[ "$(hashes r1.json)" = "$(hashes r2.json)" ] && [ "$(hashes r1.json)" = "$(hashes r3.json)" ]
	more=$'\n\n/* more lines */\nint unused(void) { return 7; }' a_program elsewhere/deep/train load_batch=1048576 log_loss
	report moved.json elsewhere/deep/train
	[ "$(hashes r1.json)" = "$(hashes moved.json)" ]
	# Another optimisation, with frames and without.
	flags="-O0" a_program O0/train load_batch=1048576 log_loss
	report o0.json O0/train
	[ "$(hashes r1.json)" = "$(hashes o0.json)" ]
	# Another function is another leak.
	a_program other/train load_again=1048576 log_loss
	report other.json other/train
	[ "$(hashes r1.json)" != "$(hashes other.json)" ]
	same '[.[0].processes[0].leaks[].hash] - [.[1].processes[0].leaks[].hash] | length' \
		<(jq -s . r1.json other.json) 1
}

@test "a report that the program wrote itself gets source lines and the same hash" {
	a_program train load_batch=1048576
	report r.json ./train
	for stack in addr full; do
		rm -f g.json
		LD_LIBRARY_PATH=$B/sim LD_PRELOAD=$B/libcuward.so CUWARD_STACK=$stack CUWARD_REPORT=$PWD/g.json ./train
		same '.processes[0].leaks[0].native[0].function' g.json null
		expect 1 "" cuward leaks --json g.json
		echo "$output" >l.json
		same '.leaks[0].native[0] | [.function, .line]' l.json '["load_batch",6]'
		with="--stack $stack" report r.json ./train
		[ "$(jq -c '.leaks[0].hash' l.json)" = "$(jq -c '.processes[0].leaks[0].hash' r.json)" ]
	done
}

@test "a baseline: only what is new or has grown fails" {
	a_program train old=65536 stays=4096
	report base.json ./train
	cuward leaks --json base.json >base.leaks || [ $? -eq 1 ]
	for base in base.json base.leaks; do
		expect 0 "0 leaks, 2 known" cuward leaks --baseline $base base.json
		a_program train old=65536 stays=4096 fresh=8192
		report new.json ./train
		expect 1 "new: 8.00 KiB" cuward leaks --baseline $base new.json
		[[ $output == *"1 leak, 8.00 KiB in 1 allocation, 2 known"* ]]
		a_program train old=65536 stays=4097
		report grown.json ./train
		expect 1 "grown: 4.00 KiB in 1 allocation (device, cuMemAlloc_v2, GPU 0) leaked by train; it was 4.00 KiB" \
			cuward leaks --baseline $base grown.json
		[[ $output == *"1 leak, "*", 1 known"* ]]
		# Less is fine.
		a_program train stays=4096
		report less.json ./train
		expect 0 "0 leaks, 1 known" cuward leaks --baseline $base less.json
	done
	expect 2 "nosuch" cuward leaks --baseline nosuch base.json
	echo '{}' >odd.json
	expect 1 "no report" cuward leaks --baseline odd.json base.json
}

@test "suppressions: in run, in the guest, afterwards" {
	a_program train framework_cache=65536 framework_more=4096 real=8192
	cat >known.supp <<-'END'
		# frameworks keep these on purpose
		leak:^framework_*

		leak:nothing_like_it
		api:^cuMemHostAlloc$
	END
	expect 23 "leaked 8 KiB in 1 allocation" cuward run --sim --fail-on leak --suppressions known.supp \
		--report r.json ./train
	[[ $output == *"cuward: a suppression matched nothing: leak:nothing_like_it"* ]]
	[[ $output == *"cuward: a suppression matched nothing: api:^cuMemHostAlloc\$"* ]]
	same '.processes[0].leaks | map([.native[0].function, .suppressed_by])' r.json \
		'[["real",null],["framework_cache","leak:^framework_*"],["framework_more","leak:^framework_*"]]'
	same '.run | [.leaked, .leaked_bytes, (.suppressions | map(.used))]' r.json '[1,8192,[true,false,false]]'
	expect 1 "1 leak, 8.00 KiB in 1 allocation, 2 suppressed" cuward leaks r.json
	echo 'leak:train.c$' >file.supp
	CUWARD_SUPPRESSIONS=file.supp expect 0 "exited" cuward run --sim --fail-on leak ./train
	[[ $output != *leaked* ]]
	report plain.json ./train
	expect 0 "0 leaks, 3 suppressed" cuward leaks --suppressions file.supp plain.json
	for rule in lib:^train$ 'api:MemAlloc*v2' 'size<1M' 'size<=65536' 'leak:tra*n' 'lib:/trai*$'; do
		echo "$rule" >one.supp
		expect 0 "exited" cuward run --sim --fail-on leak --suppressions one.supp ./train
		[[ $output != *"leaked"* && $output != *"matched nothing"* ]]
	done
	for rule in lib:^trai$ api:^MemAlloc 'size<4096' 'leak:rain$x' 'lib:real' 'leak:^eal$'; do
		echo "$rule" >one.supp
		expect 23 "matched nothing" cuward run --sim --fail-on leak --suppressions one.supp ./train
	done
	printf 'size<65536\n' >one.supp
	expect 23 "leaked 64 KiB in 1" cuward run --sim --fail-on leak --suppressions one.supp ./train
	for wrong in leek:x leak: 'size<4Q' size=4K nonsense; do
		echo "$wrong" >wrong.supp
		expect 125 "wrong.supp:1: '$wrong' is none of" cuward run --sim --suppressions wrong.supp ./train
		expect 2 "wrong.supp:1:" cuward leaks --suppressions wrong.supp plain.json
	done
	expect 125 "nosuch.supp" cuward run --sim --suppressions nosuch.supp ./train
	# In the guest: by module and by what is exported.
	in_guest() {
		echo "$1" >g.supp
		LD_LIBRARY_PATH=$B/sim LD_PRELOAD=$B/libcuward.so CUWARD_LEAK=exit CUWARD_SUPPRESSIONS=$PWD/g.supp \
			timeout 60 "${@:2}" 2>&1
	}
	[ -z "$(in_guest lib:train ./train)" ]
	[[ $(in_guest lib:other ./train) == *"leaked 76 KiB"* ]]
	[[ $(in_guest leak:real ./train) == *"leaked 76 KiB"* ]]
	[ -z "$(in_guest leak:^allocate$ "$play" init device 0 alloc 1M)" ]
	[[ $(in_guest oops ./train) == *"g.supp:1"*"leaked 76 KiB"* ]]
}

@test "generated suppressions suppress what they were made from" {
	a_program train one two=65536 three
	report r.json ./train
	expect 1 "leak:^two\$" cuward leaks --gen-suppressions r.json
	echo "$output" >gen.supp
	[ "$(grep -c '^leak:' gen.supp)" -eq 3 ]
	expect 0 "0 leaks, 3 suppressed" cuward leaks --suppressions gen.supp r.json
	expect 0 "" cuward run --sim --fail-on leak --suppressions gen.supp ./train
	strip train
	report bare.json ./train
	expect 1 "lib:^train\$" cuward leaks --gen-suppressions bare.json
	# What is suppressed already needs no rule.
	with="--suppressions gen.supp"
	echo 'lib:train' >gen.supp
	report s.json ./train
	[ -z "$(cuward leaks --gen-suppressions s.json)" ]
}

@test "JUnit" {
	a_program train one two=65536 'three=8192'
	echo 'leak:three' >s.supp
	report r.json ./train
	expect 1 "" cuward leaks --junit j.xml --suppressions s.supp r.json
	python3 - <<-'END'
		import xml.etree.ElementTree as xml
		suite = xml.parse("j.xml").getroot()[0]
		assert suite.attrib["tests"] == "3" and suite.attrib["failures"] == "2" and suite.attrib["skipped"] == "1"
		cases = {case.attrib["name"].split()[0]: case for case in suite}
		assert sorted(cases) == ["one", "three", "two"]
		failure = cases["two"].find("failure")
		assert failure.attrib["type"] == "leak" and "64.0 KiB in 1 allocation" in failure.attrib["message"]
		assert "two at train.c:10\n" in failure.text
		assert cases["two"].attrib["file"] == "train.c" and cases["two"].attrib["line"] == "10"
		assert cases["three"].find("failure") is None
		assert cases["three"].find("skipped").attrib["message"] == "leak:three"
	END
	report none.json "$play" init
	expect 0 "" cuward leaks --junit none.xml none.json
	[ "$(python3 -c 'import xml.etree.ElementTree as x; r = x.parse("none.xml").getroot(); print(r.attrib["tests"], r.attrib["failures"], len(r[0]))')" = "1 0 1" ]
	# Names that XML would take for its own.
	jq '.processes[0].command = "a<b>&\"\u0001c" | .processes[0].leaks[0].native[0].function = "operator<<(x&)"' r.json >odd.json
	expect 1 "<?xml" cuward leaks --junit - odd.json
	cuward leaks --junit odd.xml odd.json >odd.txt || [ $? -eq 1 ]
	python3 - <<-'END'
		import xml.etree.ElementTree as xml
		names = [case.attrib["classname"] for case in xml.parse("odd.xml").getroot()[0]]
		assert 'cuward.a<b>&"?c' in names, names
	END
	expect 3 "cannot be written" cuward leaks --junit /nosuch/j.xml r.json
}

@test "SARIF" {
	a_program train one two=65536 'three=8192'
	echo 'leak:three' >s.supp
	report r.json ./train
	expect 1 "" cuward leaks --sarif s.sarif --suppressions s.supp r.json
	same '.runs[0].results | map([.ruleId, .level, .locations[0].physicalLocation.artifactLocation.uri,
		.locations[0].physicalLocation.region.startLine, (.suppressions // [] | length)])' s.sarif \
		'[["gpu-memory-leak","error","train.c",10,0],["gpu-memory-leak","note","train.c",14,1],["gpu-memory-leak","error","train.c",6,0]]'
	same '.runs[0].results | map(.partialFingerprints["cuwardLeak/v1"] | length) | unique' s.sarif '[16]'
	report base.json ./train
	a_program train one two=65537
	report n.json ./train
	expect 1 "" cuward leaks --sarif b.sarif --baseline base.json n.json
	same '.runs[0].results | map(.baselineState)' b.sarif '["updated","unchanged"]'
	report none.json "$play" init
	expect 0 "" cuward leaks --sarif n.sarif none.json
	same '.runs[0].results' n.sarif '[]'
	jq '.processes[0].leaks[0].native[0].file = "/a b/ü?#%.c"' r.json >odd.json
	expect 1 "" cuward leaks --sarif o.sarif odd.json
	same '.runs[0].results[0].locations[0].physicalLocation.artifactLocation.uri' o.sarif \
		'"file:///a%20b/%C3%BC%3F%23%25.c"'
	python=python3
	python3 -c 'import jsonschema' 2>/dev/null || python=/usr/bin/python3
	for file in s b n o; do
		$python - "$file.sarif" "${SARIF_SCHEMA:-$TOP/../shared/sarif-schema-2.1.0.json}" <<-'END'
			import json, os, sys
			document = json.load(open(sys.argv[1]))
			assert document["version"] == "2.1.0"
			for run in document["runs"]:
			    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
			    assert run["tool"]["driver"]["name"] == "cuward"
			    for result in run["results"]:
			        assert result["message"]["text"] and result["ruleId"] in rules
			        assert result["level"] in ("none", "note", "warning", "error")
			if os.path.exists(sys.argv[2]):
			    import jsonschema
			    jsonschema.validate(document, json.load(open(sys.argv[2])))
		END
	done
}

@test "annotations for GitHub" {
	a_program src/train one
	report r.json src/train
	expect 1 "::error file=src/train.c,line=6,title=GPU memory leak::4.00 KiB in 1 allocation (device, cuMemAlloc_v2, GPU 0) leaked by train, from one" \
		cuward leaks --github r.json
	jq '.processes[0].leaks[0].native[0] |= (.file = "a,b:c%.c" | .function = "f\ng%\u001b[31m")' r.json >odd.json
	expect 1 "file=a%2Cb%3Ac%25.c,line=6,title=GPU memory leak::4.00 KiB" cuward leaks --github odd.json
	[[ $output == *", from f%0Ag%25?[31m" ]]
	[ "$(wc -l <<<"$output")" -eq 1 ]
}

@test "the workflow for GitHub, step by step" {
	steps() {
		rm -f leaks.*
		sed -n 's/^ *run: \(cuward .*\)/\1/p' "$TOP/tools/share/github-leaks.yml" >steps
		[ "$(wc -l <steps)" -eq 2 ] && PATH=$B:$PATH sh -e steps
	}
	mkdir ci
	a_program tests old=65536 meant
	with="--leak exit" report first.json ./tests
	echo 'leak:^meant$' >ci/cuward.supp
	cuward leaks --json --suppressions ci/cuward.supp first.json >ci/known-leaks.json || [ $? -eq 1 ]
	expect 0 "" steps
	[[ $output != *::error* ]]
	a_program tests old=65536 meant fresh=8192
	expect 1 "::error file=tests.c,line=14,title=GPU memory leak::8.00 KiB in 1 allocation" steps
	same '.runs[0].results | map([.baselineState, (.suppressions // [] | length)])' leaks.sarif \
		'[["unchanged",0],["new",0],["unchanged",1]]'
	[ "$(grep -c '<failure' leaks.xml)" -eq 1 ]
}

@test "a trace, with the report beside it" {
	[ -e "$B/libcuward-lttng.so" ] || skip "built without LTTng"
	a_program train one
	cuward run -q --sim --trace="$PWD/trace" ./train
	expect 1 "1 leak, 4.00 KiB" cuward leaks trace
	# The same process in two reports counts once; another process of the same program counts too.
	rm -r trace
	cuward run -q --sim --trace="$PWD/trace" --report r.json ./train
	expect 1 "1 leak, 4.00 KiB in 1 allocation; 1 process" cuward leaks .
	expect 1 "1 leak, 4.00 KiB in 1 allocation; 1 process" cuward leaks r.json trace
	expect 0 "" cuward leaks --baseline r.json r.json trace
	report other.json ./train
	expect 1 "1 leak, 8.00 KiB in 2 allocations; 2 processes" cuward leaks r.json other.json trace
}

@test "twenty workers at once, each with a leak of its own" {
	for n in $(seq 20); do names+=("leak_$n=$((n * 4096))"); done
	{
		printf '%s\n' '#include <unistd.h>' '#include <sys/wait.h>' '#include <stdlib.h>' \
			'int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);' \
			'int cuMemAlloc_v2(unsigned long *, unsigned long); unsigned long p; void *c;'
		for n in $(seq 20); do
			echo "static __attribute__((noinline)) void leak_$n(void) { cuMemAlloc_v2(&p, $n * 4096); }"
		done
		echo 'static void start(void) { if (cuInit(0)) abort(); cuDevicePrimaryCtxRetain(&c, 0); cuCtxSetCurrent(c); }'
		echo 'int main(void) {'
		for n in $(seq 20); do
			echo "if (fork() == 0) { start(); leak_$n(); if ($n % 2) _exit(0); else exit(0); }"
		done
		echo 'while (wait(NULL) > 0); return 0; }'
	} >workers.c
	cc -g -O1 -o workers workers.c -L"$B/sim" -lcuda
	expect 23 "" cuward run --sim --fail-on leak --report r.json ./workers
	same '.processes | map(.leaks | length) | unique' r.json '[1]'
	same '[.processes[].leaks[] | [.native[0].function, .bytes]] | sort_by(.[1])' r.json \
		"$(for n in $(seq 20); do echo "[\"leak_$n\",$((n * 4096))]"; done | jq -sc .)"
	same .run.leaked r.json 20
	expect 1 "20 leaks, 840 KiB in 20 allocations; 20 processes" cuward leaks r.json
	# Under plain preload each writes its own report; together they say the same.
	mkdir alone
	LD_LIBRARY_PATH=$B/sim LD_PRELOAD=$B/libcuward.so CUWARD_REPORT=$PWD/alone/%p.json ./workers
	[ "$(ls alone | wc -l)" -eq 20 ]
	expect 1 "20 leaks, 840 KiB in 20 allocations; 20 processes" cuward leaks alone
}

@test "reports with odd values in them: an answer, and well-formed files" {
	a_program train one two=65536
	with="--stack full" report r.json ./train
	cat >mutate.py <<-'END'
		import copy, json, random, subprocess, sys, xml.etree.ElementTree as xml
		base = json.load(open("r.json"))
		def places(value, path=()):
		    yield path
		    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
		    for key, inner in items:
		        yield from places(inner, path + (key,))
		candidates = [p for p in places(base) if p and ("leaks" in p or len(p) < 3 or p[-1] == "command")]
		odd = [None, 0, -1, 2 ** 63 - 1, "", "x" * 5000, "\n%s<&>\"", "\u00fc\u0007", [], {}, [[]], [None], True, 1.5]
		random.seed(11)
		for n in range(60):
		    report = copy.deepcopy(base)
		    for path in random.sample(candidates, random.randint(1, 4)):
		        inner = report
		        try:
		            for key in path[:-1]:
		                inner = inner[key]
		            inner[path[-1]] = random.choice(odd)
		        except (KeyError, IndexError, TypeError):
		            pass
		    json.dump(report, open("m.json", "w"))
		    for how in (["--json"], ["--github"], ["--gen-suppressions"], ["--baseline", "r.json"],
		                ["--junit", "j.xml", "--sarif", "s.sarif"]):
		        ended = subprocess.run([sys.argv[1], "leaks", *how, "m.json"], capture_output=True, timeout=60)
		        assert ended.returncode in (0, 1, 2), (n, how, ended)
		        if how[0] == "--junit" and ended.returncode < 2 and b"no report" not in ended.stderr:
		            xml.parse("j.xml"), json.load(open("s.sarif"))
	END
	python3 mutate.py "$B/cuward"
}
