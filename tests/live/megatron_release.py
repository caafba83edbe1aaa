#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files without arguments, as torch writes them in the layouts of Megatron-LM's releases of 2019 to 2021: imported with the flags
of the model, they have the logits of transformers' GPT-2 with the same weights. Exported again, transformers loads them."""
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM

import live

sys.path.insert(0, os.path.join(live.ROOT, "tests", "golden", "megatron"))
import make_release  # noqa: E402

LAYERS, HIDDEN, HEADS, T, VOCABULARY, ROWS = 4, 48, 6, 24, 101, 2


def main():
    torch.set_num_threads(1)
    model = make_release.gpt2(LAYERS, HIDDEN, HEADS, T, VOCABULARY)
    tokens = np.random.RandomState(3).randint(0, VOCABULARY, (ROWS, T)).astype(np.int32)
    with torch.no_grad():
        theirs = model(torch.from_numpy(tokens).long()).logits.numpy()
    flags = (f"--num-layers {LAYERS} --hidden-size {HIDDEN} --num-attention-heads {HEADS} --max-position-embeddings {T} "
             f"--vocab-size {VOCABULARY} --quiet").split()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for version in (None, 0, 1.0, 2.0):
            for tp, pp, old in ((1, 1, True), (1, 1, False), (2, 1, False), (1, 2, True), (3, 4, False)):
                name = f"version {version}, {tp} ranks, {pp} stages, {'old' if old else 'zip'} files"
                make_release.save(model, name, version, tp, pp, old)
                live.run(live.tool("lm-convert"), name, name + " saved", *flags)
                done = subprocess.run([live.tool("test_logits"), name + " saved"], input=tokens.tobytes(), stdout=subprocess.PIPE,
                                      check=True)
                ours = np.frombuffer(done.stdout, np.float32).reshape(theirs.shape)
                difference = float(np.abs(ours - theirs).max())
                print(f"{name}: largest difference {difference:.2e} of logits with standard deviation {theirs.std():.3f}")
                if theirs.std() < 0.1 or not difference <= 1e-4:
                    live.fail(f"{name}: the logits differ, or have no spread")
        live.run(live.tool("lm-convert"), name + " saved", "hf", "--dtype", "fp32", "--quiet")
        with torch.no_grad():
            again = AutoModelForCausalLM.from_pretrained("hf").eval()(torch.from_numpy(tokens).long()).logits.numpy()
        if not np.array_equal(again, theirs):
            live.fail("exported again: other logits")


if __name__ == "__main__":
    main()
