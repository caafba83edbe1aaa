#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares lm-estimate time with measured step times (bench/data/step_times_*.tsv) and prints the table of bench/RESULTS.md.

bench/step_times.py BIN: BIN contains lm-estimate. With --check, exits with 1 when an error exceeds the bounds that
tests/e2e/estimate_step_times.sh holds.

Three constants are calibrated on the six rows that are marked with *: matmul_fraction and memory_fraction of
share/hardware/a100.txt, and the host's time of lib/cost/layer_time.hpp.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
CALIBRATED = {("3.6", 8, 2, 32, 1), ("3.6", 2, 8, 8, 1), ("39.1", 8, 8, 32, 2), ("39.1", 2, 4, 8, 16), ("175", 3, 4, 8, 16),
              ("22B", 4, 8, 1, 1)}  # model, micro batch, TP, DP, PP; 22B with full recomputation
# Rows of the 39.1B model, as (micro batch, TP, DP, PP), whose estimates are 10 to 39 % too low, and whose measured times are
# longer than those of similar rows. For example, at micro batch 3, the irregular row TP 4, DP 16, PP 8 takes 17.6 s, and TP 4, DP
# 8, PP 16 takes 15.0 s. The irregular row has 39 slots of 6 layers instead of 79 slots of 3: the same computation and fewer
# messages. Its gradients, 2.4 GB a GPU, cannot take 2.6 s more: TP 1, DP 32, PP 16 has twice these gradients and is regular, and
# so is TP 4, DP 16, PP 8 at micro batch 12.
IRREGULAR = {(3, 2, 16, 16), (6, 2, 16, 16), (6, 2, 32, 8), (3, 4, 16, 8), (4, 4, 16, 8), (4, 4, 32, 4), (6, 4, 32, 4)}
RECOMPUTE = {"none": [], "full": ["--recompute-granularity", "full", "--recompute-method", "uniform"],
             "selective+sequence-parallel": ["--recompute-granularity", "selective", "--sequence-parallel"]}


