#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny models of every architecture are trained here, converted, and loaded by transformers without a warning about keys: the
logits are equal within 1e-4. Converted back, they have the same bits. Models saved by transformers have the same logits here."""
import contextlib
import glob
import io
import json
import logging
import os
import re
import shutil
import subprocess
import tempfile

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

import live

T, ROWS, VOCABULARY = 24, 2, 257  # ByteTokenizer
COMMON = (f"--num-layers 2 --seq-length {T} --max-position-embeddings {T} --attention-dropout 0 --hidden-dropout 0 "
          "--micro-batch-size 2 --global-batch-size 2 --train-iters 6 --lr 1e-2 --device cpu --threads 1 "
          "--init-method-std 0.2").split()
LLAMA = "--position-embedding-type rope --normalization RMSNorm --swiglu"
# name: (the format that lm-convert chooses, the flags of lm-train)
MODELS = {
    "gpt2": ("hf-gpt2", "--hidden-size 30 --num-attention-heads 5 --ffn-hidden-size 70"),
    "gpt2-erf-untied": ("hf-gpt2", "--hidden-size 30 --num-attention-heads 3 --no-bias-gelu-fusion "
                                   "--untie-embeddings-and-output-weights"),
    "bloom": ("hf-bloom", "--hidden-size 42 --num-attention-heads 7 --position-embedding-type alibi --embed-layernorm"),
    "bloom-12-heads": ("hf-bloom", "--hidden-size 48 --num-attention-heads 12 --position-embedding-type alibi "
                                   "--embed-layernorm"),
    "llama-untied": ("hf-llama", f"{LLAMA} --hidden-size 36 --num-attention-heads 6 --group-query-attention --num-query-groups 3 "
                                 "--disable-bias-linear --untie-embeddings-and-output-weights --rotary-base 500000"),
    "llama-mqa-tied": ("hf-llama", f"{LLAMA} --hidden-size 40 --num-attention-heads 5 --group-query-attention --num-query-groups 1 "
                                   "--ffn-hidden-size 52 --disable-bias-linear"),
    "llama-biases": ("hf-llama", f"{LLAMA} --hidden-size 36 --num-attention-heads 6"),
    "mistral": ("hf-mistral", f"{LLAMA} --hidden-size 36 --num-attention-heads 6 --group-query-attention --num-query-groups 2 --kv-channels 8 "
                              "--disable-bias-linear --untie-embeddings-and-output-weights"),
    "neox": ("hf-gpt-neox", "--position-embedding-type rope --hidden-size 30 --num-attention-heads 5 "
                            "--untie-embeddings-and-output-weights"),
    "neox-parallel": ("hf-gpt-neox", "--position-embedding-type rope --hidden-size 40 --num-attention-heads 5 --rotary-percent 0.25 "
                                     "--no-bias-gelu-fusion --untie-embeddings-and-output-weights --use-parallel-residual"),
    "neox-tied": ("hf-gpt-neox", "--position-embedding-type rope --hidden-size 28 --num-attention-heads 7 "
                                 "--no-bias-gelu-fusion"),
    "starcoder2": ("hf-starcoder2", "--position-embedding-type rope --hidden-size 36 --num-attention-heads 6 "
                                    "--group-query-attention --num-query-groups 2 --disable-bias-linear"),
    "bigcode": ("hf-gpt-bigcode", "--hidden-size 30 --num-attention-heads 5 --group-query-attention --num-query-groups 1 "
                                  "--ffn-hidden-size 70"),
    "bigcode-erf-untied": ("hf-gpt-bigcode", "--hidden-size 28 --num-attention-heads 7 --group-query-attention "
                                             "--num-query-groups 1 --no-bias-gelu-fusion --untie-embeddings-and-output-weights"),
    "stablelm": ("hf-stablelm", "--position-embedding-type rope --swiglu --hidden-size 36 --num-attention-heads 6 --group-query-attention "
                                "--num-query-groups 2 --disable-bias-linear --rotary-base 5000"),
    "neox-partial": ("hf-gpt-neox", "--position-embedding-type rope --hidden-size 40 --num-attention-heads 5 --rotary-percent 0.25"),
    "starcoder2-relu2": ("hf-starcoder2", "--position-embedding-type rope --hidden-size 36 --num-attention-heads 6 --squared-relu "
                                          "--group-query-attention --num-query-groups 2 --disable-bias-linear"),
    "nemotron": ("hf-nemotron", "--position-embedding-type rope --hidden-size 48 --num-attention-heads 6 --group-query-attention "
                                "--num-query-groups 2 --disable-bias-linear --rotary-percent 0.5 --squared-relu --apply-layernorm-1p "
                                "--untie-embeddings-and-output-weights"),
    "qwen2": ("hf-qwen2", f"{LLAMA} --hidden-size 36 --num-attention-heads 6 --group-query-attention --num-query-groups 2 "
                          "--disable-bias-linear --add-qkv-bias"),
    "llama-scaled": ("hf-llama", f"{LLAMA} --hidden-size 48 --num-attention-heads 6 --disable-bias-linear --rotary-base 5000 "
                                 "--use-rope-scaling --rope-scaling-factor 4"),
    "mistral-window": ("hf-mistral", f"{LLAMA} --hidden-size 36 --num-attention-heads 6 --disable-bias-linear --window-size 4,0"),
    "stablelm-qkv-bias": ("hf-stablelm", "--position-embedding-type rope --swiglu --hidden-size 48 --num-attention-heads 6 "
                                         "--disable-bias-linear --add-qkv-bias --rotary-percent 0.25"),
}
if torch.__version__ < "2":  # its LayerNorm has no argument for the bias, which Nemotron's norm passes
    with_bias = torch.nn.LayerNorm.__init__
    torch.nn.LayerNorm.__init__ = (lambda self, shape, eps=1e-5, affine=True, bias=True, device=None, dtype=None:
                                   with_bias(self, shape, eps, affine, device, dtype))


def our_logits(saved, tokens):
    done = subprocess.run([live.tool("test_logits"), saved], input=tokens.tobytes(), stdout=subprocess.PIPE)
    if done.returncode:
        live.fail(f"test_logits {saved}: exit {done.returncode}")
    return np.frombuffer(done.stdout, np.float32).reshape(ROWS, T, -1)


def their_logits(directory, tokens):
    """Loads a directory with transformers; every warning except one on scaled rotations is an error."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger("transformers").addHandler(handler)
    with contextlib.redirect_stderr(log), torch.no_grad():
        model, info = AutoModelForCausalLM.from_pretrained(directory, torch_dtype=torch.float32,
                                                           output_loading_info=True, attn_implementation="eager")
        logits = model.eval()(torch.from_numpy(tokens).long(), use_cache=False).logits.numpy()
    logging.getLogger("transformers").removeHandler(handler)
    left = {key: value for key, value in info.items() if value}
    warnings = [line for line in log.getvalue().splitlines() if "original_max_position_embeddings field must be" not in line]
    if left or warnings:
        live.fail(f"{directory}: {left} {warnings}")
    return logits, model


