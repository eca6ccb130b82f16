#!/usr/bin/env bats
# cuward export: what it says, to promtool, to a real Prometheus, and to clients that misbehave.

load guest
load box

setup() {
	box_setup
	prometheus=$TOP/build/prometheus/unpacked/usr/bin
	gpu=GPU-51000000-0000-4000-8000-000000000000
}
teardown() { box_teardown; }

# value SERIES: of the metrics in `metrics`; a part of the labels is enough.
value() {
	awk -v name="${1%%\{*}" -v labels="$1" '
		BEGIN { sub(/^[^{]*\{?/, "", labels); sub(/\}$/, "", labels); n = split(labels, want, ",") }
		{ split($1, parts, "{"); if (parts[1] != "cuward_" name) next
		  for (i = 1; i <= n; i++) if (index($0, want[i]) == 0) next
		  print $NF }' metrics
}
says() {
	local answer
	answer=$(value "$1")
	[ "$answer" = "$2" ] || { echo "$1 is $answer, not $2"; cat metrics; return 1; }
}
# What promtool says of it; suffixes and kinds, HELP and TYPE, series told twice.
check_metrics() {
	[ -x "$prometheus/promtool" ] || return 0
	"$prometheus/promtool" check metrics <metrics >lint 2>&1 || { cat lint metrics; return 1; }
	[ ! -s lint ] || { cat lint; return 1; }
}

# listening OPTION...: an exporter in the background, its port in $port.
listening() {
	"$cuward" export --listen 0 "$@" 2>told 3>&- &
	started+=($!)
	exporter=$!
	address() { grep -q metrics told; }
	eventually address
	port=$(sed -n 's|^cuward: export: http://127.0.0.1:\([0-9]*\)/metrics$|\1|p' told)
	[ -n "$port" ]
}
# ask REQUEST-LINE [HEADER...]: the answer to these lines.
ask() {
	exec 8<>/dev/tcp/127.0.0.1/$port
	(trap '' PIPE; printf '%s\r\n' "$@" '' >&8 2>/dev/null) || true
	timeout 20 cat <&8 >answer || true
	exec 8>&-
}

@test "the numbers of processes, GPUs and users; with labels, HELP and TYPE" {
	CUWARD_MEMORY=8M CUWARD_JOB=one holder init device 0 alloc 5M refused 4M alloc 1M free 1 say held launches 600000
	one=$pid
	holder init device 0 alloc 7M say held sleep 600000
	two=$pid
	"$cuward" export --once >metrics
	check_metrics
	says "process_memory_used_bytes{pid=\"$one\",gpu=\"$gpu\",user=\"$(id -un)\",job=\"one\",command=\"play\"}" $((5 * MiB))
	says "process_memory_limit_bytes{pid=\"$one\"}" $((8 * MiB))
	says "process_memory_peak_bytes{pid=\"$one\"}" $((6 * MiB))
	says "process_memory_denied_total{pid=\"$one\"}" 1
	says "process_memory_denied_bytes_total{pid=\"$one\"}" $((4 * MiB))
	says "process_memory_used_bytes{pid=\"$two\"}" $((7 * MiB))
	says "process_memory_limit_bytes{pid=\"$two\"}" ''
	says "gpu_memory_used_bytes{gpu=\"$gpu\",name=\"Simulated}" $((12 * MiB))
	says "gpu_memory_total_bytes" $((16 << 30))
	says "gpu_memory_overhead_bytes" $(value process_memory_overhead_bytes | awk '{ sum += $1 } END { print sum }')
	says "gpu_processes" 2
	says "user_memory_used_bytes{user=\"$(id -un)\",gpu=\"$gpu\"}" $((12 * MiB))
	says "gpu_memory_driver_used_bytes" ''
	says "nvml_up" ''
	[ "$(value "process_calls_total{pid=\"$one\"}")" -gt 10 ]
	start=$(value "process_start_time_seconds{pid=\"$two\"}")
	[ $(($(date +%s) - ${start%.*})) -le 60 ]
	# Each family once, with help and type before it, and every metric has a unit or is a count.
	[ "$(grep '^# TYPE' metrics | sort | uniq -d)" = '' ]
	[ "$(grep -c '^# TYPE' metrics)" -eq "$(grep -c '^# HELP' metrics)" ]
	lacks '^# TYPE [a-z_]* ' <(sed -E '/_(bytes|seconds|total|info|processes|dropped|files|up) (gauge|counter)$/d' metrics)
}

@test "with NVML: the driver's number, and who is not under cuward" {
	export LD_LIBRARY_PATH=$B/sim:$B/sim/nvml
	holder init device 0 alloc 5M say held sleep 600000
	shim='' holder init device 0 alloc 9M say held sleep 600000
	"$cuward" export --nvml >metrics
	check_metrics
	says nvml_up 1
	says gpu_memory_driver_used_bytes "$("$B/sim/truth" truth device.0.physical)"
	[ $(($(value gpu_memory_used_bytes) + $(value gpu_memory_overhead_bytes) + $(value gpu_memory_untracked_bytes))) -eq \
		"$(value gpu_memory_driver_used_bytes)" ]
	[ "$(value "other_memory_used_bytes{pid=\"$pid\",kind=\"compute\",command=\"play\"}")" -ge $((9 * MiB)) ]
	LD_LIBRARY_PATH=$B/sim "$cuward" export --nvml >metrics
	check_metrics
	says nvml_up 0
}

@test "what others wrote cannot break it: names, lengths, numbers of processes" {
	cp "$play" "./pl\"ay\\"
	play="./pl\"ay\\" holder init device 0 alloc 5M say held sleep 600000
	CUWARD_JOB=$(printf 'j%.0s' {1..120}) holder init device 0 alloc 3M say held sleep 600000
	holder init device 0 alloc 1M say held sleep 600000
	"$cuward" export >metrics
	check_metrics
	grep -Fq 'command="pl\"ay\\"' metrics
	[ "$(grep -o 'job="[^"]*"' metrics | wc -L)" -le 100 ]
	"$cuward" export --processes 2 >metrics
	check_metrics
	[ "$(grep -c '^cuward_process_memory_used_bytes{' metrics)" -eq 2 ]
	says export_processes_dropped 1
	says gpu_memory_used_bytes $((9 * MiB))
	says user_memory_used_bytes $((9 * MiB))
	"$cuward" export --processes 0 >metrics
	check_metrics
	lacks '^cuward_process' metrics
}

@test "a file: whole or not at all, again and again" {
	holder init device 0 alloc 5M say held sh 'while [ ! -e go ]; do sleep 0.05; done' alloc 2M say more sleep 600000
	"$cuward" export --once --textfile metrics >out
	[ ! -s out ]
	check_metrics
	says gpu_memory_used_bytes $((5 * MiB))
	"$cuward" export --textfile metrics --every 1s 3>&- &
	started+=($!)
	writer=$!
	# Whoever reads it meanwhile finds it complete.
	for i in $(seq 150); do
		grep -q export_duration_seconds metrics
	done
	touch go
	grown() { [ "$(value gpu_memory_used_bytes)" = $((7 * MiB)) ]; }
	eventually grown
	kill -TERM $writer
	wait $writer
	[ "$(ls -d metrics*)" = metrics ]
	mkdir folder
	run "$cuward" export --once --textfile folder
	[ "$status" -eq 1 ]
	[ "$output" = "cuward: export: folder: Is a directory" ]
	[ "$(ls -d folder*)" = folder ]
	run "$cuward" export --once --textfile no/such/file
	[ "$status" -eq 1 ]
}

@test "over HTTP: what is asked for, methods, sizes, slow ones, many" {
	holder init device 0 alloc 5M say held sleep 600000
	listening
	ask 'GET /metrics HTTP/1.1' 'Host: x' 'Connection: close'
	grep -Eq '^HTTP/1.1 200 ' answer
	grep -Eiq '^Content-Type: text/plain; version=0.0.4' answer
	sed '1,/^\r$/d' answer >metrics
	check_metrics
	says gpu_memory_used_bytes $((5 * MiB))
	ask 'HEAD /metrics HTTP/1.0'
	grep -Eq '^HTTP/1.[01] 200 ' answer
	[ "$(sed '1,/^\r$/d' answer | wc -c)" -eq 0 ]
	ask 'GET /etc/passwd HTTP/1.0'
	grep -Eq '^HTTP/1.[01] 404 ' answer
	ask 'POST /metrics HTTP/1.0' 'Content-Length: 3' '' 'abc'
	grep -Eq '^HTTP/1.[01] 405 ' answer
	ask "GET /$(printf 'x%.0s' {1..20000}) HTTP/1.0"
	grep -Eq '^HTTP/1.[01] 4[0-9][0-9] ' answer
	ask 'nonsense'
	lacks '^HTTP/1.[01] 200' answer
	# Ten who begin a request and say no more; others are served.
	for i in $(seq 10); do
		exec {slow}<>/dev/tcp/127.0.0.1/$port
		printf 'GET /metr' >&$slow
	done
	for i in 1 2 3 4; do
		(ask 'GET /metrics HTTP/1.0' && cp answer answer.$i) 3>&- &
		askers[i]=$!
		wait ${askers[i]}
		grep -q 'gpu_memory_used_bytes{' answer.$i
	done
	# Localhost only.
	[ "$(awk -v port="$(printf %04X $port)" '$4 == "0A" && $2 ~ ":" port { print $2 }' /proc/net/tcp)" = "0100007F:$(printf %04X $port)" ]
	kill -TERM $exporter
	wait $exporter
}

@test "a real Prometheus scrapes it" {
	[ -x "$prometheus/prometheus" ] || skip "Prometheus could not be fetched"
	holder init device 0 alloc 5M say held sleep 600000
	listening
	own=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	cat >prometheus.yml <<-X
		global: { scrape_interval: 1s }
		scrape_configs:
		  - job_name: cuward
		    static_configs: [ { targets: [ "127.0.0.1:$port" ] } ]
	X
	"$prometheus/promtool" check config prometheus.yml
	"$prometheus/promtool" check rules "$TOP/tools/share/prometheus-rules.yml"
	# Rules ask for what there is.
	jq -r '.panels[].targets[].expr' "$TOP/tools/share/grafana-gpu-memory.json" >expressions
	[ "$(wc -l <expressions)" -ge 10 ]
	for name in $(grep -oh 'cuward_[a-z_]*' "$TOP/tools/share/prometheus-rules.yml" expressions | sort -u); do
		grep -Fq "\"${name#cuward_}\"" "$TOP/tools/export_metrics.c"
	done
	"$prometheus/prometheus" --config.file=prometheus.yml --storage.tsdb.path=db \
		--web.listen-address=127.0.0.1:$own >log 2>&1 3>&- &
	started+=($!)
	query() {
		python3 - "$own" "$1" >found 2>/dev/null <<-'X'
			import json, sys, urllib.parse, urllib.request
			url = f'http://127.0.0.1:{sys.argv[1]}/api/v1/query?query=' + urllib.parse.quote(sys.argv[2])
			print([r['value'][1] for r in json.load(urllib.request.urlopen(url))['data']['result']])
		X
		[ "$(cat found)" = "['$2']" ]
	}
	# And what is asked for can be asked; Grafana puts GPUs in the place of its variable.
	while read -r expression; do
		printf -- '- { record: "x:y", expr: %s }\n' "$(jq -R 'sub("\\$gpu"; ".*"; "g")' <<<"$expression")"
	done <expressions | sed 's/^/      /' | { printf 'groups:\n  - name: x\n    rules:\n'; cat; } >asked.yml
	"$prometheus/promtool" check rules asked.yml >lint 2>&1 || { cat lint asked.yml; false; }
	eventually query "cuward_process_memory_used_bytes{pid=\"$pid\"}" $((5 * MiB)) || { cat log; false; }
	query 'up{job="cuward"}' 1
	query "sum by (gpu) (cuward_user_memory_used_bytes)" $((5 * MiB))
}

@test "what cannot be asked" {
	for wrong in '--processes many' '--every 0.1s' '--every 20s' '--listen 0 --once' '--listen 0 --textfile x' extra; do
		run "$cuward" export $wrong
		[ "$status" -eq 2 ]
	done
	run timeout 20 "$cuward" export --listen ''
	[ "$status" -eq 2 ]
	for wrong in 203.0.113.1:80 127.0.0.1:65536 127.0.0.1:x; do
		run timeout 60 "$cuward" export --listen "$wrong"
		[ "$status" -eq 3 ]
	done
	listening
	for same in $port :$port localhost:$port; do
		run timeout 20 "$cuward" export --listen $same
		[ "$status" -eq 3 ]
	done
	[ "$output" = "cuward: export: cannot listen on 127.0.0.1, port $port: Address already in use" ]
}
