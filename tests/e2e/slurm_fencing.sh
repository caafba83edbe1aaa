#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node of a Slurm job is cut off from the network, and Slurm starts the job again on other nodes while the old ranks
# live on. No save of the old ranks appears after the new start has claimed the directory, also not when the network
# heals. First with a job on one node, whose old ranks continue to train; then with a job that loses one of its two nodes.
# labels: proof;mpi
# timeout: 900
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"
# shellcheck source=tests/e2e/slurm_hosts.bash
. "$here/slurm_hosts.bash"

start_hosts 4 2
cat >train.sbatch <<'END'
#!/bin/bash
cd "$RUN" || exit 2
echo "start ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"
exec srun --kill-on-bad-exit=1 lm-train --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 64 --mock-data \
    --micro-batch-size 1 --global-batch-size 8 --lr 1e-3 --lr-decay-style constant --eval-iters 0 --threads 1 \
    --log-interval 100 --train-iters 10_000_000 --save checkpoints --load checkpoints --fresh --save-interval 100 \
    --save-retain keep-last=4 --kill-switch-path stop
END

# steps_of GENERATION: prints the steps that this start has saved.
steps_of() {
    local manifest
    for manifest in checkpoints/global_step*/manifest.json; do
        [ "$(jq .generation "$manifest" 2>/dev/null)" != "$1" ] || echo "$manifest"
    done | sort
}
node_of_batch() { on ctl scontrol show job "$1" | sed -n 's/.*BatchHost=\(n[0-9]*\).*/\1/p'; }
wait_for() { # SECONDS WHAT COMMAND...
    local until=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        [ $SECONDS -lt $until ] || fail "$what: $(tail -n 20 ./*.log "$box/slurmctld.log")"
        sleep 0.2
    done
}
has_saves() { [ "$(steps_of "$1" | wc -l)" -ge 2 ]; }
# Prints the saves of the old ranks that are not in the file `before`.
late_saves() { comm -13 before <(steps_of 1); }
claims() { [ -e "checkpoints/generation-$1" ]; }

# cut NAME NODES: in a directory of this name, runs a job on that many nodes with two ranks on each.
cut() (
    mkdir "$1"
    cd "$1" || exit
    job=$(RUN=$PWD on ctl sbatch --parsable --requeue -N "$2" --ntasks-per-node=2 --cpus-per-task=1 \
        --output="$PWD/%j.%N.log" ../train.sbatch)
    wait_for 60 "no saves" has_saves 1
    lost=$(node_of_batch "$job")
    cut_off "$lost"
    echo "$1: $lost is cut off after $(steps_of 1 | tail -n1)"
    wait_for 180 "the job does not start again" claims 2
    steps_of 1 >before
    wait_for 60 "the new start does not save" has_saves 2
    [ -z "$(late_saves)" ] || fail "saves of the old ranks: $(late_saves)"
    if [ "$2" = 1 ]; then
        # All old ranks are on the lost node: they continued to train, and stopped at their next save.
        wait_for 60 "the old ranks live on" grep -q '(generation 2' "$job.$lost.log"
    fi
    heal "$lost"
    sleep 15
    [ -z "$(late_saves)" ] || fail "saves of the old ranks after the cut has healed: $(late_saves)"
    [ -z "$(find checkpoints -maxdepth 1 -name '*.tmp.g1')" ] || fail "files of the old ranks: $(ls checkpoints)"
    touch stop
    wait_for 60 "the new ranks do not stop" ended "$job"
    [ "$(jq .generation "checkpoints/$(head -n1 checkpoints/latest)/manifest.json")" = 2 ] || fail "the newest step is not of the new start"
    lm-ckpt verify checkpoints >verified || fail "$(cat verified)"
    echo "$1: $(wc -l <before) steps of the old ranks, none after generation 2; the newest is $(head -n1 checkpoints/latest)"
)
ended() { [ -z "$(on ctl squeue -h -j "$1" 2>/dev/null)" ]; }

cut one_node 1
cut two_nodes 2
