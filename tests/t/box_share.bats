#!/usr/bin/env bats
# What is installed for administrators: units, the prolog, recipes.

load guest
load box

setup() { box_setup; share=$TOP/tools/share; }
teardown() { box_teardown; }

@test "Slurm: the tasks of a job are one job and share its limit" {
	CUWARD=$cuward SLURM_JOB_ID=17 SLURM_JOB_ACCOUNT=physics SLURM_JOB_COMMENT='x gpumem=8M,y' sh "$share/slurm-task-prolog.sh" >out
	# What Slurm does with it.
	while read -r export assignment; do
		[ "$export" = export ]
		export "${assignment%%=*}=${assignment#*=}"
	done <out
	preload=$LD_PRELOAD
	unset LD_PRELOAD
	[ "$preload" = "$shim" ]
	[ "$CUWARD_LABEL" = slurm_job=17,account=physics ]
	holder init device 0 alloc 6M say held sleep 600000
	LD_PRELOAD=$preload "$play" init device 0 refused 3M alloc 2M
	"$cuward" ps --json >out
	told '.processes[0] | [.job, .devices[0].limits]' "[\"slurm-17\",[{\"scope\":\"job\",\"bytes\":$((8 * MiB))}]]"
}

@test "Slurm: without a wish and without cuward nothing is in the way" {
	mkdir bin
	printf '#!/bin/sh\necho "$*" >>asked\ncat comment\n' >bin/squeue
	chmod +x bin/squeue
	prolog() { env PATH="$PWD/bin:$PATH" CUWARD="$cuward" SLURM_JOB_ID=17 "$@" sh "$share/slurm-task-prolog.sh" >out; }
	echo '(null)' >comment
	prolog
	lacks CUWARD_JOB_MEMORY out
	grep -q 'CUWARD_JOB=slurm-17' out
	CUWARD=/nowhere prolog CUWARD=/nowhere
	[ ! -s out ]
	# The comment, which Slurm does not put into the environment; what stands there is not asked for.
	echo 'a b,gpumem=1.5G;c' >comment
	prolog
	grep -Fxq 'export CUWARD_JOB_MEMORY=1.5G' out
	[ "$(tail -n 1 asked)" = "-h -j 17 -o %k" ]
	rm asked
	prolog CUWARD_JOB_MEMORY=2G
	grep -Fxq 'export CUWARD_JOB_MEMORY=2G' out
	[ ! -e asked ]
}

