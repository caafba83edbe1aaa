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
