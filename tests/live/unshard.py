#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The safetensors library reads the output of lm-ckpt unshard: every tensor has the shape, type and bytes of the checkpoint."""
import glob
import json
import os
import tempfile

import live

try:
    from safetensors import deserialize
except Exception as error:  # a broken installation is a reason to skip
    live.skip(f"safetensors cannot be imported: {error}")

MODEL = ["--num-layers", "2", "--hidden-size", "32", "--num-attention-heads", "4", "--seq-length", "16", "--vocab-size", "301",
         "--mock-data", "--micro-batch-size", "2", "--global-batch-size", "2", "--train-iters", "2", "--lr", "1e-3", "--bf16",
         "--eval-iters", "0", "--save", "c", "--save-interval", "2", "--threads", "1"]


def tensors(*paths):
    """Returns {name: (type, shape, bytes)}."""
    found = {}
    for path in paths:
        for name, tensor in deserialize(open(path, "rb").read()):
            if name in found:
                live.fail(f"{name} is in two files")
            found[name] = (tensor["dtype"], list(tensor["shape"]), bytes(tensor["data"]))
    return found


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        live.run(live.tool("lm-train"), *MODEL, stderr=open("train.log", "w"))
        ckpt = live.tool("lm-ckpt")
        shapes = {tensor["name"]: tensor["shape"]
                  for tensor in json.loads(live.run(ckpt, "show", "c", "--tensors", "--json"))["tensors"]}
        live.run(ckpt, "unshard", "c", "m.safetensors")
        live.run(ckpt, "unshard", "c", "fp32.safetensors", "--dtype", "fp32", "--max-shard-size", "30KB")
        weights = tensors("c/global_step2/weights-00000.safetensors")
        optimizer = tensors("c/global_step2/optim-00000.safetensors")
        whole = tensors("m.safetensors")
        shards = sorted(glob.glob("fp32-*-of-*.safetensors"))
        cut = tensors(*shards)
        index = json.load(open("fp32.safetensors.index.json"))["weight_map"]
        if len(shards) < 3 or sorted(set(index.values())) != shards or set(index) != set(shapes):
            live.fail(f"{shards}, and the index has {sorted(set(index.values()))}")
        if set(whole) != set(shapes) or set(cut) != set(shapes):
            live.fail(f"{sorted(set(shapes) ^ set(whole))} {sorted(set(shapes) ^ set(cut))}")
        for name, shape in shapes.items():
            if whole[name] != ("BF16", shape, weights[name][2]):
                live.fail(f"{name}: not the weight of the checkpoint")
            if cut[name] != ("F32", shape, optimizer[name + ".master"][2]):
                live.fail(f"{name}: not the master of the checkpoint")
        print(f"{len(shapes)} tensors, in one file and in {len(shards)}")


main()
