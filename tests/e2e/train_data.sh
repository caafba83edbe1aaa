#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Data and schedules of lm-train: curriculum, test sets, notes of a resumed run, samples
# that do not depend on the layout of the computation, and all errors of data.
# timeout: 600
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

make_corpus corpus.jsonl 300
lm-preprocess --input corpus.jsonl --output-prefix data --tokenizer-type ByteTokenizer --append-eod --quiet
model=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 48)
schedule=(--micro-batch-size 2 --global-batch-size 6 --train-iters 20 --lr 3e-3 --min-lr 1e-4
    --lr-decay-style cosine --eval-interval 10 --eval-iters 2 --log-interval 1)
args=("${model[@]}" "${schedule[@]}" --data-path data_text_document --threads 2)
values() { grep -E '^ *(iteration|validation|test|[a-z]+ loss)' "$1" | sed -E 's/elapsed time per iteration[^|]*\|//; s/samples per second.*//'; }
stops() { # stops LOG COMMAND...: expects exit code 75
    local log=$1 code=0
    shift
    "$@" >"$log" 2>"$log.err" || code=$?
    [ $code = 75 ] || fail "$*: exit $code: $(cat "$log.err")"
}

# Curriculum: the sequences grow, consumed tokens count only trained tokens, a resume continues in the middle.
grow=(--curriculum-learning-type seqlen --curriculum-min-difficulty 8 --curriculum-total-steps 10
    --lr-decay-tokens 4000 --tensorboard-dir tb --log-json log.json)
run curriculum.log lm-train "${args[@]}" "${grow[@]}"
lengths=$(sed -nE 's/.*curriculum seqlen: +([0-9]+) .*/\1/p' curriculum.log | tr '\n' ' ')
[ "$lengths" = "8 16 16 24 24 32 32 40 40 48 48 48 48 48 48 48 48 48 48 48 " ] || fail "curriculum: $lengths"
grep -Eq 'iteration +4/.*consumed tokens: +384 ' curriculum.log || fail "curriculum: tokens: $(cat curriculum.log)"
grep -Eq 'iteration +20/.*consumed tokens: +4560 .*learning rate: 1.000E-04' curriculum.log || fail "curriculum: decay by tokens"
grep -q 'curriculum   fixed_linear: sequences of 8 tokens at first, 48 from iteration 10 on, after 1392 tokens' curriculum.log.err ||
    fail "curriculum: the plan: $(cat curriculum.log.err)"
[ "$(grep -c '"seq_length":' log.json)" = 20 ] || fail "curriculum: --log-json"
stops curriculum1.log lm-train "${args[@]}" "${grow[@]}" --save curriculum --exit-interval 7
run curriculum2.log lm-train "${args[@]}" "${grow[@]}" --load curriculum
diff <(values curriculum.log) <(cat <(values curriculum1.log) <(values curriculum2.log)) || fail "curriculum: resumed otherwise"
stages=(--curriculum-learning-type seqlen --curriculum-schedule fixed_discrete --curriculum-difficulties 5 48 --curriculum-max-steps 3)
run stages.log lm-train "${args[@]}" "${stages[@]}" --exit-iteration 5
[ "$(sed -nE 's/.*curriculum seqlen: +([0-9]+) .*/\1/p' stages.log | tr '\n' ' ')" = "5 5 5 48 48 " ] || fail "fixed_discrete"
run cut.json lm-train "${args[@]}" "${stages[@]}" --show-samples 17-18
[ "$(jq -c '[.iteration, ([.pieces[].tokens] | add)]' cut.json | tr '\n' ' ')" = "[3,6] [4,49] " ] || fail "a cut sample: $(cat cut.json)"
expect 2 '--curriculum-total-steps: .*missing' \
    lm-train "${args[@]}" --curriculum-learning-type seqlen --curriculum-min-difficulty 8
expect 2 '--curriculum-min-difficulty: 4 ' lm-train "${args[@]}" "${grow[@]}" --curriculum-min-difficulty 4

# The same settings from a DeepSpeed configuration.
cat >ds.json <<'END'
{"train_micro_batch_size_per_gpu": 2, "train_batch_size": 6, "gradient_clipping": 1.0, "zero_optimization": {"stage": 1},
 "steps_per_print": 2000, "curriculum_learning": {"enabled": true, "curriculum_type": "seqlen", "min_difficulty": 8,
 "max_difficulty": 48, "schedule_type": "fixed_linear", "schedule_config": {"total_curriculum_step": 10, "difficulty_step": 8}}}
