#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Values and flags of published scripts (BigScience, deepspeedai, AWS, NVIDIA), command lines with several faults, and the
# continuations of BigScience's tr11c and tr11f, which have more ranks than the first batch sizes of their ramp allow.
# labels: e2e;mpi
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"

model=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --mock-data --vocab-size 64 --threads 1
    --eval-iters 0 --log-interval 1)
length=(--micro-batch-size 2 --train-iters 8 --lr 1e-3)
all=("${model[@]}" "${length[@]}" --global-batch-size 4)
# objects: the objects of the errors, in one line.
objects() { sed -nE '/^lm-train: (note|warning):/d; s/^lm-train: ([^ ]+): .*/\1/p' err | xargs; }
# config FILTER ARGUMENT...: the value of --print-config.
config() {
    local filter=$1
    shift
    lm-train "$@" --print-config 2>err | jq -c "$filter" || fail "$*: $(cat err)"
}

# Values.
[ "$(config .model.position_embedding_type "${all[@]}" --position-embedding-type rotary)" = '"rope"' ] || fail "rotary"
[ "$(config .model.normalization "${all[@]}" --normalization rmsnorm)" = '"RMSNorm"' ] || fail "rmsnorm"
[ "$(config .model.num_query_groups "${all[@]}" --num-key-value-heads 2)" = 2 ] || fail "--num-key-value-heads"
recompute='[.parallel.recompute_granularity, .parallel.recompute_method, .parallel.recompute_num_layers]'
[ "$(config "$recompute" "${all[@]}" --activations-checkpoint-method block --activations-checkpoint-num-layers 2)" = \
    '["full","block",2]' ] || fail "--activations-checkpoint-method"
[ "$(config "$recompute" "${all[@]}" --checkpoint-activations --activations-checkpoint-method uniform)" = \
    '["full","uniform",1]' ] || fail "--checkpoint-activations with a method"
steps='.schedule.step_batch_size_schedule'
for words in "0:4 320:8" "'0:4 320:8'" "0:4,320:8" '"0:4 320:8"'; do
    read -ra each <<<"$words"
    [ "$(config "$steps" "${model[@]}" "${length[@]}" --step-batch-size-schedule "${each[@]}")" = '["0:4","320:8"]' ] ||
        fail "--step-batch-size-schedule $words"
done
expect 2 '^lm-train: --step-batch-size-schedule: ' lm-train "${all[@]}" --step-batch-size-schedule 0:16 2.4B:320
expect 2 "^lm-train: --lr: '1e-3'.*quotes" lm-train "${all[@]}" --lr "'1e-3'"
expect 2 '^lm-train: --tokenizer-type: .*HFTokenizer' lm-train "${all[@]}" --tokenizer-type Llama2Tokenizer
expect 2 '^lm-train: --tokenizer-type: .*HFTokenizer' lm-train "${all[@]}" --tokenizer-type GPTSentencePieceTokenizer
expect 0 'note: --log-optimizer-states-to-tensorboard: ' lm-train "${all[@]}" --log-optimizer-states-to-tensorboard --dry-run
expect 0 'note: --ds-sequence-parallel-size: ' lm-train "${all[@]}" --ds-sequence-parallel-size 1 --dry-run
expect 2 '^lm-train: --ds-sequence-parallel-size: ' lm-train "${all[@]}" --ds-sequence-parallel-size 2
expect 2 '^lm-train: --reset-progress: .*--finetune' lm-train "${all[@]}" --reset-progress

# A warm-up in tokens is in the plan, and one that the training does not reach is warned of.
expect 0 '' lm-train "${all[@]}" --lr-warmup-tokens 128 --dry-run
grep -q 'warm-up of 128 tokens' out || fail "no warm-up in tokens: $(cat out)"
grep -q '1.000E-03 at the end of the warm-up: iteration 2, 8 samples' out || fail "no end of the warm-up: $(cat out)"
! grep -q -- 'warning: --lr-warmup' err || fail "a warm-up that the training reaches: $(cat err)"
expect 0 'warning: --lr-warmup-tokens: ' lm-train "${all[@]}" --lr-warmup-tokens 3000000000 --dry-run

# A dense model in a script for experts.
expect 0 'note: --moe-loss-coeff: ' lm-train "${all[@]}" --num-experts 1 --moe-expert-parallel-size 1 --mlp-type standard \
    --moe-loss-coeff 0.01 --expert-interval 2 --topk 1 --dry-run
expect 2 '' lm-train "${all[@]}" --num-experts 64 64 --moe-loss-coeff 0.01 --topk 1
[ "$(objects)" = "--num-experts --topk --moe-loss-coeff" ] || fail "experts: $(objects)"

# A flag whose variable is unset never takes the next flag as its value, and all faults appear at once.
expect 2 '' lm-train --tensor-model-parallel-size --pipeline-model-parallel-size --num-layers 2
[ "$(objects)" = "--tensor-model-parallel-size --pipeline-model-parallel-size --micro-batch-size --data-path --hidden-size \
--train-samples --lr" ] || fail "unset variables: $(objects)"
expect 2 '' lm-train "${all[@]}" --mup --tokenizer-type NoTokenizer --global-batch-size 5 --min-lr 1 --log-file no/log \
    --fp8-format hybrid --train-weighted-split-paths --valid-weighted-split-paths --test-weighted-split-paths
[ "$(objects)" = "--train-weighted-split-paths --valid-weighted-split-paths --test-weighted-split-paths --mup --fp8-format \
--tokenizer-type --lr --global-batch-size --log-file" ] || fail "faults of several kinds: $(objects)"
expect 2 '' lm-train "${all[@]}" --finetune --no-load-optim --save-retain keep-last=1 --local-save x --save-failures 3 \
    --log-interval 0 --eval-interval 0 --codecarbon-country FRA --codecarbon-intensity 5
