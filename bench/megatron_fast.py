#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures lm-preprocess and Megatron-LM's tools/preprocess_data_fast.py (gigatoken) as whole processes, from JSON Lines to .bin
and .idx, in alternation, on one core and on two. Prints a Markdown table. Files that differ are an error, exit code 1.

megatron_fast.py LM_PREPROCESS MEGATRON TABLES ROUNDS CORPUS.jsonl: MEGATRON is a checkout of Megatron-LM; TABLES has GPT-2's vocab.json
and merges.txt. Runs with the Python that runs this script, which needs torch, transformers, gigatoken and awkward: the one of
`tools/install-deps --megatron`, after `.venv-megatron/bin/pip install gigatoken awkward`.

CORPUS is also compressed (zstd -3, xz -1). Megatron-LM reads plain text only, so that its time includes zstd or xz, which writes a
file first; the row of the decompressor alone is the floor of one core. FIGURES: as in tokenizer_speed.py.
"""
import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import figures as records

Run = collections.namedtuple("Run", "wall cpu memory")  # s, s of user and system time, bytes of the largest process
CORES = ("0", "0,1")
DECOMPRESS = {"": None, ".zst": ("zstd", "-dqf"), ".xz": ("xz", "-dkf")}


def timed(cores, *commands):
    """Runs the commands in sequence on some cores; the output of a failed one is the message of the error."""
    start, cpu, memory = time.perf_counter(), 0.0, 0
    for command in commands:
        with tempfile.TemporaryFile() as log:
            child = subprocess.Popen(["taskset", "-c", cores, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode != 0:
                log.seek(0)
                sys.exit(f"megatron_fast.py: {' '.join(command)}: exit code {child.returncode}: {log.read().decode()[-2000:]}")
        cpu += usage.ru_utime + usage.ru_stime
        memory = max(memory, usage.ru_maxrss * 1024)
    return Run(time.perf_counter() - start, cpu, memory)


def write_tokenizer(tables, folder):
    """A directory of GPT-2's tokenizer for transformers."""
    from tokenizers import ByteLevelBPETokenizer

    os.makedirs(folder)
    tokenizer = ByteLevelBPETokenizer.from_file(os.path.join(tables, "vocab.json"), os.path.join(tables, "merges.txt"))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}, file)
    return folder


class Contest:
    def __init__(self, program, megatron, tables, folder):
        self.program, self.folder = program, folder
        # The checkout comes before an installed megatron-core. The only feature of Python 3.12 that it needs is typing.override.
        self.python_path = os.path.abspath(megatron) + ":" + folder
        with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as file:
            file.write("import typing, typing_extensions\ntyping.override = typing_extensions.override\n")
        self.script = os.path.join(megatron, "tools", "preprocess_data_fast.py")
        self.tokenizer = write_tokenizer(tables, os.path.join(folder, "tokenizer"))

    def commands(self, source, n_cores):
        """The commands of the three rows for one input: lm-preprocess, Megatron-LM's, and the decompressor alone."""
        plain, suffix = (os.path.splitext(source) if not source.endswith(".jsonl") else (source, ""))
        own = [self.program, "--input", source, "--output-prefix", os.path.join(self.folder, "own"), "--tokenizer-model",
               os.path.join(self.tokenizer, "tokenizer.json"), "--append-eod", "--workers", str(n_cores), "--force", "--quiet"]
        text = os.path.join(self.folder, "decompressed.jsonl") if suffix else plain
        megatron = ["env", "PYTHONPATH=" + self.python_path, sys.executable, self.script, "--input", text,
                    "--output-prefix", os.path.join(self.folder, "megatron"),
                    "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", self.tokenizer, "--use-gigatoken", "--append-eod"]
        if not suffix:
            return {"lm-preprocess": [own], "preprocess_data_fast.py": [megatron]}
        unpack = ["sh", "-c", f'{" ".join(DECOMPRESS[suffix])} -c "$1" >"$2"', "sh", source, text]
        alone = ["sh", "-c", f'{" ".join(DECOMPRESS[suffix])} -c "$1" >/dev/null', "sh", source]
        return {"lm-preprocess": [own], "preprocess_data_fast.py": [unpack, megatron], DECOMPRESS[suffix][0] + " alone": [alone]}

    def check_equal(self):
        for end in ("bin", "idx"):
            names = [os.path.join(self.folder, f"{side}_text_document.{end}") for side in ("own", "megatron")]
            if subprocess.run(["cmp", *names]).returncode != 0:
                sys.exit(f"megatron_fast.py: the .{end} files differ")


def main():
    program, megatron, tables, rounds, corpus = sys.argv[1:]
    size = os.path.getsize(corpus)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        subprocess.run(["zstd", "-q", "-3", corpus, "-o", os.path.join(folder, "corpus.jsonl.zst")], check=True)
        with open(os.path.join(folder, "corpus.jsonl.xz"), "wb") as out:
            subprocess.run(["xz", "-1", "-c", corpus], stdout=out, check=True)
        contest = Contest(program, megatron, tables, folder)
        print(f"{size / 1e6:.0f} MB of JSON Lines; {rounds} runs each, in alternation: median and minimum\n")
        print("| input | cores | program | wall s | at best | user and system s | memory MB | MB/s | of Megatron's time |")
        print("|---|---|---|---|---|---|---|---|---|")
        for suffix in DECOMPRESS:
            source = os.path.join(folder, "corpus.jsonl" + suffix) if suffix else corpus
            for cores in CORES:
                commands, runs = contest.commands(source, len(cores.split(","))), collections.defaultdict(list)
                for _ in range(int(rounds)):
                    for name, steps in commands.items():
                        runs[name].append(timed(cores, *steps))
                contest.check_equal()
                report(corpus, suffix, cores, size, runs)


def report(corpus, suffix, cores, size, runs):
    peer = statistics.median(run.wall for run in runs["preprocess_data_fast.py"])
    for name, of in runs.items():
        wall, cpu = statistics.median(run.wall for run in of), statistics.median(run.cpu for run in of)
        print(f"| jsonl{suffix} | {len(cores.split(','))} | {name} | {wall:.2f} | {min(run.wall for run in of):.2f} | {cpu:.2f} | "
              f"{max(run.memory for run in of) / 1e6:.0f} | {size / wall / 1e6:.0f} | {wall / peer:.2f} |", flush=True)
        if name == "lm-preprocess" and os.environ.get("FIGURES"):
            records.append(os.environ["FIGURES"], f"jsonl{suffix} to .bin, {len(cores.split(','))} cores", size / wall / 1e6, "MB/s")


if __name__ == "__main__":
    main()
