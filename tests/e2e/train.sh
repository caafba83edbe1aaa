#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-train: a stopped and resumed run is bitwise equal to an uninterrupted one,
# any number of threads gives the same bits, every way to stop has its exit code, and every
# error gives one clear line and leaves no partial file.
# timeout: 600
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

make_corpus corpus.jsonl 300
lm-preprocess --input corpus.jsonl --output-prefix data --tokenizer-type ByteTokenizer --append-eod --quiet
model=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 48)
schedule=(--micro-batch-size 2 --global-batch-size 6 --train-iters 40 --lr 3e-3 --min-lr 1e-4
    --lr-decay-style cosine --lr-warmup-iters 5 --eval-interval 10 --eval-iters 2 --log-interval 1)
args=("${model[@]}" "${schedule[@]}" --data-path data_text_document --threads 2)

# The fields of a log line except times.
values() { grep -E '^ (iteration|validation)' "$1" | sed -E 's/elapsed time per iteration[^|]*\|//; s/samples per second.*//'; }
# Compares the tensors of two checkpoints byte by byte.
same_tensors() {
    for kind in weights optim; do
        cmp "$1/$kind-00000.safetensors" "$2/$kind-00000.safetensors" || fail "$1 and $2 differ"
    done
}

# A run of 40 iterations, and a run that stops after 20 iterations and is resumed for 20 more.
run whole.log lm-train "${args[@]}" --save whole
code=0
lm-train "${args[@]}" --save parts --exit-interval 20 >first.log 2>first.log.err || code=$?
[ $code = 75 ] || fail "--exit-interval: exit $code"
run second.log lm-train "${args[@]}" --save parts --load parts
diff <(values whole.log) <(cat <(values first.log) <(values second.log)) || fail "the resumed run is another one"
same_tensors whole/global_step40 parts/global_step40
[ "$(head -n1 parts/latest)" = global_step40 ] || fail "latest is $(head -n1 parts/latest)"
grep -q "lm loss" whole.log || fail "no loss in the log"
first=$(sed -nE 's/.*iteration +1\/.*lm loss: ([^ ]+).*/\1/p' whole.log)
last=$(sed -nE 's/.*iteration +40\/.*lm loss: ([^ ]+).*/\1/p' whole.log)
awk -v a="$first" -v b="$last" 'BEGIN { exit !(b < 0.6 * a) }' || fail "nothing learned: $first to $last"

# Any number of threads.
for threads in 1 3; do
    lm-train "${args[@]}" --threads $threads --save t$threads >t$threads.log 2>/dev/null
    diff <(values whole.log) <(values t$threads.log) || fail "--threads $threads changes the losses"
    same_tensors whole/global_step40 t$threads/global_step40
done
# A run that resumes with another micro-batch size has the same samples, so its losses agree up to rounding.
run micro.log lm-train "${args[@]}" --micro-batch-size 3 --load parts/global_step20
paste <(sed -nE 's/.*lm loss: ([^ ]+).*/\1/p' second.log) <(sed -nE 's/.*lm loss: ([^ ]+).*/\1/p' micro.log) |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-4 * $1) exit 1 }' || fail "another micro-batch, other samples"

# A finished training; ways to stop.
expect 0 'note: .*finished' lm-train "${args[@]}" --load whole
expect 0 '' lm-train "${args[@]}" --exit-iteration 7 --save stop
[ "$(head -n1 stop/latest)" = global_step7 ] || fail "--exit-iteration"
expect 0 '' lm-train "${args[@]}" --exit-samples 60 --save stop --load stop
[ "$(head -n1 stop/latest)" = global_step10 ] || fail "--exit-samples"
expect 0 '' lm-train "${args[@]}" --exit-iteration 7 --save stop --load stop
[ "$(head -n1 stop/latest)" = global_step10 ] || fail "--exit-iteration, which was reached before"
touch kill; expect 76 '' lm-train "${args[@]}" --kill-switch-path kill --save killed
[ ! -e killed/latest ] || fail "--kill-switch-path: saved without an iteration"
rm kill
lm-train "${args[@]}" --train-iters 1_000_000 --kill-switch-path kill --save killed >killed.log 2>killed.err & pid=$!
until grep -qs 'iteration *3/' killed.log; do sleep 0.05; done
touch kill; code=0; wait $pid || code=$?
[ $code = 76 ] || fail "kill switch: exit $code: $(cat killed.err)"
[ -e killed/latest ] || fail "kill switch: nothing saved"
expect 75 '' lm-train "${args[@]}" --exit-duration-in-mins 0 --save duration
lm-train "${args[@]}" --train-iters 1_000_000 --save signal >signal.log 2>signal.err & pid=$!
until grep -qs 'iteration *3/' signal.log; do sleep 0.05; done
kill -USR2 $pid
until grep -q 'SIGUSR2: after iteration' signal.err; do
    kill -0 $pid || fail "SIGUSR2 ended the run"
    sleep 0.05
