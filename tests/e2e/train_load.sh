#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# At the start of a run, a checkpoint that does not exist, another run's directory, other data and corrupt files never change the
# training or the saved files silently.
# timeout: 300
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"

make_corpus corpus.jsonl 100
lm-preprocess --input corpus.jsonl --output-prefix data --tokenizer-type ByteTokenizer --append-eod --quiet
args=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 24 --micro-batch-size 2
    --train-iters 20 --lr 1e-3 --lr-decay-style constant --data-path data_text_document --threads 1
    --eval-iters 0 --log-interval 10)
run ck.log lm-train "${args[@]}" --save ck --save-interval 4 --exit-iteration 12
state_of() { (cd "$1" && find . -type f ! -name 'generation-*' -exec sha256sum {} + | sort -k 2); }
state_of ck >ck.state
unchanged() { diff ck.state <(state_of ck) >differ || fail "$*: the run's checkpoints were changed: $(cat differ)"; }

# A named step that does not exist is an error with any other flags; the message lists the existing steps.
for load in ck/global_step13 ck/global_step13/ ./ck/../ck/global_step13; do
    for more in "" "--fresh" "--finetune" "--fresh --save ck --exit-interval 1"; do
        read -ra words <<<"$more"
        expect 2 '--load: .*: [a-z ]*global_step4, global_step8, global_step12$' lm-train "${args[@]}" --load $load "${words[@]}"
        unchanged "--load $load $more"
    done
done
expect 2 ' ck/global_step13: --load: .*global_step4' lm-train "${args[@]}" --load ck/global_step13 --dry-run
expect 2 ' nowhere/global_step4: --load: .*nowhere ' lm-train "${args[@]}" --load nowhere/global_step4 --fresh
mkdir none
expect 2 ' none/global_step4: --load: .*none ' lm-train "${args[@]}" --load none/global_step4 --fresh

# A run that starts a new training, or from weights alone, does not use another run's directory.
for load in "--load other --fresh" "--load ck/other --fresh" "--load none" ""; do
    read -ra words <<<"$load"
    expect 2 '^lm-train: ck: --save: .*--load' lm-train "${args[@]}" "${words[@]}" --save ck
done
for load in ck ck/global_step8; do
    expect 2 '^lm-train: ck: --save: .*--finetune' lm-train "${args[@]}" --finetune --load $load --save ck
done
expect 2 '^lm-train: ck: --save: .*--finetune' lm-train "${args[@]}" --finetune --load ck --save ck --dry-run
unchanged "another run"
expect 0 'note: ck/global_step12: .*weights' lm-train "${args[@]}" --finetune --load ck --save tuned --exit-iteration 1
expect 0 'note: .*iteration 0' lm-train "${args[@]}" --load new --save new --fresh --exit-iteration 1

# --save X --load X starts and resumes: a missing or empty X is a first start, with a note.
first=("${args[@]}" --exit-iteration 1)
expect 0 'note: one: .*iteration 0' lm-train "${first[@]}" --save one --load one
expect 0 'note: one/global_step1: resuming' lm-train "${args[@]}" --save one --load one/ --exit-iteration 2
mkdir two
expect 0 'note: ./two: .*iteration 0' lm-train "${first[@]}" --save two --load ./two
# A generation file or a log of the run does not make the directory another program's; another file does.
mkdir -p three/tb
touch three/generation-1 three/job.log three/slurm-7.out three/steps
logs=(--log-file three/steps --tensorboard-dir three/tb)
expect 0 'note: three: .*iteration 0' lm-train "${first[@]}" --save three --load three "${logs[@]}"
# --save accepts the logs of a start that was killed and had other log flags, and a log that tee wrote before the first start.
mkdir -p three_b/board three_c
lm-train "${args[@]}" --train-iters 1_000_000 --save three_b --load three_b --log-file three_b/steps --tensorboard-dir three_b/board \
    >killed.log 2>&1 &
until [ -s three_b/generation-1 ] && [ -s three_b/steps ]; do sleep 0.05; done
kill -9 $!
wait $! 2>/dev/null || true
[ ! -e three_b/latest ] || fail "the killed start has saved"
touch three_c/main_log.txt three_c/log.json three_c/status.json
for directory in three_b three_c; do
    expect 0 "note: $directory: .*iteration 0" lm-train "${first[@]}" --save $directory --load $directory