def compare(name, ours, theirs):
    difference, spread = float(np.abs(ours - theirs).max()), float(theirs.std())
    print(f"{name}: logits {theirs.shape}, standard deviation {spread:.3f}: largest difference {difference:.2e}")
    if ours.shape != theirs.shape or spread < 0.1 or not difference <= 1e-4:
        live.fail(f"{name}: the logits differ, or have no spread")


def check_activation(saved, hf):
    """A wrong activation function in config.json is found and named."""
    shutil.copytree(hf, hf + "-tampered")
    path = hf + "-tampered/config.json"
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    key = "activation_function" if "activation_function" in config else "hidden_act"
    right = config.get(key)
    if right is None:  # BLOOM has one activation
        return
    config[key] = {"gelu": "gelu_new", "gelu_new": "gelu", "gelu_pytorch_tanh": "gelu", "silu": "gelu", "relu2": "gelu"}[right]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    done = subprocess.run([live.tool("lm-convert"), hf + "-tampered", "--check", "--against", saved],
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 1 or not re.search(f'{key} is "[a-z_]+", expected "{right}"', done.stderr):
        live.fail(f"{hf}: {key} {config[key]} was not found: exit {done.returncode}: {done.stderr}")


def check(name, chosen, flags, data, tokens):
    saved, hf, back = name + "-saved", name + "-hf", name + "-back"
    live.run(live.tool("lm-train"), *COMMON, *flags.split(), "--data-path", data, "--save", saved,
             stderr=subprocess.DEVNULL)
    live.run(live.tool("lm-convert"), saved, hf, "--check", "--quiet")
    config = transformers.AutoConfig.from_pretrained(hf)
    if "hf-" + config.model_type.replace("_", "-") != chosen:
        live.fail(f"{name}: expected {chosen}, got {config.model_type}")
    if config.vocab_size != VOCABULARY:
        live.fail(f"{name}: expected a vocabulary without padding, got {config.vocab_size}")
    check_activation(saved, hf)
    theirs, model = their_logits(hf, tokens)
    compare(name, our_logits(saved, tokens), theirs)
    live.run(live.tool("lm-convert"), hf, back, "--quiet")
    live.run(live.tool("lm-ckpt"), "diff", saved, back, "--weights-only")

    # A model that transformers saved itself, with other numbers, as safetensors in shards.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.1)
    again = name + "-again"
    model.save_pretrained(again, max_shard_size="20KB")
    live.run(live.tool("lm-convert"), again, again + "-native", "--check", "--quiet")
    compare(name + " saved by transformers", our_logits(again + "-native", tokens), their_logits(again, tokens)[0])
    live.run(live.tool("lm-convert"), again + "-native", again + "-hf", "--quiet", "--to", chosen)
    ours, theirs = load_file(again + "-hf/model.safetensors"), model.state_dict()
    for key, tensor in ours.items():
        if tensor.tobytes() != theirs[key].numpy().tobytes():
            live.fail(f"{name}: {key} has different bits")
    if name in ("gpt2", "llama-mqa-tied"):
        check_bin(name, saved, hf, model, tokens)


def check_bin(name, saved, hf, model, tokens):
    """pytorch_model.bin in both directions, in one file and in shards; written by torch in its older format, too."""
    for size in ("1GB", "20KB"):
        out = f"{name}-bin-{size}"
        live.run(live.tool("lm-convert"), saved, out, "--format", "bin", "--max-shard-size", size, "--check", "--quiet")
        parts = sorted(glob.glob(out + "/pytorch_model*.bin"))
        if (len(parts) == 1) != (size == "1GB"):
            live.fail(f"{out}: {parts}")
        for part in parts:
            torch.load(part, weights_only=True)
        if not np.array_equal(their_logits(out, tokens)[0], their_logits(hf, tokens)[0]):
            live.fail(f"{out}: other logits than the safetensors")
        live.run(live.tool("lm-convert"), out, out + "-back", "--quiet")
        live.run(live.tool("lm-ckpt"), "diff", saved, out + "-back", "--weights-only")
    for kind, options in (("new", {}), ("old", {"_use_new_zipfile_serialization": False})):
        folder = f"{name}-torch-{kind}"
        os.mkdir(folder)
        shutil.copy(f"{name}-again/config.json", folder)
        # Parameters that are views into one storage with gaps, as older DeepSpeed writes them.
        state = model.state_dict()
        flat = torch.cat([torch.cat([tensor.flatten(), torch.zeros(3)]) for tensor in state.values()])
        at, views = 1, {}
        flat = torch.cat([torch.zeros(1), flat])
        for key, tensor in state.items():
            views[key] = flat[at:at + tensor.numel()].view(tensor.shape)
            at += tensor.numel() + 3
        torch.save(views, folder + "/pytorch_model.bin", **options)
        live.run(live.tool("lm-convert"), folder, folder + "-native", "--quiet")
        live.run(live.tool("lm-ckpt"), "diff", f"{name}-again-native", folder + "-native", "--weights-only")
    model.save_pretrained(name + "-torch-shards", max_shard_size="20KB", safe_serialization=False)
    live.run(live.tool("lm-convert"), name + "-torch-shards", name + "-torch-shards-native", "--quiet")
    live.run(live.tool("lm-ckpt"), "diff", f"{name}-again-native", name + "-torch-shards-native", "--weights-only")
    print(f"{name}: pytorch_model.bin in both directions")


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    transformers.utils.logging.disable_progress_bar()
    corpus = live.corpus()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open(corpus, encoding="utf-8") as lines, open("some.jsonl", "w", encoding="utf-8") as some:
            some.writelines(line for _, line in zip(range(60), lines))
        live.run(live.tool("lm-preprocess"), "--input", "some.jsonl", "--output-prefix", "some", "--append-eod",
                 "--tokenizer-type", "ByteTokenizer", "--quiet")
        tokens = np.fromfile("some_text_document.bin", np.uint16)[:ROWS * T].astype(np.int32).reshape(ROWS, T)
        for name, (chosen, flags) in MODELS.items():
            check(name, chosen, flags, "some_text_document", tokens)


if __name__ == "__main__":
    main()
