#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures lm-convert in every direction for a model of 4.0 GB against `cp` of the same bytes in the same run.

bench/convert.py [DIR] [--build build/release] [--rounds 1]: a Markdown table on stdout; needs 20 GB in DIR (default: .).
Both commands read files that are not in the page cache and make their output durable. The peak is VmHWM of /proc.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

DIRECTIONS = [
    # input, output, flags
    ("native", "safetensors", ["--to", "hf-gpt2"]),
    ("safetensors", "native again", ["--to", "native"]),
    ("native", "pytorch_model.bin", ["--to", "hf-gpt2", "--format", "bin"]),
    ("pytorch_model.bin", "native again", ["--to", "native"]),
    ("native", "Megatron-LM TP 4", ["--to", "megatron-lm", "--tensor-model-parallel-size", "4"]),
    ("Megatron-LM TP 4", "native again", ["--to", "native"]),
    ("native", "Megatron-DeepSpeed TP 2 PP 2",
     ["--to", "megatron-deepspeed", "--tensor-model-parallel-size", "2", "--pipeline-model-parallel-size", "2"]),
    ("Megatron-DeepSpeed TP 2 PP 2", "native again", ["--to", "native"]),
]


def files_of(path):
    return [file for file in path.rglob("*") if file.is_file()]


def drop_cache(path):
    """Writes the files back and drops them from the page cache."""
    for file in files_of(path):
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def sync(path):
    """Makes the files durable, and no others, as lm-convert does."""
    for file in files_of(path):
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def peak_mib(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0


def measure(command):
    """Runs a command; returns wall seconds, CPU seconds and the peak of its resident memory in MiB."""
    before = os.times()
    start = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    peak = 0
    while process.poll() is None:
        peak = max(peak, peak_mib(process.pid))
        time.sleep(0.02)
    seconds = time.monotonic() - start
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}: {process.stderr.read()}")
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, cpu, peak


def copy(source, target):
    start = time.monotonic()
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    sync(target)
    seconds = time.monotonic() - start
    shutil.rmtree(target)
    return seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", nargs="?", default=".")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    subprocess.run(["cmake", "--build", args.build, "--target", "random_checkpoint", "lm-convert"], check=True,
                   stdout=subprocess.DEVNULL)
    print("| direction | cp, s | lm-convert, s | rate of cp | GB/s | CPU, s | peak, MiB |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=args.dir, prefix="bench-convert.") as name:
        work = pathlib.Path(name)
        subprocess.run([f"{args.build}/bench/random_checkpoint", str(work / "native")], check=True)
        size = sum(file.stat().st_size for file in files_of(work / "native"))
        for _ in range(args.rounds):
            for source, target, flags in DIRECTIONS:
                drop_cache(work / source)
                copied = copy(work / source, work / "copy")
                drop_cache(work / source)
                command = [f"{args.build}/bin/lm-convert", str(work / source), str(work / target), "--quiet", *flags]
                seconds, cpu, peak = measure(command)
                print(f"| {source} to {target} | {copied:.1f} | {seconds:.1f} | {100 * copied / seconds:.0f} % | "
                      f"{size / seconds * 1e-9:.2f} | {cpu:.1f} | {peak:.0f} |", flush=True)
                for done in {target, source} - {"native", target if source == "native" else ""}:
                    shutil.rmtree(work / done)
    print(f"\nLoad of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
