#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model is trained here on real text, converted, and evaluated by transformers on held-out text: its loss is the validation
loss that lm-train reports."""
import json
import os
import re
import tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM

import live

T = 128
FLAGS = (f"--num-layers 2 --hidden-size 60 --num-attention-heads 5 --group-query-attention --num-query-groups 1 --swiglu "
         f"--normalization RMSNorm --position-embedding-type rope --disable-bias-linear --seq-length {T} "
         f"--max-position-embeddings {T} --attention-dropout 0 --hidden-dropout 0 --micro-batch-size 4 "
         "--global-batch-size 4 --train-iters 300 --lr 3e-3 --min-lr 3e-4 --lr-warmup-iters 20 --device cpu "
         "--eval-interval 300 --eval-iters 1 --log-interval 100").split()


def dataset(name, lines):
    with open(name + ".jsonl", "w", encoding="utf-8") as file:
        file.writelines(lines)
    live.run(live.tool("lm-preprocess"), "--input", name + ".jsonl", "--output-prefix", name, "--append-eod",
             "--tokenizer-type", "ByteTokenizer", "--quiet")
    return name + "_text_document"


def main():
    torch.set_num_threads(1)
    with open(live.corpus(), encoding="utf-8") as corpus:
        lines = [line for _, line in zip(range(400), corpus)]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        training = dataset("training", lines[:-20])
        held_out = dataset("held_out", lines[-20:])
        # One window of held-out text, so that every validation has the same samples.
        tokens = np.fromfile(held_out + ".bin", np.uint16)[:T + 1].astype(np.int64)
        text = bytes(tokens.astype(np.uint8)).decode("utf-8", "ignore")
        window = dataset("window", [json.dumps({"text": text[:T]}) + "\n"])
        tokens = np.fromfile(window + ".bin", np.uint16).astype(np.int64)[:T + 1]
        log = live.run(live.tool("lm-train"), *FLAGS, "--train-data-path", training, "--valid-data-path", window, "--save",
                       "saved", stderr=-2)
        found = re.findall(r"lm loss value: ([-+.0-9E]+)", log)
        if not found:
            live.fail("lm-train logged no validation: " + log[-2000:])
        ours = float(found[-1])
        live.run(live.tool("lm-convert"), "saved", "hf", "--quiet")
        model = AutoModelForCausalLM.from_pretrained("hf", torch_dtype=torch.float32).eval()
        ids = torch.from_numpy(tokens)[None]
        with torch.no_grad():
            logits = model(ids[:, :-1], use_cache=False).logits
        theirs = float(torch.nn.functional.cross_entropy(logits[0], ids[0, 1:]))
        print(f"validation loss of lm-train {ours:.6f}, of transformers {theirs:.6f}")
        if not 0.5 < theirs < 5 or abs(ours - theirs) > 1e-4:
            live.fail("the losses differ, or nothing was learned")


if __name__ == "__main__":
    main()
