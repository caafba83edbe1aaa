# SPDX-License-Identifier: Apache-2.0
# Starts a real Slurm of a few nodes on this machine, for tests. Sourced after common.bash; ends when the
# script ends. Its nodes are daemons on ports of the loopback device that share the host's name and /dev/shm:
# so MPI uses TCP only. Skips the test (77) without root or without Slurm.
# slurm.conf(5) disables what a single machine lacks: accounting, control groups, systemd.
box=${work:?}/slurm
daemons=()

skip_slurm() {
    echo "skipped: $1"
    exit 77
}
[ "$(id -u)" = 0 ] || skip_slurm "Slurm's daemons need root"
for program in slurmctld slurmd srun munged; do
    command -v $program >/dev/null || skip_slurm "$program is not installed (tools/install-deps --slurm)"
done

# set_slurm <SETTINGS: appends the settings to slurm.conf, in place of those with the same names.
set_slurm() {
    local settings key
    settings=$(cat)
    sed -n 's/^\([A-Za-z]*\)=.*/\1/p' <<<"$settings" | sort -u | while read -r key; do
        sed -i "/^$key=/d" "$box/slurm.conf"
    done
    echo "$settings" >>"$box/slurm.conf"
}

# prepare_slurm NODES: makes the directories, the key of munge and a slurm.conf that still lacks controller and nodes.
prepare_slurm() {
    local i
    for ((i = 1; i <= $1; i++)); do mkdir -p "$box"/{spool,tmp}/n$i; done
    mkdir -p "$box"/{munge,state,run}
    chmod 755 "$work" "$box"
    chmod 711 "$box/munge"
    (umask 077 && head -c 64 /dev/urandom >"$box/munge/key")
    cat >"$box/slurm.conf" <<CONF
ClusterName=box
SlurmUser=root
AuthInfo=socket=$box/munge/socket
StateSaveLocation=$box/state
SlurmdSpoolDir=$box/spool/%n
TmpFS=$box/tmp/%n
SlurmctldPidFile=$box/slurmctld.pid
SlurmdPidFile=$box/slurmd.%n.pid
SlurmctldLogFile=$box/slurmctld.log
SlurmdLogFile=$box/slurmd.%n.log
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
PartitionName=box Nodes=ALL Default=YES State=UP
CONF
    echo "CgroupPlugin=cgroup/v1" >"$box/cgroup.conf"
    export SLURM_CONF=$box/slurm.conf
}

start_munge() {
    daemon munged --foreground --force --key-file="$box/munge/key" --socket="$box/munge/socket" \
        --pid-file="$box/munge/pid" --log-file="$box/munge/log" --seed-file="$box/munge/seed"
    until [ -S "$box/munge/socket" ]; do alive; done
}

# start_slurm NODES CPUS [FILE]: returns when all nodes are idle. The settings of FILE replace settings of this script with the
# same name.
start_slurm() {
    local n=$1 cpus=$2 i port host
    port=$(free_ports $((n + 1)))
    host=$(hostname -s)
    prepare_slurm "$n"
    set_slurm <<CONF
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
$(for ((i = 1; i <= n; i++)); do
        echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + i)) CPUs=$cpus RealMemory=1000"
    done)
CONF
    [ $# -lt 3 ] || set_slurm <"$3"
    at_exit stop_slurm
    start_munge
    daemon slurmctld -D
    for ((i = 1; i <= n; i++)); do daemon slurmd -D -N "n$i"; done
    until [ "$(sinfo -h -N -t idle -o %N 2>/dev/null | wc -l)" = "$n" ]; do alive; done
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
    export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo
    # Slurm 22.05 lets some ranks pass the last barrier of MPI_Init before others have reached it: these crash at the first message.
    # Seen with a program that only calls MPI_Init and MPI_Comm_dup (2 nodes, 8 ranks): 5 of 46 starts with the fence `tree`, 1 in
    # 60 to 200 with the default `mixed`, 0 of 250 with `ring`.
    export SLURM_PMIX_FENCE=ring
}

daemon() {
    "$@" >>"$box/daemons.log" 2>&1 </dev/null &
    daemons+=($!)
}

# Fails the test if a daemon has ended; else returns after 50 ms.
alive() {
    local pid
    for pid in "${daemons[@]}"; do
        kill -0 "$pid" 2>/dev/null || fail "Slurm does not start: $(tail -n 5 "$box"/*.log)"
    done
    sleep 0.05
}

stop_slurm() {
    local pid
    scancel --full --user root 2>/dev/null || true
    for _ in {1..100}; do
        [ -n "$(squeue -h 2>/dev/null)" ] || break
        sleep 0.1
    done
    for pid in "${daemons[@]}"; do kill "$pid" 2>/dev/null || true; done
    end_jobs
    # Kills the jobs that outlived the daemons. Their working directory is $work or below it.
    for pid in /proc/[0-9]*; do
        [ "${pid#/proc/}" = $$ ] || [[ $(readlink "$pid/cwd") != "$work"* ]] || kill -9 "${pid#/proc/}" 2>/dev/null || true
    done
    cd /
    rm -rf "$work"
}
