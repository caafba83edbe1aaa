#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the directories of CUDA's libraries in Python packages, in the form of LD_LIBRARY_PATH: one line on stdout.

For tests/gpu.sh and bench/gpu.py. Libraries that the loader finds, or that CUDA's toolkit has, are omitted.
"""
import glob
import os
import subprocess
import sys

NAMES = ("libcublasLt.so.13", "libcudart.so.13", "libnvrtc.so.13", "libcublasLt.so.12", "libcudart.so.12", "libnvrtc.so.12",
         "libnccl.so.2", "libcudnn.so.9")
TOOLKIT = "/usr/local/cuda/lib64"


def known_to_loader():
    try:
        return subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    except OSError:
        return ""


def library_path(bases=None):
    """Returns the prefix for LD_LIBRARY_PATH, "" if none is needed."""
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
