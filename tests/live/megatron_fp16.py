#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# venv: .venv-megatron
"""lm-convert on fp16 checkpoints of megatron-core, in every form that it saves: the same bits, counters and loss scale."""
import importlib.util
import json
import os
import tempfile
import warnings

import live

warnings.filterwarnings("ignore")
try:
    import torch
    from megatron.core import optimizer, parallel_state
    from megatron.core.transformer import transformer_config
except Exception as error:  # a broken installation is a reason to skip
    live.skip(f"megatron-core 0.16 is needed: {error}")


def fp16_of(make, **settings):
    """Returns `make` with fp16 in place of the bf16 of its arguments."""
    return lambda **values: make(**{**values, **settings, "bf16": False, "fp16": True, "params_dtype": torch.float16})


def golden():
    """The module that made the golden files, for one rank and fp16."""
    path = os.path.join(live.ROOT, "tests", "golden", "megatron", "make_checkpoints.py")
    spec = importlib.util.spec_from_file_location("make_checkpoints", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    made.MODELS = {name: (sizes, (1, 1, 1), None, ()) for name, (sizes, *_) in made.MODELS.items()}
    args_of = made.args_of

    def fp16_args(name):
        args = args_of(name)
        args.bf16, args.fp16 = False, True
        return args

    made.args_of = fp16_args
    optimizer.OptimizerConfig = fp16_of(optimizer.OptimizerConfig, initial_loss_scale=1024.0)
    transformer_config.TransformerConfig = fp16_of(transformer_config.TransformerConfig, pipeline_dtype=torch.float16)
    return made


def save(made):
    """Trains and saves with both optimizers. Returns the names of the checkpoints."""
    forms = {True: ("dp_reshardable", "dp_zero_gather_scatter", "fully_reshardable"), False: (None,)}
    names = []
    for distributed in (False, True):
        run = made.Run("gpt2", distributed)
        for step in range(made.STEPS):
            run.step(step)
        names.append("distributed" if distributed else "plain")
        run.save_torch(names[-1])
        for form in forms[distributed]:
            names.append(form or "torch_dist")
            run.save_dist(names[-1], form)
    return names


def main():
    made = golden()
    made.without_cuda(torch)
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel(1, 1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        names = save(made)
        for name in names:
            live.run(live.tool("lm-convert"), name, "native-" + name, "--quiet")
            live.run(live.tool("lm-ckpt"), "diff", "native-plain", "native-" + name)
            with open(f"native-{name}/global_step{made.STEPS}/manifest.json", encoding="utf-8") as file:
                manifest = json.load(file)
            state = manifest["state"].get("loss_scale")
            if state != {"scale": 1024, "steps_since_overflow": made.STEPS, "hysteresis_left": 2}:
                live.fail(f"{name}: loss scale {state}")
            if manifest["counters"]["optimizer_step"] != made.STEPS:
                live.fail(f"{name}: {manifest['counters']}")
        print(f"fp16, {len(names)} forms: all bits, counters and loss scale")
        os.chdir("/")


if __name__ == "__main__":
    main()
