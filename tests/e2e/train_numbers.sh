#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every count of lm-train, at its extremes, gives a plan or an error, never a crash or a hang. So does a plan that does not fit
# into this host's memory.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

args=(--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --micro-batch-size 2
    --global-batch-size 8 --lr 2e-3 --threads 1 --mock-data --device cpu --train-iters 20 --save x --dry-run)
mapfile -t flags < <(lm-train --help-all | grep -oE '^ +--[a-z0-9-]+ N\b' | awk '{ print $1 }' | sort -u)
[ ${#flags[@]} -gt 30 ] || fail "only ${#flags[@]} counts in --help-all"
for flag in "${flags[@]}"; do
    for value in 0 -1 9223372036854775807; do
        code=0
        timeout 60 lm-train "${args[@]}" "$flag" $value >out 2>err </dev/null || code=$?
        [ $code = 0 ] || [ $code = 2 ] || fail "$flag $value: exit $code: $(tail -1 err)"
    done
done
expect 2 '--save-interval: .*1, got 0' lm-train "${args[@]}" --save-interval 0
expect 2 '--world-size: .*1 to ' lm-train "${args[@]}" --world-size 99999999999999

# Weights, gradients and optimizer state have 2.6 TiB. No test host has that much memory.
large=(--model bloom-176b --mock-data --micro-batch-size 8 --device cpu --lr 1e-4 --train-iters 5)
expect 2 '--micro-batch-size: 8 .*\(1 rank;.* \(' lm-train "${large[@]}" --dry-run
expect 2 '--micro-batch-size: 8 .*\(1 rank;.* \(' lm-train "${large[@]}"
expect 0 'note: --micro-batch-size: 8 ' lm-train "${large[@]}" --dry-run \
    --world-size 8 --global-batch-size 64

# Little address space: an error, not a crash in generated code.
for kib in 60000 80000 100000 140000 200000 300000 1000000; do
    code=0
    (ulimit -v $kib && exec lm-train "${args[@]:0:${#args[@]}-3}" --eval-iters 0 --vocab-size 256) >out 2>err </dev/null || code=$?
    [ $code = 0 ] || [ $code = 3 ] || [ $code = 127 ] || fail "ulimit -v $kib: exit $code: $(tail -1 err)"
done
[ "$code" = 0 ] || fail "ulimit -v $kib is not enough: $(tail -1 err)"
expect 3 'ulimit -v: ' bash -c 'ulimit -v 140000; exec lm-train "$@"' - \
    "${args[@]:0:${#args[@]}-3}" --vocab-size 256

# The output names the reason of each stop.
run=("${args[@]:0:${#args[@]}-3}" --eval-iters 0 --vocab-size 256)
touch kill
expect 76 '--kill-switch-path: kill .*iteration 0 of 20' lm-train "${run[@]}" --kill-switch-path kill
expect 75 '--exit-interval 2: .*iteration 2 of 20' lm-train "${run[@]}" --save x --exit-interval 2
expect 0 '--exit-iteration 3: .*iteration 3 of 20' lm-train "${run[@]}" --exit-iteration 3
expect 0 '--exit-samples 16: .*iteration 2 of 20' lm-train "${run[@]}" --exit-samples 16
expect 75 '--exit-duration-in-mins 0: .*iteration 1 of 20' lm-train "${run[@]}" --save y --exit-duration-in-mins 0
