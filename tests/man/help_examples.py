#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""help_examples.py BINDIR DATA: --help of each program and verb shows examples; runs each in its own copy of the directory DATA.

Names of the examples that the small data of prepare_examples.sh lacks are replaced; a training is only resolved (--dry-run).
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from check_page import run, verbs_of

# Skipped: these need a cluster, another host or a Megatron checkpoint, or never end.
SKIPPED = re.compile(r"^(mpirun|srun) | \.\.\. |example\.org|\bmegatron/|--watch|--follow")
REPLACED = [("global_step1000", "global_step20"), ("/store/", "store/"), ("data/", ""), (".jsonl.xz", ".jsonl"),
            ("part*.gz", "corpus*.gz"), ("part1_", "corpus_"), ("part2_", "corpus_"), ("500B", "1M"),
            ("--save checkpoints --load checkpoints", "--save new --load new"), ("checkpoints gpt2-hf", "checkpoints new"),
            ("--output-prefix corpus ", "--output-prefix new ")]
# These commands may exit with 1, which is the answer "no".
ANSWERS = re.compile(r"^(lm-ckpt diff|lm-shmcheck|lm-estimate (batch|layout|eta --why))\b")


def examples_of(help_text):
    block = re.search(r"^Examples?:\n((?:  .*\n)+)", help_text, re.M)
    return re.sub(r"\\\n +", "", block.group(1)).splitlines() if block else []


def main():
    bindir, data = sys.argv[1:]
    subprocess.run(["lm-convert", "checkpoints", "gpt2-hf"], cwd=data, check=True, capture_output=True)
    problems, ran, skipped = [], 0, 0
    for name in sorted(os.listdir(bindir)):
        if not name.startswith("lm-"):
            continue
        program = os.path.join(bindir, name)
        for verb in [None, *verbs_of(run(program, "--help"))]:
            lines = examples_of(run(program, *filter(None, [verb]), "--help"))
            if not lines:
                problems.append(f"{name} {verb or ''}: --help shows no example")
            for line in map(str.strip, lines):
                if SKIPPED.search(line):
                    skipped += 1
                    continue
                for old, new in REPLACED:
                    line = line.replace(old, new)
                if line.startswith("lm-train"):
                    line += " --dry-run"
                ran += 1
                with tempfile.TemporaryDirectory() as scratch:
                    shutil.copytree(data, scratch, symlinks=True, dirs_exist_ok=True)
                    done = subprocess.run(["bash", "-euo", "pipefail", "-c", line], cwd=scratch, stdin=subprocess.DEVNULL,
                                          capture_output=True, text=True, timeout=120)
                if done.returncode > (1 if ANSWERS.search(line) else 0):
                    problems.append(f"{line}: exit code {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    print("\n".join(problems + [f"{ran} examples of --help ran, {skipped} need more than a test has"]))
    return 1 if problems else 0


sys.exit(main())
