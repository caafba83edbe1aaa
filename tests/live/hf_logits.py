#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model is trained here, converted, and loaded by transformers: its logits on real text are the same. Converted back, it has
the same bits.

Our logits come from tests/tools/logits.cpp.
"""
import glob
import os
import subprocess
import tempfile

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import live

T, SEQUENCES = 64, 4
TRAIN = ("--num-layers 3 --hidden-size 96 --num-attention-heads 6 --ffn-hidden-size 200 --attention-dropout 0 "
         "--hidden-dropout 0 --micro-batch-size 4 --global-batch-size 4 --train-iters 20 --lr 1e-2 --device cpu "
         f"--seq-length {T} --max-position-embeddings {T}").split()


def train(folder):
    texts = os.path.join(folder, "some.jsonl")
    with open(live.corpus(), encoding="utf-8") as corpus, open(texts, "w", encoding="utf-8") as some:
        some.writelines(line for _, line in zip(range(200), corpus))
    prefix, saved = os.path.join(folder, "some"), os.path.join(folder, "saved")
    live.run(live.tool("lm-preprocess"), "--input", texts, "--output-prefix", prefix, "--append-eod")
    live.run(live.tool("lm-train"), *TRAIN, "--data-path", prefix + "_text_document", "--save", saved)
    tokens = np.fromfile(prefix + "_text_document.bin", np.uint16)[:SEQUENCES * T].astype(np.int32)
    return saved, tokens.reshape(SEQUENCES, T)


def our_logits(saved, tokens):
    tool = live.tool("test_logits")
    done = subprocess.run([tool, saved], input=tokens.tobytes(), stdout=subprocess.PIPE)
    if done.returncode:
        live.fail(f"{tool}: exit {done.returncode}")
    return np.frombuffer(done.stdout, np.float32).reshape(SEQUENCES, T, -1)


def weights(checkpoint):
    files = glob.glob(os.path.join(checkpoint, "global_step*", "weights-*.safetensors"))
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        saved, tokens = train(folder)
        converted, back = os.path.join(folder, "hf"), os.path.join(folder, "back")
        live.run(live.tool("lm-convert"), saved, converted, "--to", "hf-gpt2")

        model = AutoModelForCausalLM.from_pretrained(converted, torch_dtype=torch.float32).eval()
        with torch.no_grad():
            theirs = model(torch.from_numpy(tokens).long()).logits.numpy()
        ours = our_logits(saved, tokens)
        if ours.shape != theirs.shape:
            live.fail(f"logits of lm-utils are {ours.shape}, of transformers {theirs.shape}")
        difference = float(np.abs(ours - theirs).max())
        spread = float(theirs.std())
        print(f"logits {theirs.shape}, standard deviation {spread:.3f}: largest difference {difference:.2e}")
        if spread < 0.1 or difference > 1e-4:
            live.fail("the logits differ, or have no spread")

        text = AutoTokenizer.from_pretrained(converted).decode(tokens[0])
        if AutoTokenizer.from_pretrained(converted).encode(text) != tokens[0].tolist():
            live.fail("the converted tokenizer gives different ids")

        live.run(live.tool("lm-convert"), converted, back, "--to", "native")
        before, after = weights(saved), weights(back)
        if not before or set(before) != set(after):
            live.fail(f"converted back: different tensors: {sorted(set(before) ^ set(after))}")
        for name, tensor in before.items():
            if tensor.tobytes() != after[name].tobytes():
                live.fail(f"converted back: {name} has different bits")
        print(f"converted back: {len(before)} tensors have the bits they had")


if __name__ == "__main__":
    main()
