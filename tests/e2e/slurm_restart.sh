#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Restarts inside of a job: share/slurm/train.sbatch on four nodes and a spare one, each a host of its own, with local saves every K
# steps. Each fault costs at most K steps. The time until the next completed step is at most 30 seconds where the launcher notices
# the fault, and the timeout more where ranks hang or Slurm must find that a node is lost. The training ends with the bits of an
# undisturbed run. No person intervenes; the script only repairs the nodes.
# $2 is the number of faults (4 by default), $3 the seed, $4 the ranks of a node; TRAIN_NODES the nodes (4), and
# KINDS the kinds of faults in their order ("kill cut"), instead of random ones.
# Prints a report. Only 100 faults are compared with the limits of time.
# labels: long;mpi
# timeout: 600
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"
# shellcheck source=tests/e2e/slurm_hosts.bash
. "$here/slurm_hosts.bash"
share=$(realpath "$here/../../share")
n_faults=${2:-4} seed=${3:-1} ranks_per_node=${4:-1} train_nodes=${TRAIN_NODES:-4}
n_nodes=$((train_nodes + 1))
RANDOM=$seed
k=10 # iterations between local saves
timeout_s=15

slurmd_timeout=10
start_hosts $n_nodes $((ranks_per_node + 1))
set_slurm <<<"KillWait=30" # Slurm's default
on ctl scontrol reconfigure

# ---- the training -----------------------------------------------------------------------------------------------------------
run=$work/run status=$run/status.json steps=$work/steps.json
mkdir shim
cat >shim/lm-train <<END
#!/bin/bash
[[ " \$* " == *" --dry-run "* ]] || date +"exec %s.%N \$(hostname)" >>"$work/execs"
exec "$bin/lm-train" "\$@"
END
chmod +x shim/lm-train
: >execs
training=(--mock-data --vocab-size 500 --num-layers 2 --hidden-size 48 --num-attention-heads 4 --seq-length 32
    --micro-batch-size 1 --global-batch-size 16 --lr 1e-3 --lr-decay-style constant --eval-iters 0 --threads 1 --log-interval 1
    --train-iters 1_000_000 --save-interval 200 --save-retain keep-last=3 --distributed-timeout-minutes 0.25)
# submit RUN OPTION... -- FLAG...: prints the number of the job.
submit() {
    local run=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    PATH=$work/shim:$PATH TENSOR_PARALLEL=1 PIPELINE_PARALLEL=1 RUN_DIRECTORY=$run on ctl sbatch --parsable \
        --ntasks-per-node="$ranks_per_node" --cpus-per-task=1 --job-name=restart --output="$work/%x-%A.log" "${options[@]}" \
        "$share/slurm/train.sbatch" "${training[@]}" "$@"
}
now() { date +%s.%N; }
wait_for() { # SECONDS WHAT COMMAND...
    local until=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        ((SECONDS < until)) || fail "$what: $(jq -c . "$status"; ls "$run"; on ctl squeue; on ctl sinfo -N; cat faults
            grep -v "^ iteration" "$work"/restart-*.log | tail -n 40; tail -n 5 "$box/slurmctld.log")"
        sleep 0.1
    done
}
# last_of KIND: the last event of this kind in the log.
last_of() {
    local line
    line=$(tail -n 2000 "$steps" 2>/dev/null | grep "\"kind\":\"$1\"" | tail -n 1) || true
    echo "${line:-{\"iteration\": 0, \"time\": 0, \"generation\": 0\}}"
}
iteration() { last_of step | jq .iteration; }
past() { (($(iteration) > $1)); }
running_job() { on ctl squeue -h -r -n restart -t R -o %i | tail -n 1; }
no_jobs() { [ -z "$(on ctl squeue -h -n restart)" ]; }
# named HOST PROGRAM: prints the processes of this program.
named() {
    local pid
    for pid in $(ip netns pids "$spaces-$1"); do [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "$2" ] || echo "$pid"; done
}
# Prints "PID HOST" of each rank.
ranks() {
    local host
    for host in "${hosts[@]:1}"; do named "$host" lm-train | sed "s/\$/ $host/"; done
}
all_ranks() { (($(ranks | wc -l) == train_nodes * ranks_per_node)); }
# choose_rank [NOT]: sets `pid` and `host` of a random rank that is not on the host NOT.
choose_rank() {
    local all
    mapfile -t all < <(ranks | grep -v " ${1:-none}\$")
    read -r pid host <<<"${all[RANDOM % ${#all[@]}]}"
}

