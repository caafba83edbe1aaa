#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Saves in the background on three ranks, one of which cannot write at its k-th operation. There is one warning, the training
# continues with the same bits, and the last save is complete.
# labels: long;mpi
# timeout: 300
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"

args=(--num-layers 3 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --vocab-size 64 --mock-data --micro-batch-size 1
    --global-batch-size 3 --lr 1e-3 --threads 1 --eval-iters 0 --train-iters 12 --save-interval 4 --use-distributed-optimizer)
run whole.log mpirun -n 3 lm-train "${args[@]}" --save whole
grep -q 'global_step4: saved, .*, loop blocked' whole.log.err || fail "no save in the background: $(cat whole.log.err)"
for k in 1 4 9 14 18 23; do
    rm -rf run
    train=(lm-train "${args[@]}" --save run)
    expect 0 'warning: run/global_step[0-9]*: NOT SAVED: rank 1 on ' mpirun -n 1 "${train[@]}" : \
        -n 1 -x LM_IO_FAULT=fail:$k "${train[@]}" : -n 1 "${train[@]}"
    [ "$(grep -c 'NOT SAVED' err)" = 1 ] || fail "not one warning: $(cat err)"
    for file in whole/global_step12/*.safetensors; do
        cmp "$file" "run/global_step12/${file##*/}" || fail "operation $k: other bits"
    done
    nothing_under 'run/*.tmp'
done
lm-ckpt verify run --quiet || fail "lm-ckpt verify"
echo "one rank cannot write: one save is lost"
