#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_loss_scales.py [DIR]: writes loss-scales.jsonl, the scales of megatron-core's DynamicGradScaler for series of overflows.

One object a line: `initial`, `min`, `window`, `hysteresis`, `steps` ("x" an overflow, "." a good step), and `scales`, the
scale after each step.
"""
import importlib.util
import json
import os
import random
import sys
import sysconfig

import torch


def megatron_scaler():
    """Returns the class, loaded from its file, because the package that contains it needs a GPU."""
    path = f"{sysconfig.get_paths()['purelib']}/megatron/core/optimizer/grad_scaler.py"
    spec = importlib.util.spec_from_file_location("grad_scaler", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tensor = torch.tensor
    module.torch.tensor = lambda *args, **named: tensor(*args, **{k: v for k, v in named.items() if k != "device"})
    return module.DynamicGradScaler


def scales(scaler_class, initial, least, window, hysteresis, steps):
    """Returns the scale after each step."""
    scaler = scaler_class(initial, least, 2.0, 0.5, window, hysteresis)
    after = []
    for step in steps:
        scaler.update(step == "x")
        after.append(scaler.scale.item())
    return after


def cases():
    yield 2.0**32, 1.0, 1000, 2, "xxx"
    yield 1024.0, 1.0, 3, 2, "x..x...xx....x.x"
    yield 4.0, 2.0, 2, 1, "xxx..x"
    rng = random.Random(6)
    for _ in range(40):
        rate = rng.random() * 0.6
        steps = "".join("x" if rng.random() < rate else "." for _ in range(60))
        yield 2.0 ** rng.randint(4, 32), 2.0 ** rng.randint(0, 4), rng.randint(1, 12), rng.randint(1, 4), steps


def main():
    out_dir = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    scaler_class = megatron_scaler()
    with open(os.path.join(out_dir, "loss-scales.jsonl"), "w") as out:
        for initial, least, window, hysteresis, steps in cases():
            json.dump({"initial": initial, "min": least, "window": window, "hysteresis": hysteresis, "steps": steps,
                       "scales": scales(scaler_class, initial, least, window, hysteresis, steps)}, out)
            out.write("\n")


if __name__ == "__main__":
    main()