done
kill -USR1 $pid; code=0; wait $pid || code=$?
[ $code = 75 ] || fail "SIGUSR1: exit $code: $(cat signal.err)"
grep -q 'SIGUSR1: .*iteration .*: .*--load signal ' signal.err || fail "SIGUSR1: not said"
# A storm of signals: no signal frame overwrites the heap, where generated code sometimes keeps the stack
# pointer.
lm-train --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --micro-batch-size 2 \
    --global-batch-size 8 --lr 2e-3 --threads 1 --mock-data --vocab-size 50257 --train-iters 20 \
    --eval-iters 0 --device cpu >storm.log 2>storm.err & pid=$!
until grep -qs 'checkpoints ' storm.err; do
    kill -0 $pid || fail "the storm: $(cat storm.err)"
    sleep 0.05
done
while kill -USR2 $pid 2>/dev/null; do sleep 0.002; done
code=0; wait $pid || code=$?
[ $code = 0 ] || fail "a storm of SIGUSR2: exit $code: $(tail -1 storm.err)"
expect 75 "$resumed" lm-train "${args[@]}" --save signal --load signal --train-iters 1_000_000 --exit-interval 1
grep -q -- '--exit-interval 1: .*iteration .*: [^-]*$' err || fail "$(cat err)"
# --quiet prints no plan; the log file has the plan.
expect 75 '' lm-train "${args[@]}" --save signal --load signal --train-iters 1_000_000 --exit-interval 1 --quiet --log-file quiet.log
[ ! -s err ] || fail "--quiet: $(cat err)"
grep -q ' batch  *[0-9]* samples' quiet.log || fail "--quiet: no plan in --log-file: $(cat quiet.log)"
lm-train "${args[@]}" --save sched --save-schedule 2@4,3@9,20 >/dev/null 2>&1
[ "$(find sched -name 'global_step*' | sort -V | tr '\n' ' ')" = "sched/global_step2 sched/global_step4 sched/global_step6 sched/global_step9 sched/global_step20 sched/global_step40 " ] ||
    fail "--save-schedule: $(ls sched)"

# Dropout is on above (Megatron's default); without it the losses differ.
run off.log lm-train "${args[@]}" --attention-dropout 0 --hidden-dropout 0 --exit-iteration 2
! diff -q <(values off.log) <(values whole.log | head -2) >/dev/null || fail "dropout changes nothing"

# Blends and named validation sets. A resumed run has the same bits here too.
lm-preprocess --input corpus.jsonl --output-prefix other --tokenizer-type ByteTokenizer --append-eod --quiet
for data in "--data-order megatron --data-path 0.3 data_text_document 0.7 other_text_document" \
    "--data-order stateless --train-data-path 0.3 data_text_document 0.7 other_text_document --valid-data-path other_text_document"; do
    read -ra more <<<"$data"
    rm -rf blend
    args2=("${model[@]}" "${schedule[@]}" --threads 2 "${more[@]}" --train-iters 12)
    run blend.log lm-train "${args2[@]}" --save blend
    code=0
    lm-train "${args2[@]}" --save blend2 --exit-interval 5 >blend1.log 2>/dev/null || code=$?
    [ $code = 75 ] || fail "$data: exit $code"
    run blend2.log lm-train "${args2[@]}" --load blend2
    diff <(values blend.log) <(cat <(values blend1.log) <(values blend2.log)) || fail "$data: resumed otherwise"
    rm -rf blend2
