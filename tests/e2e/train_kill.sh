#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 at random moments, saves included: a run that is restarted until it is done ends with
# the bits of an uninterrupted run, without manual repair.
# timeout: 600
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

make_corpus corpus.jsonl 200
lm-preprocess --input corpus.jsonl --output-prefix data --tokenizer-type ByteTokenizer --append-eod --quiet
args=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --micro-batch-size 4 --train-iters 60
    --lr 1e-3 --data-path data_text_document --split 100 --eval-iters 0 --save-interval 2 --threads 2 --log-interval 10)
run whole.log lm-train "${args[@]}" --save whole

RANDOM=${LM_KILL_SEED:-4711}
kills=0
longest=500 # milliseconds until a kill; 10 % more after a run without a save, since a busy machine may need longer to start
saved=
mkdir run
while true; do
    rm -f run/starts-without-step.json
    lm-train "${args[@]}" --save run --load run >log 2>err &
    pid=$!
    sleep "$(awk -v r="$RANDOM" -v ms=$longest 'BEGIN { printf "%.3f", 0.05 + ms / 1000 * r / 32768 }')"
    if kill -9 $pid 2>/dev/null; then kills=$((kills + 1)); fi
    latest=$(head -n1 run/latest 2>/dev/null || true)
    [ "$latest" != "$saved" ] || longest=$((longest * 11 / 10))
    saved=$latest
    code=0
    wait $pid 2>/dev/null || code=$?
    [ $code = 0 ] && break
    [ $code = 137 ] || fail "after $kills kills: exit $code: $(cat err)"
    [ $kills -lt 200 ] || fail "no progress in 200 kills"
done
for kind in weights optim; do
    cmp "whole/global_step60/$kind-00000.safetensors" "run/global_step60/$kind-00000.safetensors" ||
        fail "$kind: other bits after $kills kills"
done
[ -z "$(find run -name '*.tmp*')" ] || fail "left behind: $(find run -name '*.tmp*')"
lm-ckpt verify run >verified || fail "lm-ckpt verify: $(cat verified)"
echo "$kills kills, the same bits"
