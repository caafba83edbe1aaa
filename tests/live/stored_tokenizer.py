#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""transformers' AutoTokenizer loads the tokenizer that a step holds and the export writes, and encodes as lm-preprocess does."""
import json
import os
import shutil
import subprocess
import tempfile

import transformers

import live

TRAIN = ("--num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --micro-batch-size 2 --global-batch-size 2 "
         "--train-iters 1 --lr 1e-3 --device cpu --eval-iters 0").split()


def main():
    folder = tempfile.mkdtemp()
    try:
        texts, prefix = os.path.join(folder, "some.jsonl"), os.path.join(folder, "some")
        with open(live.corpus(), encoding="utf-8") as corpus, open(texts, "w", encoding="utf-8") as some:
            lines = [line for _, line in zip(range(200), corpus)]
            some.writelines(lines)
        tokenizer = os.path.join(folder, "tokenizer")
        live.run(live.tool("lm-preprocess"), "train-tokenizer", "--input", texts, "--vocab-size", "600", "--output", tokenizer, "-q")
        whole = ["--tokenizer-model", os.path.join(tokenizer, "tokenizer.json")]
        parts = ["--vocab-file", os.path.join(tokenizer, "vocab.json"), "--merge-file", os.path.join(tokenizer, "merges.txt")]
        for name, flags in (("whole", whole), ("alone", whole), ("parts", parts)):
            if name == "alone":  # without tokenizer_config.json, which the export then writes
                os.remove(os.path.join(tokenizer, "tokenizer_config.json"))
            saved, hf = os.path.join(folder, name), os.path.join(folder, name + "-hf")
            live.run(live.tool("lm-preprocess"), "--input", texts, "--output-prefix", prefix + name, "--append-eod", "-q", *flags)
            live.run(live.tool("lm-train"), *TRAIN, "--data-path", f"{prefix}{name}_text_document", "--save", saved)
            live.run(live.tool("lm-convert"), saved, hf, "-q")
            theirs = transformers.AutoTokenizer.from_pretrained(hf)
            with open(os.path.join(hf, "config.json"), encoding="utf-8") as file:
                end = json.load(file)["eos_token_id"]
            if theirs.eos_token_id != end:
                live.fail(f"{name}: end of document {theirs.eos_token_id} instead of {end}")
            for line in lines[:50]:
                text = json.loads(line)["text"][:300].replace("\n", " ")
                ours = subprocess.run([live.tool("lm-preprocess"), "encode", *flags], input=text + "\n", text=True, check=True,
                                      stdout=subprocess.PIPE)
                ids = [int(number) for number in ours.stdout.split()]
                if theirs(text)["input_ids"] != ids:
                    live.fail(f"{name}: {text!r}: {theirs(text)['input_ids']} instead of {ids}")
            print(f"{name}: {type(theirs).__name__}, 50 texts have the same ids")
    finally:
        shutil.rmtree(folder)


main()