done
mkdir four
touch four/model.safetensors four/generation-1
expect 2 ' four: --load: .*model.safetensors' lm-train "${first[@]}" --save four --load four
# A directory of Megatron: the advice is to import that.
mkdir -p megatron/iter_0000010/mp_rank_00
echo 10 >megatron/latest_checkpointed_iteration.txt
: >megatron/iter_0000010/mp_rank_00/model_optim_rng.pt
for load in "--load megatron" "--load megatron --finetune" "--pretrained-checkpoint megatron"; do
    # shellcheck disable=SC2086
    expect 2 ' megatron: .*Megatron.*lm-convert' lm-train "${first[@]}" --save tuned.megatron $load
done
# A restarted job and a later task of an array do not start from the beginning.
for given in SLURM_RESTART_COUNT=1 "SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_MIN=1"; do
    read -ra words <<<"$given"
    rm -rf five six
    mkdir six
    expect 2 ' five: --load: .*(restarted|task 3)' env "${words[@]}" lm-train "${first[@]}" --save five --load five
    expect 2 ' six: --load: .*(restarted|task 3)' env "${words[@]}" lm-train "${first[@]}" --save six --load six
    expect 0 'note: five: .*iteration 0' env "${words[@]}" lm-train "${first[@]}" --save five --load five --fresh
    expect 0 'one/global_step.: resuming' env "${words[@]}" lm-train "${args[@]}" --load one --exit-iteration 3
done
rm -rf five
expect 0 'note: five: .*iteration 0' \
    env SLURM_RESTART_COUNT=0 SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MIN=1 lm-train "${first[@]}" --save five --load five
# A named step that stays in the flags of a job array is refused at the second start, unless the first has saved nothing.
cp -r ck named
back=("${args[@]}" --save named --load named/global_step8)
run back.log lm-train "${back[@]}" --exit-iteration 10
expect 2 ' named/global_step8: --load: .*iteration 10.*--load named .*iteration 10' lm-train "${back[@]}"
run again.log lm-ckpt latest named 8
expect 0 'global_step8: resuming' lm-train "${back[@]}" --exit-iteration 9
# --exit-on-missing-checkpoint allows no start without a checkpoint.
for load in "--save seven --load seven" "--load two/none" ""; do
    read -ra words <<<"$load"
    expect 2 '--exit-on-missing-checkpoint' lm-train "${first[@]}" "${words[@]}" --exit-on-missing-checkpoint
done
expect 0 'one/global_step.: resuming' lm-train "${args[@]}" --load one --exit-on-missing-checkpoint --exit-iteration 3
expect 2 ' other: --load: .*--fresh' lm-train "${first[@]}" --load other --save new.other

# The run that owns the directory resumes in it, from its latest step or from an earlier one.
cp -r ck back
expect 0 'back/global_step12: resuming' lm-train "${args[@]}" --load back/ --save ./back --exit-iteration 13
expect 0 'back/global_step4: resuming' lm-train "${args[@]}" --load back/global_step4 --save back --exit-iteration 5
[ "$(head -n1 back/latest)" = global_step5 ] || fail "latest is $(head -n1 back/latest)"

# An incomplete step is skipped, with one warning.
cp -r ck cut
truncate -s -1 cut/global_step12/weights-00000.safetensors
expect 0 'warning: .*cut/global_step12/.* cut/global_step8 ' lm-train "${args[@]}" --load cut --exit-iteration 9
[ "$(grep -c 'warning: .* cut/global_step8 ' err)" = 1 ] || fail "told more than once: $(cat err)"
expect 3 ' cut/global_step12/weights-00000.safetensors: ' lm-train "${args[@]}" --load cut/global_step12

# Corrupt bytes in the newest step: the previous step is loaded, and saving replaces the corrupt one. A step that is
# named has no substitute.
lm-train "${args[@]}" --load ck --save whole.ck --exit-iteration 16 >/dev/null 2>&1
cp -r ck bad
flip bad/global_step12/optim-00000.safetensors
expect 3 ' bad/global_step12/optim.*: .*checksum' lm-train "${args[@]}" --load bad/global_step12
expect 0 'warning: bad/global_step12/optim-00000.safetensors: .*checksum.* bad/global_step8 ' \
    lm-train "${args[@]}" --load bad --save bad --exit-iteration 12
grep -q 'note: bad/global_step8: resuming .*iteration 8' err || fail "no fall-back: $(cat err)"
expect 0 '' lm-ckpt verify bad --quiet
expect 0 '' lm-ckpt diff ck/global_step12 bad/global_step12
for step in 4 8 12; do flip bad/global_step$step/weights-00000.safetensors; done
expect 3 '^lm-train: bad: .*: bad/global_step' lm-train "${args[@]}" --load bad

