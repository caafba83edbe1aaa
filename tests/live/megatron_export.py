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
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
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


def check_scheduler():
    """Megatron's scheduler loads the exported one without --override-opt_param-scheduler, and only with the flags of the run."""
    run = (live.tool("lm-train"), "--mock-data", "--num-layers", "1", "--hidden-size", "16", "--num-attention-heads", "2", "--seq-length",
           "16", "--vocab-size", "64", "--micro-batch-size", "2", "--eval-iters", "0", "--lr", "3e-3", "--quiet", "--save")
    cosine = ("--global-batch-size", "4", "--train-iters", "20", "--lr-warmup-iters", "3", "--lr-decay-style", "cosine", "--min-lr", "1e-4",
              "--lr-decay-iters", "15", "--weight-decay", "0.2")
    growing = ("--global-batch-size", "2", "--train-samples", "40", "--lr-warmup-samples", "6", "--lr-decay-style", "WSD",
               "--lr-wsd-decay-samples", "10", "--start-weight-decay", "0.01", "--end-weight-decay", "0.1",
               "--weight-decay-incr-style", "linear")
    for name, flags, wanted in (
        ("cosine", cosine, (3e-3, 1e-4, 12, 60, "cosine", 0.2, 0.2, 80, "constant")),
        ("growing", growing, (3e-3, 0.0, 6, 40, "WSD", 0.01, 0.1, 40, "linear")),
    ):
        live.run(*run, name, *flags, "--exit-iteration", "5")
        live.run(live.tool("lm-convert"), name, f"{name}-megatron", "--to", "megatron-lm", "--quiet")
        with torch.serialization.safe_globals([argparse.Namespace]):
            state = torch.load(f"{name}-megatron/iter_0000005/mp_rank_00/model_optim_rng.pt", weights_only=True)["opt_param_scheduler"]
        load(wanted, state, flags)
        if load((wanted[0] * 2, *wanted[1:]), state, flags, wrong=True):
            live.fail(f"{name}: Megatron does not notice another --lr: {state}")
        print(f"{name}: Megatron's scheduler continues at {state['num_steps']} samples")


def load(values, state, flags, wrong=False):
    max_lr, min_lr, warmup, decay, style, start_wd, end_wd, growth, growth_style = values
    optimizer = argparse.Namespace(param_groups=[{"lr": 0.0, "weight_decay": 0.0, "lr_mult": 1.0, "wd_mult": 1.0}])
    scheduler = OptimizerParamScheduler(
        optimizer, 0.0, max_lr, min_lr, warmup, decay, style, start_wd, end_wd, growth, growth_style, False, False,
        wsd_decay_steps=10 if "WSD" in flags else None, lr_wsd_decay_style="exponential" if "WSD" in flags else None)
    try:
        scheduler.load_state_dict(state)
    except AssertionError:
        if not wrong:
            raise
        return False
    return True


def main():
    made = golden()
    made.without_cuda(torch)
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel(1, 1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check_scheduler()
        os.chdir("/")
    for name in ("plain", "rope", "gpt2", "llama"):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            check(made, name)
            os.chdir("/")


if __name__ == "__main__":
    main()
