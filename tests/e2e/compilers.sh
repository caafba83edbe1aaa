#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every C++ source compiles by itself (LM_UNITY=OFF, so that a missing #include is found) without a warning: with the compiler
# of the build, and with clang 14 and clang 19, if installed. Only the front end runs. compilers.sh BUILD N compiles every Nth
# source.
# labels: proof
# timeout: 7200
set -euo pipefail
own=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$1/CMakeCache.txt")
part=${2:-1}
cd "$(dirname "$0")/../.."
separate=$(mktemp -d)
trap 'rm -rf "$separate"' EXIT
{
    cmake --preset release -B "$separate" -DLM_UNITY=OFF -DCMAKE_CXX_COMPILER="$own" &&
        cmake --build "$separate" --target lm_version
} >"$separate/log" 2>&1 || { cat "$separate/log"; exit 1; }
checked=
for compiler in "$own" clang++-14 clang++-19; do
    command -v "$compiler" >/dev/null || continue
    checked+=" $compiler"
    python3 - "$separate/compile_commands.json" "$compiler" "$part" <<'END'
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

database, compiler, part = sys.argv[1:]
entries = [entry for entry in json.load(open(database)) if entry["file"].endswith(".cpp")][::int(part)]
# cmake/lm.cmake gives -Wno-deprecated-declarations to clang only. The two flags that it gives to g++ only are removed for clang.
CLANG = "clang" in os.path.basename(compiler)
FLAGS = ["-Wno-deprecated-declarations"] * CLANG + ["-Werror", "-fsyntax-only"]
GCC_ONLY = ("-Wno-restrict", "-Wno-maybe-uninitialized") if CLANG else ()


def complaint(entry):
    words = shlex.split(entry["command"])
    start = next(i for i, word in enumerate(words) if re.search(r"(^|/)(c|g|clang)\+\+(-\d+)?$", word))
    kept = [word for word in words[start + 1:words.index("-o")] if word not in GCC_ONLY]
    done = subprocess.run([compiler, *kept, *FLAGS, entry["file"]], cwd=entry["directory"], capture_output=True, text=True)
    return done.stderr[:2000] if done.returncode else ""


with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    complaints = [text for text in pool.map(complaint, entries) if text]
print("\n".join(complaints[:10]))
print(f"{compiler}: {len(entries)} sources, {len(complaints)} failed")
sys.exit(1 if complaints else 0)
END
done
echo "compiled by$checked"
