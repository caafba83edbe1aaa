#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Eight ranks on four hosts of a real Slurm, each with a network of its own. A rank is frozen by a cgroup, all ranks of a host are
# stopped, or a host loses its packets: the line of the timeout names the rank, its host and its place in the step, and --explain
# names the rank, or the transport, from the dumps. $2 is the number of runs of each fault (by default 2).
# labels: proof;mpi
# timeout: 1200
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"
# shellcheck source=tests/e2e/slurm_hosts.bash
. "$here/slurm_hosts.bash"
n_runs=${2:-2}
freezer=/sys/fs/cgroup/freezer/lm$$
[ -d "${freezer%/*}" ] || skip_slurm "no freezer of cgroup v1"
command -v iptables >/dev/null || skip_slurm "iptables is not installed"

# Slurm itself must not end a job whose host is lost before the training does.
slurmd_timeout=300
start_hosts 4 2
mkdir "$freezer"
# shellcheck disable=SC2016
at_exit 'thaw; stop_hosts; rmdir "$freezer"'

pids_on() { # HOST: prints the ranks' processes
    local pid
    for pid in $(ip netns pids "$spaces-$1"); do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != lm-train ] || echo "$pid"
    done
}
rank_of() { tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^SLURM_PROCID=//p'; }
thaw() { [ ! -e "$freezer/freezer.state" ] || echo THAWED >"$freezer/freezer.state"; }

# Each fault prints the ranks that it hits; each cure ends the fault, so that Slurm can end the job.
freeze() {
    local pids
    mapfile -t pids < <(pids_on "$1")
    rank_of "${pids[0]}"
    echo "${pids[0]}" >"$freezer/cgroup.procs"
    echo FROZEN >"$freezer/freezer.state"
}
cure_freeze() { thaw; }
stop() {
    local pid
    for pid in $(pids_on "$1"); do
        rank_of "$pid"
        kill -STOP "$pid"
    done
}
cure_stop() { pids_on "$1" | xargs -r kill -CONT; }
drop() {
    local pid
    for pid in $(pids_on "$1"); do rank_of "$pid"; done
    ip netns exec "$spaces-$1" iptables -A INPUT ! -i lo -j DROP
    ip netns exec "$spaces-$1" iptables -A OUTPUT ! -o lo -j DROP
}
cure_drop() { ip netns exec "$spaces-$1" iptables -F; }

# hang FAULT: a training in which this fault hits a random host at a random time.
hang() {
    local fault=$1 host=n$((RANDOM % 4 + 1)) ranks rank step
    rm -rf run log err
    on ctl srun --nodes=4 --ntasks-per-node=2 --cpus-per-task=1 --mpi=pmix lm-train --mock-data --num-layers 2 --hidden-size 32 \
        --num-attention-heads 4 --seq-length 32 --vocab-size 64 --micro-batch-size 1 --global-batch-size 16 --train-iters 1_000_000 \
        --lr 1e-3 --threads 1 --eval-iters 0 --log-interval 1 --tensor-model-parallel-size 2 --distributed-timeout-minutes 0.1 \
        --save run >log 2>err </dev/null &
    step=$!
    until grep -q ' iteration ' log; do
        kill -0 $step 2>/dev/null || fail "$fault: no start: $(cat err)"
        sleep 0.1
    done
    sleep "0.$((RANDOM % 90 + 10))"
    ranks=$("$fault" "$host")
    local since=$SECONDS
    until grep -q 'timed out after' err; do
        [ $((SECONDS - since)) -lt 120 ] || fail "$fault of $host: no timeout: $(cat err)"
        sleep 0.1
    done
    local seconds=$((SECONDS - since))
    sleep 3 # the line is printed before the dumps end
    "cure_$fault" "$host"
    wait $step && fail "$fault of $host: exit 0"
    for rank in $ranks; do
        grep -Eq "timed out after [0-9]+ s .*rank $rank on $host .*recorder shows [a-z]" err && break
    done || fail "$fault: none of ranks $(xargs <<<"$ranks") on $host is named: $(cat err)"
    lm-train --explain run/flight-recorder/* >story || fail "$fault: --explain: exit $?"
    for rank in $ranks; do
        grep -q "^rank $rank on $host diverged first: " story && break
        # Lost packets: all ranks may have started the operation.
        [ "$fault" = drop ] && grep -q "all members have started .*" story && grep -q "the transport lost data" story && break
    done || fail "$fault: --explain names none of ranks $(xargs <<<"$ranks") on $host: $(cat story err)"
    echo "$fault of $host: after $seconds s: $(grep -Eo "rank $rank on $host .*recorder shows [^,]*" err | head -n 1)"
}

for ((i = 0; i < n_runs; i++)); do
    hang freeze
    hang stop
    hang drop
done
echo "$((3 * n_runs)) faults of hosts were named with rank, host and place"
