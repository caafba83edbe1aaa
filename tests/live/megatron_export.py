#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# venv: .venv-megatron
"""lm-convert --to megatron-lm: megatron-core loads the export of a training that it began (tests/golden/megatron) with its own
load_state_dict of model and optimizer, and in fp32 its next losses are those of that training. The names in the export
are checked against megatron-core's own parameters, optimizer state and orders."""
import argparse
import importlib.util
import json
import os
import sys
import tarfile
import tempfile
import warnings

import live

warnings.filterwarnings("ignore")
try:
    import torch
    from megatron.core import parallel_state
except Exception as error:  # a broken installation is a reason to skip
    live.skip(f"megatron-core 0.16 is needed: {error}")

GOLDEN = os.path.join(live.ROOT, "tests", "golden", "megatron")


def golden():
    """The module that made the golden files, for one rank."""
    spec = importlib.util.spec_from_file_location("make_checkpoints", GOLDEN + "/make_checkpoints.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    made.MODELS = {name: (sizes, (1, 1, 1), None, ()) for name, (sizes, *_) in made.MODELS.items()}
    return made


def check(made, name):
    with tarfile.open(f"{GOLDEN}/{name}.tar.xz") as archive:
        archive.extractall()
    convert = live.tool("lm-convert")
    live.run(convert, f"{name}-torch", name, "--vocab-size", str(made.PADDED), "--quiet")
    live.run(convert, name, "exported", "--to", "megatron-lm", "--transformer-impl", "local", "--make-vocab-size-divisible-by",
             str(made.PADDED), "--quiet")
    with torch.serialization.safe_globals([argparse.Namespace]):
        saved = torch.load(f"exported/iter_{made.STEPS:07d}/mp_rank_00/model_optim_rng.pt", weights_only=True)
    run = made.Run(name, False)
    run.models[0].module.load_state_dict(saved["model"], strict=True)
    run.optimizer.load_state_dict(saved["optimizer"])
    for group in run.optimizer.param_groups:  # as Megatron's scheduler sets them; the export does not contain these flags
        group.update(lr=0.01, betas=(0.9, 0.95), weight_decay=0.1 * group["wd_mult"])
    if saved["iteration"] != made.STEPS or saved["args"].padded_vocab_size != made.PADDED:
        live.fail(f"{name}: {saved['args']}")
    for step in range(made.STEPS, made.STEPS + 3):
        run.step(step)
    if not os.path.exists(f"{name}-next.json"):  # in bf16 the sums of another number of ranks round in another way
        if not all(0 < loss < 10 for loss in run.losses):
            live.fail(f"{name}: {run.losses}")
        print(f"{name}: megatron-core loads masters and moments")
        return
    with open(f"{name}-next.json", encoding="ascii") as file:
        wanted = json.load(file)["losses"]
    difference = max(abs(a - b) for a, b in zip(run.losses, wanted, strict=True))
    print(f"{name}: the next losses of megatron-core differ by up to {difference:.1e}")
    if difference > 1e-5:
        live.fail(f"{name}: {run.losses}, expected {wanted}")


def main():
    made = golden()
    made.without_cuda(torch)
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel(1, 1)
    for name in ("plain", "rope", "gpt2", "llama"):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            check(made, name)
            os.chdir("/")


if __name__ == "__main__":
    main()