END
run deepspeed.log lm-train "${args[@]}" --lr-decay-tokens 4000 --deepspeed --deepspeed_config ds.json
diff <(values curriculum.log) <(values deepspeed.log) || fail "--deepspeed_config: another run"
sed 's/"min_difficulty": 8/"min_difficulty": 4/' ds.json >low.json
expect 2 ' curriculum_learning: min_difficulty: 4 .* 8 ' \
    lm-train "${args[@]}" --lr-decay-tokens 4000 --deepspeed_config low.json
grep -q 'note: ds.json: .*ignored: steps_per_print' deepspeed.log.err || fail "--deepspeed_config: nothing noted"
expect 2 ' ds.json: train_batch_size: .*6, .*--global-batch-size .*8' \
    lm-train "${args[@]}" --global-batch-size 8 --deepspeed_config ds.json

jq '.optimizer = {}' ds.json >bad.json
expect 2 ' bad.json: optimizer: ' lm-train "${args[@]}" --deepspeed_config bad.json
jq '.zero_optimization.offload_optimizer = {"device": "cpu"} | .fp16 = {"enabled": false, "other": 1}' ds.json >more.json
run more.log lm-train "${args[@]}" --deepspeed_config more.json --dry-run
grep -q 'note: more.json: .*ignored: steps_per_print, zero_optimization.offload_optimizer$' more.log.err ||
    fail "a key of a block is not noted: $(cat more.log.err)"
jq '.fp16 = {"enabled": true, "initial_scale_power": 12, "loss_scale_window": 500}' ds.json >fp16.json
run fp16.log lm-train "${args[@]}" --deepspeed_config fp16.json --dry-run --loss-scale 12 --loss-scale-window 7
for flag in --loss-scale --loss-scale-window; do
    grep -q "note: fp16.json: fp16: .*$flag$" fp16.log.err || fail "fp16: no note of $flag: $(cat fp16.log.err)"
done

# Of the three sizes two give the third, as in DeepSpeed; one alone has one micro-batch a step. batch FILE RANKS EXPECTED FLAG...
batch() {
    echo "$1" >sizes.json
    run sizes.out lm-train "${model[@]}" --data-path data_text_document --train-iters 2 --lr 1 --deepspeed_config sizes.json \
        --world-size "$2" --dry-run "${@:4}"
    local got
    got=$(cat sizes.out sizes.out.err | sed -nE 's/.* batch +([0-9]+) samples, ([0-9]+) micro-batch(es)? of ([0-9]+).*/\1 \2 \4/p')
    [ "$got" = "$3" ] || fail "$1: $got: $(cat sizes.out sizes.out.err)"
}
batch '{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3}' 1 "6 3 2"
batch '{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3}' 4 "24 3 2"
batch '{"train_batch_size": 24, "gradient_accumulation_steps": 3}' 4 "24 3 2"
batch '{"train_batch_size": "auto", "gradient_accumulation_steps": 3}' 4 "24 3 2" --global-batch-size 24
batch '{"train_batch_size": 24, "train_micro_batch_size_per_gpu": 2}' 4 "24 3 2"
batch '{"train_micro_batch_size_per_gpu": 2}' 4 "8 1 2"
batch '{"train_batch_size": 24}' 4 "24 1 6"
batch '{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3}' 4 "12 3 2" --tensor-model-parallel-size 2
alone=("${model[@]}" --data-path data_text_document --train-iters 2 --lr 1 --deepspeed_config sizes.json)
echo '{"train_batch_size": 7, "gradient_accumulation_steps": 2}' >sizes.json
expect 2 ' sizes.json: train_batch_size: 7 .* 2 ' lm-train "${alone[@]}"
echo '{"gradient_accumulation_steps": 2}' >sizes.json
expect 2 ' sizes.json: gradient_accumulation_steps: .*train_batch_size' lm-train "${alone[@]}"
echo '{"train_batch_size": 8, "fp16": {"enabled": false, "enabled": true}}' >sizes.json
expect 2 ' sizes.json: enabled: .*twice' lm-train "${alone[@]}"
# An unreadable file may state the size that seems to be missing.
echo '{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": "8"}' >sizes.json
expect 3 ' sizes.json: gradient_accumulation_steps ' lm-train "${alone[@]}"
echo '{"train_batch_size": 8 "train_micro_batch_size_per_gpu": 2}' >sizes.json
expect 3 ' sizes.json: not valid JSON ' lm-train "${alone[@]}"
[ "$(wc -l <err)" = 1 ] || fail "an unreadable file: $(cat err)"

