#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --dataloader-inter-document-masking: positions and attention restart at the documents of the index. With end-of-document tokens it
# trains as --reset-position-ids and --reset-attention-mask do; without them it does what those cannot.
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"

awk 'BEGIN { srand(3); for (i = 0; i < 300; i++) {
    text = ""; n = 1 + int(40 * rand()); for (j = 0; j < n; j++) text = text sprintf("%c", 97 + int(26 * rand()))
    printf "{\"text\": \"%s\"}\n", text } }' >corpus.jsonl
lm-preprocess --input corpus.jsonl --output-prefix eod --tokenizer-type ByteTokenizer --append-eod --quiet
lm-preprocess --input corpus.jsonl --output-prefix plain --tokenizer-type ByteTokenizer --quiet
args=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 48 --micro-batch-size 2 --global-batch-size 4 --train-iters 12
    --lr 1e-2 --threads 1 --log-interval 1 --eval-iters 2 --eval-interval 6 --attention-dropout 0 --hidden-dropout 0)
mask=--dataloader-inter-document-masking
losses() { sed -nE 's/.*lm loss: ([^ ]+) .*grad norm: ([^ ]+) .*/\1 \2/p; s/.*validation loss.*lm loss value: ([^ ]+).*/valid \1/p' "$1"; }
# train LOG FLAGS...
train() { run "$@"; losses "$1" >"$1.loss"; }
for order in stateless megatron; do
    for positions in absolute rope alibi; do
        same=(lm-train "${args[@]}" --data-path eod_text_document --data-order "$order" --position-embedding-type "$positions")
        train by_index "${same[@]}" $mask
        train by_token "${same[@]}" --reset-position-ids --reset-attention-mask
        train neither "${same[@]}"
        [ "$(wc -l <by_index.loss)" -ge 12 ] || fail "no losses: $(cat by_index.loss)"
        cmp by_index.loss by_token.loss || fail "$order, $positions: borders of index and of tokens differ"
        ! cmp -s by_index.loss neither.loss || fail "$order, $positions: the mask has no effect"
    done
done
# Without end-of-document tokens, only the index has the borders. Megatron's flags for the token need one.
train plain lm-train "${args[@]}" --data-path plain_text_document $mask
train open lm-train "${args[@]}" --data-path plain_text_document
! cmp -s plain.loss open.loss || fail "data without end-of-document tokens: the mask has no effect"
expect 0 'note: --reset-attention-mask: ' lm-train "${args[@]}" --data-path eod_text_document $mask --reset-attention-mask --dry-run
lm-train "${args[@]}" --data-path eod_text_document $mask --print-config | jq -e '.schedule.dataloader_inter_document_masking' >config ||
    fail "not in the configuration: $(cat config)"
# A resumed run computes the same.
run half.log lm-train "${args[@]}" --data-path plain_text_document $mask --save ck --exit-iteration 6
train rest lm-train "${args[@]}" --data-path plain_text_document $mask --load ck
diff <(grep -v valid plain.loss | tail -n 6) <(grep -v valid rest.loss) || fail "the resumed run has other losses"
echo "documents of the index bound attention"