done
printf '"first: 1.0 0:0.1 data_text_document" "second: 1.0 0.2:0.4 other_text_document"\n' >groups.txt
lm-train "${model[@]}" "${schedule[@]}" --threads 2 --train-weighted-split-paths "train: 0.5 0:0.9 data_text_document, 0.5 0:0.8 other_text_document" \
    --valid-weighted-split-paths-path groups.txt --exit-iteration 10 >groups.log 2>groups.err
grep -q '^ *first loss at iteration 10' groups.log || fail "no set of its own name: $(cat groups.log)"
grep -q '^ *second loss at iteration 10' groups.log || fail "no second set"

# Files in place of the words of --data-path and of --train-data-path and its siblings.
printf '0.3 data_text_document\n0.7 other_text_document\n' >blend.txt
printf '{"train": ["0.3", "data_text_document", "0.7", "other_text_document"], "valid": "other_text_document", "test": null}' >splits.json
short=("${model[@]}" "${schedule[@]}" --threads 2 --exit-iteration 10)
run words.log lm-train "${short[@]}" --data-path 0.3 data_text_document 0.7 other_text_document --split 80,20,0
run file.log lm-train "${short[@]}" --data-args-path blend.txt --split 80,20,0
diff <(values words.log) <(values file.log) || fail "--data-args-path"
run words.log lm-train "${short[@]}" --train-data-path 0.3 data_text_document 0.7 other_text_document \
    --valid-data-path other_text_document
run file.log lm-train "${short[@]}" --per-split-data-args-path splits.json
diff <(values words.log) <(values file.log) || fail "--per-split-data-args-path"
expect 2 '--data-args-path: .*--data-path' lm-train "${short[@]}" --data-args-path blend.txt --data-path data_text_document
expect 2 '--per-split-data-args-path: .*--train-data-path' lm-train "${short[@]}" \
    --per-split-data-args-path splits.json --valid-data-path data_text_document
printf '{"train": 5}' >splits.json
expect 3 ' splits.json: ' lm-train "${short[@]}" --per-split-data-args-path splits.json

# Skipped batches, in one run or across a stop: the same samples, the same end.
skip=(--skip-train-iteration-range 3-5 8-8 --exit-iteration 10)
run skip.log lm-train "${args[@]}" "${skip[@]}" --save skip
[ "$(grep -c 'number of skipped iterations:   1' skip.log)" = 4 ] || fail "skipped: $(cat skip.log)"
grep -q 'skipped iterations 3 to 5' skip.log.err || fail "skipped: not said: $(cat skip.log.err)"
grep -Eq ' iteration +10/.* consumed samples: *60 ' skip.log || fail "skipped batches do not count"
code=0; lm-train "${args[@]}" "${skip[@]}" --save skip2 --exit-interval 4 >skip1.log 2>/dev/null || code=$?
[ $code = 75 ] || fail "skip: exit $code"
run skip2.log lm-train "${args[@]}" "${skip[@]}" --load skip2
diff <(values skip.log) <(cat <(values skip1.log) <(values skip2.log)) || fail "skipping differs after a resume"

# --show-samples prints samples as text, with the flags of the run.
run samples.json lm-train "${args[@]}" --show-samples 4-9
[ "$(wc -l <samples.json)" = 6 ] || fail "--show-samples: $(cat samples.json)"
grep -q '"sample":6,"iteration":2,"pieces":\[{"data":"data_text_document","document":[0-9]*,"offset":[0-9]*,"tokens":[0-9]*,"text":"' samples.json ||
    fail "--show-samples: $(cat samples.json)"
wrong_range() { expect 2 '--show-samples: ' lm-train "${args[@]}" --show-samples "$1"; }
wrong_range 9-4; wrong_range 239-240; wrong_range x

# The plan of --dry-run.
run plan.txt lm-train "${model[@]}" --data-path data_text_document --micro-batch-size 1 \
    --global-batch-size 64 --rampup-batch-size 16 16 1000 --train-samples 10000 --lr 3e-3 --lr-warmup-samples 300 --dry-run
