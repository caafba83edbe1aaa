#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/pytorch_model.py, which bench/gpu.py compares with lm-train, equals Hugging Face's GPT-2 and Llama: the same number of
parameters, and the same logits and gradients from the same parameters."""
import os
import sys

import torch
import transformers

import live

sys.path.insert(0, os.path.join(live.ROOT, "bench"))
import pytorch_model  # noqa: E402

LAYERS, HIDDEN, HEADS, GROUPS, FFN, VOCAB, LENGTH = 2, 64, 4, 2, 128, 96, 32


def attention(q, k, v, is_causal, enable_gqa=False):
    """Attention by its definition, for PyTorch before 2.5, which has no grouped queries."""
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v


def gpt2_parameters(theirs):
    """Returns Hugging Face's weights under the names of pytorch_model; Conv1D weights are [in, out]."""
    yield "tokens.weight", theirs.transformer.wte.weight
    yield "positions.weight", theirs.transformer.wpe.weight
    for i, layer in enumerate(theirs.transformer.h):
        for ours, module in (("norm_1", layer.ln_1), ("attention.qkv", layer.attn.c_attn),
                             ("attention.out", layer.attn.c_proj), ("norm_2", layer.ln_2), ("mlp.up", layer.mlp.c_fc),
                             ("mlp.down", layer.mlp.c_proj)):
            weight = module.weight if "norm" in ours else module.weight.t()
            yield f"layers.{i}.{ours}.weight", weight
            yield f"layers.{i}.{ours}.bias", module.bias
    yield "norm.weight", theirs.transformer.ln_f.weight
    yield "norm.bias", theirs.transformer.ln_f.bias
    yield "head.weight", theirs.lm_head.weight


def llama_parameters(theirs):
    yield "tokens.weight", theirs.model.embed_tokens.weight
    for i, layer in enumerate(theirs.model.layers):
        a, mlp = layer.self_attn, layer.mlp
        yield f"layers.{i}.norm_1.weight", layer.input_layernorm.weight
        yield f"layers.{i}.attention.qkv.weight", torch.cat([a.q_proj.weight, a.k_proj.weight, a.v_proj.weight])
        yield f"layers.{i}.attention.out.weight", a.o_proj.weight
        yield f"layers.{i}.norm_2.weight", layer.post_attention_layernorm.weight
        yield f"layers.{i}.mlp.gate_up.weight", torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
        yield f"layers.{i}.mlp.down.weight", mlp.down_proj.weight
    yield "norm.weight", theirs.model.norm.weight
    yield "head.weight", theirs.lm_head.weight


def check(name, ours, theirs, parameters):
    counts = [sum(p.numel() for p in model.parameters()) for model in (ours, theirs)]
    if counts[0] != counts[1]:
        live.fail(f"{name}: {counts[0]} parameters, Hugging Face's has {counts[1]}")
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        ours.load_state_dict({key: value.contiguous() for key, value in parameters(theirs)}, strict=True)
    tokens = torch.randint(0, VOCAB, (2, LENGTH))
    logits = ours(tokens), theirs(tokens).logits
    worst = (logits[0] - logits[1]).abs().max().item()
    if not worst < 1e-4 * logits[1].abs().max().item():
        live.fail(f"{name}: logits differ by {worst}")
    gradients = []
    for model, output in zip((ours, theirs), logits):
        torch.nn.functional.cross_entropy(output.reshape(-1, VOCAB), tokens.reshape(-1)).backward()
        gradients.append(sum(p.grad.double().square().sum() for p in model.parameters()).sqrt().item())
    if not abs(gradients[0] - gradients[1]) < 1e-4 * gradients[1]:
        live.fail(f"{name}: the gradients' norm is {gradients[0]}, not {gradients[1]}")
    print(f"{name}: {counts[0]} parameters, logits within {worst:.1e}, gradients' norm {gradients[0]:.5f}")


def main():
    torch.manual_seed(1)
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 5):
        torch.nn.functional.scaled_dot_product_attention = attention
    config = transformers.GPT2Config(n_layer=LAYERS, n_embd=HIDDEN, n_head=HEADS, vocab_size=VOCAB, n_positions=LENGTH,
                                     resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    check("gpt2", pytorch_model.gpt2(LAYERS, HIDDEN, HEADS, VOCAB, LENGTH),
          transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager"), gpt2_parameters)
    config = transformers.LlamaConfig(num_hidden_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS,
                                      num_key_value_heads=GROUPS, intermediate_size=FFN, vocab_size=VOCAB,
                                      max_position_embeddings=LENGTH, tie_word_embeddings=False)
    check("llama", pytorch_model.llama(LAYERS, HIDDEN, HEADS, GROUPS, FFN, VOCAB, LENGTH),
          transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager"), llama_parameters)


main()
