#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A trained model exported as hf-qwen3 has lm-train's logits in transformers' Qwen3ForCausalLM (4.51 or later), and is imported
again with every bit."""
# venv: .venv-megatron
import os
import tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM

import live

ROWS, T = 3, 16
FLAGS = ("--num-layers 2 --seq-length 16 --hidden-size 36 --num-attention-heads 6 --group-query-attention --num-query-groups 2 "
         "--kv-channels 8 --position-embedding-type rope --swiglu --normalization RMSNorm --disable-bias-linear --qk-layernorm "
         "--untie-embeddings-and-output-weights --rotary-base 5000 --vocab-size 101 --mock-data --init-method-std 0.1 "
         "--attention-dropout 0 --hidden-dropout 0 --micro-batch-size 2 --global-batch-size 4 --train-iters 6 --lr 1e-2 "
         "--eval-iters 0 --device cpu --threads 1 --save native").split()


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        live.run(live.tool("lm-train"), *FLAGS)
        live.run(live.tool("lm-convert"), "native", "hf", "--quiet")
        tokens = np.random.default_rng(1).integers(0, 101, (ROWS, T), dtype=np.int32)
        with open("tokens", "wb") as file:
            tokens.tofile(file)
        with open("tokens", "rb") as file:
            raw = live.subprocess.run([live.tool("test_logits"), "native"], stdin=file, stdout=-1, check=True).stdout
        ours = np.frombuffer(raw, np.float32).reshape(ROWS, T, -1)
        model, info = AutoModelForCausalLM.from_pretrained("hf", dtype=torch.float32, output_loading_info=True,
                                                           attn_implementation="eager")
        if type(model).__name__ != "Qwen3ForCausalLM" or any(info.values()):
            live.fail(f"loaded as {type(model).__name__}: {info}")
        with torch.no_grad():
            theirs = model.eval()(torch.from_numpy(tokens).long(), use_cache=False).logits.numpy()
        difference, spread = float(np.abs(ours - theirs).max()), float(theirs.std())
        print(f"hf-qwen3: largest difference of logits {difference:.1e}, their standard deviation {spread:.2f}")
        if not difference < 1e-5 * spread:
            live.fail("the logits differ")
        live.run(live.tool("lm-convert"), "hf", "again", "--quiet")
        live.run(live.tool("lm-ckpt"), "diff", "native", "again", "--weights-only")
        os.chdir("/")


if __name__ == "__main__":
    main()
