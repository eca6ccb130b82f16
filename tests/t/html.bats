#!/usr/bin/env bats
# cuward timeline --html: one page without a network, looked at in headless Chromium.

bats_require_minimum_version 1.5.0

setup() {
	command -v chromium >/dev/null || skip "there is no chromium"
	tmp=$BATS_TEST_TMPDIR
	page=$tmp/page.html
}

html() { "$B/cuward" timeline --html "$page" "$@"; }
browse() { timeout 120 python3 "$TOP/tests/browser.py" "$page" "$@"; }
range='eval:document.getElementById("range").textContent'

@test "lanes, memory, refusals, tables and findings are there, and nothing is fetched" {
	html "$TOP/tests/golden/two.events"
	run -0 browse 'eval:document.documentElement.dataset.ready' network \
		'eval:[...document.querySelectorAll("#lanes h3")].map(e => e.textContent)' \
		'eval:[...document.querySelectorAll("canvas[role=img]")].map(e => e.getAttribute("aria-label"))' \
		'eval:[...document.querySelectorAll("#findings li")].map(e => e.textContent)' \
		'eval:[...document.querySelectorAll("table")].map(e => [e.id, e.rows.length])'
	echo "$output"
	[ "${lines[0]}" = '"yes"' ]
	[ "$(jq length <<<"${lines[1]}")" -eq 1 ]
	[ "$(jq -c . <<<"${lines[2]}")" = '["#1 train, pid 7 on box, exit 0","#2 serve, pid 7 on box, signal 9"]' ]
	[ "$(jq -c . <<<"${lines[3]}")" = '["no stream: busy 10.0 %, 0 launches","stream 5500: busy 40.0 %, 1 launches","memory: peak 1.00 GiB, limit 2.00 GiB, 0 requests refused","no stream: busy 5.0 %, 0 launches","memory: peak 512 MiB, limit 1.00 GiB, 1 requests refused","time axis"]' ]
	[ "$(jq -c length <<<"${lines[4]}")" -eq 2 ]
	[ "$(jq -c . <<<"${lines[5]}")" = '[["table-processes",3],["table-devices",2],["table-kernels",2],["table-calls",7],["table-copies",2],["table-memory",3]]' ]
	! grep -qE '(src|href)=' "$page"
}

@test "what is drawn is where it was: busy, memory, the limit, a refusal" {
	html "$TOP/tests/golden/two.events"
	# The color at a part of the width and the height of a canvas, as the name of a variable.
	at='const at = (label, x, y) => { const c = [...document.querySelectorAll("canvas")].find(e => e.getAttribute("aria-label").startsWith(label));
		const p = [...c.getContext("2d").getImageData(Math.round(x * c.width), Math.round(y * c.height), 1, 1).data];
		return p[3] < 128 ? "" : ["--busy", "--memory", "--limit", "--refused"].find(n => { const v = color(n).trim().slice(1);
		return [0, 2, 4].every(i => Math.abs(parseInt(v.slice(i, i + 2), 16) - p[i / 2]) < 40); }); };'
	run -0 browse "eval:(async () => { for (let i = 0; i < 200 && rows.some(r => !r.visible); i++)
		await new Promise(r => setTimeout(r, 100)); })()" "eval:$at
		[at('stream 5500', 0.2, 0.5), at('stream 5500', 0.5, 0.5), at('stream 5500', 0.8, 0.5), at('memory: peak 1.00 GiB', 0.5, 0.9),
		at('memory: peak 1.00 GiB', 0.05, 0.9), at('memory: peak 1.00 GiB', 0.5, 0.5), at('memory: peak 1.00 GiB', 0.5, 0.073),
		at('memory: peak 512 MiB', 0.4, 0.125)]"
	echo "$output"
	[ "$(jq -c . <<<"${lines[1]}")" = '["","--busy","","--memory","","","--limit","--refused"]' ]
}