# ---- the faults ---------------------------------------------------------------------------------------------------------------
# plan N: prints N kinds in random order.
plan() {
    local kinds=() kind count i j swap
    while read -r kind count; do
        for ((i = 0; i < ($1 < 20 ? ($1 + 5) / 6 : (count * $1 + 99) / 100); i++)); do kinds+=("$kind"); done
    done <<<"kill 30
crash 20
stop 15
memory 15
cut 10
daemon 10"
    for ((i = ${#kinds[@]} - 1; i > 0; i--)); do
        j=$((RANDOM % (i + 1)))
        swap=${kinds[i]} kinds[i]=${kinds[j]} kinds[j]=$swap
    done
    printf '%s\n' "${kinds[@]:0:$1}"
}
fault_kill() { kill -9 "$pid"; }
fault_crash() { kill -SEGV "$pid"; }
fault_stop() { kill -STOP "$pid"; }
fault_cut() { cut_off "$host"; }
fault_daemon() { named "$host" slurmd | xargs kill -9; }
# /dev/shm of the host is full, so that a local save fails; then a rank of the host is killed.
fault_memory() {
    local filling
    on "$host" mount -o remount,size=64m /dev/shm
    while head -c 64M /dev/zero | on "$host" sh -c 'cat >>/dev/shm/filler'; do :; done 2>/dev/null || true
    while sleep 0.02; do head -c 2M /dev/zero | on "$host" sh -c 'cat >>/dev/shm/filler' || true; done 2>/dev/null &
    filling=$!
    wait_for 60 "no local save fails" save_fails
    kill $filling
    began=$(now)
    kill -9 "$pid"
}
save_fails() { tail -n "+$log_lines" "$log" | grep 'warning: .*--local-save' >/dev/null; }

# repair KIND HOST PID: repairs the node, so that the job may use it again. Slurm has removed a lost node from the job; so the next
# task of the array begins.
repair() {
    local task rank
    case $1 in
        stop) kill -CONT "$3" 2>/dev/null || true ;;
        memory) on "$2" rm -f /dev/shm/filler ;;
        cut) heal "$2" ;;
        daemon) daemon on "$2" slurmd -D -N "$2" ;;
    esac
    : >".restart-$array/failed-nodes"
    [[ $1 =~ ^(cut|daemon)$ ]] || return 0
    # The ranks on the lost node live on.
    for rank in $(named "$2" lm-train); do kill -9 "$rank" 2>/dev/null || true; done
    wait_for 60 "$2 does not return" returned "$2"
    on ctl scontrol update JobId="$array" ExcNodeList= 2>/dev/null || true
    task=$(running_job)
    on ctl scancel --batch --signal=USR1 "$task" || true
    wait_for 120 "no next task" is_other_task "$task"
}
returned() { [[ $(on ctl sinfo -h -n "$1" -o %T) =~ ^(idle|mixed|allocated)$ ]]; }
is_other_task() { [[ $(running_job) != @("$1"|) ]]; }

# inject KIND: plants a fault while the training runs, waits for the next completed step, and writes a line of the report:
# kind; seconds until that step; notice, restart, join and load, first step; steps that were repeated.
inject() {
    local kind=$1 pid host began generation n_exits log log_lines start ended first
    wait_for 120 "before $kind: the training does not continue" past "$mark"
    wait_for 60 "before $kind: not all ranks" all_ranks
    case $kind in
        # When the host of the batch script is lost, Slurm starts the job again; slurm_drill.sh does that.
        cut | daemon) choose_rank n1 ;;
        *) choose_rank ;;
    esac
    generation=$(last_of start | jq .generation)
    log=$work/restart-$array.log
    log_lines=$(($(wc -l <"$log") + 1))
    n_exits=$(grep -c '^exit code' "$log") || true
    began=$(now)
    echo "$(date -u +%T) $kind on $host, iteration $(iteration)" >>faults
    "fault_$kind"
    wait_for 120 "$kind on $host: not noticed" noticed
    ended=$(now)
    wait_for 120 "$kind on $host: no restart" restarted
    wait_for 120 "$kind on $host: no step" stepped
    start=$(last_of start)
    first=$(awk -v t="$ended" '$2 >= t - 0.1 { print $2; exit }' execs)
    jq -s --argjson start "$start" --argjson began "$began" --argjson ended "$ended" --argjson exec "$first" --arg kind "$kind" -r '
        map(select(.kind == "step")) | (map(select(.time < $start.time))[-1].iteration) as $reached |
        (map(select(.time > $start.time))[0].time) as $stepped |
        [$kind, $stepped - $began, $ended - $began, $exec - $ended, $start.time - $exec, $stepped - $start.time,
         $reached - $start.iteration] | map(if type == "number" then . * 10 | round / 10 else . end) | join(" ")' \
        <(tail -n 2000 "$steps") | tee -a report
    mark=$(($(iteration) + k + 2))
    repair "$kind" "$host" "$pid"
}
noticed() { (($(grep -c '^exit code' "$log") > n_exits)); }
restarted() { (($(last_of start | jq .generation) > generation)); }
stepped() { (($(last_of step | jq '.time * 1000 | floor') > $(last_of start | jq '.time * 1000 | floor'))); }

