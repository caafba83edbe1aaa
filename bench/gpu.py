#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures this machine's GPU: the operations against a copy, and training against PyTorch, in the same run.

Usage: bench/gpu.py [--results FILE] [--within SECONDS] [--scale N] [--llmc DIR] [STAGE...]
       bench/gpu.py [--results FILE] table

Stages (default: all): copy, ops, and train-MODEL and train-MODEL-pytorch of gpt2-124m, gpt2-1558m and llama-1b, each
ended after 9.5 minutes; train-MODEL-llmc of the two GPT-2, with --llmc. Each appends its figures to FILE (default
gpu-results.jsonl), one JSON object a line; a failing stage appends its reason, and the others still run. `table` prints
them as Markdown, for bench/cuda.md. copy and the pytorch stages need PyTorch 2.5 or later for CUDA in this Python, and are skipped
where it is not installed; cuDNN's attention is skipped where the build has none.

--within: omits and lists the stages that are expected to end later than SECONDS after the start, and ends a running stage
at that time. A stage that is expected to take longer than SECONDS by itself is refused. --llmc: a directory with the train_gpt2cu of llm.c, built there.
--scale: divides the shapes, and --device: computes without a GPU (cpu, or cuda with LM_PLUGIN_DIR naming the emulated
one), to test this script. The programs are those of build/release, or of the archive that contains this file; LM_BUILD
names another build.

