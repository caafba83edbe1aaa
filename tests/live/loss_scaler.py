#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lm-train's loss scale equals that of megatron-core's DynamicGradScaler after each step of random series of overflows."""
import os
import random
import subprocess
import sys

import live

sys.path.insert(0, os.path.join(live.ROOT, "tests", "golden", "text"))
try:
    from make_loss_scales import megatron_scaler
except ImportError as error:
    live.skip(str(error))


def main():
    try:
        scaler_class = megatron_scaler()
    except FileNotFoundError as error:
        live.skip(str(error))
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
            if scaler.scale.isinf():  # and stays infinite: Megatron's scale is fp32, lm-train's fp64
                break
            if float(scale) != scaler.scale.item():
                live.fail(f"step {i} of {steps[:i + 1]}, window {window}, hysteresis {hysteresis}: {scale}, "
                          f"Megatron has {scaler.scale.item()}")
    print(f"{len(cases)} series, {sum(len(case[4]) for case in cases)} steps: equal")


if __name__ == "__main__":
    main()
    sys.exit(0)