[ "$(objects)" = "--save-failures --codecarbon-intensity --codecarbon-country --log-interval --eval-interval --local-save \
--save-retain --local-save --finetune --no-load-optim" ] || fail "flags that need another: $(objects)"
# A fault that may only follow from another one does not appear.
expect 2 '' lm-train "${all[@]}" --global-batch-size 5 --micro-batch-size two
[ "$(objects)" = "--micro-batch-size" ] || fail "a consequence: $(objects)"
expect 2 '' lm-train "${model[@]}" --global-batch-size 4 --train-iters 8 --micro-batch-size 3 --learning-rate 1e-3
[ "$(objects)" = "--learning-rate --global-batch-size" ] || fail "another name of a flag: $(objects)"

# On resume, all flags that differ are named, with the files that cannot be written.
run ck.log lm-train "${all[@]}" --lr-decay-style cosine --save ck --save-interval 4 --exit-iteration 4
changed=(--lr 2e-3 --min-lr 1e-4 --lr-decay-style linear --lr-warmup-iters 2 --seed 7 --weight-decay 0.2)
for more in "" --dry-run; do
    # shellcheck disable=SC2086
    expect 2 '' lm-train "${all[@]}" "${changed[@]}" --load ck --log-file no/log $more
    for flag in --lr --min-lr --lr-decay-style --lr-warmup-samples --seed --log-file; do
        [[ " $(objects) " = *" $flag "* ]] || fail "$flag is not named: $(objects)"
    done
    # shellcheck disable=SC2086
    expect 2 '' lm-train "${all[@]}" --lr 2e-3 --load ck --hidden-size 64 --global-batch-size 5 --bogus 1 $more
    [ "$(objects)" = "--bogus --global-batch-size --hidden-size --lr --lr-decay-style --lr-decay-samples" ] ||
        fail "with a fault of parsing: $(objects)"
done
expect 2 '' mpirun -n 2 lm-train "${all[@]}" "${changed[@]}" --load ck
[ "$(objects)" = "--lr --min-lr --lr-decay-style --lr-warmup-samples --weight-decay --seed" ] || fail "two ranks: $(objects)"

# --no-load-optim: the rate continues, a note states that Megatron-LM's would not; the schedule of the checkpoint is used.
rates() { sed -nE 's/^ iteration +([0-9]+)\/.*learning rate: ([^ ]+).*/\1 \2/p' out | xargs; }
cosine=("${all[@]}" --lr-decay-style cosine --load ck --exit-iteration 6)
expect 0 '' lm-train "${cosine[@]}"
went_on=$(rates)
expect 0 'note: --no-load-optim: .*16.*warm-up' lm-train "${cosine[@]}" --no-load-optim
[ "$(rates)" = "$went_on" ] || fail "--no-load-optim: $(rates), wanted $went_on"
expect 0 '' lm-train "${cosine[@]}" --no-load-optim --use-checkpoint-opt_param-scheduler --lr 5 --lr-decay-style linear
[ "$(rates)" = "$went_on" ] || fail "the schedule of the checkpoint: $(rates), wanted $went_on"
expect 0 'note: --use-checkpoint-opt_param-scheduler: ' lm-train "${cosine[@]}" --finetune --use-checkpoint-opt_param-scheduler

# --exit-interval without --save ends with 0, because nothing could be resumed.
expect 0 'note: --exit-interval 3: .*3 of 8' lm-train "${all[@]}" --exit-interval 3
expect 0 'warning: --save-interval: .*--save' lm-train "${all[@]}" --save-interval 2 --exit-interval 3
expect 0 'note: --exit-duration-in-mins 0.01: ' lm-train "${all[@]}" --train-iters 1_000_000_000 --log-interval 1_000_000 \
    --lr-decay-style constant --exit-duration-in-mins 0.01

# More ranks after the ramp: the batch sizes before the resumed position do not matter.
ramp=("${model[@]}" --micro-batch-size 1 --global-batch-size 8 --rampup-batch-size 2 2 24 --train-samples 400 --lr 1e-3
    --lr-decay-style constant)
run ramp.log lm-train "${ramp[@]}" --save ramp --save-interval 3 --exit-iteration 20
expect 0 '' mpirun -n 8 lm-train "${ramp[@]}" --load ramp --exit-iteration 22
losses() { sed -nE 's/^ iteration +([0-9]+)\/.*global batch size: +([0-9]+).*lm loss: ([^ ]+).*/\1 \2 \3/p' "$1"; }
losses out >eight
expect 0 '' lm-train "${ramp[@]}" --load ramp --exit-iteration 22
losses out >one
[ "$(cut -d' ' -f1,2 one)" = "$(printf '21 8\n22 8')" ] || fail "the batch after the ramp: $(cat one)"
paste -d' ' one eight | awk '{ if (($3 - $6) ^ 2 > 1e-10) exit 1 }' || fail "eight ranks train another model: $(paste one eight)"
expect 0 '' mpirun -n 8 lm-train "${ramp[@]}" --load ramp --dry-run
# Within the ramp, from its start, and after a return to it, they do.
expect 2 'lm-train: --rampup-batch-size: 1 of its 2 .*8 data-parallel' mpirun -n 8 lm-train "${ramp[@]}" --load ramp/global_step6
for more in "" "--load ramp --finetune"; do
    # shellcheck disable=SC2086
    expect 2 'lm-train: --rampup-batch-size: 3 of its 4 ' mpirun -n 8 lm-train "${ramp[@]}" $more
done