jq '.gradient_accumulation_steps = 7' ds.json >seven.json
expect 2 ' seven.json: gradient_accumulation_steps: .*7, .* 6' lm-train "${args[@]}" --deepspeed_config seven.json
jq '.gradient_accumulation_steps = 1' ds.json >one.json
expect 2 ' one.json: gradient_accumulation_steps: .*1, .* 6 .* 3 micro-batches of 2 ' \
    lm-train "${args[@]}" --deepspeed_config one.json
jq '.gradient_accumulation_steps = 3' ds.json >three.json
run three.log lm-train "${args[@]}" --deepspeed_config three.json --dry-run
jq '.fp16 = {"enabld": true}' ds.json >slip.json
expect 2 ' slip.json: fp16: enabld: .* enabled' lm-train "${args[@]}" --deepspeed_config slip.json
jq '.gradient_cliping = 1' ds.json >slip.json
expect 2 ' slip.json: gradient_cliping: .* gradient_clipping' lm-train "${args[@]}" --deepspeed_config slip.json

# "auto", Hugging Face's value: that of the flag. resolved FILTER FILE FLAG...
resolved() {
    run resolved.json lm-train "${args[@]}" --deepspeed_config "$2" --print-config "${@:3}"
    jq -e "$1" resolved.json >/dev/null || fail "$2: $1: $(jq -c '.schedule, .parallel' resolved.json)"
}
cat >auto.json <<'END'
{"train_micro_batch_size_per_gpu": "auto", "train_batch_size": "auto", "gradient_accumulation_steps": "auto",
 "gradient_clipping": "auto", "bf16": {"enabled": "auto"},
 "fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": "auto", "initial_scale_power": 12, "hysteresis": "auto"},
 "zero_optimization": {"stage": "auto", "reduce_bucket_size": "auto"},
 "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
 "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto"}},
 "comms_logger": {"enabled": true}, "wall_clock_breakdown": true, "tensorboard": {"enabled": true, "output_path": "tb"},
 "wandb": {"enabled": true, "project": "x"}, "flops_profiler": {"enabled": true, "profile_step": 1}, "csv_monitor": {"enabled": true},
 "progressive_layer_drop": {"enabled": false}}
END
resolved '.schedule.fp16 == false and .schedule.bf16 != true and .parallel.zero_stage == 0' auto.json
grep -q 'note: auto.json: .*ignored: .*comms_logger' resolved.json.err || fail "auto: $(cat resolved.json.err)"
resolved '.schedule.bf16 and .parallel.zero_stage == 1' auto.json --bf16 --zero-stage 1
resolved '.schedule.fp16 and .schedule.initial_loss_scale == 4096 and .schedule.loss_scale_window == 7 and .schedule.hysteresis == 1' \
    auto.json --fp16 --loss-scale-window 7 --hysteresis 1
for change in '.optimizer.params.lr = 0.1' '.scheduler.params.warmup_max_lr = 0.1' 'del(.optimizer.params)' \
    '.progressive_layer_drop.enabled = true' '.comms_loger = {}' '.fp16.hysteresis = "often"'; do
    jq "$change" auto.json >changed.json
    code=0
    lm-train "${args[@]}" --deepspeed_config changed.json --print-config --fp16 >out 2>err || code=$?
    [ $code = 2 ] || [ "$change-$code" = '.fp16.hysteresis = "often"-3' ] || fail "$change: exit $code: $(cat err)"
done

# No flag is ignored silently.
expect 2 '--curriculum-total-steps: .*--curriculum-learning-type' lm-train "${args[@]}" --curriculum-total-steps 5
expect 2 '--curriculum-total-steps: .*--curriculum-learning-type' \
    lm-train "${args[@]}" --deepspeed_config ds.json --curriculum-total-steps 5