for line in 'ramp  *iterations 1 to 21: batch 16, from sample 0' 'data-parallel sizes that fit every batch: 1 2 4 8 16$' 'at the end of the warm-up: iteration 19, 304 samples'; do
    grep -q -- "$line" plan.txt || fail "--dry-run: no '$line' in: $(cat plan.txt)"
done

# Logs.
run long.log lm-train "${args[@]}" --log-interval 10
code=0
lm-train "${args[@]}" --log-interval 10 --exit-interval 25 --save long >long1.log 2>long1.log.err || code=$?
[ $code = 75 ] || fail "--exit-interval 25: exit $code"
run long2.log lm-train "${args[@]}" --log-interval 10 --save long --load long
diff <(values long.log) <(cat <(values long1.log) <(values long2.log)) || fail "a line over the stop says otherwise"
lm-train "${args[@]}" --exit-iteration 3 --log-file log.txt --log-json log.json >out 2>/dev/null
stamp='^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z '
diff out <(sed -E "s/$stamp//; /^(lm-train:| >) /d" log.txt) || fail "--log-file: $(cat log.txt)"
[ "$(grep -Evc "$stamp" log.txt)" = 0 ] || fail "--log-file: a line without time: $(cat log.txt)"
grep -Eq "${stamp}lm-train: note: --exit-iteration" log.txt || fail "--log-file: no stop: $(cat log.txt)"
[ "$(grep -c '"kind":"step"' log.json)" = 3 ] || fail "--log-json: $(cat log.json)"

# Usage errors.
one_line() { [ "$(grep -vc "^Try 'lm-train --help'" err)" = 1 ] || fail "more than one line: $(cat err)"; }
wrong() { expect "$@"; one_line; }
wrong 2 'lm-train: --num-attention-heads: 5 ' lm-train "${args[@]}" --num-attention-heads 5
wrong 2 'lm-train: nowhere: .*nowhere.idx' lm-train "${args[@]}" --data-path nowhere
wrong 2 'lm-train: --seq-length: ' lm-train "${args[@]}" --seq-length 1000000 --split 100
wrong 2 'lm-train: --lr: ' lm-train "${model[@]}" --micro-batch-size 1 --train-iters 3 --data-path data_text_document
wrong 2 'lm-train: --micro-batch-size: .*missing' lm-train "${model[@]}" --train-iters 3 --lr 1e-3 --data-path data_text_document
# A plan lists all errors, and no consequences of them.
named() { # named FLAGS COMMAND...: expects exit 2, and errors of exactly these flags
    local flags=$1
    shift
    expect 2 '' "$@"
    [ "$(sed -nE 's/^lm-train: (warning: )?(--[a-z-]+): .*/\2/p' err | tr '\n' ' ')" = "$flags " ] || fail "$*: $(cat err)"
}
plan=(--mock-data --train-iters 3 --lr 1e-4 --dry-run)
named --micro-batch-size lm-train --model gpt2-124m "${plan[@]}"
named '--micro-batch-size --num-layers' lm-train "${plan[@]}"
named --num-attention-heads lm-train --model gpt2-124m --hidden-size 500 --micro-batch-size 2 "${plan[@]}"
# A value that does not parse hides only the problems that may follow from it.
named '--hidden-size --global-batch-size' lm-train --model gpt2-124m --hidden-size x --micro-batch-size 2 --global-batch-size 3 "${plan[@]}"
named '--lr-decay-style --lr' lm-train --model gpt2-124m --lr-decay-style x --micro-batch-size 2 --min-lr 1 "${plan[@]}"
named '--num-query-groups --lr' lm-train --model gpt2-124m --num-query-groups 3 --micro-batch-size 2 --mock-data --train-iters 3 --dry-run
wrong 2 'lm-train: missing: --load: ' lm-train "${args[@]}" --load missing
wrong 2 'lm-train: .*--hidden-size' lm-train "${args[@]}" --hidden-size 64 --load whole
# Nothing follows from a dataset that cannot be read, such as another vocabulary than that of the checkpoint.
wrong 2 'lm-train: nothere: no such dataset' lm-train "${args[@]}" --load whole --data-path nothere
wrong 2 'lm-train: --hiden-size: ' lm-train "${args[@]}" --hiden-size 64
wrong 2 '--bf16' lm-train "${args[@]}" --bf16 --fp16
wrong 2 '--tensor-model-parallel-size' lm-train "${args[@]}" --tensor-model-parallel-size 2
wrong 2 '--global-batch-size|batch' lm-train "${args[@]}" --global-batch-size 7
wrong 2 '--save-schedule' lm-train "${args[@]}" --save-schedule 5@10
cp data_text_document.bin short.bin; cp data_text_document.idx short.idx; truncate -s -10 short.bin
wrong 3 'lm-train: short.bin: ' lm-train "${args[@]}" --data-path short --vocab-size 300
cp data_text_document.bin cut.bin; head -c 100 data_text_document.idx >cut.idx
wrong 3 'lm-train: cut.idx: ' lm-train "${args[@]}" --data-path cut --vocab-size 300
wrong 2 'vocab' lm-train "${args[@]}" --vocab-size 100

