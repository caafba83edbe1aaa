#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of lm-train, written by torch in Megatron's layouts for every combination of 1, 2 and 4 tensor ranks, 1, 2 and
4 stages, and 1, 2 and 12 data-parallel ranks, and imported again: weights, masters and moments keep every bit."""
import os
import subprocess
import tempfile

import torch

import live
import megatron_checkpoints as checkpoints

SIZES, REPLICAS = (1, 2, 4), (1, 2, 12)


def check(model, name):
    imported = name + "-native"
    live.run(live.tool("lm-convert"), name, imported, "--quiet", "--force", "--vocab-size", str(checkpoints.VOCABULARY),
             stderr=subprocess.DEVNULL)
    live.run(live.tool("lm-ckpt"), "diff", model.name, imported)
    subprocess.run(["rm", "-r", name, imported], check=True)


def check_model(model):
    checkpoints.train(model, model.name, checkpoints.STEP)
    native = checkpoints.Native(model, model.name)
    n = 0
    for tp in SIZES:
        for pp in SIZES:
            checkpoints.write_megatron_lm(native, "lm", tp, pp, None, 3.0)
            check(model, "lm")
            n += 1
            for dp in REPLICAS if "master" in native.kinds else ():
                checkpoints.write_deepspeed(native, "ds", tp, pp, dp, model is not checkpoints.HALF)
                check(model, "ds")
                n += 1
    print(f"{model.name}: {n} layouts: all bits")


def main():
    torch.set_num_threads(1)
    corpus = live.corpus()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        checkpoints.preprocess_some(corpus)
        for model in (checkpoints.GPT2, checkpoints.LLAMA, checkpoints.BLOOM, checkpoints.HALF):
            check_model(model)


if __name__ == "__main__":
    main()
