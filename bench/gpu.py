#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures this machine's GPU: the operations against a copy, and training beside PyTorch, in the same run.

Usage: bench/gpu.py [--results FILE] [--within SECONDS] [--scale N] [STAGE...]
       bench/gpu.py [--results FILE] table

Stages (default: all, each within 10 minutes): copy, ops, and train-MODEL and train-MODEL-pytorch of gpt2-124m,
gpt2-1558m and llama-1b. Each adds its figures to FILE (default gpu-results.jsonl), one JSON object a line; a
stage that fails adds why, and the others go on. `table` prints them as Markdown, for bench/cuda.md.

--within: begins no stage that would end later, and names those left out. --scale: shapes that many times smaller, and
--device: where there is no GPU (cpu, or cuda with LM_PLUGIN_DIR naming the emulated one), to try this program.
The programs are those of build/release, or of the archive that this file came in; LM_BUILD names another build.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
KIT = os.path.exists(os.path.join(ROOT, "bin", "lm-train"))
BUILD = ROOT if KIT else os.environ.get("LM_BUILD", os.path.join(ROOT, "build", "release"))
LIMIT_S = 600

# Of a step: sequences, those that go through together, tokens each; the MFU that is asked for.
MODELS = {
    "gpt2-124m": dict(arch="gpt2", layers=12, hidden=768, heads=12, seq=1024, batch=64, micro=64, mfu=40),
    "gpt2-1558m": dict(arch="gpt2", layers=48, hidden=1600, heads=25, seq=1024, batch=32, micro=16, mfu=50),
    "llama-1b": dict(arch="llama", layers=16, hidden=2048, heads=16, groups=4, ffn=5632, seq=4096, batch=8, micro=4,
                     mfu=50),
}
VOCAB = 50304
COPY = """
import json, torch
x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda"); y = torch.empty_like(x)
times = []
for _ in range(20):
    a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    a.record(); y.copy_(x); b.record(); torch.cuda.synchronize(); times.append(a.elapsed_time(b))
ms = sorted(times)[10]
print(json.dumps({"gb_s": round(2 * x.numel() / ms / 1e6), "gpu": torch.cuda.get_device_name()}))
"""


