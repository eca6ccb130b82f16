#!/usr/bin/env bats
# cuward timeline --html: one page without a network, looked at in headless Chromium.
# beside: it mostly waits for the browser

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
	[ "$(jq -c . <<<"${lines[3]}")" = '["time axis","no stream: busy 10.0 %, 0 launches","stream 5500: busy 40.0 %, 1 launches","memory: peak 1.00 GiB, limit 2.00 GiB, 0 requests refused","no stream: busy 5.0 %, 0 launches","memory: peak 512 MiB, limit 1.00 GiB, 1 requests refused"]' ]
	[ "$(jq -c length <<<"${lines[4]}")" -eq 2 ]
	[ "$(jq -c . <<<"${lines[5]}")" = '[["table-processes",3],["table-devices",2],["table-gaps",3],["table-kernels",2],["table-calls",7],["table-copies",2],["table-memory",3]]' ]
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
	run -0 browse "$range" key:+ "$range" key:+ "$range" key:ArrowRight "$range" key:Home "$range" 'eval:document.getElementById("lanes").focus()' \
		key:Home "$range" key:- "$range" key:End "$range" key:0 "$range" key:- "$range"
	echo "$output"
	[ "${lines[0]}" = '"0.00 s to 1.00 s (1.00 s)"' ]
	[ "${lines[1]}" = '"250 ms to 750 ms (500 ms)"' ]
	[ "${lines[2]}" = '"375 ms to 625 ms (250 ms)"' ]
	[ "${lines[3]}" = '"425 ms to 675 ms (250 ms)"' ]
	# Home and End are the page's, unless the timeline has the focus.
	[ "${lines[4]}" = "${lines[3]}" ]
	[ "${lines[6]}" = '"0 ms to 250 ms (250 ms)"' ]
	[ "${lines[7]}" = '"0 ms to 500 ms (500 ms)"' ]
	[ "${lines[8]}" = '"0.500 s to 1.000 s (500 ms)"' ]
	[ "${lines[9]}" = "${lines[0]}" ]
	[ "${lines[10]}" = "${lines[0]}" ]
}

@test "by the mouse: buttons, the wheel, dragging, and what lies under it" {
	html "$TOP/tests/golden/two.events"
	button() { echo "click:document.getElementById('$1')"; }
	memory='document.querySelectorAll("canvas.memory")[0]'
	tip='eval:[$("tip").classList.contains("shown"), $("tip").textContent]'
	run -0 browse "$(button in)" "$range" "$(button right)" "$range" "$(button left)" "$range" "$(button out)" "$range" \
		"$(button in)" "$(button in)" "$(button all)" "$range" \
		"wheel:$memory -100" "$range" "wheel:$memory -100 Control" "$range" "wheel:$memory 100 Shift" "$range" \
		"$(button in)" "drag:$memory -$(browse "eval:$memory.clientWidth / 4" | cut -d. -f1)" \
		"eval:Math.round(view.from / 1e6)" "$tip" "drag:$memory 100000" "eval:view.from" "$tip" "click:$memory" "$tip" \
		"drag:document.querySelector('h3') 100" "eval:view.from"
	echo "$output"
	[ "${lines[0]}" = '"250 ms to 750 ms (500 ms)"' ]
	[ "${lines[1]}" = '"350 ms to 850 ms (500 ms)"' ]
	[ "${lines[2]}" = "${lines[0]}" ]
	[ "${lines[3]}" = '"0.00 s to 1.00 s (1.00 s)"' ]
	[ "${lines[4]}" = "${lines[3]}" ]
	# The wheel alone scrolls the page.
	[ "${lines[5]}" = "${lines[3]}" ]
	[ "${lines[6]}" = '"100 ms to 900 ms (800 ms)"' ]
	[ "${lines[7]}" = "${lines[3]}" ]
	# A quarter of the width to the left is a quarter of what is seen later; and it ends at the ends.
	[ "${lines[8]}" -ge 373 ] && [ "${lines[8]}" -le 377 ]
	[[ ${lines[9]} == '[true, "'*' ms: 1.00 GiB of 2.00 GiB"]' ]]
	[ "${lines[10]}" = 0 ]
	[[ ${lines[11]} == '[false, '* ]]
	[[ ${lines[12]} == '[true, "'*' ms: 1.00 GiB of 2.00 GiB"]' ]]
	[ "${lines[13]}" = 0 ]
}

