#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of PyTorch on the training step that bench/run.sh gives lm-train too: one JSON object on stdout.

GPT-2 124M's shape, fp32, no dropout; a step is forward, backward, clipping to 1.0 and AdamW. Tokens are random: their
values do not matter for the speed. The median over the timed steps is what counts.
"""
import argparse
import json
import time

import torch
import transformers

parser = argparse.ArgumentParser()
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
config = transformers.GPT2Config(
    n_layer=args.layers, n_embd=args.hidden, n_head=args.heads, vocab_size=args.vocab, n_positions=args.seq,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
model = transformers.GPT2LMHeadModel(config)
decay = [p for p in model.parameters() if p.dim() >= 2]
plain = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [dict(params=decay, weight_decay=0.1), dict(params=plain, weight_decay=0.0)], lr=1e-4, betas=(0.9, 0.95))

times = []
for step in range(args.warmup + args.steps):
    tokens = torch.randint(0, args.vocab, (args.batch, args.seq + 1))
    start = time.perf_counter()
    logits = model(tokens[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, args.vocab), tokens[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    loss.item()
    if step >= args.warmup:
        times.append(time.perf_counter() - start)
times.sort()
median = times[len(times) // 2]
print(json.dumps({
    "tool": f"PyTorch {torch.__version__}",
    "step_s": round(median, 4),
    "tokens_per_s": round(args.batch * args.seq / median, 1),
}))
