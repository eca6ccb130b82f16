#!/usr/bin/env bats
# The manifest as Kubernetes' own types read it.

load ../t/guest
load ../t/box
load ../t/common
load cluster

setup() {
	cluster_setup kubectl
	kubectl=$here/usr/bin/kubectl
}
teardown() {
	common_teardown
	box_teardown
}

# Every word of it is still there after it was read into them, and there are no others.
keeps_all() {
	"$kubectl" set image --local -f "$1" train=x -o json | jq -S 'del(.status, .metadata.creationTimestamp,
		.spec.containers[].resources) | .spec.containers[0].image = "my/train"' >typed || return
	/usr/bin/python3 -c 'import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)' "$1" | jq -S . >written
	diff written typed
}

@test "Kubernetes: every field of the pod is one" {
	keeps_all "$share/kubernetes-pod.yml"
	# A word in another case, an unknown one, a number where a text must be: not.
	for edit in s/readOnly:/readonly:/ s/hostPath:/hostDir:/ 's/value: 8Gi/value: 8/'; do
		sed "$edit" "$share/kubernetes-pod.yml" >wrong.yml
		run keeps_all wrong.yml
		[ "$status" -ne 0 ]
	done
}