@test "by the keyboard alone: Tab, Enter, and arrows where they are the page's" {
	html "$TOP/tests/golden/two.events"
	at='eval:[document.activeElement.tagName, document.activeElement.textContent.slice(0, 12), document.activeElement.getAttribute("aria-labelledby")]'
	run -0 browse key:Tab "$at" key:Enter "$range" key:Tab key:Tab key:Tab key:Tab "$at" "key: " "$range" key:Tab 'eval:document.activeElement.id' \
		key:Tab "$at" size:500x900 key:ArrowRight "$range" 'eval:new Promise(done => setTimeout(() => done(document.activeElement.scrollLeft > 0), 500))' \
		key:Tab "$at" key:Enter 'eval:[document.activeElement.parentNode.ariaSort, document.querySelector("#table-processes td").textContent]' \
		key:Enter 'eval:[document.activeElement.parentNode.ariaSort, document.querySelector("#table-processes td").textContent]' \
		key:Shift+Tab "$at" 'eval:getComputedStyle(document.activeElement).outlineStyle'
	echo "$output"
	[ "${lines[0]}" = '["BUTTON", "Zoom in (+)", null]' ]
	[ "${lines[1]}" = '"250 ms to 750 ms (500 ms)"' ]
	[ "${lines[2]}" = '["BUTTON", "All (0)", null]' ]
	[ "${lines[3]}" = '"0.00 s to 1.00 s (1.00 s)"' ]
	[ "${lines[4]}" = '"lanes"' ]
	[[ ${lines[5]} == '["DIV", '*', "h-processes"]' ]]
	[ "${lines[6]}" = "${lines[3]}" ]
	[ "${lines[7]}" = true ]
	[ "${lines[8]}" = '["BUTTON", "#", null]' ]
	[ "${lines[9]}" = '["descending", "2"]' ]
	[ "${lines[10]}" = '["ascending", "1"]' ]
	[[ ${lines[11]} == '["DIV", '*', "h-processes"]' ]]
	[ "${lines[12]}" = '"solid"' ]
}

@test "what a screen reader is told: all that is drawn, by names" {
	html "$TOP/tests/golden/lossy.events" || [ $? = 1 ]
	run -0 browse axes 'eval:document.getAnimations().length' media:prefers-reduced-motion=reduce \
		'eval:getComputedStyle(document.getElementById("tip")).transitionDuration'
	told() { jq -e --arg role "$1" --arg name "$2" 'any(.[]; .[0] == $role and .[1] == $name)' <<<"${lines[0]}" >/dev/null || { echo "no $1 $2"; return 1; }; }
	told image 'no stream: busy 25.0 %, 1 launches' || told image 'no stream: busy 25.0 %, 0 launches'
	told image 'memory: peak 4.00 KiB, no limit, 0 requests refused'
	told image 'time axis'
	told button 'Zoom in (+)'
	told group 'Time range'
	told group 'Lanes of the timeline. Arrow keys move, plus and minus zoom, 0 shows all.'
	told group '#1 killed, pid 10 on box, not recorded'
	told heading 'Findings'
	told table 'Processes'
	told columnheader 'longest gap'
	told StaticText '0.00 s to 1.00 s (1.00 s)'
	told StaticText 'the end of 1 process was not recorded' || jq -e 'any(.[]; .[0] == "StaticText" and (.[1] | contains("10 events (62.5 %) were lost")))' <<<"${lines[0]}"
	# No picture, button, table or part of the page is without a name.
	[ "$(jq -c '[.[] | select(.[0] == "image" or .[0] == "button" or .[0] == "table" or .[0] == "region" or .[0] == "group") | select(.[1] == "")]' <<<"${lines[0]}")" = '[]' ]
	[ "${lines[1]}" = 0 ]
	[ "$(tail -n 1 <<<"$output")" = '"0s"' ]
}

@test "without scripts the page says the same in words" {
	html "$TOP/tests/golden/lossy.events" || [ $? = 1 ]
	run -0 browse noscript axes
	told() { jq -e --arg text "$1" 'any(.[]; .[1] | contains($text))' <<<"$output" >/dev/null || { echo "not told: $1"; return 1; }; }
	told 'Scripts are switched off here'
	told '10 events (62.5 %) were lost'
	told '#1: no CUDA call was made for 249 ms'
	told 'Idle gaps'
	[ "$(jq 'any(.[]; .[0] == "button" or .[0] == "image")' <<<"$output")" = false ]
}