def rows_of(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as file:
        return list(csv.reader((line for line in file if not line.startswith("#")), delimiter="\t"))


def measured_steps():
    """Returns a list of dictionaries, one for each measured step."""
    steps = []
    for size, gpus, batch, micro, hidden, heads, layers, seq, tp, dp, pp, ms in rows_of("step_times_vtrain.tsv")[1:]:
        steps.append({"source": "vTrain", "model": size, "layers": layers, "hidden": hidden, "heads": heads, "vocab": "51200",
                      "seq": seq, "gpus": gpus, "tp": tp, "pp": pp, "dp": dp, "chunks": "1", "micro": micro, "batch": batch,
                      "recompute": "full", "seconds": float(ms) / 1000})
    names = ("source", "model", "layers", "hidden", "heads", "vocab", "seq", "gpus", "gpu", "tp", "pp", "dp", "chunks", "micro",
             "batch", "recompute", "seconds")
    for row in rows_of("step_times_others.tsv"):
        step = dict(zip(names, row))
        step["seconds"] = float(step["seconds"])
        steps.append(step)
    return steps


def published_throughputs():
    """Returns a list of dictionaries, one for each row of step_times_throughput.tsv."""
    names = ("source", "model", "layers", "hidden", "heads", "vocab", "seq", "gpus", "gpu", "tp", "pp", "micro", "batch", "tflops",
             "seconds")
    steps = []
    for row in rows_of("step_times_throughput.tsv"):
        step = dict(zip(names, row)) | {"chunks": "1", "recompute": "full"}
        if step["seconds"] == "-":
            layers, hidden, seq, vocab = (int(step[key]) for key in ("layers", "hidden", "seq", "vocab"))
            flops = 96 * int(step["batch"]) * seq * layers * hidden**2 * (1 + seq / (6 * hidden) + vocab / (16 * layers * hidden))
            step["seconds"] = flops / (float(step["tflops"]) * 1e12 * int(step["gpus"]))
        step["seconds"] = float(step["seconds"])
        steps.append(step)
    return steps


def print_throughputs(bin_directory):
    """Prints the comparison with published throughputs. Returns the largest error of Megatron-LM's rows on A100."""
    largest = 0
    print("\n| source | model | GPUs | GPU | TP | PP | micro batch | batch | measured s | estimate s | error |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for step in published_throughputs():
        best = step["micro"] == "best"
        micros = ["1", "2", "4", "8", "16"] if best else [step["micro"]]
        seconds, micro = min((estimate(bin_directory, step | {"micro": micro}), micro) for micro in micros)
        error = seconds / step["seconds"] - 1
        if best:
            largest = max(largest, abs(error))
        print(f"| {step['source']} | {step['model']} | {step['gpus']} | {step['gpu']} | {step['tp']} | {step['pp']} | {micro}"
              f"{' (best)' if best else ''} | {step['batch']} | {step['seconds']:.2f} | {seconds:.2f} | {100 * error:+.1f} % |")
    return largest


def published_memory():
    """Returns (model, recompute, GiB of one GPU) for figure 1 of arXiv 2205.05198."""
    rows = []
    with open(os.path.join(DATA, "step_times_others.tsv"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("# memory\t"):
                _, model, state, activations, selective = line.split("\t")
                rows.append((model, "none", float(state) + float(activations)))
                rows.append((model, "selective+sequence-parallel", float(state) + float(selective)))
    return rows


def print_memory(bin_directory, steps):
    """Prints the memory of figure 1, with and without the vocabulary. Returns the largest error without it."""
    print("\n| arXiv 2205.05198 figure 1 | recompute | GiB | estimate without vocabulary | error | with 51,200 tokens | error |")
    print("|---|---|---|---|---|---|---|")
    errors = []
    for model, recompute, published in published_memory():
        shape = next(step for step in steps if step["model"] == model and step["source"].startswith("arXiv")) | {"recompute": recompute}
        cells = []
        # A vocabulary of one token for each tensor rank takes almost no memory.
        tiny = ["--make-vocab-size-divisible-by", "1", "--position-embedding-type", "rope"]
        for vocab, flags in ((shape["tp"], tiny), (shape["vocab"], [])):
            gib = estimates(bin_directory, shape | {"vocab": vocab}, flags)["memory_bytes"] / 2**30
            cells += [f"{gib:.2f}", f"{100 * (gib / published - 1):+.1f} %"]
            errors += [abs(gib / published - 1)] if flags else []
        print(f"| {model} | {recompute} | {published:.2f} | {' | '.join(cells)} |")
    return max(errors)


def estimate(bin_directory, step):
    return estimates(bin_directory, step)["step_s"]


def estimates(bin_directory, step, flags=()):
    """Returns what `lm-estimate time` prints for a step."""
    command = [os.path.join(bin_directory, "lm-estimate"), "time", "--json", "--gpu", step.get("gpu", "a100").replace("A100-80", "a100"), "--gpus", step["gpus"],
               "--num-layers", step["layers"], "--hidden-size", step["hidden"], "--num-attention-heads", step["heads"],
               "--seq-length", step["seq"], "--vocab-size", step["vocab"], "--tensor-model-parallel-size", step["tp"],
               "--pipeline-model-parallel-size", step["pp"], "--micro-batch-size", step["micro"], "--global-batch-size", step["batch"]] + RECOMPUTE[step["recompute"]]
    if step["chunks"] != "1":
        command += ["--num-virtual-stages-per-pipeline-rank", step["chunks"]]
    if step["source"].startswith("BLOOM"):
        command += ["--pp-partition-method", "type:transformer|embedding", "--bf16", "--zero-stage", "1",
                    "--position-embedding-type", "alibi", "--network", "omni-path"]
    command += flags
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"step_times: {' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[0])


def ranks(values):
    """Returns the rank of each value; equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def rank_correlation(steps, key="estimate"):
    return statistics.correlation(ranks([step["seconds"] for step in steps]), ranks([step[key] for step in steps]))


def shape_of(step):
    return tuple(int(step[key]) for key in ("micro", "tp", "dp", "pp"))


def print_irregular(steps):
    """Prints the rank correlation of the 39.1B model without the irregular rows, and with exact estimates of all others."""
    regular = [step for step in steps if shape_of(step) not in IRREGULAR]
    for step in steps:
        step["oracle"] = step["estimate"] if shape_of(step) in IRREGULAR else step["seconds"]
    print(f"39.1B: rank correlation {rank_correlation(regular):.2f} without its {len(steps) - len(regular)} irregular rows; "
          f"{rank_correlation(steps, 'oracle'):.2f} if the estimates of all other rows were exact.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin", metavar="BIN")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    steps = measured_steps()
    print("| source | model | GPUs | TP | PP | DP | micro batch | batch | measured s | estimate s | error |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for step in steps:
        step["estimate"] = estimate(args.bin, step)
        step["error"] = step["estimate"] / step["seconds"] - 1
        key = (step["model"], int(step["micro"]), int(step["tp"]), int(step["dp"]), int(step["pp"]))
        mark = " *" if key in CALIBRATED and step["recompute"] == "full" else ""
        print(f"| {step['source']}{mark} | {step['model']} | {step['gpus']} | {step['tp']} | {step['pp']} | {step['dp']} | "
              f"{step['micro']} | {step['batch']} | {step['seconds']:.2f} | {step['estimate']:.2f} | {100 * step['error']:+.1f} % |")
    vtrain = [step for step in steps if step["source"] == "vTrain" and int(step["tp"]) <= 8]
    errors = [abs(step["error"]) for step in vtrain]
    paper = max(abs(step["error"]) for step in steps if step["source"].startswith("arXiv"))
    of_175 = rank_correlation([step for step in vtrain if step["model"] == "175"])
    rows_39 = [step for step in vtrain if step["model"] == "39.1"]
    of_39 = rank_correlation(rows_39)
    print(f"\nvTrain's rows with TP of at most 8: mean error {100 * statistics.mean(errors):.1f} %, median "
          f"{100 * statistics.median(errors):.1f} %; rank correlation {of_175:.2f} (175B), {of_39:.2f} (39.1B). "
          f"arXiv 2205.05198: at most {100 * paper:.1f} %.")
    print_irregular(rows_39)
    memory = print_memory(args.bin, steps)
    throughput = print_throughputs(args.bin)
    good = memory < 0.02 and statistics.mean(errors) < 0.07 and statistics.median(errors) < 0.035 and of_175 > 0.9 and paper < 0.05 and of_39 > 0.7 and throughput < 0.08
    return 1 if args.check and not good else 0


sys.exit(main())
