#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The loss scale moves as megatron-core's DynamicGradScaler, over random series of overflows."""
import importlib.util
import random
import subprocess
import sys
import sysconfig

import live

try:
    import torch
except ImportError as error:
    live.skip(str(error))


def megatron_scaler():
    """The class from its file: the package around it wants a GPU."""
    path = f"{sysconfig.get_paths()['purelib']}/megatron/core/optimizer/grad_scaler.py"
    spec = importlib.util.spec_from_file_location("grad_scaler", path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except FileNotFoundError as error:
        live.skip(str(error))
    tensor = torch.tensor
    module.torch.tensor = lambda *args, **named: tensor(*args, **{k: v for k, v in named.items() if k != "device"})
    return module.DynamicGradScaler


def main():
    scaler_class = megatron_scaler()
    rng = random.Random(1)
    cases = [(2.0**32, 1.0, 1000, 2, "xxx")]
    for _ in range(300):
        rate = rng.random() * 0.6
        steps = "".join("x" if rng.random() < rate else "." for _ in range(400))
        cases.append((2.0 ** rng.randint(4, 32), 2.0 ** rng.randint(0, 4), rng.randint(1, 12), rng.randint(1, 4), steps))
    text = "".join(" ".join(map(str, case)) + "\n" for case in cases)
    ours = subprocess.run([live.tool("test_loss_scaler")], input=text, stdout=subprocess.PIPE, text=True, check=True)
    lines = ours.stdout.splitlines()
    if len(lines) != len(cases):
        live.fail(f"{len(lines)} answers to {len(cases)} cases")
    for (initial, least, window, hysteresis, steps), line in zip(cases, lines):
        scaler = scaler_class(initial, least, 2.0, 0.5, window, hysteresis)
        for i, (step, scale) in enumerate(zip(steps, line.split(), strict=True)):
            scaler.update(step == "x")
            if scaler.scale.isinf():  # and stays so: Megatron's is fp32, ours fp64
                break
            if float(scale) != scaler.scale.item():
                live.fail(f"step {i} of {steps[:i + 1]}, window {window}, hysteresis {hysteresis}: {scale}, "
                          f"Megatron has {scaler.scale.item()}")
    print(f"{len(cases)} series, {sum(len(case[4]) for case in cases)} steps: equal")


if __name__ == "__main__":
    main()
    sys.exit(0)
