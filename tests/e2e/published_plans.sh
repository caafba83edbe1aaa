#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The arguments of published trainings (tests/e2e/published), unedited except for paths, give the plans of
# those trainings; every flag without a meaning here is noted.
here=$(realpath "$(dirname "$0")")
share=$here/../../share
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

# Enough documents for the smallest part of each --split; each document is longer than a sequence.
awk 'BEGIN { for (i = 0; i < 1000; i++) { printf "{\"text\": \"%d", i; for (j = 0; j < 2100; j++) printf " so"; print "\"}" } }' >corpus.jsonl
lm-preprocess --input corpus.jsonl --output-prefix corpus --append-eod --quiet
mkdir checkpoints tokenizer
# A tokenizer with as many ids as BLOOM's: GPT-2's and unused ones.
awk -v n=250680 '{ sub(/}[[:space:]]*$/, ""); vocab = vocab $0 } END {
    printf "{\"version\": \"1.0\", \"added_tokens\": [], \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false},"
    printf "\"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"merges\": [\"Ġ t\"], \"vocab\": %s", vocab
    for (id = 50257; id < n; id++) printf ", \"unused%d\": %d", id, id
    printf "}}}\n" }' "$share/tokenizers/gpt2/vocab.json" >tokenizer/tokenizer.json
echo '"train: 0.3 0:0.950 corpus_text_document, 0.7 0:0.950 corpus_text_document"' >train-splits.txt
echo '"all: 1 0.950:1.0 corpus_text_document" "first: 1 0.950:0.975 corpus_text_document"' >valid-splits.txt

# plan NAME RANKS [MORE...]: writes the plan to NAME.plan, the exit code to $code.
plan() {
    local name=$1 ranks=$2 args=()
    shift 2
    while read -r flag values; do
        [[ $flag != -* ]] && continue
        # shellcheck disable=SC2206
        args+=("$flag" $values)
    done < <(sed -e "s|@GPT2@|$share/tokenizers/gpt2|; s|@DIR@|$work|; s|@DATA@|$work/corpus_text_document|" \
        -e "s|@HERE@|$here/published|; s|@TOKENIZER@|$work/tokenizer|" "$here/published/$name.args")
    code=0
    lm-train "${args[@]}" --dry-run --world-size "$ranks" "$@" >"$name.plan" 2>err </dev/null || code=$?
    cat err >>"$name.plan"
}
planned() { # planned NAME RANKS: plans, and expects the lines of stdin in the plan
    plan "$1" "$2"
    [ $code = 0 ] || fail "$1: exit $code: $(cat "$1.plan")"
    local line
    while IFS= read -r line; do
        line=${line/CORPUS/$work/corpus_text_document}
        grep -qF -- "$line" "$1.plan" || fail "$1: no '$line' in: $(cat "$1.plan")"
    done
}
noted() { # noted NAME FLAG...: flags without a meaning here, each noted once
    local name=$1 flag
    shift
    for flag in "$@"; do
        [ "$(grep -c "^lm-train: note: $flag: ignored: " "$name.plan")" = 1 ] || fail "$name: no note of $flag: $(cat "$name.plan")"
    done
}

noted_by_all=(--data-impl --distributed-backend --deepspeed --deepspeed-activation-checkpointing)

planned tr1-13B 128 <<'END'
12853386240 parameters
50257, in memory 50432
128 = 2 tensor x 4 pipeline x 16 data; 10 layers in each stage
311541 iterations, 299999568 samples, 614399115264 tokens
16 to 1024 in 64 stages, micro-batch 1
iterations 1 to 4961: batch 16, from sample 0
iterations 4962 to 7441: batch 32, from sample 79376
iterations 23457 to 311541: batch 1024, from sample 5000528
data-parallel sizes that fit every batch: 1 2 4 8 16
1.000E-04 at the end of the warm-up: iteration 8641, 216336 samples
5.500E-05 at the middle of the decay: iteration 80668, 63585616 samples
1.000E-05 at the end of the decay: iteration 142551, 126953808 samples
train: CORPUS documents [0, 949)
validation: CORPUS documents [949, 999)
test: CORPUS documents [999, 1000)
5120 samples of each set every 1000 iterations
5120 samples of each set at the end
208 of 168 GiB each
tr1-13B.json: these keys have no effect here and are ignored: steps_per_print, wall_clock_breakdown
END
noted tr1-13B "${noted_by_all[@]}"

