#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lm-ckpt repair on Megatron-DeepSpeed checkpoints in which replicated tensors drifted apart between tensor ranks: in
weights, masters and both moments. The repaired tensors have the mean or the values of rank 0; all others keep their bits."""
import json
import os
import subprocess
import tempfile

import torch

import live
import megatron_checkpoints as megatron

DRIFT = 0.25
DRIFTED = "layers.2.attention.norm.weight"


class Drifted(megatron.Native):
    """The last tensor rank has another copy of one norm, in every kind."""

    def layer(self, kind, number, tp, rank, version=3):
        out = super().layer(kind, number, tp, rank, version)
        if number == 2 and rank == tp - 1:
            out["input_layernorm.weight"] = out["input_layernorm.weight"] + DRIFT
        return out


def differences(a, b):
    text = subprocess.run([live.tool("lm-ckpt"), "diff", a, b, "--json"], capture_output=True, text=True, check=False).stdout
    lines = [json.loads(line) for line in text.splitlines()]
    return {(line["tensor"], line["kind"]): line["max"] for line in lines if line.get("different")}


def check(model, tp, dp):
    name = f"drift-{tp}-{dp}"
    native = Drifted(model, model.name)
    megatron.write_deepspeed(native, name, tp, 1, dp, True)
    for source in ("mean", "rank0"):
        out = f"{name}-{source}"
        text = subprocess.run([live.tool("lm-ckpt"), "repair", name, out, "--from", source, "--json", "--quiet"],
                              capture_output=True, text=True, check=True).stdout
        repaired = json.loads(text)["repaired"]
        assert {(item["tensor"], item["kind"]) for item in repaired} == {(DRIFTED, kind) for kind in native.kinds}, text
        assert all(abs(item["max"] - DRIFT) < 0.01 for item in repaired), text
        live.run(live.tool("lm-ckpt"), "verify", out, "--quiet")
        found = differences(model.name, out)
        if source == "rank0":
            assert not found, found
        else:
            assert set(found) == {(DRIFTED, kind) for kind in native.kinds}, found
            assert all(abs(value - DRIFT / tp) < 0.01 for value in found.values()), found
    print(f"tensor ranks {tp}, data-parallel ranks {dp}: four kinds repaired, all other tensors bitwise")


def main():
    torch.set_num_threads(1)
    corpus = live.corpus()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        megatron.preprocess_some(corpus)
        megatron.train(megatron.HALF, megatron.HALF.name, megatron.STEP)
        for tp, dp in ((2, 1), (4, 3)):
            check(megatron.HALF, tp, dp)
        code = subprocess.run([live.tool("lm-ckpt"), "repair", megatron.HALF.name, "x"], capture_output=True, text=True, check=False)
        assert code.returncode == 2 and "stores each replicated tensor once" in code.stderr, code.stderr


if __name__ == "__main__":
    main()