array=$(FRESH=1 SPARES=1 submit "$run" --nodes=$n_nodes --no-kill --array=1-1000%1 -- --log-json "$steps" \
    --local-save /dev/shm/run --local-save-interval $k)
mark=25
: >report
: >faults
while read -r kind <&3; do inject "$kind"; done 3< <(if [ -n "${KINDS:-}" ]; then tr ' ' '\n' <<<"$KINDS"; else plan "$n_faults"; fi)

# ---- the end ------------------------------------------------------------------------------------------------------------------
wait_for 120 "the training does not run" past "$mark"
on ctl scancel --state=PENDING "$array"
on ctl scancel --batch --signal=USR1 "$(running_job)" || true
wait_for 120 "the training does not stop" no_jobs
last=$(jq .saved_iteration "$status")
FRESH=1 submit "$work/whole" --nodes="$train_nodes" -- --exit-iteration "$last" --save-interval 1_000_000 >/dev/null
wait_for 3000 "the undisturbed run does not end" no_jobs
lm-ckpt diff "whole/global_step$last" "$run/global_step$last" >differences || fail "other bits after $n_faults faults: $(cat differences)"
lm-ckpt verify "$run" >verified || fail "$(cat verified)"

echo "$n_faults faults, seed $seed, $train_nodes nodes and a spare one, $ranks_per_node ranks on each; ended at iteration $last with the" \
    "bits of the undisturbed run"
echo "| fault | times | to the next step: median, longest (s) | notice | restart | join and load | first step | steps repeated |"
echo "|---|---|---|---|---|---|---|---|"
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
column() { awk -v kind="$kind" -v c="$1" '$1 == kind { print $c }' report; }
cut -d' ' -f1 report | sort -u | while read -r kind; do
    echo "| $kind | $(column 1 | wc -l) | $(column 2 | median), $(column 2 | sort -n | tail -n 1) | $(column 3 | median) |" \
        "$(column 4 | median) | $(column 5 | median) | $(column 6 | median) | at most $(column 7 | sort -n | tail -n 1) |"
done
# With a full /dev/shm, a local save has failed.
repeated=$(awk -v k=$k '$7 > ($1 == "memory" ? 2 * k : k)' report)
[ -z "$repeated" ] || fail "too many steps repeated: $repeated"
if ((n_faults >= 100)); then
    late=$(awk -v t=$timeout_s '$2 > 30 + ($1 ~ /stop|cut|daemon/ ? t : 0)' report | wc -l)
    ((late * 20 <= n_faults)) || fail "$late of $n_faults faults cost more than the limit: $(sort report)"
fi

# ---- without a spare node -----------------------------------------------------------------------------------------------------
# 16 samples cannot be divided among three nodes, so two of them go on.
fewer() { # WANTED: kills a rank; the training must go on with WANTED ranks
    local wanted=$1 generation
    rm -rf "$steps" "$run"
    array=$(FRESH=1 MIN_NODES=2 submit "$run" --nodes="$train_nodes" --no-kill --array=1-3%1 -- --log-json "$steps")
    wait_for 60 "the training does not run" past 5
    choose_rank
    generation=$(last_of start | jq .generation)
    kill -9 "$pid"
    wait_for 60 "no restart" restarted
    wait_for 60 "no step" stepped
    [ "$(last_of start | jq .ranks)" = "$wanted" ] || fail "without a spare: $(last_of start): $(grep -v '^ iteration' "restart-$array.log" | tail -n 30)"
    on ctl scancel "$array"
    wait_for 60 "the job does not end" no_jobs
}
if [ "$train_nodes" = 4 ]; then
    fewer $((2 * ranks_per_node))
    grep -q 'starts again on 2 nodes' "restart-$array.log" || fail "without a spare: $(grep train.sbatch "restart-$array.log")"
fi