@test "Slurm: what was asked for and cannot be known is no permission" {
	mkdir bin
	printf '#!/bin/sh\nexit 1\n' >bin/squeue
	printf '#!/bin/sh\n' >bin/sleep
	chmod +x bin/*
	env PATH="$PWD/bin:$PATH" CUWARD="$cuward" SLURM_JOB_ID=17 sh "$share/slurm-task-prolog.sh" >out
	grep -Fxq 'export CUWARD_JOB_MEMORY=squeue.does.not.answer' out
	run env CUWARD_JOB=slurm-17 CUWARD_JOB_MEMORY=squeue.does.not.answer LD_PRELOAD="$shim" "$play" init
	[ "$status" -eq 99 ]
	[[ "$output" == *"squeue.does.not.answer"* ]]
}

@test "Slurm: a step of a job that is under it already is so once" {
	for others in "$shim" "/x/other.so:$shim" "$shim /x/other.so"; do
		LD_PRELOAD=$others "$cuward" env --slurm >out 2>/dev/null
		grep -Fxq "export LD_PRELOAD=$others" out
	done
	LD_PRELOAD=$shim.not "$cuward" env --slurm >out 2>/dev/null
	grep -Fxq "export LD_PRELOAD=$shim:$shim.not" out
}

@test "the units and the pod are in order" {
	make -s -C "$TOP" -n install prefix=/somewhere | grep -q "sed 's|@bindir@|/somewhere/bin|'"
	mkdir units
	sed "s|@bindir@|$B|" "$share/cuward-clean.service" >units/cuward-clean.service
	cp "$share/cuward-clean.timer" units
	[ "$(sed -n 's/^ExecStart=//p' units/cuward-clean.service)" = "$cuward clean --all" ]
	sed "s|@bindir@|$B|" "$share/cuward-export.service" >units/cuward-export.service
	if command -v systemd-analyze >/dev/null; then
		systemd-analyze verify --man=no units/cuward-clean.timer units/cuward-clean.service \
			units/cuward-export.service
	fi
	if command -v systemd-tmpfiles >/dev/null; then
		mkdir root
		systemd-tmpfiles --root="$PWD/root" --create "$share/cuward.tmpfiles.conf"
		(cd root && find etc/cuward run/cuward -printf '%y %m /%p\n' | sort -k 3) >made
		# The tests of several users read the same file themselves.
		awk '$1 == "d" || $1 == "f" { sub(/^0/, "", $3); print $1, $3, $2 }' "$share/cuward.tmpfiles.conf" | sort -k 3 >said
		diff said made
	fi
	python3 - "$share" <<-'X'
		import sys, yaml
		read = lambda name: yaml.safe_load(open(sys.argv[1] + '/' + name))
		pod = read('kubernetes-pod.yml')
		assert pod['kind'] == 'Pod'
		mounts = {m['name'] for m in pod['spec']['containers'][0]['volumeMounts']}
		assert mounts == {v['name'] for v in pod['spec']['volumes']}
		services = read('docker-compose.yml')['services']
		assert [s['environment']['CUWARD_MEMORY'] for s in services.values()] == ['4G', '4G']
		assert all(any(v.endswith(':' + s['environment']['LD_PRELOAD'] + ':ro') for v in s['volumes']) for s in services.values())
		assert 'jobs' in read('github-leaks.yml')
		assert [len(g['rules']) for g in read('prometheus-rules.yml')['groups']] == [4]
	X
	sh -n "$share/slurm-task-prolog.sh"
	# Where the shells look for completions: as a package, and elsewhere.
	make -s -C "$TOP" -n install prefix=/usr >installs
	grep -q 'cuward.zsh-completion /usr/share/zsh/vendor-completions/_cuward$' installs
	grep -q 'cuward.fish /usr/share/fish/vendor_completions.d/cuward.fish$' installs
	make -s -C "$TOP" -n install prefix=/somewhere >installs
	grep -q 'cuward.zsh-completion /somewhere/share/zsh/site-functions/_cuward$' installs
	bash -n "$share/cuward.bash-completion"
	# What is there is installed, but for what goes into the command and the completion.
	make -s -C "$TOP" -n install prefix=/somewhere >installs
	for recipe in $(cd "$share" && ls | grep -v timeline.html); do
		grep -q "share/$recipe" installs
	done
	# Every variable in it is one of ours.
	for name in $(grep -o 'CUWARD_[A-Z_]*' "$share/kubernetes-pod.yml" "$share/docker-compose.yml" "$share/slurm-task-prolog.sh" -h | sort -u); do
		grep -q "\"$name\"" "$TOP/include/cuward/settings.h"
	done
}

@test "what is installed names where it lies, has a page for each command, and goes again" {
	[ -d "$TOP/build/man" ] || skip "the pages are not built here"
	make -s -C "$TOP" -o all install DESTDIR="$PWD/dest" prefix=/somewhere
	! grep -r /usr/local dest/somewhere/share || false
	grep -q 'path: /somewhere/lib/cuward,' dest/somewhere/share/cuward/kubernetes-pod.yml
	for command in $("$cuward" --help | sed -n 's/^  \([a-z]\+\) .*/\1/p'); do
		grep -Eq "^(cuward-[a-z]+, )*cuward-$command(,| )" "dest/somewhere/share/man/man1/cuward-$command.1"
	done
	for page in $(sed -n 's/^Documentation=man:\(.*\)(1)$/\1/p' dest/somewhere/share/cuward/*.service); do
		[ -e "dest/somewhere/share/man/man1/$page.1" ]
	done
	make -s -C "$TOP" uninstall DESTDIR="$PWD/dest" prefix=/somewhere
	[ -z "$(find dest ! -type d)" ]
}

@test "the units see where users keep their state" {
	for unit in clean export; do
		! grep -Eq '^(ProtectHome|InaccessiblePaths|TemporaryFileSystem)=.*(yes|true|tmpfs|/run)' "$share/cuward-$unit.service" || false
	done
}

@test "the variables of the recipes mean what they say" {
	python3 - "$share" >environments <<-'X'
		import sys, yaml
		read = lambda name: yaml.safe_load(open(sys.argv[1] + '/' + name))
		pod = {e['name']: e['value'] for e in read('kubernetes-pod.yml')['spec']['containers'][0]['env']}
		services = [dict(s['environment']) for s in read('docker-compose.yml')['services'].values()]
		for environment in [pod] + services:
		    assert environment.pop('LD_PRELOAD').endswith('/libcuward.so')
		    assert environment.pop('CUWARD_DIR') == '/dev/shm/cuward'
		    print(' '.join('%s=%s' % pair for pair in environment.items()))
	X
	[ "$(wc -l <environments)" -eq 3 ]
	while read -r line; do
		env $line CUWARD_REPORT=$PWD/r.json LD_PRELOAD="$shim" "$play" init device 0 refused 9G
		# Nobody reads a ledger after its end where no run made the job.
		[ -z "$(find state -name '*.ledger')" ]
		jq -c '.processes[0] | [.job] + [.devices[0].limits[] | (.scope, .bytes)]' r.json
		rm r.json
	done <environments >limits
	[ "$(sed -n 1p limits)" = "[\"train\",\"job\",$((8 << 30))]" ]
	[ "$(sed -n 2p limits | jq -c '.[1:]')" = "[\"process\",$((4 << 30))]" ]
	[ "$(sed -n 3p limits | jq -c '.[1:]')" = "[\"process\",$((4 << 30))]" ]
}
