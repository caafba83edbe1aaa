#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of PyTorch on the training step that bench/run.sh gives lm-train too: one JSON object on stdout.

GPT-2 124M's shape by default, no dropout; bf16 is autocast over fp32 parameters, as PyTorch users train. A step is forward, backward, clipping to 1.0 and AdamW. Tokens are random: their
values do not matter for the speed. The median over the timed steps is what counts.
"""
import argparse
import json
import time

import torch
import transformers

parser = argparse.ArgumentParser()
parser.add_argument("--arch", choices=("gpt2", "bloom", "llama"), default="gpt2")
parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--hidden", type=int, default=768)
parser.add_argument("--heads", type=int, default=12)
parser.add_argument("--vocab", type=int, default=50304)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--seq", type=int, default=256)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--warmup", type=int, default=2)
parser.add_argument("--steps", type=int, default=8)
args = parser.parse_args()

torch.set_num_threads(args.threads)
torch.manual_seed(1234)
if args.arch == "gpt2":
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=args.layers, n_embd=args.hidden, n_head=args.heads, vocab_size=args.vocab, n_positions=args.seq,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
elif args.arch == "bloom":
    model = transformers.BloomForCausalLM(transformers.BloomConfig(
        n_layer=args.layers, hidden_size=args.hidden, n_head=args.heads, vocab_size=args.vocab))
else:
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        num_hidden_layers=args.layers, hidden_size=args.hidden, num_attention_heads=args.heads,
        num_key_value_heads=args.heads // 2, intermediate_size=8 * args.hidden // 3 // 64 * 64, vocab_size=args.vocab,
        max_position_embeddings=args.seq, tie_word_embeddings=False))
decay = [p for p in model.parameters() if p.dim() >= 2]
plain = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [dict(params=decay, weight_decay=0.1), dict(params=plain, weight_decay=0.0)], lr=1e-4, betas=(0.9, 0.95))


def blas():
    """What multiplies matrices in fp32, which is most of the time."""
    if torch.backends.mkl.is_available():
        return " with MKL"
    with open("/proc/self/maps") as maps:
        names = maps.read()
    if "openblas" in names:
        return " with OpenBLAS"
    return " with the reference BLAS" if "/blas/libblas.so" in names else ""


times = []
cpu_times = []
for step in range(args.warmup + args.steps):
    tokens = torch.randint(0, args.vocab, (args.batch, args.seq + 1))
    start = time.perf_counter()
    cpu_start = time.process_time()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
        logits = model(tokens[:, :-1], use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, args.vocab), tokens[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    loss.item()
    if step >= args.warmup:
        times.append(time.perf_counter() - start)
        cpu_times.append(time.process_time() - cpu_start)
times.sort()
median = times[len(times) // 2]
print(json.dumps({
    "tool": f"PyTorch {torch.__version__}{blas()}",
    "step_s": round(median, 4),
    "tokens_per_s": round(args.batch * args.seq / median, 1),
    "tokens_per_cpu_s": round(args.batch * args.seq / min(cpu_times), 1),
}))
