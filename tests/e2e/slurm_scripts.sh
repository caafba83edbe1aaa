#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The batch scripts of share/slurm with stand-ins for the commands of Slurm.
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
share=$(realpath "$here/../../share/slurm")

# ---- preprocess-shards.sbatch: each task is a shard of the same division -------------------------
mkdir stand-in
printf '#!/bin/sh\necho "$@"\n' >stand-in/srun
chmod +x stand-in/srun
# task ENVIRONMENT... -- ARGUMENTS...: prints the command of a task.
task() {
    local variables=()
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    env PATH="$work/stand-in:$PATH" "${variables[@]}" bash "$share/preprocess-shards.sbatch" "$@"
}
array=(SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=2 SLURM_ARRAY_TASK_ID=2)
prints ' --shard 2/4 --output-prefix /d/corpus-00002$' task "${array[@]}" SHARDS=4 -- --input a --output-prefix /d/corpus
prints ' --shard 2/4 --output-prefix /d/corpus-00002$' task "${array[@]}" SHARDS=4 -- --output-prefix=/d/corpus --input a
for shards in SHARDS= SHARDS=2 SHARDS=x; do expect 2 '' task "${array[@]}" $shards -- --input a --output-prefix c; done
expect 2 '' task SHARDS=4 -- --input a --output-prefix c

# ---- train.sbatch: the host of a crash, by the errors of srun -------------------------------------
# shellcheck source=/dev/null
. <(sed -n '/^crashed_host() {/,/^}/p' "$share/train.sbatch")
# blames HOST LINE...: the host that these lines blame.
blames() {
    printf '%s\n' "${@:2}" >errors
    # shellcheck disable=SC2034
    errors=errors
    [ "$(crashed_host | cut -d' ' -f1)" = "$1" ] || fail "blames '$(crashed_host)', not '$1': $(cat errors)"
}
killed=("srun: error: n1: tasks 0-3: Killed" "srun: error: n2: tasks 4-7: Killed")
cancelled="slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-29T12:00:00 ***"
blames n1 "${killed[@]}"
# scancel 7.0
blames '' "$cancelled" "${killed[@]}"
blames '' "${killed[0]}" "$cancelled" "${killed[1]}"
# The script itself ends the other ranks after a crash.
# srun also states that it has terminated a step after a crash.
blames n1 "${killed[0]}" "srun: Force Terminated StepId=7.0"
blames n1 "${killed[0]}" "train.sbatch: ends 7.0" "$cancelled" "${killed[1]}"
blames n2 "srun: error: n2: task 5: Segmentation fault" "$cancelled" "${killed[0]}"
blames n2 "srun: error: Node failure on n2" "${cancelled% \*\*\*} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***" "${killed[0]}"

# ---- train.sbatch: the comment of the job, which the watchdog reads elsewhere ---------------------
for name in squeue scancel sinfo; do printf '#!/bin/sh\n' >stand-in/$name; done
printf '#!/bin/sh\necho "$@" >>"%s/scontrol.log"\n' "$work" >stand-in/scontrol
printf '#!/bin/sh\nexit 4\n' >stand-in/srun
chmod +x stand-in/*
expect 4 '' env PATH="$work/stand-in:$PATH" SLURM_SUBMIT_DIR="$work" SLURM_JOB_ID=1 SLURM_JOB_NUM_NODES=1 SLURM_JOB_NODELIST=n1 \
    SLURMD_NODENAME=n1 SLURM_JOB_PARTITION=all RUN_DIRECTORY=run2 FRESH=1 bash "$share/train.sbatch"
grep -qx "update JobId=1 Comment=lm-train:$work/run2" scontrol.log || fail "the directory: $(cat scontrol.log)"