planned tr8-104B 512 <<'END'
103958515600 parameters
50257, in memory 50688
512 = 4 tensor x 32 pipeline x 4 data; 2 layers in each stage
159576 iterations, 299999456 samples
iterations 2954 to 4430: batch 32, from sample 47248
iterations 16023 to 159576: batch 2048, from sample 6000864
6.000E-06 at the end of the decay: iteration 75081, 126953696 samples
532 of 1.32 TiB each
END
noted tr8-104B "${noted_by_all[@]}"

planned tr8b-104B-cl 128 <<'END'
128 = 4 tensor x 32 pipeline x 1 data; 2 layers in each stage
89033 iterations, 182339584 samples, 300000477184 tokens
2048 samples, 2048 micro-batches of 1
fixed_linear: sequences of 64 tokens at first, 2048 from iteration 36000 on, after 77559758848 tokens
6.000E-05 at the end of the warm-up: iteration 1832, 3751936 samples
6.000E-06 at the end of the decay: iteration 79497, 162809856 samples
tr8b-104B-cl.json: these keys have no effect here and are ignored: elastic_checkpoint, steps_per_print, wall_clock_breakdown
END
noted tr8b-104B-cl "${noted_by_all[@]}"

planned tr11-176B-ml 384 <<'END'
176244404224 parameters
250680, in memory 250880
384 = 4 tensor x 12 pipeline x 8 data; 5 to 6 layers in a stage
115311 iterations, 219999152 samples, 450558263296 tokens
192 to 2048 in 117 stages, micro-batch 2
iterations 1 to 439: batch 192, from sample 0
iterations 12659 to 115311: batch 2048, from sample 9765808
data-parallel sizes that fit every batch: 1 2 4 8
6.000E-05 at the end of the warm-up: iteration 910, 183312 samples
6.000E-06 at the end of the decay: iteration 105546, 200000432 samples
train: corpus_text_document documents [0, 950)
all: corpus_text_document documents [950, 1000)
first: corpus_text_document documents [950, 975)
2048 samples of each set every 1000 iterations
1154 of 2.24 TiB each
END
noted tr11-176B-ml "${noted_by_all[@]}" --sync-tp-duplicated-parameters --abort-on-unmet-fused-kernel-constraints \
    --num-workers --valid-num-workers

planned aws-7.5B 16 <<'END'
7463923712 parameters
50257, in memory 50688
16 = 4 tensor x 2 pipeline x 2 data; 18 layers in each stage
508626 iterations, 146484288 samples
288 samples, 144 micro-batches of 1 on each replica
11520 samples of each set every 1000 iterations
END

# Every setting that does not fit is reported at once, with values that would.
refused() { # refused NAME RANKS MORE...: expects a line of the plan for each pattern of stdin
    plan "$@"
    [ $code = 2 ] || fail "$*: exit $code: $(cat "$1.plan")"
    local line
    while IFS= read -r line; do
        grep -qE -- "$line" "$1.plan" || fail "$*: no '$line' in: $(cat "$1.plan")"
    done
}
refused tr1-13B 256 <<'END'
--rampup-batch-size: 32 of its 64 batch sizes \(16, 48, .* 240, ..., .*iteration 1 .*iteration 23456\) .* 32: .* 16 data-parallel ranks \(128
END
refused tr1-13B 390 --micro-batch-size 3 --tensor-model-parallel-size 33 --save "$work/corpus.jsonl" --eval-interval 0 <<'END'
tr1-13B.json: train_micro_batch_size_per_gpu: .*1, .*--micro-batch-size .*3
--tensor-model-parallel-size: 33 .*--num-attention-heads 32: .*32
--world-size: 390 .* 33 tensor x 4 pipeline ranks = 132: .*264 or 396
--eval-interval: .*1, got 0
--save: 
END
refused tr11-176B-ml 384 --micro-batch-size 4 --pipeline-model-parallel-size 73 --lr 1e-6 <<'END'
--pipeline-model-parallel-size: 73 .*--num-layers 70: .*72
--world-size: 384 .* 4 tensor x 73 pipeline ranks = 292: .*292 or 584
--lr: 1e-06 .*--min-lr 6e-06
END
expect 2 '--world-size: .*--dry-run' lm-train --mock-data --world-size 4 --num-layers 1 --hidden-size 8 \
    --num-attention-heads 1 --seq-length 8 --micro-batch-size 1 --train-iters 1 --lr 1
[ -z "$(find checkpoints tensorboard codecarbon -type f 2>/dev/null)" ] || fail "a plan wrote something"
echo "published plans: as they were"
