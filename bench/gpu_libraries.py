#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Directories of CUDA's libraries that only Python's packages have, as LD_LIBRARY_PATH wants them: one line on stdout.

For tests/gpu.sh and bench/gpu.py. What the loader finds by itself, or CUDA's toolkit has, is not looked for.
"""
import glob
import os
import subprocess
import sys

NAMES = ("libcublasLt.so.13", "libcudart.so.13", "libnvrtc.so.13", "libnccl.so.2", "libcudnn.so.9")
TOOLKIT = "/usr/local/cuda/lib64"


def known_to_loader():
    try:
        return subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    except OSError:
        return ""


def library_path(bases=None):
    """What is to be put before LD_LIBRARY_PATH, "" when that is nothing."""
    known = known_to_loader()
    found = []
    for name in NAMES:
        if name in known or os.path.exists(os.path.join(TOOLKIT, name)):
            continue
        for base in sys.path if bases is None else bases:
            places = sorted(glob.glob(os.path.join(base, "nvidia", "*", "lib", name)))
            if places:
                found.append(os.path.dirname(places[0]))
                break
    return ":".join(dict.fromkeys(found))


if __name__ == "__main__":
    print(library_path())
