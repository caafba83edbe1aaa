#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures PyTorch on the same training step as lm-train (bench/run.sh, bench/gpu.py): one JSON object on stdout.

GPT-2 124M's shape by default, no dropout; bf16 is autocast over fp32 parameters, as PyTorch users train. A step is
forward, backward, clipping to 1.0 and AdamW. Tokens are random: their values do not matter for the speed. The reported
time of a step is the median of the timed steps.

On a CPU the models are those of Hugging Face's transformers. With --device cuda they are those of pytorch_model.py,
which need PyTorch alone, compiled together with the loss; AdamW is the fused one; attention is
scaled_dot_product_attention, with PyTorch's flash kernels (--attention flash) or with the kernels that PyTorch selects,
possibly cuDNN's (--attention default). A step's tokens are split into micro-batches, as in lm-train.
"""
import argparse
import json
import os
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pytorch_model  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--arch", choices=("gpt2", "bloom", "llama"), default="gpt2")
parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
parser.add_argument("--model", choices=("transformers", "own"), help="default: own with --device cuda")
parser.add_argument("--attention", choices=("flash", "default"), default="flash", help="with --device cuda")
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--hidden", type=int, default=768)
parser.add_argument("--heads", type=int, default=12)
parser.add_argument("--groups", type=int, help="Llama: key and value heads; default: half of the heads")
parser.add_argument("--ffn", type=int, help="Llama: width of the MLP; default: 8/3 of the hidden size")
parser.add_argument("--vocab", type=int, default=50304)
parser.add_argument("--batch", type=int, default=4, help="sequences in a step")
parser.add_argument("--micro-batch", type=int, help="sequences of one forward and backward; default: all")
parser.add_argument("--seq", type=int, default=256)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--warmup", type=int, default=2)
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--recompute", action="store_true",
                    help="recompute the layers in backward, to save memory; for transformers' models only")
args = parser.parse_args()
cuda = args.device == "cuda"
own = (args.model or ("own" if cuda else "transformers")) == "own"
micro_batch = args.micro_batch or args.batch
groups = args.groups or args.heads // 2
ffn = args.ffn or 8 * args.hidden // 3 // 64 * 64


def transformers_model():
    import transformers
    if args.arch == "gpt2":
        config = transformers.GPT2Config(
            n_layer=args.layers, n_embd=args.hidden, n_head=args.heads, vocab_size=args.vocab, n_positions=args.seq,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    elif args.arch == "bloom":
        config = transformers.BloomConfig(
            n_layer=args.layers, hidden_size=args.hidden, n_head=args.heads, vocab_size=args.vocab)
    else:
        config = transformers.LlamaConfig(
            num_hidden_layers=args.layers, hidden_size=args.hidden, num_attention_heads=args.heads,
            num_key_value_heads=groups, intermediate_size=ffn, vocab_size=args.vocab,
            max_position_embeddings=args.seq, tie_word_embeddings=False)
    model = transformers.AutoModelForCausalLM.from_config(config)
    if args.recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.train()
    return model


def own_model():
    if args.arch == "bloom" or args.recompute:
        sys.exit("train_pytorch.py: --arch bloom and --recompute need --model transformers")
    if args.arch == "gpt2":
        return pytorch_model.gpt2(args.layers, args.hidden, args.heads, args.vocab, args.seq)
    return pytorch_model.llama(args.layers, args.hidden, args.heads, groups, ffn, args.vocab, args.seq)


torch.set_num_threads(args.threads)
torch.manual_seed(1234)
model = (own_model() if own else transformers_model()).to(args.device)
decay = [p for p in model.parameters() if p.dim() >= 2]
plain = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [dict(params=decay, weight_decay=0.1), dict(params=plain, weight_decay=0.0)], lr=1e-4, betas=(0.9, 0.95),
    **({"fused": True} if cuda else {}))


def loss_of(tokens):
    logits = model(tokens[:, :-1]) if own else model(tokens[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.float().reshape(-1, args.vocab), tokens[:, 1:].reshape(-1))


if cuda:
    # Without these lines, PyTorch would silently use these kernels when the requested ones refuse.
    torch.backends.cuda.enable_math_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    if hasattr(torch.backends.cuda, "enable_cudnn_sdp"):
        torch.backends.cuda.enable_cudnn_sdp(args.attention == "default")
    loss_of = torch.compile(loss_of)


def step(tokens):
    optimizer.zero_grad()
    total = 0
    for part in tokens.split(micro_batch):
        with torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            loss = loss_of(part) * (len(part) / len(tokens))
        loss.backward()
        total = total + loss.detach()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return total.item()


def name():
    """Returns PyTorch's version and its fp32 BLAS, which takes most of the time on a CPU."""
    text = f"PyTorch {torch.__version__}"
    if cuda:
        attention = "flash attention" if args.attention == "flash" else "flash or cuDNN attention, as it chooses"
        return f"{text} (compile, {attention}, fused AdamW)"
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
    loss = step(tokens)
    if i >= args.warmup:
        times.append(time.perf_counter() - start)
        cpu_times.append(time.process_time() - cpu_start)
times.sort()
median = times[len(times) // 2]
result = {
    "tool": name(),
    "parameters": sum(p.numel() for p in model.parameters()),
    "loss": round(loss, 4),
    "step_s": round(median, 4),
    "tokens_per_s": round(args.batch * args.seq / median, 1),
    "tokens_per_cpu_s": round(args.batch * args.seq / min(cpu_times), 1),
}
if cuda:
    result["memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 1)
print(json.dumps(result))
