#!/usr/bin/env bats
# A real Podman: what `cuward env --docker` prints, and the pod of the Kubernetes recipe as `podman kube play`
# starts it.

load ../t/guest
load ../t/box
load ../t/common
load cluster

setup() {
	container_setup podman
	cat >"$public/runtime" <<-X
		#!/bin/sh
		# It wants to raise limits and set those of cgroups, which root may not everywhere: without.
		for word; do
			case \$before in --bundle | -b) bundle=\$word ;; esac
			before=\$word
		done
		[ -z "\${bundle-}" ] || {
			jq 'del(.process.rlimits) | .linux.cgroupsPath |= sub(".*/"; "/cuward-tests/") |
				.linux.resources = { devices: [{ allow: true, access: "rwm" }] }' \
				"\$bundle/config.json" >"\$bundle/config" && mv "\$bundle/config" "\$bundle/config.json"
		}
		LD_LIBRARY_PATH=$here/usr/lib/$triplet exec "$here/usr/sbin/runc" "\$@"
	X
	chmod +x "$public/runtime"
	cat >>"$public/enter" <<-'X'
		cat >containers.conf <<-Y
			[containers]
			netns = "none"
			[engine]
			cgroup_manager = "cgroupfs"
			events_logger = "file"
			conmon_path = ["$here/usr/bin/conmon"]
			runtime = "runc"
			[engine.runtimes]
			runc = ["$public/runtime"]
		Y
		printf '[storage]\ndriver = "vfs"\ngraphroot = "%s"\nrunroot = "/run/containers"\n' "$public/graph" >storage.conf
		mkdir -p /etc/containers
		echo '{ "default": [{ "type": "insecureAcceptAnything" }] }' >/etc/containers/policy.json
		# It starts itself anew, with an environment of its own: its libraries are in the cache of the loader.
		mount -t tmpfs tmpfs /var/cache/ldconfig
		printf '%s\n' /lib/$triplet /usr/lib/$triplet "$here/usr/lib/$triplet" >/etc/ld.so.conf
		ldconfig
		export CONTAINERS_CONF=$public/containers.conf CONTAINERS_STORAGE_CONF=$public/storage.conf
		podman() { theirs command podman "$@"; }
		tar -C image -c . | podman import -c 'ENV PATH=/bin' - my/train >imported 2>&1 || { cat imported; exit 1; }
	X
}
teardown() { container_teardown; }

@test "Podman: what env --docker prints" {
	common <<-'X'
		eval podman run --rm $(CUWARD_MEMORY=8M CUWARD_LABEL="a='b c',d=\$x" cuward env --docker) my/train sh -c "'
			play init device 0 refused 9M alloc 8M && env'" >out
		grep -Fxq CUWARD_MEMORY=8M out
		grep -Fxq "CUWARD_LABEL=a='b c',d=\$x" out
		podman run --rm my/train play init device 0 alloc 9M
	X
}

@test "Kubernetes: the pod of the recipe; its containers have one limit" {
	common <<-'X'
		/usr/bin/python3 - <<-'Y'
			import os, yaml
			text = open(os.environ['share'] + '/kubernetes-pod.yml').read()
			pod = yaml.safe_load(text.replace('/usr/local/lib/cuward', os.environ['public'] + '/bin')
			    .replace('/etc/cuward', os.environ['public'] + '/etc/cuward', 1))
			train, = pod['spec']['containers']
			train['imagePullPolicy'] = 'Never'
			train['command'] = 'play init device 0 refused 9G alloc 5G say held sleep 600000'.split()
			serve = dict(train, name='serve', command=['sh', '-c', '''
			    until play init device 0 refused 4G; do sleep 1; done
			    play init device 0 refused 4G alloc 3G
			    echo status $?'''])
			pod['spec']['containers'].append(serve)
			yaml.safe_dump(pod, open('pod.yml', 'w'))
		Y
		podman kube play --network host pod.yml >played 2>&1 || { cat played; exit 1; }
		ended() { podman logs train-serve >logs 2>&1; grep -q status logs; }
		until_true ended || { cat logs; exit 1; }
		same "$(grep -v error logs)" "status 0"
		podman run --rm my/train play init device 0 alloc 9G
	X
}
