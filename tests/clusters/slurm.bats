#!/usr/bin/env bats
# A real Slurm of one node, whose tasks go through the TaskProlog of the recipes, or through one that says what
# `cuward env --slurm` prints.

load ../t/guest
load ../t/box
load ../t/common
load cluster

setup() {
	cluster_setup slurm
	cat >>"$public/enter" <<-'X'
		ip link set lo up
		echo "127.0.0.1 localhost $(hostname)" >/etc/hosts
		for uid in 1000 1001; do
			getent passwd $uid >/dev/null || echo "user$uid:x:$uid:$uid::/:/bin/sh" >>/etc/passwd
			getent group $uid >/dev/null || echo "user$uid:x:$uid:" >>/etc/group
		done
		slurm=$here/usr/lib/$triplet/slurm-wlm
		export LD_LIBRARY_PATH=$here/usr/lib/$triplet:$slurm:$LD_LIBRARY_PATH SLURM_CONF=$public/slurm.conf
		mkdir -m 700 munge
		mkdir -m 755 sock spool state
		mungekey --create --keyfile=munge/key
		munged --force --key-file="$public/munge/key" --socket="$public/sock/munge" --pid-file="$public/munge/pid" \
			--log-file="$public/munge/log" --seed-file="$public/munge/seed"
		cat >slurm.conf <<-Y
			ClusterName=cuward
			SlurmctldHost=$(hostname)(127.0.0.1)
			SlurmUser=root
			AuthType=auth/munge
			AuthInfo=socket=$public/sock/munge
			SlurmctldPort=26817
			SlurmdPort=26818
			PluginDir=$slurm
			ProctrackType=proctrack/linuxproc
			TaskPlugin=task/none
			MpiDefault=none
			ReturnToService=2
			SlurmdParameters=config_overrides
			SlurmdSpoolDir=$public/spool
			StateSaveLocation=$public/state
			SlurmctldPidFile=$public/slurmctld.pid
			SlurmdPidFile=$public/slurmd.pid
			SlurmctldLogFile=$public/slurmctld.log
			SlurmdLogFile=$public/slurmd.log
			SelectType=select/cons_tres
			SelectTypeParameters=CR_Core
			JobAcctGatherType=jobacct_gather/none
			TaskProlog=$public/task-prolog
			NodeName=$(hostname) NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
			PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:8 State=UP
		Y
		install -m 755 "$share/slurm-task-prolog.sh" task-prolog
		sed -i "2iPATH=$PATH LD_LIBRARY_PATH=$LD_LIBRARY_PATH SLURM_CONF=$SLURM_CONF; export PATH LD_LIBRARY_PATH SLURM_CONF" task-prolog
		slurmctld-wlm -i -D >ctld.out 2>&1 3>&- &
		slurmd-wlm -D -d "$here/usr/sbin/slurmstepd-wlm" >d.out 2>&1 3>&- &
		is_up() { sinfo -h -o %T | grep -Eq '^(idle|mixed)'; }
		until_true is_up || { tail -n 20 slurmctld.log slurmd.log; exit 1; }
		# slurm UID OPTION...: srun as he does, in a state of his own.
		srun_as() {
			local uid=$1
			shift
			setpriv --reuid "$uid" --regid "$uid" --clear-groups srun -Q "$@"
		}
	X
}
teardown() {
	common_teardown
	box_teardown
}

@test "Slurm: the tasks of a job share what it asked for, and another job has its own" {
	common <<-'X'
		srun_as 1000 -n2 --comment='x gpumem=8M,y' sh -c '
			[ "$SLURM_PROCID" = 1 ] || exec play init device 0 refused 9M alloc 6M say held sleep 600000
			until play init device 0 refused 3M 2>/dev/null; do sleep 0.2; done
			exec play init device 0 alloc 2M say second sleep 600000' >first &
		until_true grep -q second first
		setpriv --reuid 1000 --regid 1000 --clear-groups cuward ps --json >ps
		told ps '[.processes[] | [.job, .labels, .devices[0].limits, .devices[0].used_bytes]] | sort == [
			["slurm-1", "slurm_job=1", [{ scope: "job", bytes: 8388608 }], 2097152],
			["slurm-1", "slurm_job=1", [{ scope: "job", bytes: 8388608 }], 6291456]]'
		srun_as 1000 --comment=gpumem=4M play init device 0 refused 5M alloc 4M
		srun_as 1000 --export=ALL,CUWARD_JOB_MEMORY=3M --comment=gpumem=4M play init device 0 refused 4M alloc 3M
		srun_as 1000 play init device 0 alloc 64M
		# Ended by Slurm, nothing is held.
		setpriv --reuid 1000 --regid 1000 --clear-groups scancel -f --signal=KILL 1
		nobody() { setpriv --reuid 1000 --regid 1000 --clear-groups cuward ps --json | jq -e '.processes == []' >/dev/null; }
		until_true nobody
	X
}

@test "Slurm: a batch job and its steps are one job, and their library is there once" {
	common <<-'X'
		cat >batch <<-'Y'
			#!/bin/sh
			play init device 0 refused 9M alloc 6M say held sleep 600000 &
			until grep -q held out; do sleep 0.2; done
			echo "[$LD_PRELOAD]"
			srun -Q --overlap sh -c 'echo "[$LD_PRELOAD]"; exec play init device 0 refused 3M alloc 2M'
			echo status $?
			kill $!
		Y
		touch out
		chown 1000 out
		setpriv --reuid 1000 --regid 1000 --clear-groups sbatch --comment=gpumem=8M -o "$public/out" batch >submitted
		until_true grep -q status out
		same "$(grep -c "^\\[$public/bin/libcuward.so\\]$" out)" 2
		same "$(grep -v '^\[' out | tr '\n' ' ')" "held status 0 "
	X
}

@test "Slurm: what env --slurm prints, and the administrator's limits" {
	policy '[default]' 'user_max = 8M'
	common <<-'X'
		{
			echo '#!/bin/sh'
			echo 'cat <<"END"'
			CUWARD_MEMORY=6M CUWARD_LABEL="a='b c',d=\$x\"y" cuward env --slurm
			echo END
		} >task-prolog
		srun_as 1000 sh -c 'env; play init device 0 refused 7M alloc 6M' >out
		grep -Fxq "CUWARD_LABEL=a='b c',d=\$x\"y" out
		grep -Fxq CUWARD_MEMORY=6M out
		# Two jobs of a user together, another user's apart.
		srun_as 1000 play init device 0 alloc 6M say held sleep 600000 >held &
		until_true grep -q held held
		srun_as 1000 play init device 0 refused 3M alloc 2M
		srun_as 1001 play init device 0 alloc 6M
	X
}