expect 2 '--curriculum-max-steps: .*--curriculum-schedule fixed_discrete' \
    lm-train "${args[@]}" "${grow[@]}" --curriculum-max-steps 5
expect 2 '--curriculum-root-degree: .*--curriculum-schedule fixed_root' \
    lm-train "${args[@]}" "${grow[@]}" --curriculum-root-degree 3
expect 2 '--curriculum-min-difficulty: .*--curriculum-schedule fixed_linear' \
    lm-train "${args[@]}" "${stages[@]}" --curriculum-min-difficulty 8
expect 2 '--split: .*--data-path' lm-train "${model[@]}" "${schedule[@]}" --train-data-path data_text_document --split 9,1,0
expect 2 '--save-schedule: .*--save-interval' lm-train "${args[@]}" --save x --save-interval 2 --save-schedule 2@4,3
run quiet.log lm-train "${args[@]}" --dry-run --lr-wsd-decay-iters 3 --data-cache-path cache \
    --bf16 --loss-scale 128 --hysteresis 3 --sequence-parallel --rotary-base 500
for flag in --lr-wsd-decay-iters --data-cache-path --loss-scale --hysteresis --sequence-parallel --rotary-base; do
    grep -q "^lm-train: note: $flag: ignored: " quiet.log.err || fail "no note of $flag: $(cat quiet.log.err)"
done

# Two contradicting flags: the message names the one that would be ignored.
run quiet.log lm-train "${args[@]}" --dry-run --position-embedding-type alibi --use-rotary-position-embeddings --fp16 --loss-scale 8 --hysteresis 3
for flag in --position-embedding-type --hysteresis; do
    grep -q "^lm-train: note: $flag: ignored: " quiet.log.err || fail "no note of $flag: $(cat quiet.log.err)"
done
grep -q '^ > architecture rope positions, LayerNorm, ' quiet.log || fail "the plan's architecture: $(cat quiet.log)"
expect 2 '--loss-scale: 1e-40 .*5.96046e-08' lm-train "${args[@]}" --fp16 --loss-scale 1e-40
expect 2 '--ffn-hidden-size: .*--swiglu' lm-train "${args[@]}" --hidden-size 16 --swiglu
expect 2 '--layernorm-epsilon: ' lm-train "${args[@]}" --layernorm-epsilon 1e-300
run skipped.log lm-train "${args[@]}" --fp16 --loss-scale 1e30 --eval-iters 0
grep -q 'fp16 .*every iteration .*(20)' skipped.log.err || fail "nothing says that all was skipped: $(cat skipped.log.err)"

# The run writes as many checkpoints as the plan states, including the one at the end.
run saves.log lm-train "${args[@]}" --save saves --save-interval 8 --eval-iters 0
grep -q 'checkpoints  3 of .* in saves' saves.log.err || fail "saves: the plan: $(cat saves.log.err)"
[ "$(find saves -name 'global_step*' | wc -l)" = 3 ] || fail "saves: $(ls saves)"
for end in "--exit-iteration 9" "--exit-samples 50"; do
    read -ra exit_flags <<<"$end"
    run ends.log lm-train "${args[@]}" --save ends --save-interval 8 --eval-iters 0 --skip-train-iteration-range 3-4 "${exit_flags[@]}" --dry-run
    grep -q 'checkpoints  2 of .* in ends' ends.log || fail "$end: the plan: $(cat ends.log)"
    grep -q 'skipped  *iterations 3 to 4: ' ends.log || fail "$end: skipped iterations: $(cat ends.log)"
done
run ends.log lm-train "${args[@]}" --save ends --save-interval 8 --eval-iters 0 --exit-samples 50
[ "$(find ends -name 'global_step*' | wc -l)" = 2 ] || fail "ends: $(ls ends)"

# Data of another tokenizer than the given one.
expect 2 ' data_text_document.json: .*ByteTokenizer .*256, ' \
    lm-train "${args[@]}" --tokenizer-type GPT2BPETokenizer
jq '.eod_id = null' data_text_document.json >side && mv data_text_document.json kept.json && mv side data_text_document.json
run other.log lm-train "${args[@]}" --tokenizer-type GPT2BPETokenizer --dry-run
grep -q 'warning: data_text_document.json: .*(ByteTokenizer, 257 ids) .*(50257 ids)' \
    other.log.err || fail "another tokenizer: $(cat other.log.err)"
