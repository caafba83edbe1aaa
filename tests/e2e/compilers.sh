#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every C++ source of the build compiles without a warning with clang 14 and with clang 19, if installed. (The build itself uses
# g++ 12, or the compiler that CMake found.) Only the front end runs. compilers.sh BUILD N compiles every Nth source.
# labels: proof
# timeout: 7200
set -euo pipefail
build=$1
part=${2:-1}
checked=
for compiler in clang++-14 clang++-19; do
    command -v $compiler >/dev/null || continue
    checked+=" $compiler"
    python3 - "$build/compile_commands.json" $compiler "$part" <<'END'
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

database, compiler, part = sys.argv[1:]
entries = [entry for entry in json.load(open(database)) if entry["file"].endswith(".cpp")][::int(part)]
# cmake/lm.cmake gives -Wno-deprecated-declarations to clang only. The two flags that it gives to g++ only are removed below.
FLAGS = ["-Wno-deprecated-declarations", "-Werror", "-fsyntax-only"]


def complaint(entry):
    words = shlex.split(entry["command"])
    start = next(i for i, word in enumerate(words) if os.path.basename(word) in ("c++", "g++", "g++-12", "clang++"))
    kept = [word for word in words[start + 1:words.index("-o")] if word not in ("-Wno-restrict", "-Wno-maybe-uninitialized")]
    done = subprocess.run([compiler, *kept, *FLAGS, entry["file"]], cwd=entry["directory"], capture_output=True, text=True)
    return done.stderr[:2000] if done.returncode else ""


with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    complaints = [text for text in pool.map(complaint, entries) if text]
print("\n".join(complaints[:10]))
print(f"{compiler}: {len(entries)} sources, {len(complaints)} failed")
sys.exit(1 if complaints else 0)
END
done
[ -n "$checked" ] || {
    echo "skipped: neither clang 14 nor clang 19 is installed: apt install clang-14 clang-19"
    exit 77
}
echo "compiled by$checked"
