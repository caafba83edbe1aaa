#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every long verb of lm-ckpt shows its progress and the time left on a terminal, and nothing in a pipe or with --quiet.
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
if ! command -v script >/dev/null; then
    echo "skipped: script is not installed"
    exit 77
fi

# Matrices of 1 MiB, so that each file has several blocks, which are read 4 at a time.
run train.err lm-train --num-layers 2 --hidden-size 256 --num-attention-heads 4 --seq-length 8 --vocab-size 1000 --mock-data \
    --micro-batch-size 1 --lr 1e-3 --threads 2 --eval-iters 0 --train-iters 3 --save-interval 1 --save run
export TERM=xterm LM_IO_FAULT=slow:60
# shows WHAT COMMAND...: on a terminal the line that begins with WHAT shows percentage, rate and time left; in a pipe stderr
# is empty.
shows() {
    local what=$1 words
    shift
    printf -v words '%q ' "$@"
    rm -rf out
    script -qec "stty cols 120; $words" /dev/null </dev/null >terminal 2>&1 || true
    tr '\r' '\n' <terminal >lines
    grep -Eq "$what: .* [0-9]+ %.*/s" lines || fail "$*: no '$what' in: $(cat lines)"
    rm -rf out
    LM_IO_FAULT=slow:1 "$@" >piped 2>piped.err </dev/null || true
    [ ! -s piped.err ] || fail "$* in a pipe: $(cat piped.err)"
}
step=run/global_step1
shows 'verify global_step1' lm-ckpt verify $step
shows 'diff' lm-ckpt diff $step run/global_step2
shows 'copy global_step1' lm-ckpt copy $step out
shows 'unshard' lm-ckpt unshard $step out.safetensors --force
LM_IO_FAULT=slow:20 shows 'reshard' lm-ckpt reshard $step out --tensor-model-parallel-size 2
LM_IO_FAULT=slow:20 shows 'merge' lm-ckpt merge out $step run/global_step2
shows 'verify global_step3' lm-ckpt sync run out --keep-last 1
shows 'copy global_step3' lm-ckpt sync run out --keep-last 1
cp -r run pruned
shows 'verify global_step3' lm-ckpt prune pruned --keep-last 2
LM_IO_FAULT=slow:120 shows 'rewrite weights' lm-ckpt prune pruned --weights-only-older-than 1 --no-verify
script -qec "lm-ckpt verify $step --quiet" /dev/null </dev/null >terminal 2>&1
! grep -q " %" terminal || fail "--quiet: $(cat terminal)"
echo "progress of every long verb"
