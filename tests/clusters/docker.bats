#!/usr/bin/env bats
# A real Docker daemon: what `cuward env --docker` prints, and the recipe for Compose.

load ../t/guest
load ../t/box
load ../t/common
load cluster

setup() {
	container_setup docker
	cat >>"$public/enter" <<-'X'
		theirs dockerd --iptables=false --ip6tables=false --bridge=none --cgroup-parent=/cuward-tests --storage-driver=vfs --data-root="$public/dockers" \
			--exec-root=/run/docker --pidfile=/run/dockerd.pid -H unix:///run/docker.sock >dockerd.log 2>&1 &
		export DOCKER_HOST=unix:///run/docker.sock
		docker_answers() { theirs docker version >/dev/null 2>&1; }
		until_true docker_answers || { tail -n 20 dockerd.log; exit 1; }
		tar -C image -c . | theirs docker import - my/train >/dev/null
		theirs docker tag my/train my/serve
		# No network in here; nothing else is added.
		docker() {
			local command=$1
			shift
			[ "$command" != run ] || set -- --network none "$@"
			theirs command docker "$command" "$@"
		}
	X
}
teardown() { container_teardown; }

@test "Docker: as the book says, limits hold, and values arrive as they are" {
	common <<-'X'
		eval docker run --rm $(CUWARD_MEMORY=8M CUWARD_LABEL="a='b c',d=\$x" cuward env --docker) my/train sh -c "'
			play init device 0 refused 9M alloc 8M && env'" >out
		grep -Fxq CUWARD_MEMORY=8M out
		grep -Fxq "CUWARD_LABEL=a='b c',d=\$x" out
		grep -Fxq LD_PRELOAD=/usr/lib/libcuward.so out
		# Without it there is no limit: the test can fail.
		docker run --rm my/train play init device 0 alloc 9M
	X
}

@test "Docker: the administrator's limits bind in there too, and with all users together" {
	policy '[default]' 'process_max = 8M' 'reserve = 4G'
	common <<-'X'
		eval docker run --rm $(cuward env --docker) my/train play init device 0 refused 9M alloc 8M
		# All but 12 MiB of it is held, by two users, one in a container.
		total=$(preloaded 1001 init device 0 sh 'cuward ps --by gpu --json' | jq '.gpus[0].total_bytes')
		printf '[default]\nprocess_max = 64G\nreserve = %d\n' $((total - 16 * MiB)) >/etc/cuward/cuward.conf
		holds 1001 init device 0 alloc 6M say held sleep 600000
		eval docker run --rm -u 1002 $(cuward env --docker) my/train play init device 0 refused 11M alloc 8M say held sleep 600000 >said &
		until_true grep -q held said
		cuward ps --json >ps
		told ps '[.processes[] | [.uid, .devices[0].used_bytes]] | sort == [[1001, 6291456], [1002, 8388608]]'
		preloaded 1003 init device 0 refused 3M alloc 2M
		# Its pid is the one out here; killed from here it is gone, and the next one has all of it.
		pid=$(jq '.processes[] | select(.uid == 1002) | .outer_pid' ps)
		same "$(tr '\0' ' ' </proc/$pid/cmdline)" "play init device 0 refused 11M alloc 8M say held sleep 600000 "
		theirs command docker kill $(theirs command docker ps -q) >/dev/null
		until_true preloaded 1003 init device 0 alloc 10M
	X
}

@test "Docker: with the user's folder of state shared, one account in and out" {
	common <<-'X'
		mkdir -m 700 /dev/shm/cuward-1000
		chown 1000 /dev/shm/cuward-1000
		export CUWARD_JOB=together CUWARD_JOB_OF=together CUWARD_JOB_MEMORY=16M
		eval docker run --rm -u 1000 $(cuward env --docker) -v /dev/shm/cuward-1000:/dev/shm/cuward-1000 -v /etc/cuward:/etc/cuward:ro \
			my/train play init device 0 alloc 8M say held sleep 600000 >said &
		until_true grep -q held said
		unset CUWARD_DIR
		setpriv --reuid 1000 --regid 1000 --clear-groups env LD_PRELOAD="$public/bin/libcuward.so" play \
			init device 0 refused 9M alloc 8M
		setpriv --reuid 1000 --regid 1000 --clear-groups cuward ps --json >ps
		told ps '[.processes[] | [.job, .devices[0].used_bytes, .command]] == [["together", 8388608, "play"]]'
	X
}

@test "Compose: the recipe as it is, but for where cuward is installed and the GPUs, which are not there" {
	[ -e "$here/usr/bin/docker-compose" ] || skip "no docker-compose"
	common <<-'X'
		/usr/bin/python3 - <<-'Y'
			import os, yaml
			text = open(os.environ['share'] + '/docker-compose.yml').read()
			recipe = yaml.safe_load(text.replace('/usr/local/lib/cuward', os.environ['public'] + '/bin'))
			for name, service in recipe['services'].items():
			    assert service.pop('deploy')['resources']['reservations']['devices'][0]['capabilities'] == ['gpu']
			    service['network_mode'] = 'none'
			    service['command'] = 'play init device 0 refused 5G alloc %s say held sleep 600000' % {'train': '3G', 'serve': '4G'}[name]
			recipe.pop('x-cuward')
			yaml.safe_dump(recipe, open('docker-compose.yml', 'w'))
		Y
		# As the first lines of the recipe say.
		export PYTHONPATH=$here/usr/lib/python3/dist-packages
		export CUWARD_DIR=/dev/shm/cuward-1000
		setpriv --reuid 1000 --regid 1000 --clear-groups mkdir -p -m 700 $CUWARD_DIR
		env UID=1000 /usr/bin/python3 "$here/usr/bin/docker-compose" -p cuward up >composed 2>&1 3>&- &
		both() { setpriv --reuid 1000 --regid 1000 --clear-groups cuward ps --json >ps && [ "$(jq '.processes | length' ps)" = 2 ]; }
		until_true both || { cat composed; exit 1; }
		told ps '[.processes[].devices[0] | [.used_bytes, .limits[0].bytes]] | sort ==
			[[3221225472, 4294967296], [4294967296, 4294967296]]'
		told ps '[.processes[] | .outer_pid != null and .outer_pid != .pid] == [true, true]'
	X
}