@test "in any width, and by day and night: nothing is clipped, and all can be read" {
	html "$TOP/tests/golden/two.events"
	# Lanes are as wide as there is room, no label is cut, the page itself does not scroll to the side.
	fits='eval:[Math.min(...rows.map(r => r.canvas.clientWidth)) / innerWidth > 0.5,
		[...document.querySelectorAll(".row > span")].filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent),
		document.documentElement.scrollWidth <= innerWidth]'
	# Labels of the axis, as drawn: how many, do any two say the same or overlap, does one leave the canvas?
	axis='eval:(() => { const drawn = [], old = CanvasRenderingContext2D.prototype.fillText;
		CanvasRenderingContext2D.prototype.fillText = function (text, x) { drawn.push([text, x, x + this.measureText(text).width]); };
		rows[0].draw(); CanvasRenderingContext2D.prototype.fillText = old;
		return [drawn.length >= 2 && drawn.length <= 30, new Set(drawn.map(d => d[0])).size === drawn.length,
			drawn.every((d, i) => i === 0 || d[1] > drawn[i - 1][2]), drawn.every(d => d[1] >= 0 && d[2] <= rows[0].canvas.clientWidth)]; })()'
	# Contrast of text is 4.5 at least, of what is drawn 3.
	contrast='eval:(() => { const light = c => { const v = [1, 3, 5].map(i => parseInt((c.length === 4 ? c.replace(/[^#]/g, "$&$&") : c).slice(i, i + 2), 16) / 255)
			.map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
		const ratio = (a, b) => { const [x, y] = [light(color(a).trim()), light(color(b).trim())]; return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
		return [["--ink", "--paper"], ["--dim", "--paper"], ["--ink", "--lane"], ["--ink", "--mark"]].every(p => ratio(...p) >= 4.5) &&
			["--busy", "--memory", "--limit", "--refused"].every(n => ratio(n, "--lane") >= 3); })()'
	run -0 browse "$fits" "$axis" "$contrast" media:prefers-color-scheme=dark "$contrast" size:360x800 "$fits" "$axis" \
		'eval:show(500000100, 500003100)' "$axis" size:1200x900 "$axis" 'eval:show(999000000, 1000000000)' "$axis" size:2400x900 "$fits" "$axis"
	echo "$output"
	[ "$(jq -cn '[inputs | select(. != null)] | unique' <<<"$output")" = '[true,[true,true,true,true],[true,[],true]]' ]
	[ "$(wc -l <<<"$output")" -eq 13 ]
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
		paint
	echo "$size bytes; $output"
	[ "${lines[0]}" = '"yes"' ]
	[ "${lines[1]}" -eq 64 ]
	[ "$(jq '. > 0' <<<"${lines[2]}")" = true ]
	# Two seconds at most, as often as it takes on a machine that is busy with other things.
	painted=${lines[2]}
	for _ in 2 3; do
		[ "$(jq '. <= 2000' <<<"$painted")" = false ] || break
		painted=$(browse paint)
	done
	[ "$(jq '. <= 2000' <<<"$painted")" = true ]
}

@test "of very many processes, streams and kernels the page shows the busiest, and says so" {
	"${CC:-cc}" -O2 -std=gnu11 -D_GNU_SOURCE -I"$TOP/include" -o "$tmp/big" "$TOP/tests/trace/big.c"
	"$tmp/big" "$tmp/trace" 1000000 3000
	html "$tmp/trace"
	[ "$(stat -c %s "$page")" -le 5000000 ]
	run -0 browse 'eval:document.querySelectorAll("#lanes .process").length' 'eval:document.querySelectorAll("#lanes canvas.lane").length' \
		'eval:document.getElementById("left-out").textContent' 'eval:document.getElementById("table-processes").rows.length' \
		'eval:[...document.querySelectorAll("#tables .hint")].map(e => e.textContent)[0]'
	echo "$output"
	[ "${lines[0]}" -eq 500 ]
	[ "${lines[1]}" -eq 1000 ]
	[ "${lines[2]}" = '"There are more processes or streams; the busiest are shown."' ]
	[ "${lines[3]}" -eq 501 ]
	[ "${lines[4]}" = '"2500 more rows are left out; cuward stats --json has them."' ]
	# As many that were all as long busy, not at all: of equals the first.
	for i in $(seq 600); do
		echo "1000 process process=$((i << 12)) pid=$i uid=1 pid_ns=1 start_ticks=5 command=\"p$i\""
		echo "1000 device process=$((i << 12)) device=0 uuid=\"GPU-aa\" name=\"H200\" total_bytes=1000000 limit_bytes=8192"
	done >"$tmp/idle.events"
	html "$tmp/idle.events" || [ $? = 1 ]
	run -0 browse 'eval:document.querySelectorAll("#lanes .process").length'
	[ "$output" = 500 ]
}