# Other samples, another tokenizer or another schedule of the learning rate need a flag, or are errors.
make_corpus other.jsonl 101
lm-preprocess --input other.jsonl --output-prefix other --tokenizer-type ByteTokenizer --append-eod --quiet
go_on() { lm-train "${args[@]}" --load ck --exit-iteration 13 "$@"; }
expect 2 ' other_text_document: .*global_step12 ' go_on --data-path other_text_document
expect 2 ' other_text_document: ' go_on --data-path other_text_document --dry-run
expect 0 'resuming' go_on --data-path other_text_document --override-data
mkdir moved; cp data_text_document.* moved
expect 0 'note: --data-path: was .* is .*moved' go_on --data-path moved/data_text_document
expect 2 '--split: .*samples' go_on --split 900,90,10
expect 2 '--data-order: .*samples' go_on --data-order megatron
expect 2 '--seed: .*samples.*--override-data' go_on --seed 7
expect 0 'note: --seed: .*1234 ' go_on --seed 7 --override-data
expect 2 '--lr: .*0.002, .*0.001 .*--override-opt_param-scheduler' go_on --lr 2e-3
expect 0 'note: --lr: .*0.001 ' go_on --lr 2e-3 --override-opt_param-scheduler
expect 0 'note: --lr: .*0.001 ' go_on --lr 2e-3 --override-lr-scheduler
go_on --split 969,30,1 >plain 2>/dev/null
expect 0 'resuming' go_on --lr 2e-3 --min-lr 1e-3 --lr-decay-style linear --lr-decay-samples 1000 --weight-decay 0.5 \
    --use-checkpoint-opt_param-scheduler
! grep -q 'note: --lr: ' err || fail "the checkpoint's schedule is not used: $(cat err)"
diff <(grep -o 'iteration .*lm loss[^|]*' plain | sed 's/elapsed[^|]*|//') <(grep -o 'iteration .*lm loss[^|]*' out | sed 's/elapsed[^|]*|//') ||
    fail "the checkpoint's schedule is not used"
expect 2 '--use-checkpoint-opt_param-scheduler: .*--override-opt_param-scheduler' \
    go_on --use-checkpoint-opt_param-scheduler --override-opt_param-scheduler
expect 0 'note: --bf16: .*false ' go_on --bf16
# Counts are integers, and the flag that was given is named next to the flag that it changes.
shorter() { lm-train "${args[@]}" --lr-decay-style linear --load linear --train-iters 12 --exit-iteration 3 "$@"; }
run linear.log lm-train "${args[@]}" --lr-decay-style linear --save linear --exit-iteration 2
expect 2 '--lr-decay-samples: .*24 .*--train-iters.*40 .*linear/global_step2 ' shorter
expect 0 'note: --train-samples: .*40 .* 24 .*--train-iters' \
    shorter --override-opt_param-scheduler
# Windows of iterations, with a batch ramp and with other batches after a resume: the rate of the last iterations.
rates() { sed -nE 's/^ iteration +([0-9]+)\/.*learning rate: ([^ ]+).*/\1 \2/p' "$1" | awk -v n="$2" '$1 > n' | xargs; }
window() {
    lm-train "${args[@]}" --log-interval 1 --min-lr 1e-4 --lr-decay-style WSD --lr-wsd-decay-style linear \
        --lr-wsd-decay-iters 3 --lr-warmup-iters 4 "$@"
}
ramp=(--global-batch-size 8 --rampup-batch-size 2 2 20)
last='17 1.000E-03 18 7.000E-04 19 4.000E-04 20 1.000E-04'
expect 0 '' window "${ramp[@]}"
[ "$(rates out 16)" = "$last" ] || fail "with a ramp: $(rates out 0)"
mv out whole
expect 0 '' window "${ramp[@]}" --save ramp --save-interval 5 --exit-iteration 10
# After the ramp, the flags of the ramp may be omitted; the schedule is the same.
expect 0 'note: --rampup-batch-size: ' window --global-batch-size 8 --load ramp/global_step10
[ "$(rates out 0)" = "$(rates whole 10)" ] || fail "without the finished ramp: $(rates out 0)"
# Another batch changes the samples of the schedule, but not its iterations, also when the batch changes twice.
expect 2 '--lr-decay-samples: .*--train-iters.*--override-opt_param-scheduler' window --global-batch-size 4 --load ramp
expect 0 'resuming' window --global-batch-size 4 --load ramp --override-opt_param-scheduler --save ramp4 --exit-iteration 14
expect 0 'resuming' window --global-batch-size 4 --load ramp4
[ "$(rates out 16)" = "$last" ] || fail "after another batch: $(rates out 0)"
expect 0 'resuming' window --global-batch-size 16 --load ramp4 --override-opt_param-scheduler --save ramp16 --exit-iteration 18
[ "$(rates out 16)" = "${last% 19 *}" ] || fail "after two other batches: $(rates out 0)"
expect 0 'resuming' window --global-batch-size 16 --load ramp16
[ "$(rates out 18)" = "${last#* 7.000E-04 }" ] || fail "within the last window: $(rates out 0)"
expect 0 '' go_on
[ "$(noted err)" = --exit-iteration ] || fail "a change that is none: $(cat err)"
! grep -q warning err || fail "a change that is none: $(cat err)"
# Other text under the same name, of the same size: the metadata file or the sampled bytes reveal it.
for side in with without; do
    cp data_text_document.bin same.bin; cp data_text_document.idx same.idx
    jq '.bin.digest = "xxh3-64m:00000000000000000000000000000000"' data_text_document.json >same.json
    [ $side = with ] || { flip same.bin; rm same.json; }
    expect 2 ' same: ' go_on --data-path same --tokenizer-type ByteTokenizer