Exit code: 0; 1 if anything failed; 2 for wrong usage; 3 if nothing failed, but stages were omitted.
"""
import argparse
import array
import glob
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import gpu_libraries
import step_model

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
KIT = os.path.exists(os.path.join(ROOT, "bin", "lm-train"))
BUILD = ROOT if KIT else os.environ.get("LM_BUILD", os.path.join(ROOT, "build", "release"))
LIMIT_S = 570

# batch: sequences of a step; micro: sequences of a micro-batch; seq: tokens of a sequence; mfu: the target MFU in percent.
MODELS = {
    "gpt2-124m": dict(arch="gpt2", layers=12, hidden=768, heads=12, seq=1024, batch=1024, micro=64, mfu=40),
    "gpt2-1558m": dict(arch="gpt2", layers=48, hidden=1600, heads=25, seq=1024, batch=256, micro=16, mfu=50),
    "llama-1b": dict(arch="llama", layers=16, hidden=2048, heads=16, groups=4, ffn=5632, seq=4096, batch=64, micro=4,
                     mfu=50),
}
VOCAB = step_model.VOCABULARY
FLOPS_PER_TOKEN = dict(zip(MODELS, step_model.flops_per_token()))
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


def model_flops(name, args):
    """Returns {"flops_per_token": ...} for a shape of bench/cuda.md, {} for a scaled one."""
    return {} if args.scale > 1 else {"flops_per_token": FLOPS_PER_TOKEN[name]}


class Skipped(Exception):
    pass


def run(command, args, **more):
    """Runs a command within the stage's time and returns its stdout. Raises RuntimeError with the last line of its output if
    it fails, or with the line of its output that reports other kernels than the requested ones."""
    left = args.deadline - time.monotonic()
    if left <= 0:
        raise RuntimeError("the stage's time ended before the command started")
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=left, env=dict(os.environ, **more))
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done after the {left:.0f} s that were left of the stage's time") from None
    if result.returncode != 0:
        said = (result.stderr.strip() or result.stdout.strip() or "nothing").splitlines()
        raise RuntimeError(f"exit {result.returncode}: {said[-1]}")
    for line in result.stderr.splitlines():
        if "instead of cuDNN" in line:
            raise RuntimeError(line)
    return result.stdout


def run_ours(command, args, **more):
    path = [gpu_libraries.library_path(), os.environ.get("LD_LIBRARY_PATH", "")]
    return run(command, args, LD_LIBRARY_PATH=":".join(filter(None, path)), **more)


def attentions(args):
    """Returns the attention backends of this build and this device."""
    if args.device != "cuda":
        return ["flash"]
    places = [os.environ["LM_PLUGIN_DIR"]] if "LM_PLUGIN_DIR" in os.environ else glob.glob(
        os.path.join(BUILD, "lib*")) + glob.glob(os.path.join(BUILD, "lib*", "lm-utils"))
    if any(os.path.exists(os.path.join(place, "liblm_cudnn.so")) for place in places):
        return ["flash", "cudnn"]
    print("without cuDNN's attention: the build has no liblm_cudnn.so", flush=True)
    return ["flash"]


def need_pytorch():
    if importlib.util.find_spec("torch") is None:
        raise Skipped("this Python has no PyTorch")


def copy(args):
    need_pytorch()
    yield dict(what="copy", **json.loads(run([sys.executable, "-c", COPY], args)))


def operations(args):
    program = os.path.join(BUILD, "bench", "bench_device_ops")
    ways = attentions(args)
    for name in MODELS:
        for attention in ways:
            only = ["attention"] if attention == "cudnn" else []
            try:
                out = run_ours([program, *(["--cudnn"] if attention == "cudnn" else []), name, str(args.scale ** 2),
                                *only], args)
            except RuntimeError as error:
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
             "--clip-grad", "1.0", "--log-interval", 1, "--train-iters", 8 if args.scale == 1 else 3, "--bf16",
             "--device", args.device, "--benchmark"]
    if m["arch"] == "llama":
        flags += ["--use-rotary-position-embeddings", "--swiglu", "--normalization", "RMSNorm",
                  "--untie-embeddings-and-output-weights", "--disable-bias-linear", "--group-query-attention",
                  "--num-query-groups", m["groups"], "--ffn-hidden-size", m["ffn"]]
    return [os.path.join(BUILD, "bin", "lm-train"), *map(str, flags)]


def train(name, args):
    command = train_command(name, args)
    ways = attentions(args)
    with tempfile.TemporaryDirectory() as choices:
        measured = ["--autotune", choices]
        for attention, tuned in (("flash", []), ("flash", measured), ("cudnn", []), ("cudnn", measured)):
            if attention not in ways:
                continue
            try:
                backend = ["--attention-backend", "fused" if attention == "cudnn" else "flash"]
                out = run_ours(command + tuned + backend, args)
            except RuntimeError as error:
                yield dict(what="failed", stage=f"train-{name}, {attention}", why=str(error))
                continue
            found = dict(what="train", model=name, attention=attention, **model_flops(name, args),
                         tool="lm-train, " + attention + (", autotuned" if tuned else ""))
            for key, pattern in (("tokens_per_s", r"^benchmark: ([\d.]+) tokens/s"), ("mfu", r"MFU ([\d.]+) %"),
                                 ("peak_tflop_s", r"MFU [\d.]+ % of the peak of ([\d.]+) TFLOP/s"), ("memory", r"^memory: (.*)$")):
                match = re.search(pattern, out, re.MULTILINE)
                if match:
                    found[key] = match[1] if key == "memory" else float(match[1])
            found["operations"] = out[out.find("benchmark:"):].splitlines()
            yield found


def train_pytorch(name, args):
    need_pytorch()
    m = scaled(name, args.scale)
    flags = ["--arch", m["arch"], "--model", "own", "--precision", "bf16", "--layers", m["layers"], "--hidden",
             m["hidden"], "--heads", m["heads"], "--vocab", m["vocab"], "--seq", m["seq"], "--batch", m["batch"],
             "--device", args.device, "--warmup", 2 if args.scale == 1 else 1, "--steps", 6 if args.scale == 1 else 2]
    for key in ("groups", "ffn"):
        flags += [f"--{key}", m[key]] if key in m else []
    program = [sys.executable, os.path.join(HERE, "train_pytorch.py"), *map(str, flags)]
    # Halves the micro-batch until it fits: PyTorch's loss stores all logits.
    micro = m["micro"]
    for attention in ("flash", "default") if args.device == "cuda" else ("flash",):
        while True:
            try:
                out = run([*program, "--attention", attention, "--micro-batch", str(micro)], args)
                yield dict(what="train", model=name, micro_batch=micro, **model_flops(name, args), **json.loads(out.splitlines()[-1]))
            except RuntimeError as error:
                if micro > 1 and "out of memory" in str(error).lower():
                    micro //= 2
                    continue
                yield dict(what="failed", stage=f"train-{name}-pytorch, {attention}", why=str(error))
            break


def train_llmc(name, args):
    """Trains llm.c on random tokens, with the settings of lm-train: fp32 masters, nothing recomputed, no evaluation, no samples."""
    m = scaled(name, args.scale)
    steps = 12
    with tempfile.TemporaryDirectory() as folder:
        # llm.c's data format: 256 numbers of 4 bytes (magic, version, number of tokens), then tokens of 2 bytes.
        data = os.path.join(folder, "tokens.bin")
        n_tokens = 2 * m["batch"] * m["seq"] + 1
        with open(data, "wb") as file:
            array.array("i", [20240520, 1, n_tokens] + [0] * 253).tofile(file)
            array.array("H", ((7919 * i) % 50257 for i in range(n_tokens))).tofile(file)
        flags = {"-i": data, "-j": data, "-e": f"d{m['layers']}", "-b": m["micro"], "-t": m["seq"],
                 "-d": m["batch"] * m["seq"], "-x": steps, "-l": "1e-4", "-c": "0.1", "-v": 1000, "-m": 1, "-s": 0,
                 "-h": 0, "-r": 0, "-w": 1, "-z": 0}
        out = run([os.path.join(args.llmc, "train_gpt2cu"), *(str(x) for pair in flags.items() for x in pair)], args)
    # The median of all steps but the first ones, which warm up. llm.c's own tokens/s are a moving average, and are not used.
    times = sorted(float(x) for x in re.findall(r"^step .*?([\d.]+) ms", out, re.MULTILINE)[4:])
    if not times:
        raise RuntimeError("llm.c printed no times of steps")
    yield dict(what="train", model=name, tool="llm.c", micro_batch=m["micro"], **model_flops(name, args),
               tokens_per_s=round(m["batch"] * m["seq"] / times[len(times) // 2] * 1e3, 1))


# Stages, with their limits in seconds.
STAGES = {"copy": (copy, 60), "ops": (operations, 500)}
for model in MODELS:
    STAGES[f"train-{model}"] = (lambda args, model=model: train(model, args), 500)
    STAGES[f"train-{model}-pytorch"] = (lambda args, model=model: train_pytorch(model, args), 500)
    if MODELS[model]["arch"] == "gpt2":
        STAGES[f"train-{model}-llmc"] = (lambda args, model=model: train_llmc(model, args), 200)


def one_stage(stage, args, file):
    """Runs a stage. Returns whether it succeeded."""
    start = time.monotonic()
    n = 0
    failures = []
    text = ""
    try:
        for found in STAGES[stage][0](args):
            print(json.dumps(dict(found, stage=found.get("stage", stage))), file=file, flush=True)
            if found["what"] == "failed":
                failures.append(f"{found['stage']}: {found['why']}")
            else:
                n += 1
    except Skipped as why:
        text = f"skipped: {why}"
    except (RuntimeError, OSError, ValueError) as error:
        print(json.dumps(dict(what="failed", stage=stage, why=str(error))), file=file, flush=True)
        failures.append(str(error))
    text = text or ("FAILED" if failures and n == 0 else f"{n} figures")
    print(f"{stage}: {text} in {time.monotonic() - start:.0f} s", flush=True)
    for why in failures:
        print(f"    failed: {why}", flush=True)
    return not failures


def measure(args, stages):
    begin = time.monotonic()
    left_out = []
    good = True
    with open(args.results, "a") as file:
        for stage in stages:
            now = time.monotonic()
            if args.within and now - begin + STAGES[stage][1] > args.within:
                left_out.append(stage)
                continue
            args.deadline = now + LIMIT_S
            if args.within:
                args.deadline = min(args.deadline, begin + args.within)
            good = one_stage(stage, args, file) and good
    if left_out:
        print("omitted for lack of time: " + " ".join(left_out))
    return 1 if not good else 3 if left_out else 0


def table(path):
    with open(path) as file:
        found = [json.loads(line) for line in file]
    copies = [f for f in found if f["what"] == "copy"]
    copy_gb_s = copies[-1]["gb_s"] if copies else 0
    if copies:
        print(f"{copies[-1]['gpu']}; a copy moves {copy_gb_s} GB/s, read plus write.\n")
    trained = [f for f in found if f["what"] == "train"]
    if trained:
        print("| model | tool | tokens/s | MFU % | wanted | memory |\n|---|---|---|---|---|---|")
    # MFU is by lm-train's formula and peak for all tools. It is computed from tokens/s, because the MFU that lm-train prints is
    # rounded.
    peaks = [f["peak_tflop_s"] for f in trained if "peak_tflop_s" in f]
    for f in trained:
        if peaks and "flops_per_token" in f:
            f["mfu"] = f"{100 * f['tokens_per_s'] * f['flops_per_token'] / peaks[-1] / 1e12:.1f}"
        if "memory_gib" in f:
            f.setdefault("memory", f"{f['memory_gib']} GiB allocated")
    for f in sorted(trained, key=lambda f: (list(MODELS).index(f["model"]), -f["tokens_per_s"])):
        wanted = MODELS[f["model"]]["mfu"] if "lm-train" in f["tool"] else ""
        print(f"| {f['model']} | {f['tool']} | {f['tokens_per_s']:.0f} | {f.get('mfu', '')} | {wanted} "
              f"| {f.get('memory', '')} |")
    ops = [f for f in found if f["what"] == "op"]
    if ops:
        print("\n| model | operation | MB | ms | GB/s | of a copy | GFLOP | TFLOP/s |\n|---|---|---|---|---|---|---|---|")
    for f in ops:
        share = f"{100 * f['gb_s'] / copy_gb_s:.0f} %" if copy_gb_s and "gflop" not in f else ""
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
    parser.add_argument("--llmc", metavar="DIR")
    parser.add_argument("stages", nargs="*")
    args = parser.parse_args()
    if args.stages == ["table"]:
        return table(args.results)
    for stage in args.stages:
        if stage not in STAGES:
            usage(f"no stage '{stage}': use one of {' '.join(STAGES)}, table")
        if stage.endswith("-llmc") and not args.llmc:
            usage(f"stage '{stage}': --llmc is missing: the directory of llm.c's train_gpt2cu")
    stages = args.stages or [stage for stage in STAGES if args.llmc or not stage.endswith("-llmc")]
    for stage in stages:
        if args.within and STAGES[stage][1] > args.within:
            usage(f"--within {args.within:g}: stage '{stage}' may take {STAGES[stage][1]} s: give a longer time or "
                  "other stages")
    return measure(args, stages)


def usage(message):
    print(f"gpu.py: {message}", file=sys.stderr)
    sys.exit(2)


sys.exit(main())
