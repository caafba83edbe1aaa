#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Estimates the times of a training step's matrix products on GPUs that this machine need not have, by NVIDIA's analytic
model (the Python package nvidia-matmul-heuristics, CPU only). The model ignores the power limit, and takes CUTLASS's kernels.

    pip install nvidia-matmul-heuristics
    bench/gemm_model.py            the sums of the three shapes of bench/cuda.md, on an H100 and an H200
    bench/gemm_model.py --all      each product too
"""
import argparse
import sys
from dataclasses import dataclass

VOCABULARY = 50304  # 50257 rounded up to 128
LOGITS_BYTES = 1 << 30  # largest chunk of the head's logits (cost::cuda_logits_bytes)
CHUNK_UNIT = 64  # rows (cost::head_chunk_unit)


@dataclass
class Shape:
    """A model and its micro-batch."""

    name: str
    layers: int
    hidden: int
    heads: int
    groups: int
    head: int
    ffn: int
    gated: bool
    samples: int
    length: int

    @property
    def rows(self):
        return self.samples * self.length

    def chunks(self):
        """The rows of each chunk of the head, as cost::head_chunk_rows() divides them."""
        most = max(1, LOGITS_BYTES // (2 * VOCABULARY) // CHUNK_UNIT) * CHUNK_UNIT
        n = -(-self.rows // most)
        each = min(self.rows, -(-self.rows // n // CHUNK_UNIT) * CHUNK_UNIT)
        return [min(each, self.rows - begin) for begin in range(0, self.rows, each)]

    def products(self):
        """Returns [(name, calls in a step, rows, outputs, inputs)] of the forward pass."""
        attention = self.heads * self.head
        qkv = attention + 2 * self.groups * self.head
        up = (2 if self.gated else 1) * self.ffn
        chunks = self.chunks()
        return [
            ("qkv", self.layers, self.rows, qkv, self.hidden),
            ("output", self.layers, self.rows, self.hidden, attention),
            ("up", self.layers, self.rows, up, self.hidden),
            ("down", self.layers, self.rows, self.hidden, self.ffn),
        ] + [("head", chunks.count(rows), rows, VOCABULARY, self.hidden) for rows in sorted(set(chunks), reverse=True)]


SHAPES = [
    Shape("GPT-2 124M, B=64, T=1024", 12, 768, 12, 12, 64, 3072, False, 64, 1024),
    Shape("GPT-2 1558M, B=16, T=1024", 48, 1600, 25, 25, 64, 6400, False, 16, 1024),
    Shape("Llama-style 1B, B=4, T=4096", 16, 2048, 16, 4, 128, 5632, True, 4, 4096),
]


class Model:
    """NVIDIA's model of one GPU, for bf16 products with fp32 sums."""

    def __init__(self, gpu):
        import nvMatmulHeuristics as nv

        self.nv = nv
        self.model = nv.NvMatmulHeuristicsInterfaceEx(
            backend=nv.NvMatmulHeuristicsTarget.CUTLASS3,
            flags=nv.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
            gpu=gpu,
        )

    def seconds(self, m, n, k, layout, precision):
        layout = self.nv.NvMatmulHeuristicsMatmulLayout[layout + "_ROW_MAJOR"]
        problem = self.model.makeNvMatmulHeuristicsProblem(m, n, k, layout)
        found = self.model.get(problem, 8, precision)
        if not found:
            sys.exit(f"no kernel for {m} x {n} x {k}")
        return min(each["runtime"] for each in found)


def passes(rows, outputs, inputs):
    """Returns the three products of a linear layer as (name, m, n, k, layout of a and b, precision). `precision` has a letter
    each for operands, sums and result: T for bf16, S for fp32."""
    return [
        ("forward", rows, outputs, inputs, "NT", "TST"),
        ("backward, input", rows, inputs, outputs, "NN", "TST"),
        ("backward, weight", outputs, inputs, rows, "TN", "TSS"),
    ]


def report(shape, gpu, model, every):
    total = flops = 0
    for name, times, rows, outputs, inputs in shape.products():
        for what, m, n, k, layout, precision in passes(rows, outputs, inputs):
            seconds = model.seconds(m, n, k, layout, precision)
            total += times * seconds
            flops += times * 2 * m * n * k
            if every:
                rate = 2 * m * n * k / seconds / 1e12
                print(f"  {name + ', ' + what:28} {m:6} x {n:6} x {k:6} {times:3} x {1e3 * seconds:7.3f} ms {rate:5.0f} TFLOP/s")
    print(f"{shape.name}, {gpu}: {1e3 * total:.1f} ms of products a micro-batch, {flops / total / 1e12:.0f} TFLOP/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="print each product too")
    every = parser.parse_args().all
    try:
        import nvMatmulHeuristics as nv
    except ImportError:
        sys.exit("gemm_model.py: no nvMatmulHeuristics: pip install nvidia-matmul-heuristics")
    for gpu in (nv.NvMatmulHeuristicsNvidiaGpu.H100_SXM, nv.NvMatmulHeuristicsNvidiaGpu.H200_SXM):
        model = Model(gpu)
        for shape in SHAPES:
            report(shape, gpu.name, model, every)


if __name__ == "__main__":
    main()
