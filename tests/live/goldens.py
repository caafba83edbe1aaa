#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Regenerates the golden files with the installed libraries and compares them."""
import glob
import os
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file

import live

GOLDEN = os.path.join(live.ROOT, "tests", "golden")


def distance(name, a, b):
    if a.dtype.kind == "i":
        return float(np.any(a != b))
    # Gradients whose exact value is zero have rounding errors only: the scale is at least 1e-3.
    scale = max(float(np.linalg.norm(b.astype(np.float64))), 1e-3 if "grad." in name else 1e-30)
    return float(np.linalg.norm(a.astype(np.float64) - b.astype(np.float64))) / scale


def check_texts():
    """Compares the files of tokens byte by byte."""
    folder_of = os.path.join(GOLDEN, "text")
    with tempfile.TemporaryDirectory() as folder:
        for script in glob.glob(os.path.join(folder_of, "make_*.py")):
            live.run(sys.executable, script, folder)
        for file in sorted(os.listdir(folder)):
            again, kept = (open(os.path.join(d, file), "rb").read() for d in (folder, folder_of))
            if again != kept:
                live.fail(f"text/{file} differs from the output of {os.path.basename(folder_of)}/make_*.py")
            print(f"text/{file}: the same")


def main():
    check_texts()
    worst = (0.0, "nothing")
    with tempfile.TemporaryDirectory() as folder:
        for script in glob.glob(os.path.join(GOLDEN, "make_*.py")):
            live.run(sys.executable, script, folder)
        names = sorted(os.listdir(folder))
        if not names:
            live.fail("the scripts wrote no file")
        for file in names:
            again, kept = load_file(os.path.join(folder, file)), load_file(os.path.join(GOLDEN, file))
            if set(again) != set(kept):
                live.fail(f"{file}: other entries: {sorted(set(again) ^ set(kept))}")
            for name in kept:
                worst = max(worst, (distance(name, again[name], kept[name]), f"{file}: {name}"))
    print(f"largest relative difference {worst[0]:.2e} in {worst[1]}")
    if worst[0] > 1e-5:
        live.fail("the golden files differ from the results of the libraries")


if __name__ == "__main__":
    main()
