#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-ckpt merge: the average of checkpoints of several types starts a training and converts.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

args=(--mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 24 --vocab-size 300
    --micro-batch-size 2 --global-batch-size 2 --train-iters 6 --lr 1e-3 --threads 1 --eval-iters 0 --log-interval 6)
lm-train "${args[@]}" --save a --save-interval 3 >/dev/null 2>&1
lm-train "${args[@]}" --bf16 --seed 5 --save b --save-interval 3 >/dev/null 2>&1

# The average of a step and itself is the step, for any weights.
expect 0 '' lm-ckpt merge same a/global_step3 a/global_step3 a/global_step3 --weights 0.1,0.2,5
grep -Eq '^same/global_step3: average of 3 checkpoints, ' out || fail "merge: $(cat out)"
expect 0 '' lm-ckpt diff same a/global_step3 --weights-only
# A checkpoint of weight 0 does not count; masters are averaged, not the rounded weights.
expect 0 '' lm-ckpt merge masters b a --weights 7,0
expect 1 '' lm-ckpt diff masters b --weights-only
expect 0 '' lm-ckpt merge rounded b a --weights 7,0 --dtype bf16
expect 0 '' lm-ckpt diff rounded b --weights-only

# The middle of a and b has the same distance to both.
expect 0 '' lm-ckpt merge mean a b
expect 0 '' lm-ckpt verify mean --quiet
expect 0 '' lm-ckpt show mean --json
[ "$(jq -r '.state.merged_from | map(.weight) | add' out)" = 1 ] || fail "show: $(cat out)"
[ "$(jq -r .counters.iteration out)" = 6 ] || fail "show: $(cat out)"
[[ $(jq -r .command_line out) == *"lm-ckpt merge mean a b" ]] || fail "show: $(cat out)"
word() { lm-ckpt diff "$1" "$2" --weights-only --json | jq -s 'map(select(.tensor == "embedding.word.weight"))[0].rms' || true; }
awk -v a="$(word mean a)" -v b="$(word mean masters)" -v ab="$(word a masters)" 'BEGIN {
    exit !(a > 0 && (a - b) ^ 2 < 1e-10 * ab ^ 2 && (a + b - ab) ^ 2 < 1e-10 * ab ^ 2) }' ||
    fail "the mean lies elsewhere: $(word mean a) $(word mean masters) $(word a masters)"

# An average over the last tokens of a run emulates a decay: for evenly spaced steps and a linear decay it is the plain mean.
expect 0 'a/global_step3: weight 0.500000' lm-ckpt merge window a --window 1M --json
[ "$(jq -c '[.merged[].weight]' out)" = '[0.5,0.5]' ] || fail "merge --window --json: $(cat out)"
expect 0 '' lm-ckpt merge plain a/global_step3 a/global_step6
expect 0 '' lm-ckpt diff window plain
expect 0 'a/global_step6: weight 0.292893' lm-ckpt merge sqrt a --window 1M --style minus-sqrt
expect 2 '--window: .* 1 tokens of a, got 1' lm-ckpt merge gone a --window 1
expect 2 '--weights: .*--window' lm-ckpt merge gone a --window 1M --weights 1,1
expect 2 '--style: .*--window' lm-ckpt merge gone a b --style linear

# Programs that read the result.
expect 2 ' mean/global_step6: .*--finetune' lm-train "${args[@]}" --load mean
expect 0 '' lm-train "${args[@]}" --load mean --finetune
expect 0 '' lm-convert mean mean-hf --to hf-gpt2 --check

# Usage errors; nothing of OUT remains.
lm-train "${args[@]}" --ffn-hidden-size 64 --save c --save-interval 6 >/dev/null 2>&1
expect 2 '^lm-ckpt: c/global_step6: ffn_hidden_size .*64.* a/global_step6 .*128' lm-ckpt merge gone a c
expect 2 'merge: .*got 1$' lm-ckpt merge gone a
expect 2 '--weights: .* 2 .*got 1$' lm-ckpt merge gone a b --weights 1
expect 2 '--weights: .*got -1' lm-ckpt merge gone a b --weights 2,-1
expect 2 '--weights: all' lm-ckpt merge gone a b --weights 0,0
expect 2 ' a: exists' lm-ckpt merge a b b
expect 2 ' a: .*run' lm-ckpt merge a b a/global_step3 --force
cp -r a damaged
flip damaged/global_step6/weights-00000.safetensors
expect 3 ' damaged/global_step6/weights-00000.safetensors: .*checksum' lm-ckpt merge gone a damaged
expect 3 ' gone/[^:]*: ' env LM_IO_FAULT=short:4 lm-ckpt merge gone a b
nothing_under gone
expect 0 '' lm-ckpt merge mean b b --force
expect 0 '' lm-ckpt diff mean rounded --weights-only
echo "lm-ckpt merge: all as promised"