# A loss that is not finite is noticed in its step, in fp32 too.
expect 4 'lm-train: iteration [0-9]+: loss ' lm-train "${args[@]}" --lr 1e38 --clip-grad 0 --lr-warmup-iters 0

# A directory of another run, or of another program, is not treated as an empty one.
wrong 2 'lm-train: whole: --save: ' lm-train "${args[@]}" --save whole
mkdir foreign; echo '{}' >foreign/config.json
wrong 2 'lm-train: foreign: --load: ' lm-train "${args[@]}" --load foreign
mkdir empty
wrong 2 'lm-train: empty: ' lm-train "${args[@]}" --load empty --finetune
wrong 2 'lm-train: missing: no such directory' lm-train "${args[@]}" --load missing --finetune
expect 0 'note: empty: .*iteration 0' lm-train "${args[@]}" --load empty --exit-iteration 1
wrong 2 '--save-switch-path: .*--save' lm-train "${args[@]}" --save-switch-path switch
expect 2 '^lm-train: .*corpus.jsonl' lm-train "${args[@]}" --save corpus.jsonl --dry-run
expect 2 '^lm-train: --log-file: .*nodir' lm-train "${args[@]}" --log-file nodir/log --dry-run
wrong 2 '--hidden-size' lm-train "${args[@]}" --hidden-size 1_000_000_000
code=0
lm-train "${args[@]}" --save full --exit-iteration 4 >/dev/full 2>err || code=$?
[ -f full/global_step4/manifest.json ] || fail "a full standard output ends the training: $(cat err)"
expect 0 'warning: /dev/full: ' timeout -s KILL 60 \
    lm-train "${args[@]}" --save full_log --exit-iteration 4 --log-file /dev/full

# A corrupt checkpoint: the newest complete one is loaded, with a warning.
lm-train "${args[@]}" --save damaged --save-interval 10 --exit-iteration 20 >/dev/null 2>&1
printf x | dd of=damaged/global_step20/manifest.json bs=1 seek=100 conv=notrunc 2>/dev/null
run again.log lm-train "${args[@]}" --load damaged
grep -q "$resumed 10" again.log.err || fail "no fall-back: $(cat again.log.err)"
diff <(values whole.log | sed -n '/iteration *11\//,$p') <(values again.log) || fail "another run after the fall-back"

# A full disk: one clear line, nothing under the final name, and the older checkpoint stays.
if [ "$(id -u)" = 0 ] && mkdir disk && mount -t tmpfs -o size=300k tmpfs disk 2>/dev/null; then
    code=0
    lm-train "${args[@]}" --save disk --save-retry 0 >/dev/null 2>err || code=$?
    ls disk >listing; umount disk
    [ $code = 3 ] || fail "full disk: exit $code: $(cat err)"
    grep -q ' disk/global_step40: NOT SAVED: disk: ' err || fail "full disk: $(cat err)"
    ! grep -q '^global_step40$' listing || fail "full disk: something under the final name"
else
    echo "skipped: a full disk: no tmpfs can be mounted"
fi
echo "lm-train: all as promised"
