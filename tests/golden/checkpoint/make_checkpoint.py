#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes run/ and tensors.safetensors: a checkpoint of the frozen format, and its tensors as this script reads them.

    make_checkpoint.py BUILD         BUILD: the build directory; needs mpirun, numpy and safetensors

The reader below follows docs/checkpoint-format.md alone. Later releases must read run/ as it is. Run this script again only
for a new format version, and for a new directory.
"""
import json
import os
import shutil
import subprocess
import sys

import numpy
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = ["--num-layers", "2", "--hidden-size", "12", "--num-attention-heads", "2", "--seq-length", "8",
         "--vocab-size", "50", "--make-vocab-size-divisible-by", "1", "--mock-data", "--micro-batch-size", "1",
         "--global-batch-size", "4", "--train-iters", "6", "--lr", "1e-3",
         "--threads", "1", "--eval-iters", "0", "--bf16"]
LAYOUT = ["--tensor-model-parallel-size", "2", "--use-distributed-optimizer"]


def train(build, *flags):
    """Trains on eight ranks on two hosts: two tensor ranks, four shards of the optimizer state."""
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
    for host in ("a", "b"):
        command += ["-n", "4", "-x", f"LM_HOST={host}", "lm-train", *MODEL, *LAYOUT, *flags, ":"]
    environment = {**os.environ, "PATH": os.path.join(build, "bin") + ":" + os.environ["PATH"]}
    subprocess.run(command[:-1], cwd=HERE, env=environment, check=False, stdout=subprocess.DEVNULL)


def values(dtype, data):
    """Returns the elements of a slice as fp32."""
    if dtype == "bf16":
        return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return numpy.frombuffer(data, {"fp32": "<f4", "fp16": "<f2"}[dtype]).astype("<f4")


def read_step(path):
    """Returns the tensors of a step in fp32: TENSOR.KIND -> array."""
    with open(os.path.join(path, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    result = {}
    for part in manifest["index"]:
        with open(os.path.join(path, part["file"]), encoding="utf-8") as file:
            index = json.load(file)
        for data_file in index["files"]:
            with open(os.path.join(path, data_file["name"]), "rb") as file:
                data = file.read()
            for group in data_file["groups"]:
                size = {"fp32": 4, "bf16": 2, "fp16": 2}[group["dtype"]]
                for number, offset, box, flat, _ in group["slices"]:
                    tensor = manifest["tensors"][number]
                    name = f"{tensor['name']}.{group['kind']}"
                    whole = result.setdefault(name, numpy.full(tensor["shape"], numpy.nan, "<f4"))
                    rank = len(box) // 2
                    place = tuple(slice(begin, end) for begin, end in zip(box[:rank], box[rank:]))
                    part_of_box = numpy.ascontiguousarray(whole[place]).reshape(-1)
                    begin, end = flat or (0, part_of_box.size)
                    part_of_box[begin:end] = values(group["dtype"], data[offset:offset + (end - begin) * size])
                    whole[place] = part_of_box.reshape(whole[place].shape)
    return result


def main():
    build = os.path.abspath(sys.argv[1])
    run = os.path.join(HERE, "run")
    shutil.rmtree(run, ignore_errors=True)
    train(build, "--save", "run", "--save-interval", "2", "--exit-interval", "2")
    train(build, "--save", "run", "--load", "run", "--exit-interval", "2")
    shutil.rmtree(os.path.join(run, "global_step2"))
    tensors = read_step(os.path.join(run, "global_step4"))
    assert not any(numpy.isnan(tensor).any() for tensor in tensors.values())
    save_file(tensors, os.path.join(HERE, "tensors.safetensors"))


if __name__ == "__main__":
    main()