@test "what has no GPU is not shown as one" {
	{
		grep -v process_end "$TOP/tests/golden/two.events"
		echo "2000000000 stream thread=1 what=destroyed device=255 stream=0x5500"
	} >"$tmp/none.events"
	html "$tmp/none.events" || true
	run -0 browse 'eval:document.getElementById("lanes").textContent.match(/GPU [0-9]+/g)'
	[ "$(jq -c . <<<"$output")" = '["GPU 0","GPU 0"]' ]
	[ "$("$B/cuward" timeline --json "$tmp/none.events" | jq -c '[.processes[].devices[].index]')" = '[0,0]' ]
}

@test "keys zoom and move, within the trace" {
	html "$TOP/tests/golden/two.events"
	run -0 browse "$range" key:+ "$range" key:+ "$range" key:ArrowRight "$range" key:Home "$range" key:- "$range" key:0 "$range" key:- "$range"
	echo "$output"
	[ "${lines[0]}" = '"0 ns to 1.00 s (1.00 s)"' ]
	[ "${lines[1]}" = '"250 ms to 750 ms (500 ms)"' ]
	[ "${lines[2]}" = '"375 ms to 625 ms (250 ms)"' ]
	[ "${lines[3]}" = '"425 ms to 675 ms (250 ms)"' ]
	[ "${lines[4]}" = '"0 ns to 250 ms (250 ms)"' ]
	[ "${lines[5]}" = '"0 ns to 500 ms (500 ms)"' ]
	[ "${lines[6]}" = "${lines[0]}" ]
	[ "${lines[7]}" = "${lines[0]}" ]
}

@test "tables sort by a heading, both ways, and say so to a screen reader" {
	html "$TOP/tests/golden/two.events"
	heading='[...document.querySelectorAll("#table-calls th")].find(e => e.textContent === "longest")'
	state="eval:[$heading.getAttribute('aria-sort'), document.querySelector('#table-calls td').textContent]"
	run -0 browse "eval:$heading.querySelector('button').click()" "$state" "eval:$heading.querySelector('button').click()" "$state"
	echo "$output"
	[ "$(jq -c . <<<"${lines[1]}")" = '["descending","cuLaunchKernel"]' ]
	[ "$(jq -c . <<<"${lines[3]}")" = '["ascending","5"]' ]
}

@test "names cannot break out of the page" {
	cat >"$tmp/evil.events" <<-'END'
	1000 process process=1 pid=10 uid=1000 pid_ns=1 start_ticks=5 command="</script><script>window.evil=1</script><!--"
	1000 thread thread=1 process=1 tid=10 name="a"
	1000 function process=1 function=1 name="<img src=x onerror=window.evil=1>"
	2000 launch thread=1 api=3 device=0 duration_ns=10 function=1 stream=0x50 correlation=1
	3000 process_end process=1 how=exit
	END
	html "$tmp/evil.events"
	run -0 browse 'eval:[window.evil === undefined, document.images.length, document.querySelector("#table-kernels td").textContent]'
	echo "$output"
	[ "$(jq -c . <<<"$output")" = '[true,0,"<img src=x onerror=window.evil=1>"]' ]
}

@test "the page of a large trace is small and quickly there" {
	"${CC:-cc}" -O2 -std=gnu11 -D_GNU_SOURCE -I"$TOP/include" -o "$tmp/big" "$TOP/tests/trace/big.c"
	"$tmp/big" "$tmp/trace" 2000000 64
	html "$tmp/trace"
	size=$(stat -c %s "$page")
	[ "$size" -le 5000000 ]
	run -0 browse 'eval:document.documentElement.dataset.ready' \
		'eval:document.querySelectorAll("#lanes .process").length' \
		'eval:performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd'
	echo "$size bytes; $output"
	[ "${lines[0]}" = '"yes"' ]
	[ "${lines[1]}" -eq 64 ]
}
