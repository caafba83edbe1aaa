#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lm-ckpt generate against transformers: the same greedy tokens, for prompts of every length up to the context, from a
Hugging Face directory, a checkpoint of lm-utils and one of Megatron."""
import json
import os
import subprocess
import tempfile

import torch
import transformers

import live

CONTEXT, VOCABULARY, NEW = 272, 503, 200


def models():
    """Small models with logits far enough apart that rounding changes no choice."""
    gpt2 = transformers.GPT2Config(n_layer=2, n_embd=48, n_head=4, n_positions=CONTEXT, vocab_size=VOCABULARY)
    bloom = transformers.BloomConfig(n_layer=2, hidden_size=48, n_head=6, vocab_size=VOCABULARY)
    bloom.seq_length = CONTEXT
    llama = dict(num_hidden_layers=2, hidden_size=48, intermediate_size=80, num_attention_heads=6, num_key_value_heads=2,
                 max_position_embeddings=CONTEXT, vocab_size=VOCABULARY)
    yield "gpt2", transformers.GPT2LMHeadModel(gpt2)
    yield "bloom", transformers.BloomForCausalLM(bloom)
    yield "llama", transformers.LlamaForCausalLM(transformers.LlamaConfig(**llama))
    if hasattr(transformers, "Ministral3ForCausalLM"):  # 5.0 or later, which computes the keys of a longer text again
        # Beyond 100 tokens a sequence has other frequencies.
        yield "phi3", transformers.Phi3ForCausalLM(transformers.Phi3Config(
            **llama, pad_token_id=0, original_max_position_embeddings=100, rope_scaling=dict(
                type="longrope", short_factor=[1.0, 1.25, 1.5, 2.0], long_factor=[1.5, 2.0, 6.0, 9.0])))
        yield "ministral3", transformers.Ministral3ForCausalLM(transformers.Ministral3Config(
            **llama, head_dim=16, sliding_window=64, pad_token_id=0, rope_parameters=dict(
                rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=50, mscale=1.0,
                mscale_all_dim=1.0, llama_4_scaling_beta=0.1)))
    yield "qwen2", transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**llama))


def spread(model):
    """Large weights, so that the text does not repeat one token."""
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if tensor.dim() > 1:
                tensor.normal_(0, 0.3 if "embed" in name or "wte" in name or "wpe" in name else 0.5)
            else:
                tensor.add_(torch.randn_like(tensor) * 0.1)
    return model.eval()


def ours(path, prompts, *flags):
    lines = "".join(json.dumps({"prompt": prompt, "max_new_tokens": new}) + "\n" for prompt, new in prompts)
    done = subprocess.run([live.tool("lm-ckpt"), "generate", path, "--prompts", "-", "--ignore-eod", "-q", *flags],
                          input=lines, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
    if done.returncode:
        live.fail(f"generate {path}: exit {done.returncode}")
    return [json.loads(line)["ids"] for line in done.stdout.splitlines()]


def theirs(model, prompt, new):
    with torch.no_grad():
        ids = torch.tensor([prompt])
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new, do_sample=False,
                             pad_token_id=0, eos_token_id=None)
    return out[0, len(prompt):].tolist()


def check(name, path, prompts, expected):
    got = ours(path, prompts)
    for (prompt, _), ids, wanted in zip(prompts, got, expected):
        if ids != wanted:
            live.fail(f"{name}: prompt of {len(prompt)} tokens: {ids} instead of {wanted}")


def main():
    torch.manual_seed(5)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models():
            spread(model)
            hf = os.path.join(folder, name)
            model.save_pretrained(hf)
            tokens = torch.randint(0, VOCABULARY, (CONTEXT,)).tolist()
            prompts = [(tokens[:n], min(6, CONTEXT - n + 1)) for n in range(1, CONTEXT + 1)]
            prompts += [(tokens[:n], NEW) for n in (1, 5, CONTEXT - NEW)]
            expected = [theirs(model, prompt, new) for prompt, new in prompts]
            distinct = len(set(expected[-1]))
            if distinct < 20:
                live.fail(f"{name}: the text of transformers has only {distinct} different tokens")
            check(f"{name}, Hugging Face", hf, prompts, expected)
            native, megatron = os.path.join(folder, name + "-native"), os.path.join(folder, name + "-megatron")
            live.run(live.tool("lm-convert"), hf, native, "--to", "native", "-q")
            check(f"{name}, native", native, prompts, expected)
            if name in ("gpt2", "bloom", "llama"):
                live.run(live.tool("lm-convert"), native, megatron, "--to", "megatron-lm", "-q")
                check(f"{name}, Megatron-LM", megatron, prompts[-3:], expected[-3:])
            print(f"{name}: {len(prompts)} prompts, {sum(map(len, expected))} tokens equal, {distinct} different")


main()
