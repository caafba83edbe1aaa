#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lm-convert --check-python: transformers and megatron-core compute the logits that lm-train's code computes, and a conversion
of other weights is refused. The test uses the megatron-core of $LM_MEGATRON_PYTHON, or of this Python if its version reads the
checkpoints of tests/golden/megatron."""
import os
import re
import subprocess
import sys
import tarfile
import tempfile

import live

GOLDEN = os.path.join(live.ROOT, "tests", "golden")


def convert(code, pattern, *words):
    """Runs lm-convert; it must end with `code` and print a match of `pattern`. Returns the match."""
    done = subprocess.run([live.tool("lm-convert"), *words], stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    found = re.search(pattern, done.stderr)
    if done.returncode != code or not found:
        live.fail(f"{' '.join(words)}: exit {done.returncode}, expected {code} and '{pattern}': {done.stderr}")
    return found


def check_transformers():
    live.run(live.tool("lm-train"), *("--num-layers 2 --hidden-size 30 --num-attention-heads 5 --seq-length 24 --vocab-size 257 "
             "--mock-data --train-iters 6 --micro-batch-size 2 --lr 1e-2 --init-method-std 0.2 --device cpu --threads 1 "
             "--attention-dropout 0 --hidden-dropout 0 --save saved").split(), stderr=subprocess.DEVNULL)
    python = ["--check", "--check-python", sys.executable]
    equal = r"logits differ by at most (\S+) from transformers [0-9.]+"
    for words in (["saved", "hf"], ["hf", "back"], ["saved", "bin", "--format", "bin"], ["hf", "--against", "saved"]):
        difference = float(convert(0, equal, *words, *python)[1])
        print(f"lm-convert {' '.join(words)}: transformers differs by {difference:.1e}")
        if difference > 1e-4:
            live.fail(f"{words}: expected at most 1e-4")
    convert(2, "is valid only with --check", "hf", "x", "--check-python", sys.executable)
    convert(2, "no-such-python does not exist: give a Python that has transformers",
            "hf", "x", "--check", "--check-python", "no-such-python")
    convert(3, "failed to compute the logits of .* with transformers: exit code 1", "hf", "x", "--check", "--check-python", "false")
    if os.path.exists("x"):
        live.fail("a failed check left its output")


def check_megatron(python):
    reason = subprocess.run([python, "-c", "import megatron.core as m; assert int(m.__version__.split('.')[1]) >= 12, m.__version__"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if reason.returncode:
        print(f"megatron-core: not compared: {python}: {reason.stderr.strip().splitlines()[-1:]}")
        return
    for model in ("plain", "gpt2", "llama", "virtual"):
        with tarfile.open(f"{GOLDEN}/megatron/{model}.tar.xz") as archive:
            archive.extractall()
    # The comparison uses the bf16 weights that megatron-core loads, not the masters, from which they differ by up to 1.3e-3.
    for name in ("plain-torch-dist", "gpt2-torch", "llama-torch-dist"):
        found = convert(0, r"logits differ by at most (\S+) from megatron-core [0-9.]+", name, name + "-native", "--check",
                        "--check-python", python)
        print(f"{name}: megatron-core differs by {float(found[1]):.1e}")
        if float(found[1]) > 1e-6:
            live.fail(f"{name}: expected at most 1e-6")
    convert(3, "virtual stages in the format torch is not supported", "virtual-torch", "x", "--check", "--check-python", python)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check_transformers()
        check_megatron(os.environ.get("LM_MEGATRON_PYTHON", sys.executable))


if __name__ == "__main__":
    main()
