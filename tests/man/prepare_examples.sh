#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# prepare_examples.sh DIR TOKENIZER: makes the small data of the EXAMPLES of the man pages; TOKENIZER is the
# directory of GPT-2's tables.
set -euo pipefail
tokenizer=$2
cd "$1"
python3 - <<'END'
import json
with open("corpus.jsonl", "w") as out:
    for i in range(400):
        text = f"Document {i}: " + " ".join(f"word{(i * 7 + k * k) % 97}" for k in range(60))
        out.write(json.dumps({"text": text, "title": f"Number {i}"}) + "\n")
with open("megatron.log", "w") as out:
    for i in range(10, 101, 10):
        out.write(f" iteration {i:8d}/    1000 | consumed samples: {i * 64:12d} | elapsed time per iteration (ms): 512.5 | "
                  f"learning rate: 1.000E-04 | global batch size:    64 | lm loss: {9 - i / 100:.6E} | loss scale: 1.0 | "
                  "grad norm: 1.000 | number of skipped iterations:   0 | number of nan iterations:   0 |\n")
END
gzip -k corpus.jsonl
cp "$tokenizer/vocab.json" "$tokenizer/merges.txt" .
command -v lm-train >/dev/null || exit 0
lm-preprocess --input corpus.jsonl --output-prefix corpus --append-eod --quiet
lm-train --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --data-path corpus_text_document \
    --micro-batch-size 2 --global-batch-size 4 --train-iters 20 --lr 1e-3 --save checkpoints --save-interval 10 \
    --log-interval 10 --eval-iters 1 >train.log 2>&1 || {
    cat train.log
    exit 1
}
