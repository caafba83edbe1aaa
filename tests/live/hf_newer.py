#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trained models of classes that need transformers 4.51 or later have lm-train's logits in transformers, and are imported again
with every bit."""
# venv: .venv-megatron
import os
import tempfile

import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM

import live

ROWS, T = 3, 16
FLAGS = ("--num-layers 4 --seq-length 16 --hidden-size 36 --num-attention-heads 6 --group-query-attention --num-query-groups 2 "
         "--position-embedding-type rope --swiglu --normalization RMSNorm --disable-bias-linear "
         "--untie-embeddings-and-output-weights --rotary-base 5000 --vocab-size 101 --mock-data --init-method-std 0.1 "
         "--attention-dropout 0 --hidden-dropout 0 --micro-batch-size 2 --global-batch-size 4 --train-iters 6 --lr 1e-2 "
         "--eval-iters 0 --device cpu --threads 1 --save native")
WINDOW = "--window-size 4,0"
YARN = ("--position-embedding-type yarn --rotary-scaling-factor 4 --yarn-original-max-position-embeddings 8 --yarn-beta-fast 16 "
        "--no-yarn-correction-range-round-to-int")
MODELS = {  # class, flags
    "qwen3": ("Qwen3ForCausalLM", "--kv-channels 8 --qk-layernorm"),
    "qwen3-window": ("Qwen3ForCausalLM", f"--kv-channels 8 --qk-layernorm {WINDOW} --window-attn-skip-freq [0,0,1,1]"),
    "qwen2-window": ("Qwen2ForCausalLM", f"--add-qkv-bias {WINDOW}"),
    "ministral": ("MinistralForCausalLM", f"--kv-channels 8 {WINDOW} --window-attn-skip-freq 3"),
    "olmo2": ("Olmo2ForCausalLM", "--norm-placement reordered --qk-layernorm-all-heads"),
    "exaone4": ("Exaone4ForCausalLM", f"--kv-channels 8 --norm-placement reordered --qk-layernorm {WINDOW} "
                "--window-attn-skip-freq 4 --no-rope-freq 4"),
    "exaone4-no-window": ("Exaone4ForCausalLM", "--kv-channels 8 --norm-placement reordered --qk-layernorm"),
    "cohere2": ("Cohere2ForCausalLM", f"--normalization LayerNorm --no-norm-bias --use-parallel-residual --parallel-shared-norm "
                f"--rotary-interleaved --logit-scale 0.5 {WINDOW} --window-attn-skip-freq 4 --no-rope-freq 4"),
    "gemma3": ("Gemma3ForCausalLM", "--kv-channels 8 --norm-placement peri --apply-layernorm-1p --qk-layernorm "
               f"--embedding-multiplier 6 --attention-multiplier 0.5 {WINDOW} --window-attn-skip-freq 4 "
               "--rope-local-base-freq 500"),
    "olmo3": ("Olmo3ForCausalLM", f"--norm-placement reordered --qk-layernorm-all-heads {WINDOW} --window-attn-skip-freq 4 "
              "--rope-local-base-freq 500 --position-embedding-type yarn --rotary-scaling-factor 4 "
              "--yarn-original-max-position-embeddings 8"),
    "glm4": ("Glm4ForCausalLM", "--kv-channels 8 --norm-placement peri --add-qkv-bias --rotary-interleaved "
             "--rotary-percent 0.5"),
    "granite": ("GraniteForCausalLM", "--embedding-multiplier 3 --attention-multiplier 0.3 --residual-multiplier 0.6 "
                "--logit-scale 0.25"),
    "smollm3": ("SmolLM3ForCausalLM", "--no-rope-freq 4"),
    "llama-yarn": ("LlamaForCausalLM", f"{YARN} --mscale-all-dim 0.5"),
    "mistral-yarn": ("MistralForCausalLM", f"{YARN} --mscale 0.5 {WINDOW}"),
    "qwen3-yarn": ("Qwen3ForCausalLM", f"--kv-channels 8 --qk-layernorm {YARN} --rope-attention-factor 1.25"),
    "qwen2-linear": ("Qwen2ForCausalLM", "--add-qkv-bias --rotary-seq-len-interpolation-factor 2.5"),
    "stablelm-llama3": ("StableLmForCausalLM", "--normalization LayerNorm --rotary-percent 0.7 --use-rope-scaling "
                                               "--rope-scaling-factor 4 --rope-scaling-low-freq-factor 0.5 "
                                               "--rope-scaling-high-freq-factor 2 "
                                               "--rope-scaling-original-max-position-embeddings 16"),
    "phi3": ("Phi3ForCausalLM", f"--rotary-percent 0.67 {WINDOW}"),
    "seed_oss": ("SeedOssForCausalLM", "--kv-channels 8 --add-qkv-bias"),
    "ministral3": ("Ministral3ForCausalLM", f"--kv-channels 8 {YARN} --mscale-all-dim 1 --llama-4-scaling-beta 0.5"),
    "smollm3-window": ("SmolLM3ForCausalLM", f"--no-rope-freq 2 {WINDOW} --window-attn-skip-freq [0,1,0,1]"),
}


def check(name, class_name, flags):
    live.run(live.tool("lm-train"), *FLAGS.split(), *flags.split())
    live.run(live.tool("lm-convert"), "native", "hf", "--check", "--quiet")
    tokens = np.random.default_rng(1).integers(0, 101, (ROWS, T), dtype=np.int32)
    with open("tokens", "wb") as file:
        tokens.tofile(file)
    with open("tokens", "rb") as file:
        raw = live.subprocess.run([live.tool("test_logits"), "native"], stdin=file, stdout=-1, check=True).stdout
    ours = np.frombuffer(raw, np.float32).reshape(ROWS, T, -1)
    model, info = AutoModelForCausalLM.from_pretrained("hf", dtype=torch.float32, output_loading_info=True,
                                                       attn_implementation="eager")
    if type(model).__name__ != class_name or any(info.values()):
        live.fail(f"{name}: loaded as {type(model).__name__}: {info}")
    with torch.no_grad():
        theirs = model.eval()(torch.from_numpy(tokens).long(), use_cache=False).logits.numpy()
    difference, spread = float(np.abs(ours - theirs).max()), float(theirs.std())
    print(f"{name}: largest difference of logits {difference:.1e}, their standard deviation {spread:.2f}")
    if not difference < 1e-5 * spread:
        live.fail(f"{name}: the logits differ")
    live.run(live.tool("lm-convert"), "hf", "again", "--quiet")
    live.run(live.tool("lm-ckpt"), "diff", "native", "again", "--weights-only")
    model.save_pretrained("theirs")  # config.json and names as this version of transformers writes them
    live.run(live.tool("lm-convert"), "theirs", "once-more", "--quiet")
    live.run(live.tool("lm-ckpt"), "diff", "native", "once-more", "--weights-only")


def main():
    torch.set_num_threads(1)
    for name, (class_name, flags) in MODELS.items():
        if not hasattr(transformers, class_name):
            live.skip(f"transformers {transformers.__version__} has no {class_name}")
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            check(name, class_name, flags)
            os.chdir("/")


if __name__ == "__main__":
    main()
