# SPDX-License-Identifier: Apache-2.0
# Starts a real Slurm whose nodes are hosts of their own: namespaces with a host name (n1, n2, ...), a network address and
# /dev/shm of their own, and one for the controller with the switch between them. So a node can be cut off. Sourced after
# common.bash. Skips the test (77) without root, Slurm or network namespaces.
# shellcheck source=tests/e2e/slurm_box.bash
. "${here:?}/slurm_box.bash"
command -v ip >/dev/null || skip_slurm "ip is not installed (iproute2)"
spaces=lm$$ # prefix of the names of the network namespaces
hosts=(ctl)

# on HOST COMMAND...: runs a command on this host. In a subshell or in the background, the process is that of the command.
on() {
    local host=$1
    shift
    nsenter -t "$(cat "$box/run/$host")" --net --uts --mount --wd="$PWD" -- "$@"
}
cut_off() { ip -n "$spaces-ctl" link set "port-$1" down; }
heal() { ip -n "$spaces-ctl" link set "port-$1" up; }

# add_host HOST ADDRESS: a host with a process that keeps its namespaces.
add_host() {
    local host=$1
    mkdir -p "/etc/netns/$spaces-$host"
    printf '%s\n' "127.0.0.1 localhost" "10.77.0.1 ctl" "$names" >"/etc/netns/$spaces-$host/hosts"
    ip netns exec "$spaces-$host" unshare --uts --mount bash -c "hostname $host
        mount -t tmpfs -o mode=1777 tmpfs /dev/shm
        echo \$\$ >'$box/run/$host'
        exec sleep infinity" </dev/null >/dev/null 2>&1 &
    until [ -s "$box/run/$host" ]; do sleep 0.02; done
}

# start_hosts NODES CPUS [FILE]: returns when all nodes are idle. The settings of FILE replace those with the same name.
start_hosts() {
    local n=$1 cpus=$2 i host
    prepare_slurm "$n"
    at_exit stop_hosts
    ip netns add "$spaces-ctl" 2>netns.err || skip_slurm "no network namespace: $(cat netns.err)"
    ip -n "$spaces-ctl" link set lo up
    ip -n "$spaces-ctl" link add switch type bridge
    ip -n "$spaces-ctl" addr add 10.77.0.1/24 dev switch
    ip -n "$spaces-ctl" link set switch up
    names=
    for ((i = 1; i <= n; i++)); do
        hosts+=("n$i")
        names+="10.77.0.$((10 + i)) n$i"$'\n'
        ip netns add "$spaces-n$i"
        ip -n "$spaces-n$i" link set lo up
        ip -n "$spaces-ctl" link add "port-n$i" type veth peer name eth0 netns "$spaces-n$i"
        ip -n "$spaces-ctl" link set "port-n$i" master switch up
        ip -n "$spaces-n$i" addr add "10.77.0.$((10 + i))/24" dev eth0
        ip -n "$spaces-n$i" link set eth0 up
    done
    for host in "${hosts[@]}"; do add_host "$host"; done
    set_slurm <<CONF
ClusterName=hosts
SlurmctldHost=ctl(10.77.0.1)
AuthInfo=socket=$box/munge/socket,cred_expire=5
SlurmdTimeout=${slurmd_timeout:-10}
JobRequeue=1
$(for ((i = 1; i <= n; i++)); do echo "NodeName=n$i NodeAddr=10.77.0.$((10 + i)) CPUs=$cpus RealMemory=1000"; done)
CONF
    [ $# -lt 3 ] || set_slurm <"$3"
    start_munge
    daemon on ctl slurmctld -D
    for host in "${hosts[@]:1}"; do daemon on "$host" slurmd -D -N "$host"; done
    until [ "$(on ctl sinfo -h -N -t idle -o %N 2>/dev/null | wc -l)" = "$n" ]; do alive; done
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
    export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=10.77.0.0/24
    export OMPI_MCA_hwloc_base_binding_policy=none
    export SLURM_PMIX_FENCE=ring  # as in slurm_box.bash
}

# All processes in the namespaces belong to this Slurm, so all of them are ended.
stop_hosts() {
    local host signal pid
    [ -z "${KEEP_LOGS:-}" ] || cp "$box"/*.log "$work"/*.log "$KEEP_LOGS" # a directory, to read them after a failure
    on ctl scancel --full --user root 2>/dev/null || true
    sleep 1
    for signal in TERM KILL; do
        for host in "${hosts[@]}"; do
            for pid in $(ip netns pids "$spaces-$host" 2>/dev/null); do kill -$signal "$pid" 2>/dev/null || true; done
        done
        sleep 0.5
    done
    end_jobs
    for host in "${hosts[@]}"; do
        ip netns del "$spaces-$host" 2>/dev/null || true
        rm -rf "/etc/netns/$spaces-$host"
    done
    rmdir /etc/netns 2>/dev/null || true
    rm -rf "$work"
}
