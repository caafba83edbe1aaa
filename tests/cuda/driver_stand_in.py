#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the source of a libcuda.so.1 for test_cudnn: a driver without a GPU, which accepts all code. cuDNN loads the code of a
plan when it builds the plan, also for a GPU that is not present; the toolkit's stub of the driver refuses to load code.

Usage: driver_stand_in.py STUB > FILE.cpp
STUB is the toolkit's libcuda.so. The source defines its functions; all but those in ACCEPTED return CUDA_ERROR_STUB_LIBRARY,
as the stub does.
"""
import re
import subprocess
import sys

STUB_LIBRARY = 34
ACCEPTED = """
// Stands for each library and each kernel.
char code;
int cuLibraryLoadData(void** library) {
    *library = &code;
    return 0;
}
int cuLibraryGetKernel(void** kernel) {
    *kernel = &code;
    return 0;
}
int cuLibraryUnload() {
    return 0;
}
"""


def main():
    text = subprocess.run(["nm", "-D", "--defined-only", sys.argv[1]], capture_output=True, text=True, check=True).stdout
    accepted = set(re.findall(r"^int (\w+)", ACCEPTED, re.MULTILINE))
    names = {line.split()[-1].split("@")[0] for line in text.splitlines() if " T cu" in line}
    if not accepted <= names:
        sys.exit(f"{sys.argv[1]}: expected the functions {sorted(accepted)}, missing {sorted(accepted - names)}")
    print('extern "C" {' + ACCEPTED)
    for name in sorted(names - accepted):
        print(f"int {name}() {{ return {STUB_LIBRARY}; }}")
    print("}")


if __name__ == "__main__":
    main()
