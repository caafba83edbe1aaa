#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# prepare_pages.sh DIR: makes the files that the commands of the Markdown pages name (run_pages.py).
set -euo pipefail
cd "$1"
python3 - <<'END'
import json
def write(path, documents):
    with open(path, "w") as out:
        for document in documents:
            out.write(json.dumps(document) + "\n")
words = "the first cat sat on a mat and saw one dog run over green grass while rain fell".split()
texts = [" ".join(words[(i * 7 + k * k) % len(words)] for k in range(120)) + f" {i}." for i in range(400)]
write("corpus.jsonl", [{"text": text} for text in texts])
write("heldout.jsonl", [{"text": text} for text in texts[:3]])
write("prompts.jsonl", [{"prompt": "The cat"}, {"prompt": "A dog"}])
write("questions.jsonl", [{"context": "The cat", "choices": [" sat", " rain"], "label": 0}])
END
mkdir corpus scratch store
for i in {1..300}; do printf 'Line %d of a book.\n\n' "$i"; done >book.txt
split -n l/4 --additional-suffix=.jsonl corpus.jsonl corpus/part
for name in corpus news books; do
    lm-preprocess --input corpus.jsonl --output-prefix $name --append-eod --quiet
done
lm-train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --data-path corpus_text_document \
    --micro-batch-size 2 --global-batch-size 4 --train-iters 400 --lr 1e-3 --save checkpoints --save-interval 100 \
    --eval-iters 0 --quiet --log-file train.log
cp train.log other.log
for name in A B C; do lm-ckpt copy checkpoints $name >/dev/null; done
lm-convert checkpoints ckpts --to megatron-lm --quiet
lm-convert checkpoints megatron --to megatron-lm --tensor-model-parallel-size 2 --quiet