def scaled(name, scale):
    m = dict(MODELS[name])
    if scale > 1:
        m.update(layers=2, hidden=max(16 * m["heads"], m["hidden"] // scale // m["heads"] * m["heads"]),
                 seq=max(16, m["seq"] // scale), batch=2, micro=1)
        if "ffn" in m:
            m["ffn"] = max(64, m["ffn"] // scale // 64 * 64)
    m["vocab"] = VOCAB if scale == 1 else 512
    return m


def run(command, **more):
    """Its stdout; RuntimeError with the last line of what it said when it fails."""
    env = dict(os.environ, **more)
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S - 30, env=env)
    if result.returncode != 0:
        said = (result.stderr.strip() or result.stdout.strip() or "nothing").splitlines()
        raise RuntimeError(f"exit {result.returncode}: {said[-1]}")
    return result.stdout


def copy(args):
    yield dict(what="copy", **json.loads(run([sys.executable, "-c", COPY])))


def operations(args):
    program = os.path.join(BUILD, "bench", "bench_device_ops")
    for name in MODELS:
        for attention in ("flash", "cudnn"):
            only = ["attention"] if attention == "cudnn" else []
            try:
                out = run([program, name, str(args.scale ** 2), *only], LM_ATTENTION=attention)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                yield dict(what="failed", stage=f"ops, {name}, {attention}", why=str(error))
                continue
            for line in out.splitlines():
                yield dict(what="op", attention=attention, **json.loads(line))


def train_command(name, args):
    m = scaled(name, args.scale)
    flags = ["--num-layers", m["layers"], "--hidden-size", m["hidden"], "--num-attention-heads", m["heads"],
             "--seq-length", m["seq"], "--max-position-embeddings", m["seq"], "--vocab-size", m["vocab"],
             "--micro-batch-size", m["micro"], "--global-batch-size", m["batch"], "--attention-dropout", 0,
             "--hidden-dropout", 0, "--mock-data", "--lr", "1e-4", "--adam-beta2", "0.95", "--weight-decay", "0.1",
             "--clip-grad", "1.0", "--log-interval", 1, "--train-iters", 12 if args.scale == 1 else 3, "--bf16",
             "--device", args.device, "--benchmark"]
    if m["arch"] == "llama":
        flags += ["--use-rotary-position-embeddings", "--swiglu", "--normalization", "RMSNorm",
                  "--untie-embeddings-and-output-weights", "--disable-bias-linear", "--group-query-attention",
                  "--num-query-groups", m["groups"], "--ffn-hidden-size", m["ffn"]]
    return [os.path.join(BUILD, "bin", "lm-train"), *map(str, flags)]


def train(name, args):
    command = train_command(name, args)
    with tempfile.TemporaryDirectory() as choices:
        for attention, tuned in (("flash", []), ("flash", ["--autotune", choices]), ("cudnn", [])):
            try:
                out = run(command + tuned, LM_ATTENTION=attention)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                yield dict(what="failed", stage=f"train-{name}, {attention}", why=str(error))
                continue
            found = dict(what="train", model=name, attention=attention,
                         tool="lm-train, " + attention + (", autotuned" if tuned else ""))
            for key, pattern in (("tokens_per_s", r"^benchmark: ([\d.]+) tokens/s"), ("mfu", r"MFU ([\d.]+) %"),
                                 ("memory", r"^memory: (.*)$")):
                match = re.search(pattern, out, re.MULTILINE)
                if match:
                    found[key] = match[1] if key == "memory" else float(match[1])
            found["operations"] = out[out.find("benchmark:"):].splitlines()
            yield found


def train_pytorch(name, args):
    m = scaled(name, args.scale)
    flags = ["--arch", m["arch"], "--precision", "bf16", "--layers", m["layers"], "--hidden", m["hidden"], "--heads",
             m["heads"], "--vocab", m["vocab"], "--seq", m["seq"], "--batch", m["batch"], "--device",
             "cuda" if args.scale == 1 else "cpu", "--warmup", 4 if args.scale == 1 else 1, "--steps",
             10 if args.scale == 1 else 2]
    for key in ("groups", "ffn"):
        flags += [f"--{key}", m[key]] if key in m else []
    # As large a micro-batch as fits: the logits of PyTorch's loss are whole, and in fp32.
    micro = m["micro"]
    while True:
        command = [sys.executable, os.path.join(HERE, "train_pytorch.py"), *map(str, flags), "--micro-batch", str(micro)]
        try:
            found = json.loads(run(command).splitlines()[-1])
            break
        except RuntimeError as error:
            if micro == 1 or "out of memory" not in str(error).lower():
                raise
            micro //= 2
    yield dict(what="train", model=name, micro_batch=micro, **found)


STAGES = {"copy": (copy, 60), "ops": (operations, LIMIT_S)}
for model in MODELS:
    STAGES[f"train-{model}"] = (lambda args, model=model: train(model, args), 300)
    STAGES[f"train-{model}-pytorch"] = (lambda args, model=model: train_pytorch(model, args), 400)


def measure(args):
    begin = time.monotonic()
    left_out = []
    with open(args.results, "a") as file:
        for stage in args.stages or STAGES:
            function, expected_s = STAGES[stage]
            if args.within and time.monotonic() - begin + expected_s > args.within:
                left_out.append(stage)
                continue
            start = time.monotonic()
            n = 0
            try:
                for found in function(args):
                    n += found["what"] != "failed"
                    print(json.dumps(dict(found, stage=found.get("stage", stage))), file=file, flush=True)
                text = f"{n} figures"
            except (RuntimeError, subprocess.TimeoutExpired, OSError, ValueError) as error:
                print(json.dumps(dict(what="failed", stage=stage, why=str(error))), file=file, flush=True)
                text = f"FAILED: {error}"
            print(f"{stage}: {text} in {time.monotonic() - start:.0f} s", flush=True)
    if left_out:
        print("left out for lack of time: " + " ".join(left_out))


def table(path):
    with open(path) as file:
        found = [json.loads(line) for line in file]
    copies = [f for f in found if f["what"] == "copy"]
    speed = copies[-1]["gb_s"] if copies else 0
    if copies:
        print(f"{copies[-1]['gpu']}; a copy moves {speed} GB/s, read plus write.\n")
    trained = [f for f in found if f["what"] == "train"]
    if trained:
        print("| model | tool | tokens/s | MFU % | wanted | memory |\n|---|---|---|---|---|---|")
    for f in sorted(trained, key=lambda f: (list(MODELS).index(f["model"]), -f["tokens_per_s"])):
        wanted = MODELS[f["model"]]["mfu"] if "lm-train" in f["tool"] else ""
        print(f"| {f['model']} | {f['tool']} | {f['tokens_per_s']:.0f} | {f.get('mfu', '')} | {wanted} "
              f"| {f.get('memory', '')} |")
    ops = [f for f in found if f["what"] == "op"]
    if ops:
        print("\n| model | operation | MB | ms | GB/s | of a copy | GFLOP | TFLOP/s |\n|---|---|---|---|---|---|---|---|")
    for f in ops:
        share = f"{100 * f['gb_s'] / speed:.0f} %" if speed and "gflop" not in f else ""
        name = f["op"] + (", cuDNN" if f["attention"] == "cudnn" else "")
        print(f"| {f['model']} | {name} | {f['mb']:.0f} | {f['ms']:.3f} | {f['gb_s']:.0f} | {share} "
              f"| {f.get('gflop', '')} | {f.get('tflop_s', '')} |")
    for f in found:
        if f["what"] == "failed":
            print(f"\n{f['stage']} failed: {f['why']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument("--results", default="gpu-results.jsonl")
    parser.add_argument("--within", type=float, default=0)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("stages", nargs="*")
    args = parser.parse_args()
    if args.stages == ["table"]:
        return table(args.results)
    for stage in args.stages:
        if stage not in STAGES:
            sys.exit(f"gpu.py: no stage '{stage}': one of {' '.join(STAGES)}, table")
    return measure(args)


main()
