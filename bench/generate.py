#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures lm-ckpt generate (build/release/bench/decode_speed) and transformers on one model, in turn in one run.

bench/generate.py [--threads 2] [--rounds 3] [--layers 12] [--hidden 768] [--build build/release]: Markdown on stdout. The model
is a GPT-2 of random weights. The floor of a token is the time to read the weights once at the rate at which all threads
read 1 GiB of memory in the same run. Each figure is the best of all rounds.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time

import torch
import transformers

PROMPT, TOKENS = 256, 32


def theirs(model, threads):
    """Returns the tokens per second of a prompt and of the tokens after it, with key-value cache, greedily."""
    torch.set_num_threads(threads)
    ids = (torch.arange(PROMPT) * 7919 + 13)[None] % model.config.vocab_size
    with torch.inference_mode():
        start = time.perf_counter()
        out = model(ids, use_cache=True, num_logits_to_keep=1) if "num_logits_to_keep" in model.forward.__code__.co_varnames \
            else model(ids, use_cache=True)
        prompt, each = time.perf_counter() - start, []
        for _ in range(TOKENS):
            start = time.perf_counter()
            out = model(out.logits[:, -1:].argmax(-1), past_key_values=out.past_key_values, use_cache=True)
            each.append(time.perf_counter() - start)
    return PROMPT / prompt, 1 / min(each)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--build", default="build/release")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    config = transformers.GPT2Config(n_layer=args.layers, n_embd=args.hidden, n_head=args.hidden // 64)
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        model = transformers.GPT2LMHeadModel(config).eval()
        model.save_pretrained(folder)
        halves = {"fp32": model, "bf16": transformers.GPT2LMHeadModel.from_pretrained(folder, torch_dtype=torch.bfloat16)}
        program = os.path.join(args.build, "bench", "decode_speed")
        for _ in range(args.rounds):
            for dtype in ("fp32", "bf16"):
                done = subprocess.run([program, folder, dtype, str(args.threads), "2", str(TOKENS), str(PROMPT)],
                                      check=True, stdout=subprocess.PIPE, text=True)
                ours = json.loads(done.stdout)
                rows.setdefault(("lm-ckpt", dtype), []).append(ours)
                prompt, tokens = theirs(halves[dtype], args.threads)
                rows.setdefault((f"transformers {transformers.__version__}", dtype), []).append(
                    {"tokens_per_s": tokens, "prompt_tokens_per_s": prompt})
    size = sum(tensor.numel() for tensor in model.parameters()) / 1e6
    print(f"GPT-2 of {size:.0f}M random weights, {args.threads} threads, prompt of {PROMPT} tokens, then {TOKENS} tokens, "
          f"best of {args.rounds} rounds:\n")
    print("| program | weights | tokens/s | of the bandwidth floor | prompt tokens/s | of lm-train's forward |\n|---|---|---|---|---|---|")
    best_of = lambda key, results: max(result[key] for result in results)  # noqa: E731
    every = [result for results in rows.values() for result in results if "read_bytes_per_s" in result]
    rate = best_of("read_bytes_per_s", every)
    for (tool, dtype), results in sorted(rows.items(), key=lambda row: row[0][1], reverse=True):
        tokens, prompt = best_of("tokens_per_s", results), best_of("prompt_tokens_per_s", results)
        floor = rate / rows["lm-ckpt", dtype][0]["weights_bytes"]
        print(f"| {tool} | {dtype} | {tokens:.1f} | {tokens / floor:.2f} | {prompt:.0f} | "
              f"{prompt / best_of('forward_tokens_per_s', every):.2f} |")
    print(f"\nAll threads together read memory at {rate / 1e9:.1f} GB/s.")


main()
