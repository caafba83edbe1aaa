#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/continue.md: continued pretraining as a job array, with the learning rates that the page states. The same command starts from
# the weights of another run once, and resumes afterwards.
# timeout: 300
here=$(realpath "$(dirname "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"

make_corpus corpus.jsonl 100
make_corpus books.jsonl 80
for name in corpus books; do
    lm-preprocess --input $name.jsonl --output-prefix $name --tokenizer-type ByteTokenizer --append-eod --quiet
done
args=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 --global-batch-size 4
    --position-embedding-type rope --threads 1 --eval-iters 0 --log-interval 1 --data-path corpus_text_document --lr 1e-3)
# page TEXT...: docs/continue.md has these texts, each in one line.
page() {
    local text
    for text in "$@"; do grep -qF -- "$text" "$here/../../docs/continue.md" || fail "not in docs/continue.md: $text"; done
}
# rates LOG ITERATION...: the learning rates that the log has for these iterations.
rates() {
    local log=$1 i
    shift
    for i in "$@"; do sed -nE "s/^ iteration +$i\/.*learning rate: ([^ ]+).*/\1/p" "$log"; done | xargs
}
lines() { sed -nE 's/^ iteration +([0-9]+)\/.*learning rate: ([^ ]+).*lm loss: ([^ ]+).*/\1 \2 \3/p' "$@"; }

base=(--train-iters 200 --lr-warmup-iters 20 --lr-decay-style WSD --lr-wsd-decay-iters 40 --lr-wsd-decay-style linear --min-lr 1e-4)
run base.log lm-train "${args[@]}" "${base[@]}" --save base --save-interval 80
got=$(rates base.log 1 10 20 160 180 200)
echo "base: $got"
page "| base | ${got// / | } |"

# New data with another warm-up: one command, repeated.
new=(--train-iters 100 --lr 5e-4 --min-lr 5e-5 --lr-warmup-iters 20 --lr-decay-style cosine
    --data-path 0.8 books_text_document 0.2 corpus_text_document)
run whole.log lm-train "${args[@]}" "${new[@]}" --finetune --load base --save whole
got=$(rates whole.log 1 10 20 60 100)
echo "new: $got"
page "| new data | ${got// / | } |"
for flags in "--finetune --load base --save F" "--pretrained-checkpoint base --load F --save F" "--pretrained-checkpoint base --save F" \
    "--finetune --no-load-optim --load base/global_step200 --save F" "--finetune --pretrained-checkpoint base --load F --save F" \
    "--finetune --pretrained-checkpoint nowhere --load base --save F"; do
    rm -rf F
    read -ra words <<<"$flags"
    : >parts.log
    for part in 1 2 3; do
        code=0
        lm-train "${args[@]}" "${new[@]}" "${words[@]}" --exit-interval 40 >>parts.log 2>err || code=$?
        [ $code = $((part < 3 ? 75 : 0)) ] || fail "$flags: start $part: exit $code: $(cat err)"
        from=$(sed -nE 's/.*note: ([^ ]*global_step[0-9]+): (weights|resuming).*/\1 \2/p' err)
        [ "$from" = "$([ $part = 1 ] && echo "base/global_step200 weights" || echo "F/global_step$((40 * (part - 1))) resuming")" ] ||
            fail "$flags: start $part: from $from"
    done
    diff <(lines whole.log) <(lines parts.log) || fail "$flags: three starts differ from one"
    expect 0 'finished already' lm-train "${args[@]}" "${new[@]}" "${words[@]}"
done
# It also resumes when the other run has gone, or has new steps, or the directory has moved; and a plan states it.
cp -r base kept
run more.log lm-ckpt latest base 160
expect 0 'F/global_step100: |finished' lm-train "${args[@]}" "${new[@]}" --finetune --load base --save F
mv base gone
expect 0 'finished' lm-train "${args[@]}" "${new[@]}" --finetune --load base --save F
expect 0 'finished' lm-train "${args[@]}" "${new[@]}" --finetune --load gone --save F
rm -rf gone
mv kept base
expect 0 '' lm-train "${args[@]}" "${new[@]}" --finetune --load base --save F --dry-run
# The directory of a run that started from other weights is not touched, and a later task does not start again when it has moved.
run other.log lm-train "${args[@]}" "${new[@]}" --save other --exit-iteration 2
expect 2 '^lm-train: other: --save: .*base' lm-train "${args[@]}" "${new[@]}" --finetune --load base --save other
expect 2 '^lm-train: base: --save: ' lm-train "${args[@]}" "${new[@]}" --finetune --load base --save base
expect 2 '^lm-train: moved: --save: .*task 3' env SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_MIN=1 \
    lm-train "${args[@]}" "${new[@]}" --finetune --load base --save moved
expect 2 '^lm-train: nowhere: ' lm-train "${args[@]}" "${new[@]}" --pretrained-checkpoint nowhere --load new --save new
expect 2 '^lm-train: --lr: ' lm-train "${args[@]}" "${new[@]}" --finetune --load base --save F --lr 6e-4

# Annealing: a copy of a step, with its optimizer state, on other data.
run copy.log lm-ckpt copy base/global_step160 anneal
anneal=(--load anneal --save anneal --train-iters 200 --lr-warmup-iters 20 --lr-decay-style WSD --lr-decay-iters 200
    --lr-wsd-decay-iters 40 --lr-wsd-decay-style minus_sqrt --min-lr 0 --data-path books_text_document
    --override-opt_param-scheduler --override-data)
code=0
lm-train "${args[@]}" "${anneal[@]}" --exit-interval 20 >anneal.log 2>err || code=$?
[ $code = 75 ] || fail "annealing: exit $code: $(cat err)"
lm-train "${args[@]}" "${anneal[@]}" >>anneal.log 2>err || fail "annealing again: $(cat err)"
got=$(rates anneal.log 161 170 180 190 200)
echo "annealing: $got"
page "| annealing | ${got// / | } |"

# A longer context: rotary positions with a larger base.
long=(--seq-length 64 --rotary-base 500000 --train-iters 40 --lr 2e-4 --lr-warmup-iters 10 --lr-decay-style constant)
for part in 1 2; do
    code=0
    lm-train "${args[@]}" "${long[@]}" --finetune --load base --save long --exit-interval 20 >long$part.log 2>err || code=$?
    [ $code = $((part == 1 ? 75 : 0)) ] || fail "longer context: exit $code: $(cat err)"
done
got="$(rates long1.log 1 5 10) $(rates long2.log 21 40)"
echo "longer context: $got"
page "| longer context | ${got// / | } |"
# A table of learned positions has a fixed length.
run table.log lm-train "${args[@]}" --position-embedding-type absolute --train-iters 2 --save table
expect 2 '^lm-train: --(seq-length|max-position-embeddings): .*32' lm-train "${args[@]}" --position-embedding-type absolute \
    --seq-length 64 --train-iters 2 --finetune --load table --save table.long
# Without --finetune, the frequencies of a run do not change.
expect 2 '^lm-train: --rotary-base: ' lm-train "${args[@]}" "${base[@]}" --rotary-base 500000 --load base
echo "a continued pretraining is one command, repeated"