mv kept.json data_text_document.json

# The test set is evaluated once, at the end, under its own name. With the default split it is skipped if it has no documents.
run tested.log lm-train "${args[@]}" --split 8,1,1
[ "$(grep -c 'test loss at the end of training for test data | lm loss value: ' tested.log)" = 1 ] || fail "no test: $(tail -5 tested.log)"
! grep 'test data' curriculum.log || fail "a test on an empty set"
expect 2 '--split: .*test split .*data_text_document' lm-train "${args[@]}" --split 99,1,0.0001
lm-train "${args[@]}" --split 8,1,1 --exit-iteration 19 >early.log 2>/dev/null
! grep 'test data' early.log || fail "a test before the end"
groups=(--train-weighted-split-paths "train: 1 0:0.8 data_text_document"
    --test-weighted-split-paths "one: 1 0.8:0.9 data_text_document" "two: 1 0.9:1 data_text_document")
run groups.log lm-train "${model[@]}" "${schedule[@]}" --threads 2 "${groups[@]}"
for name in one two; do
    grep -q "^ *$name loss at the end of training for test data" groups.log || fail "test group $name: $(tail groups.log)"
done
run own.log lm-train "${model[@]}" "${schedule[@]}" --threads 2 --train-data-path data_text_document --test-data-path data_text_document
grep -q 'test loss at the end' own.log || fail "--test-data-path"

# A resumed run notes its changes by the names of the flags.
ramp=(--train-iters 20 --global-batch-size 6 --rampup-batch-size 2 2 8)
stops ramp.log lm-train "${args[@]}" "${ramp[@]}" --save ramp --exit-interval 2
run same.log lm-train "${args[@]}" "${ramp[@]}" --load ramp --exit-iteration 3
[ "$(noted same.log.err)" = --exit-iteration ] || fail "a change that is none"
run changed.log lm-train "${args[@]}" "${ramp[@]}" --load ramp --exit-iteration 3 --rampup-batch-size 2 2 12 --lr 2e-3 \
    --override-opt_param-scheduler --skip-train-iteration-range 5-6 --curriculum-learning-type seqlen --curriculum-min-difficulty 8 --curriculum-total-steps 10
for text in 'rampup-batch-size: .*\[2,2,8\] .*\[2,2,12\]' \
    'lr: .*0.003 ' 'skip-train-iteration-range: .*\["5-6"\]' 'curriculum-learning-type: '; do
    grep -q "note: --$text" changed.log.err || fail "not noted: $text: $(cat changed.log.err)"
done

# A resumed run also notes changes of the loss scale and the precision.
scale=(--train-iters 20 --fp16 --initial-loss-scale 1024 --loss-scale-window 50 --eval-iters 0)
stops scale.log lm-train "${args[@]}" "${scale[@]}" --save scale --exit-interval 2
run same.log lm-train "${args[@]}" "${scale[@]}" --load scale --exit-iteration 3
[ "$(noted same.log.err)" = --exit-iteration ] || fail "a change of the scale that is none"
run changed.log lm-train "${args[@]}" "${scale[@]}" --load scale --exit-iteration 3 --loss-scale-window 60 --hysteresis 3 \
    --min-loss-scale 2 --initial-loss-scale 2048
for text in 'loss-scale-window: .*50 ' 'hysteresis: .*2 ' 'min-loss-scale: .*1 ' \
    'initial-loss-scale: ignored: .* 1024'; do
    grep -q "note: --$text" changed.log.err || fail "not noted: $text: $(cat changed.log.err)"
done
run changed.log lm-train "${args[@]}" "${scale[@]}" --load scale --exit-iteration 3 --loss-scale 512
grep -q 'note: --loss-scale: .* 512 ' changed.log.err || fail "--loss-scale: $(cat changed.log.err)"
run changed.log lm-train "${args[@]}" --train-iters 20 --eval-iters 0 --bf16 --load scale --exit-iteration 3
for text in 'fp16: .*true ' 'bf16: .*false '; do
    grep -q "note: --$text" changed.log.err || fail "not noted: $text: $(cat changed.log.err)"
done
[ "$(noted changed.log.err)" = '--fp16 --bf16 --exit-iteration' ] || fail "other notes: $(cat changed.log.err)"

