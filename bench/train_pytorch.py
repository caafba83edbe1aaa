#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of PyTorch on the training step that lm-train gets too (bench/run.sh, bench/gpu.py): one JSON object on stdout.

GPT-2 124M's shape by default, no dropout; bf16 is autocast over fp32 parameters, as PyTorch users train. A step is forward, backward, clipping to 1.0 and AdamW. Tokens are random: their
values do not matter for the speed. The median over the timed steps is what counts.

With --device cuda the model is compiled, attention is scaled_dot_product_attention by its flash kernels alone, AdamW is
the fused one, and the loss too is compiled. A step's tokens go through in micro-batches, as lm-train's.
"""
import argparse
import json
import time

import torch
import transformers

parser = argparse.ArgumentParser()
parser.add_argument("--arch", choices=("gpt2", "bloom", "llama"), default="gpt2")
parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--hidden", type=int, default=768)
parser.add_argument("--heads", type=int, default=12)
parser.add_argument("--groups", type=int, help="Llama: key and value heads; default: half of the heads")
parser.add_argument("--ffn", type=int, help="Llama: width of the MLP; default: 8/3 of the hidden size")
parser.add_argument("--vocab", type=int, default=50304)
parser.add_argument("--batch", type=int, default=4, help="sequences in a step")
parser.add_argument("--micro-batch", type=int, help="sequences that go through together; default: all")
parser.add_argument("--seq", type=int, default=256)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--warmup", type=int, default=2)
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--recompute", action="store_true", help="layers are computed again in backward, where all do not fit")
args = parser.parse_args()
cuda = args.device == "cuda"
micro_batch = args.micro_batch or args.batch

torch.set_num_threads(args.threads)
torch.manual_seed(1234)
attention = {"attn_implementation": "sdpa"} if cuda else {}
if args.arch == "gpt2":
    config = transformers.GPT2Config(
        n_layer=args.layers, n_embd=args.hidden, n_head=args.heads, vocab_size=args.vocab, n_positions=args.seq,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **attention)
elif args.arch == "bloom":
    config = transformers.BloomConfig(
        n_layer=args.layers, hidden_size=args.hidden, n_head=args.heads, vocab_size=args.vocab)
else:
    config = transformers.LlamaConfig(
        num_hidden_layers=args.layers, hidden_size=args.hidden, num_attention_heads=args.heads,
        num_key_value_heads=args.groups or args.heads // 2,
        intermediate_size=args.ffn or 8 * args.hidden // 3 // 64 * 64, vocab_size=args.vocab,
        max_position_embeddings=args.seq, tie_word_embeddings=False, **attention)
model = transformers.AutoModelForCausalLM.from_config(config).to(args.device)
if args.recompute:
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
decay = [p for p in model.parameters() if p.dim() >= 2]
plain = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [dict(params=decay, weight_decay=0.1), dict(params=plain, weight_decay=0.0)], lr=1e-4, betas=(0.9, 0.95),
    **({"fused": True} if cuda else {}))


def loss_of(tokens):
    logits = model(tokens[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.float().reshape(-1, args.vocab), tokens[:, 1:].reshape(-1))


if cuda:
    torch.backends.cuda.enable_math_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    loss_of = torch.compile(loss_of)


def step(tokens):
    optimizer.zero_grad()
    for part in tokens.split(micro_batch):
        with torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            loss = loss_of(part)
        (loss * (len(part) / len(tokens))).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    loss.item()


def name():
    """PyTorch, and what multiplies matrices in fp32 on a CPU, which is most of the time there."""
    text = f"PyTorch {torch.__version__}"
    if cuda:
        return text + " (compile, flash attention, fused AdamW)"
    if torch.backends.mkl.is_available():
        return text + " with MKL"
    with open("/proc/self/maps") as maps:
        names = maps.read()
    if "openblas" in names:
        return text + " with OpenBLAS"
    return text + (" with the reference BLAS" if "/blas/libblas.so" in names else "")


times = []
cpu_times = []
for i in range(args.warmup + args.steps):
    tokens = torch.randint(0, args.vocab, (args.batch, args.seq + 1)).to(args.device)
    start = time.perf_counter()
    cpu_start = time.process_time()
    step(tokens)
    if i >= args.warmup:
        times.append(time.perf_counter() - start)
        cpu_times.append(time.process_time() - cpu_start)
times.sort()
median = times[len(times) // 2]
result = {
    "tool": name(),
    "step_s": round(median, 4),
    "tokens_per_s": round(args.batch * args.seq / median, 1),
    "tokens_per_cpu_s": round(args.batch * args.seq / min(cpu_times), 1),
}
if cuda:
    result["memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 1)
print(json.dumps(result))
