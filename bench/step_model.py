#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes the model of a training step on one H100 in bench/cuda.md: milliseconds of each part and MFU, from the shapes.

    bench/step_model.py                        prints the two tables of the section "A step"
    bench/step_model.py --check bench/cuda.md  exit code 1 if the file lacks a line of them, or if a floor in one of its other
                                               tables is not the one of the bytes and FLOPs in its line
    bench/step_model.py --json                 FLOPs of a token and parameters of each shape
"""
import argparse
import json
import re
import sys

from gemm_model import SHAPES, VOCABULARY

PEAK = 989e12  # FLOP/s of dense bf16 products, H100 SXM
MEMORY = 3.35e12  # bytes/s, H100 SXM
COPY = (0.85, 0.75)  # share of MEMORY that kernels bound by it reach: good case, bad case
GEMM = (1.10, 1.30)  # time of products divided by the time that gemm_model.py gives: good case, bad case
GEMM_MS = (68.6, 203.8, 95.1)  # gemm_model.py for an H100, one micro-batch
# TFLOP/s of attention, good and bad case, for heads of 64 and of 128.
OWN_FORWARD = {64: (229, 195), 128: (346, 290)}
OWN_BACKWARD = {64: (238, 202), 128: (233, 180)}  # FlashAttention-2 computes five products
CUDNN_FORWARD = {64: (288, 288), 128: (560, 484)}
CUDNN_BACKWARD = {64: (240, 210), 128: (450, 370)}
OWN_PRODUCTS = 7 / 5  # lm-train's backward computes two products twice
BLOCKS = 396  # thread blocks of the norm's backward; each has partial sums
LAUNCH_S = 1e-6
LAUNCHES = {False: (26, 4, 15), True: (26, 4, 13)}  # key: gated; kernel launches of a layer, of a head's chunk, others
TARGETS = (40, 50, 50)
MICRO_BATCHES = 16


class Step:
    """The parts of a step of one micro-batch: FLOPs, gigabytes, and milliseconds as (good case, bad case)."""

    def __init__(self, shape, gemm_ms):
        self.shape = s = shape
        n, c, layers = s.rows, s.hidden, s.layers
        width, qkv = s.heads * s.head, (s.heads + 2 * s.groups) * s.head
        up = (2 if s.gated else 1) * s.ffn
        biases = 0 if s.gated else qkv + up + 2 * c  # the gated shape has no biases, RMSNorm, rotary positions, an untied head
        norm = c if s.gated else 2 * c
        weights = c * (qkv + width + up + s.ffn)
        self.layer_weights = layers * weights
        self.parameters = layers * (weights + biases + 2 * norm) + norm + VOCABULARY * c * (2 if s.gated else 1) \
            + (0 if s.gated else s.length * c)
        self.flops_per_token = 6 * (layers * weights + VOCABULARY * c) + 6 * layers * width * s.length
        chunks = len(s.chunks())
        self.gb = {
            "norms": (16 * n * c + 2 * BLOCKS * (4 if s.gated else 12) * c) * (2 * layers + 1),
            "activation": (16 if s.gated else 4) * n * s.ffn * layers,
            "bias gradients": 0 if s.gated else 2 * n * (qkv + up) * layers,
            "rotary, delta": 4 * n * width * layers
                             + (2 * 4 * n * (s.heads + s.groups) * s.head * layers if s.gated else 0),
            "cross-entropy": 4 * n * VOCABULARY + 8 * VOCABULARY * c * chunks,
            "embedding": ((4 + 2) if s.gated else (6 + 4)) * n * c + 8 * c * min(n, VOCABULARY)
                         + (0 if s.gated else 8 * c * s.length),
            "AdamW": 34 * self.parameters,
            "accumulation": 4 * self.layer_weights,
        }
        self.gb = {name: size / 1e9 for name, size in self.gb.items()}
        forward = 2 * s.samples * s.heads * s.length ** 2 * s.head * layers
        attention = {
            "own": self.attention_ms(forward, OWN_FORWARD, OWN_BACKWARD, OWN_PRODUCTS),
            "cuDNN": self.attention_ms(forward, CUDNN_FORWARD, CUDNN_BACKWARD, 1),
        }
        of_layer, of_chunk, others = LAUNCHES[s.gated]
        self.launches = of_layer * layers + of_chunk * chunks + others
        self.ms = {"products": tuple(factor * gemm_ms for factor in GEMM)}
        for name, (there, back) in attention.items():
            self.ms[f"forward, {name}"] = there
            self.ms[f"backward, {name}"] = back
        for name, size in self.gb.items():
            self.ms[name] = tuple(1e3 * 1e9 * size / (share * MEMORY) for share in COPY)
        self.ms["launches"] = (1e3 * LAUNCH_S * self.launches,) * 2

    def attention_ms(self, forward, forward_rates, backward_rates, factor):
        backward = 5 / 2 * forward * factor
        return (tuple(forward / rate / 1e9 for rate in forward_rates[self.shape.head]),
                tuple(backward / rate / 1e9 for rate in backward_rates[self.shape.head]))

    def total_ms(self, attention, micro_batches=1):
        """Returns the times of one of the micro-batches of a step. Later micro-batches add weights' gradients to earlier
        sums, which their products read; in the good case, this read overlaps with the product."""
        times = []
        for case in (0, 1):
            parts = [name for name in self.ms if name not in ("accumulation", "AdamW") and
                     ("ward," not in name or name.endswith(attention))]
            ms = sum(self.ms[name][case] for name in parts) + self.ms["AdamW"][case] / micro_batches
            if case == 1:
                ms += self.ms["accumulation"][case] * (micro_batches - 1) / micro_batches
            times.append(ms)
        return tuple(times)

    def mfu(self, attention, micro_batches=1):
        """Returns MFU in percent, from the bad case to the good case."""
        best_ms = 1e3 * self.flops_per_token * self.shape.rows / PEAK
        good, bad = self.total_ms(attention, micro_batches)
        return 100 * best_ms / bad, 100 * best_ms / good


def flops_per_token():
    """Returns the FLOPs of a token of each of SHAPES, forward and backward, with causal attention."""
    return [Step(shape, ms).flops_per_token for shape, ms in zip(SHAPES, GEMM_MS)]


def text(pair):
    def one(value):
        return f"{value:.1f}" if value < 20 else f"{value:.0f}"

    low, high = map(one, pair)
    return low if low == high else f"{low} to {high}"


def percents(pair):
    return f"{pair[0]:.0f} to {pair[1]:.0f} %"


def lines(steps):
    """Returns the lines of the two tables."""
    def row(name, values):
        return f"| {name} | " + " | ".join(values) + " |"

    def times(name, key):
        return row(name, [text(step.ms[key]) if step.ms[key][1] > 0 else "" for step in steps])

    names = [step.shape.name for step in steps]
    launches = [str(step.launches) for step in steps]
    return [
        row("ms", names),
        "|---" * (len(steps) + 1) + "|",
        times("products", "products"),
        times("attention forward, own", "forward, own"),
        times("attention backward, own", "backward, own"),
        times("attention forward, cuDNN", "forward, cuDNN"),
        times("attention backward, cuDNN", "backward, cuDNN"),
        times("norms", "norms"),
        times("GELU, fused (its input is written, and read backward), SwiGLU", "activation"),
        times("bias gradients", "bias gradients"),
        times("rotary, delta", "rotary, delta"),
        times("cross-entropy, and the head's sums", "cross-entropy"),
        times("embedding", "embedding"),
        times("AdamW, global norm", "AdamW"),
        times(f"between launches (about {', '.join(launches)})", "launches"),
        row("**a step of one micro-batch, own attention**", [text(step.total_ms("own")) for step in steps]),
        row("**with cuDNN's (the default)**", [text(step.total_ms("cuDNN")) for step in steps]),
        row("MFU, own attention", [percents(step.mfu("own")) for step in steps]),
        row("MFU, cuDNN's", [percents(step.mfu("cuDNN")) for step in steps]),
        row(f"MFU with {MICRO_BATCHES} micro-batches a step, own", [percents(step.mfu("own", MICRO_BATCHES)) for step in steps]),
        row(f"**MFU with {MICRO_BATCHES} micro-batches a step, cuDNN's**",
            [percents(step.mfu("cuDNN", MICRO_BATCHES)) for step in steps]),
        row("target", [f"{target} %" for target in TARGETS]),
        "",
        row("GB", names),
        "|---" * (len(steps) + 1) + "|",
    ] + [row(name, [f"{step.gb[name]:.2f}" if step.gb[name] > 0 else "" for step in steps]) for name in steps[0].gb]


def number(cell):
    found = re.fullmatch(r"([\d.]+)(?: \(([\d.]+)\))?", cell.strip())
    return None if not found else float(found[2] or found[1])


def wrong_floors(document):
    """Returns the lines of tables in which a floor differs from the time of its bytes and FLOPs. The bytes and FLOPs of a floor
    are in the columns between the previous floor and this one; FLOPs in brackets count, too."""
    wrong = []
    columns = []
    for line in document.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            columns = []
        elif not columns:
            columns = [re.sub("^(forward|backward) ", "", cell) for cell in cells]
        elif any(column.startswith("floor") for column in columns):
            seconds = 0.0
            for column, cell in zip(columns, cells):
                value = number(cell)
                if column.startswith("GFLOP") and value is not None:
                    seconds = max(seconds, value * 1e9 / PEAK)
                elif column == "MB" and value is not None:
                    seconds = max(seconds, value * 1e6 / MEMORY)
                elif column.startswith("floor") and value is not None:
                    digits = len(cell.partition(".")[2])
                    # The bytes and FLOPs in the line are rounded, too.
                    if abs(value - 1e3 * seconds) > 0.6 * 10 ** -digits + 0.005 * value:
                        wrong.append(f"floor {value} ms instead of {1e3 * seconds:.{digits + 1}f}: {line}")
                    seconds = 0.0
    return wrong


def check(path, expected):
    with open(path, encoding="utf-8") as file:
        document = file.read()
    found = document.splitlines()
    problems = [f"{path} lacks the line: {line}" for line in expected if line not in found] + wrong_floors(document)
    for problem in problems:
        print(problem)
    print(f"{path}: {len(expected)} lines of a step, {len(problems)} problems")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", metavar="FILE", help="compare with the tables in FILE")
    parser.add_argument("--json", action="store_true", help="print FLOPs of a token and parameters")
    args = parser.parse_args()
    steps = [Step(shape, ms) for shape, ms in zip(SHAPES, GEMM_MS)]
    if args.check:
        return check(args.check, lines(steps))
    if args.json:
        print(json.dumps([dict(name=step.shape.name, model_flops_per_token=step.flops_per_token, parameters=step.parameters)
                          for step in steps]))
    else:
        print("\n".join(lines(steps)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