# A sample is the same for any micro-batch and batch.
run samples.json lm-train "${args[@]}" --show-samples 0-59
for more in "--micro-batch-size 1" "--micro-batch-size 6" "--global-batch-size 12" "--threads 1" "--global-batch-size 6 --rampup-batch-size 2 2 20"; do
    read -ra words <<<"$more"
    run other.json lm-train "${args[@]}" "${words[@]}" --show-samples 0-59
    diff <(jq -c '[.sample, .pieces]' samples.json) <(jq -c '[.sample, .pieces]' other.json) || fail "$more: other samples"
done

# Megatron's index in a file: the first run builds it, the next run maps it, and the samples are those of a run without the file.
megatron=(--data-order megatron --exit-iteration 3)
run own.log lm-train "${args[@]}" "${megatron[@]}" --data-cache-path none
run built.log lm-train "${args[@]}" "${megatron[@]}" --data-cache-path cache
run mapped.log lm-train "${args[@]}" "${megatron[@]}" --data-cache-path cache
diff <(values own.log) <(values built.log) || fail "--data-cache-path: built: other samples"
diff <(values own.log) <(values mapped.log) || fail "--data-cache-path: mapped: other samples"
[ "$(grep -c 'note: .*sample index of data_text_document' built.log.err)" = 2 ] || fail "--data-cache-path: nothing built"
! grep 'note: .*sample index of' mapped.log.err || fail "--data-cache-path: built again"
[ "$(find cache -type f | wc -l)" = 2 ] || fail "--data-cache-path: $(ls cache)"

# Megatron evaluates once more after the last iteration, on the next samples.
evaluations() { grep -o 'validation loss at iteration [0-9]*\( on validation set\)\?' "$1" | sed 's/.*iteration //' | tr '\n' ';'; }
megatron=(--data-order megatron --eval-interval 3 --eval-iters 1)
run twice.log lm-train "${args[@]}" "${megatron[@]}" --train-iters 6
[ "$(evaluations twice.log)" = "3;6;6 on validation set;" ] || fail "evaluations: $(evaluations twice.log)"
[ "$(grep 'loss at iteration 6' twice.log | sed 's/.*value: //' | sort -u | wc -l)" = 2 ] || fail "the last two evaluations have the same samples"
run once.log lm-train "${args[@]}" "${megatron[@]}" --train-iters 5
[ "$(evaluations once.log)" = "3;5 on validation set;" ] || fail "evaluations: $(evaluations once.log)"
lm-train "${args[@]}" --eval-iters 2 --eval-global-batch-size 12 --print-config >out 2>/dev/null
[ "$(jq .validation.samples out)" = 24 ] || fail "--eval-global-batch-size: $(jq .validation out)"
expect 2 '--eval-global-batch-size: 0 ' lm-train "${args[@]}" --eval-global-batch-size 0

# Errors of data: one line that names the data, before anything is trained or written.
wrong() { expect "$@"; [ "$(grep -vc "^Try 'lm-train --help'" err)" = 1 ] || fail "more than one line: $(cat err)"; }
wrong 2 'lm-train: --split: .*train split .*data_text_document' lm-train "${args[@]}" --split 0.0001,99
wrong 2 'lm-train: --seq-length: .*valid split .*data_text_document .*[0-9]+ tokens, .*40001' \
    lm-train "${args[@]}" --seq-length 40000 --split 98,2
wrong 2 'lm-train: data_text_document.json: .*257 ids, .*100' lm-train "${args[@]}" --vocab-size 100
for part in bin idx; do cp data_text_document.$part bare.$part; done
expect 3 '^lm-train: bare.bin: document [0-9]+ .*256 .*token [0-9]+, .*200 ids' \
    lm-train "${args[@]}" --data-path bare --vocab-size 200
wrong 2 'lm-train: --train-data-path: .*--data-path' lm-train "${args[@]}" --train-data-path bare
wrong 2 'lm-train: --valid-weighted-split-paths: .*name' \
    lm-train "${model[@]}" "${schedule[@]}" --train-data-path data_text_document \
    --valid-weighted-split-paths "a: 1 0:1 data_text_document" "a: 1 0:1 data_text_document"
echo "lm-train: data and schedules as promised"