done
# A tokenizer of the same size: its digest reveals it.
jq '.tokenizer.digest = "xxh3:00000000000000000000000000000000"' data_text_document.json >moved/data_text_document.json
expect 2 '--load: .*tokenizer.*--override-tokenizer' go_on --data-path moved/data_text_document
expect 2 '--load: .*tokenizer' lm-train "${args[@]}" --load ck --finetune --data-path moved/data_text_document
expect 0 'note: .*--override-tokenizer' go_on --data-path moved/data_text_document --override-tokenizer

# A stored checkpoint of the frozen format resumes in another layout.
cp -r "$here/../golden/checkpoint/run" stored
expect 0 'note: stored/global_step4: resuming .*iteration 4, 16 samples' lm-train --num-layers 2 --hidden-size 12 \
    --num-attention-heads 2 --seq-length 8 --vocab-size 50 --mock-data --micro-batch-size 1 --global-batch-size 4 --train-iters 6 \
    --lr 1e-3 --threads 1 --eval-iters 0 --bf16 --save stored --load stored
lm-ckpt verify stored >verified || fail "$(cat verified)"

# --use-checkpoint-args takes the model of the checkpoint; a flag of another model is refused as on any resume.
model=(--num-layers 2 --hidden-size 24 --ffn-hidden-size 40 --num-attention-heads 4 --kv-channels 4 --seq-length 24 --swiglu
    --group-query-attention --num-query-groups 2 --position-embedding-type rope --rotary-base 500 --normalization RMSNorm
    --disable-bias-linear --untie-embeddings-and-output-weights --qk-layernorm --hidden-dropout 0 --softmax-over-padding)
rest=(--micro-batch-size 2 --train-iters 20 --lr 1e-3 --lr-decay-style constant --data-path data_text_document --threads 1
    --eval-iters 0 --log-interval 1)
values() { sed -nE 's/.*iteration +([0-9]+)\/.*(lm loss: [^ ]+).*/\1 \2/p' "$1"; }
run all.log lm-train "${model[@]}" "${rest[@]}"
run args1.log lm-train "${model[@]}" "${rest[@]}" --save args --exit-iteration 8
run args2.log lm-train --use-checkpoint-args "${rest[@]}" --load args
grep -q 'note: --use-checkpoint-args: .*args/global_step8' args2.log.err || fail "$(cat args2.log.err)"
diff <(values all.log) <(cat <(values args1.log) <(values args2.log)) || fail "--use-checkpoint-args: other losses"
expect 0 '' lm-train --use-checkpoint-args "${rest[@]}" --load args --hidden-size 24 --num-layers 2 --dry-run
expect 2 '--num-layers' lm-train --use-checkpoint-args "${rest[@]}" --load args --num-layers 3
expect 2 '--use-checkpoint-args: .*--load DIR' lm-train --use-checkpoint-args "${rest[@]}"
run first.log lm-train --use-checkpoint-args "${model[@]}" "${rest[@]}" --load begin --save begin --exit-iteration 8
diff <(values args1.log) <(values first.log) || fail "--use-checkpoint-args without a checkpoint"
parameters=$(lm-estimate params "${model[@]}" --vocab-size 257 --json | jq .total)
[ "$(lm-estimate params --use-checkpoint-args --load args --json | jq .total)" = "$parameters" ] || fail "lm-estimate: not $parameters"
echo "lm-train: starts from what it is told to start from"
