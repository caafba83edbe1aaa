#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_models.py [DIR [CASE...]]: writes the golden files of the other architectures (README.md describes them).

The referees are the classes of transformers under PyTorch, on the CPU, in fp32 and once more in float64. Weights and
gradients have lm-utils' names, so fused projections are divided into their parts.
"""
import json
import os
import sys

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

from make_gpt2 import ADAM, CLIP, STEPS, WEIGHT_DECAY, documents, forward, load_weights, logits_at, train

COMMON = dict(bos_token_id=0, eos_token_id=0, use_cache=False)
LLAMA_NAMES = ("model.layers.",
               {"input_layernorm": "attention.norm", "self_attn.q_proj": "attention.query",
                "self_attn.k_proj": "attention.key", "self_attn.v_proj": "attention.value",
                "self_attn.o_proj": "attention.output", "post_attention_layernorm": "mlp.norm",
                "mlp.gate_proj": "mlp.gate", "mlp.up_proj": "mlp.up", "mlp.down_proj": "mlp.down"},
               {"embed_tokens": "embedding.word", "norm": "final_norm", "lm_head": "head"})


def bloom(layers, hidden, heads, vocab, length):
    config = transformers.BloomConfig(
        n_layer=layers, hidden_size=hidden, n_head=heads, vocab_size=vocab, hidden_dropout=0.0, attention_dropout=0.0,
        layer_norm_epsilon=1e-5, **COMMON)
    ours = dict(num_layers=layers, hidden_size=hidden, ffn_hidden_size=4 * hidden, num_attention_heads=heads,
                num_query_groups=heads, kv_channels=hidden // heads, seq_length=length, vocab_size=vocab,
                position_embedding_type="alibi", embed_layernorm=True)
    return transformers.BloomForCausalLM(config), ours, fused_names("transformer.h.", "self_attention.", dict(
        word_embeddings="embedding.word", word_embeddings_layernorm="embedding.norm", ln_f="final_norm")), heads


def llama(layers, hidden, ffn, heads, groups, vocab, length, base=10000.0):
    config = transformers.LlamaConfig(
        num_hidden_layers=layers, hidden_size=hidden, intermediate_size=ffn, num_attention_heads=heads,
        num_key_value_heads=groups, vocab_size=vocab, max_position_embeddings=length, rope_theta=base,
        rms_norm_eps=1e-5, tie_word_embeddings=False, **COMMON)
    config._attn_implementation = "eager"
    ours = dict(num_layers=layers, hidden_size=hidden, ffn_hidden_size=ffn, num_attention_heads=heads,
                num_query_groups=groups, kv_channels=hidden // heads, seq_length=length, vocab_size=vocab,
                position_embedding_type="rope", rotary_base=base, normalization="RMSNorm", activation="swiglu",
                untie_embeddings_and_output_weights=True, linear_bias=False)
    return transformers.LlamaForCausalLM(config), ours, LLAMA_NAMES, heads


def llama_variant(cls, config_class, vocab, length, ours, layers=2, **theirs):
    """Returns a model whose tensors have Llama's names, with hidden size 24 and 6 heads in 3 groups unless stated otherwise."""
    config = config_class(**{**dict(
        num_hidden_layers=layers, hidden_size=24, intermediate_size=36, num_attention_heads=6, num_key_value_heads=3,
        vocab_size=vocab, max_position_embeddings=length, tie_word_embeddings=False), **theirs}, **COMMON)
    config._attn_implementation = "eager"
    ours = {**dict(num_layers=layers, hidden_size=24, ffn_hidden_size=36, num_attention_heads=6, num_query_groups=3,
                   kv_channels=4, seq_length=length, vocab_size=vocab, position_embedding_type="rope",
                   normalization="RMSNorm", activation="swiglu", untie_embeddings_and_output_weights=True,
                   linear_bias=False), **ours}
    return cls(config), ours, LLAMA_NAMES, ours["num_attention_heads"]


def qwen2(vocab, length):
    return llama_variant(transformers.Qwen2ForCausalLM, transformers.Qwen2Config, vocab, length, dict(add_qkv_bias=True),
                         rms_norm_eps=1e-5)


def qwen3(vocab, length, ours=None, **theirs):
    """Heads of 8, wider than hidden size / heads."""
    model, ours, (layers, parts, outer), heads = llama_variant(
        transformers.Qwen3ForCausalLM, transformers.Qwen3Config, vocab, length,
        dict(qk_layernorm=True, kv_channels=8) | (ours or {}), rms_norm_eps=1e-5, head_dim=8, attention_bias=False, **theirs)
    parts = parts | {"self_attn.q_norm": "attention.query_norm", "self_attn.k_norm": "attention.key_norm"}
    return model, ours, (layers, parts, outer), heads


def mistral(vocab, length, window):
    return llama_variant(transformers.MistralForCausalLM, transformers.MistralConfig, vocab, length, dict(window=window),
                         rms_norm_eps=1e-5, sliding_window=window)


def qwen3_window(vocab, length):
    """Only the last layers have a window."""
    return qwen3(vocab, length, dict(window=4, window_attn_skip_freq=[0, 0, 1]), layers=3, use_sliding_window=True,
                 sliding_window=4, max_window_layers=2)


def smollm3(vocab, length):
    """Every third layer has no rotary positions."""
    return llama_variant(transformers.SmolLM3ForCausalLM, transformers.SmolLM3Config, vocab, length, dict(no_rope_freq=3),
                         layers=3, rms_norm_eps=1e-5, no_rope_layer_interval=3, pad_token_id=None,
                         rope_parameters=dict(rope_type="default", rope_theta=10000.0))


def ministral(vocab, length):
    """The first layer has no window."""
    return llama_variant(transformers.MinistralForCausalLM, transformers.MinistralConfig, vocab, length,
                         dict(window=4, window_attn_skip_freq=[0, 1, 1]), layers=3, rms_norm_eps=1e-5, head_dim=4,
                         sliding_window=4, layer_types=["full_attention", "sliding_attention", "sliding_attention"])


REORDERED = (LLAMA_NAMES[0],
             {**LLAMA_NAMES[1], "post_attention_layernorm": "attention.output_norm",
              "post_feedforward_layernorm": "mlp.output_norm", "self_attn.q_norm": "attention.query_norm",
              "self_attn.k_norm": "attention.key_norm"}, LLAMA_NAMES[2])


def olmo2(vocab, length):
    """One norm over all heads of query and of key."""
    model, ours, _, heads = llama_variant(
        transformers.Olmo2ForCausalLM, transformers.Olmo2Config, vocab, length,
        dict(norm_placement="reordered", qk_layernorm=True, qk_layernorm_all_heads=True), rms_norm_eps=1e-5,
        pad_token_id=None)
    return model, ours, REORDERED, heads


def exaone4(vocab, length):
    """The third layer has neither a window nor rotary positions."""
    model, ours, _, heads = llama_variant(
        transformers.Exaone4ForCausalLM, transformers.Exaone4Config, vocab, length,
        dict(norm_placement="reordered", qk_layernorm=True, window=4, window_attn_skip_freq=3, no_rope_freq=3), layers=4,
        rms_norm_eps=1e-5, head_dim=4, sliding_window=4,
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"])
    return model, ours, REORDERED, heads


def granite(vocab, length):
    return llama_variant(
        transformers.GraniteForCausalLM, transformers.GraniteConfig, vocab, length,
        dict(embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.6, logit_scale=0.25,
             activation="geglu_tanh"),
        rms_norm_eps=1e-5, embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.6, logits_scaling=4.0,
        hidden_act="gelu_pytorch_tanh", pad_token_id=None)


def cohere2(vocab, length):
    """Only the layers with a window rotate."""
    model, ours, (layers, parts, outer), heads = llama_variant(
        transformers.Cohere2ForCausalLM, transformers.Cohere2Config, vocab, length,
        dict(normalization="LayerNorm", norm_bias=False, use_parallel_residual=True, parallel_shared_norm=True,
             rotary_interleaved=True, logit_scale=0.5, window=4, window_attn_skip_freq=3, no_rope_freq=3), layers=4,
        layer_norm_eps=1e-5, logit_scale=0.5, sliding_window=4, pad_token_id=None,
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"])
    return model, ours, (layers, parts, outer), heads


def yarn(vocab, length):
    """Scaled beyond 8 tokens, with heads of 8, wider than hidden size / heads."""
    scaling = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=8, beta_fast=4.0, beta_slow=0.5, mscale=1.0,
                   mscale_all_dim=0.5, truncate=False)
    return llama_variant(transformers.MistralForCausalLM, transformers.MistralConfig, vocab, length,
                         dict(kv_channels=8, rotary_base=500.0, rope_scaling=scaling), rms_norm_eps=1e-5, head_dim=8,
                         sliding_window=None, rope_parameters=dict(scaling, rope_theta=500.0))


def llama3(vocab, length):
    """Other constants than those of Llama 3.1, with heads of 8."""
    scaling = dict(rope_type="llama3", factor=4.0, low_freq_factor=0.5, high_freq_factor=2.0,
                   original_max_position_embeddings=32)
    return llama_variant(transformers.LlamaForCausalLM, transformers.LlamaConfig, vocab, length,
                         dict(kv_channels=8, rope_scaling=scaling), rms_norm_eps=1e-5, head_dim=8,
                         rope_parameters=dict(scaling, rope_theta=10000.0))


def two_bases(vocab, length):
    """Ministral with the rotary embedding of Gemma 3: frequencies divided by 8 in the layer without a window, and another
    base in the others."""
    layer_types = ["full_attention", "sliding_attention", "sliding_attention"]
    model, ours, names, heads = llama_variant(
        transformers.MinistralForCausalLM, transformers.MinistralConfig, vocab, length,
        dict(kv_channels=8, window=4, window_attn_skip_freq=[0, 1, 1], rotary_base=100.0, rope_local_base_freq=50.0,
             rope_scaling=dict(rope_type="linear", factor=8.0)),
        layers=3, rms_norm_eps=1e-5, head_dim=8, sliding_window=4, layer_types=layer_types)
    gemma3 = transformers.models.gemma3.modeling_gemma3.Gemma3RotaryEmbedding(transformers.Gemma3TextConfig(
        num_hidden_layers=3, hidden_size=24, num_attention_heads=6, head_dim=8, layer_types=layer_types, rope_parameters=dict(
            full_attention=dict(rope_type="linear", factor=8.0, rope_theta=100.0),
            sliding_attention=dict(rope_type="default", rope_theta=50.0))))

    def replace(layer_type):
        def hook(layer, args, kwargs):
            return args, kwargs | dict(position_embeddings=gemma3(args[0], kwargs["position_ids"], layer_type))
        return hook

    for layer, layer_type in zip(model.model.layers, layer_types):
        layer.register_forward_pre_hook(replace(layer_type), with_kwargs=True)
    return model, ours, names, heads


def phi3(vocab, length, ours=None, rope=None, **theirs):
    """3 heads of 8 in one group, of which 6 elements are rotated."""
    model, ours, (layers, parts, outer), heads = llama_variant(
        transformers.Phi3ForCausalLM, transformers.Phi3Config, vocab, length,
        dict(num_attention_heads=3, num_query_groups=1, kv_channels=8, rotary_percent=0.75) | (ours or {}),
        num_attention_heads=3, num_key_value_heads=1, rms_norm_eps=1e-5, pad_token_id=None,
        rope_parameters=dict(dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.75), **(rope or {})), **theirs)
    parts = parts | {"self_attn.qkv_proj": "attention.qkv", "mlp.gate_up_proj": "mlp.gate_up"}
    return model, ours, (layers, parts, outer), heads


def longrope(vocab, length, original, factor=None):
    """Phi-3 with the frequencies of a sequence of `length` tokens for its documents, too."""
    factors = dict(short_factor=[1.0, 1.5, 3.0], long_factor=[2.0, 6.0, 20.0])
    scaling = dict(rope_type="longrope", **factors, **(dict(factor=factor) if factor else {}))
    ours = dict(rope_scaling=dict(scaling, factor=factor or length / original, original_max_position_embeddings=original))
    model, ours, names, heads = phi3(vocab, length, ours, scaling, original_max_position_embeddings=original)
    embedding = model.model.rotary_emb

    def whole(x, position_ids, forward=embedding.forward):
        cos, sin = forward(x, torch.arange(length)[None])
        return cos[0][position_ids], sin[0][position_ids]

    embedding.forward = whole
    return model, ours, names, heads


def seed_oss(vocab, length):
    return llama_variant(transformers.SeedOssForCausalLM, transformers.SeedOssConfig, vocab, length,
                         dict(add_qkv_bias=True, kv_channels=8), rms_norm_eps=1e-5, head_dim=8, attention_bias=True,
                         attention_dropout=0.0, residual_dropout=0.0, pad_token_id=None)


def ministral3(vocab, length):
    """YaRN without a factor of attention; queries scaled from position 4 on."""
    scaling = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=4, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
                   mscale_all_dim=1.0)
    return llama_variant(transformers.Ministral3ForCausalLM, transformers.Ministral3Config, vocab, length,
                         dict(kv_channels=8, rotary_base=500.0, rope_scaling=scaling, llama_4_scaling_beta=0.5), rms_norm_eps=1e-5,
                         head_dim=8, pad_token_id=None,
                         rope_parameters=dict(scaling, rope_theta=500.0, llama_4_scaling_beta=0.5))


def gemma3(vocab, length):
    """The third layer has no window, and another rotary base."""
    model, ours, (layers, parts, outer), heads = llama_variant(
        transformers.Gemma3ForCausalLM, transformers.Gemma3TextConfig, vocab, length,
        dict(norm_placement="peri", apply_layernorm_1p=True, qk_layernorm=True, activation="geglu_tanh", kv_channels=8,
             embedding_multiplier=24 ** 0.5, attention_multiplier=12 ** -0.5, window=4, window_attn_skip_freq=3,
             rotary_base=100.0, rope_local_base_freq=50.0), layers=4,
        rms_norm_eps=1e-5, head_dim=8, query_pre_attn_scalar=12, sliding_window=4, pad_token_id=None,
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=100.0),
                             sliding_attention=dict(rope_type="default", rope_theta=50.0)))
    return model, ours, (layers, REORDERED[1] | {"input_layernorm": "attention.norm",
                                                 "pre_feedforward_layernorm": "mlp.norm"}, outer), heads


def olmo3(vocab, length):
    """YaRN in the layer without a window."""
    scaling = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=8, beta_fast=4.0, beta_slow=0.5)
    model, ours, _, heads = llama_variant(
        transformers.Olmo3ForCausalLM, transformers.Olmo3Config, vocab, length,
        dict(norm_placement="reordered", qk_layernorm=True, qk_layernorm_all_heads=True, window=4, window_attn_skip_freq=3,
             rotary_base=500.0, rope_local_base_freq=50.0, rope_scaling=scaling), layers=4,
        rms_norm_eps=1e-5, sliding_window=4, pad_token_id=None,
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=dict(full_attention=dict(scaling, rope_theta=500.0),
                             sliding_attention=dict(rope_type="default", rope_theta=50.0)))
    return model, ours, REORDERED, heads


def glm4(vocab, length):
    """gate and up in one tensor; half of each head rotated, by adjacent pairs."""
    model, ours, (layers, parts, outer), heads = llama_variant(
        transformers.Glm4ForCausalLM, transformers.Glm4Config, vocab, length,
        dict(norm_placement="peri", add_qkv_bias=True, rotary_interleaved=True, rotary_percent=0.5, kv_channels=8),
        rms_norm_eps=1e-5, head_dim=8, attention_bias=True, pad_token_id=None,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))
    return model, ours, (layers, parts | {"mlp.gate_up_proj": "mlp.gate_up", "post_self_attn_layernorm": "attention.output_norm",
                                          "post_mlp_layernorm": "mlp.output_norm"}, outer), heads


def nemotron(vocab, length):
    with_bias = torch.nn.LayerNorm.__init__
    if torch.__version__ < "2":  # its LayerNorm has no argument for the bias, which NemotronLayerNorm1P passes
        torch.nn.LayerNorm.__init__ = lambda self, shape, eps, affine, bias, *rest: with_bias(self, shape, eps, affine, *rest)
    try:
        return llama_variant(
            transformers.NemotronForCausalLM, transformers.NemotronConfig, vocab, length,
            dict(normalization="LayerNorm", activation="squared_relu", apply_layernorm_1p=True, rotary_percent=0.5),
            norm_eps=1e-5, partial_rotary_factor=0.5)
    finally:
        torch.nn.LayerNorm.__init__ = with_bias


def llama_scaled(vocab, length):
    """Llama 3.1. lm-utils's model rotates adjacent pairs instead of halves, so the rows of query and key are permuted."""
    scaling = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=8192)
    return llama_variant(transformers.LlamaForCausalLM, transformers.LlamaConfig, vocab, length,
                         dict(rotary_base=5000.0, rope_scaling_factor=8.0, rotary_interleaved=True), rms_norm_eps=1e-5,
                         rope_theta=5000.0, rope_scaling=scaling)


def neox(layers, hidden, heads, vocab, length, rotary=1.0, parallel=False):
    config = transformers.GPTNeoXConfig(
        num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, intermediate_size=3 * hidden,
        vocab_size=vocab, max_position_embeddings=length, rotary_pct=rotary, hidden_act="gelu",
        use_parallel_residual=parallel, layer_norm_eps=1e-5, attention_dropout=0.0, hidden_dropout=0.0,
        tie_word_embeddings=False, **COMMON)
    config._attn_implementation = "eager"
    ours = dict(num_layers=layers, hidden_size=hidden, ffn_hidden_size=3 * hidden, num_attention_heads=heads,
                num_query_groups=heads, kv_channels=hidden // heads, seq_length=length, vocab_size=vocab,
                position_embedding_type="rope", activation="gelu_erf", untie_embeddings_and_output_weights=True)
    if parallel:
        ours |= dict(use_parallel_residual=True, rotary_percent=rotary)
    return transformers.GPTNeoXForCausalLM(config), ours, fused_names("gpt_neox.layers.", "attention.", dict(
        embed_in="embedding.word", final_layer_norm="final_norm", embed_out="head")), heads


def persimmon(vocab, length):
    config = transformers.PersimmonConfig(
        num_hidden_layers=2, hidden_size=24, intermediate_size=36, num_attention_heads=3, vocab_size=vocab,
        max_position_embeddings=length, qk_layernorm=True, hidden_act="relu2", partial_rotary_factor=0.5,
        layer_norm_eps=1e-5, attention_dropout=0.0, hidden_dropout=0.0, tie_word_embeddings=False, rope_theta=10000.0,
        **COMMON)
    config._attn_implementation = "eager"
    ours = dict(num_layers=2, hidden_size=24, ffn_hidden_size=36, num_attention_heads=3, num_query_groups=3,
                kv_channels=8, seq_length=length, vocab_size=vocab, position_embedding_type="rope",
                activation="squared_relu", qk_layernorm=True, rotary_percent=0.5,
                untie_embeddings_and_output_weights=True)
    layers, parts, outer = fused_names("model.layers.", "self_attn.", dict(
        embed_tokens="embedding.word", final_layernorm="final_norm", lm_head="head"))
    parts |= {"self_attn.q_layernorm": "attention.query_norm", "self_attn.k_layernorm": "attention.key_norm"}
    return transformers.PersimmonForCausalLM(config), ours, (layers, parts, outer), 3


def fused_names(layers, attention, outer):
    parts = {"input_layernorm": "attention.norm", attention + "query_key_value": "attention.qkv",
             attention + "dense": "attention.output", "post_attention_layernorm": "mlp.norm",
             "mlp.dense_h_to_4h": "mlp.up", "mlp.dense_4h_to_h": "mlp.down"}
    return layers, parts, outer


CASES = {
    "bloom_tiny": (lambda: bloom(2, 32, 4, 101, 16), 2, 11),
    "bloom_odd": (lambda: bloom(2, 36, 12, 77, 13), 3, 12),
    "llama_tiny": (lambda: llama(2, 32, 88, 4, 4, 101, 16), 2, 13),
    "llama_gqa": (lambda: llama(2, 48, 100, 6, 2, 77, 13, base=500000.0), 3, 14),
    "llama_mqa": (lambda: llama(2, 40, 52, 5, 1, 77, 13), 2, 15),
    "neox_odd": (lambda: neox(2, 48, 6, 77, 13), 2, 16),
    "neox_parallel": (lambda: neox(2, 40, 5, 53, 13, rotary=0.25, parallel=True), 2, 23),
    "qwen2_odd": (lambda: qwen2(53, 13), 2, 17),
    "mistral_window": (lambda: mistral(53, 13, 4), 2, 18),
    "nemotron_odd": (lambda: nemotron(53, 13), 2, 19),
    "persimmon_qk": (lambda: persimmon(53, 13), 2, 21),
    "llama_scaled": (lambda: llama_scaled(53, 13), 2, 20),
}
if hasattr(transformers, "Qwen3ForCausalLM"):  # 4.51 or later
    CASES["qwen3_odd"] = (lambda: qwen3(53, 13), 2, 22)
if hasattr(transformers, "MinistralForCausalLM"):  # 5.0 or later
    CASES["qwen3_window"] = (lambda: qwen3_window(53, 13), 2, 24)
    CASES["smollm3_odd"] = (lambda: smollm3(53, 13), 2, 25)
    CASES["ministral_mixed"] = (lambda: ministral(53, 13), 2, 26)
    CASES["granite_odd"] = (lambda: granite(53, 13), 2, 29)
    CASES["gemma3_mixed"] = (lambda: gemma3(53, 13), 2, 34)
    CASES["olmo3_mixed"] = (lambda: olmo3(53, 13), 2, 35)
    CASES["glm4_odd"] = (lambda: glm4(53, 13), 2, 36)
    CASES["cohere2_mixed"] = (lambda: cohere2(53, 13), 2, 30)
    CASES["olmo2_odd"] = (lambda: olmo2(53, 13), 2, 27)
    CASES["exaone4_mixed"] = (lambda: exaone4(53, 13), 2, 28)
    CASES["mistral_yarn"] = (lambda: yarn(53, 13), 2, 27)
    CASES["llama_llama3"] = (lambda: llama3(53, 13), 2, 28)
    CASES["ministral_bases"] = (lambda: two_bases(53, 13), 2, 29)
    CASES["phi3_odd"] = (lambda: phi3(53, 13, dict(window=4), sliding_window=4), 2, 30)
    CASES["phi3_short"] = (lambda: longrope(53, 13, 16, 2.0), 2, 31)
    CASES["phi3_long"] = (lambda: longrope(53, 13, 8), 2, 32)
    CASES["seed_oss_odd"] = (lambda: seed_oss(53, 13), 2, 33)
    CASES["ministral3_odd"] = (lambda: ministral3(53, 13), 2, 34)


def adjacent(x, width):
    """Returns the rows of query or key for a rotation of adjacent pairs instead of halves of each head."""
    return np.ascontiguousarray(x.reshape(-1, 2, width // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape))


def our_tensors(tensors, names, heads, config):
    """Returns the tensors under lm-utils's names; the fused projection holds q, k and v head by head."""
    layers, parts, outer = names
    ours = {}
    for name, x in tensors.items():
        stem, kind = name.rsplit(".", 1)
        if stem.startswith(layers):
            layer, part = stem[len(layers):].split(".", 1)
            target = f"layers.{layer}.{parts[part]}"
        else:
            target = outer[stem.split(".", 1)[-1] if stem.split(".", 1)[-1] in outer else stem]
        if target.endswith(".gate_up"):
            for part, rows in zip(("gate", "up"), np.split(x, 2)):
                ours[f"{target[:-7]}{part}.{kind}"] = np.ascontiguousarray(rows)
        elif target.endswith(".qkv") and x.shape[0] != 3 * heads * config["kv_channels"]:  # all of query, of key, of value
            width = heads * config["kv_channels"]
            rows = np.split(x, [width, width + config["num_query_groups"] * config["kv_channels"]])
            for projection, part in zip(("query", "key", "value"), rows):
                ours[f"{target[:-3]}{projection}.{kind}"] = np.ascontiguousarray(part)
        elif target.endswith(".qkv"):
            split = x.reshape(heads, 3, -1, *x.shape[1:])
            for i, projection in enumerate(("query", "key", "value")):
                ours[f"{target[:-3]}{projection}.{kind}"] = np.ascontiguousarray(split[:, i].reshape(-1, *x.shape[1:]))
        else:
            # Llama's class rotates halves, the others with this member adjacent pairs themselves.
            permuted = (config.get("rotary_interleaved") and config.get("rope_scaling_factor")
                        and target.endswith((".query", ".key")))
            ours[f"{target}.{kind}"] = adjacent(x, config["kv_channels"]) if permuted else x
    return ours


def make_weights(model, rng):
    weights = {}
    for name, p in model.named_parameters():
        x = rng.standard_normal(tuple(p.shape))
        if p.dim() == 1 and name.endswith("weight"):
            x = 0.2 * x if type(model).__name__.startswith("Gemma") else 1.0 + 0.2 * x  # Gemma multiplies by 1 + weight
        elif name.endswith("bias"):
            x = 0.1 * x
        else:
            x = 0.15 * x
        weights[name] = (np.round(x * 4096) / 4096).astype(np.float32)
    return weights


def logits_of(model, inputs, positions):
    """Returns the logits of one row, at these positions if the architecture has positions."""
    if isinstance(model, transformers.BloomForCausalLM):  # only distances count
        return model(torch.from_numpy(inputs).long()[None]).logits[0]
    if int(transformers.__version__.split(".")[0]) >= 5 or isinstance(model, getattr(transformers, "Qwen3ForCausalLM", ())):
        # Without a mask, transformers 5 separates the documents where positions restart.
        return model(torch.from_numpy(inputs).long()[None], position_ids=torch.from_numpy(positions).long()[None],
                     attention_mask=torch.ones(1, len(inputs), dtype=torch.long)).logits[0]
    if isinstance(model, (transformers.GPTNeoXForCausalLM, transformers.Qwen2ForCausalLM,
                          transformers.PersimmonForCausalLM)):
        # Such a model has angles only for as many positions as tokens.
        return logits_at(model, inputs, positions - positions.min())
    return logits_at(model, inputs, positions)


def make_case(build, batch, seed):
    rng = np.random.RandomState(seed)
    model, config, names, heads = build()
    model.eval()
    weights = make_weights(model, rng)
    tokens = rng.randint(0, config["vocab_size"], (STEPS, batch, config["seq_length"] + 1)).astype(np.int32)
    out = {"tokens": tokens}
    for name, w in our_tensors(weights, names, heads, config).items():
        out["weight." + name] = w
    load_weights(model, weights)
    logits, loss = forward(model, tokens[0])
    loss.backward()
    out["logits"] = logits.detach().numpy()
    out["loss"] = np.array([loss.item()], np.float32)
    grads = {name: p.grad.numpy().copy() for name, p in model.named_parameters()}
    for name, grad in our_tensors(grads, names, heads, config).items():
        out["grad." + name] = grad
    entries, grads = documents(model, logits_of, tokens[1])
    out.update(entries)
    for name, grad in our_tensors(grads, names, heads, config).items():
        out["documents.grad." + name] = grad
    losses, norms = train(model, tokens)
    out["losses"] = np.array(losses, np.float32)
    out["grad_norms"] = np.array(norms, np.float32)
    load_weights(model, weights)
    torch.set_default_dtype(torch.float64)  # the dtype of GPT-NeoX's mask
    losses, norms = train(model.double(), tokens)
    torch.set_default_dtype(torch.float32)
    out["losses_f64"] = np.array(losses, np.float64)
    out["grad_norms_f64"] = np.array(norms, np.float64)
    return out, config


def full(config):
    """Returns every key of the model's JSON in a manifest."""
    defaults = dict(max_position_embeddings=config["seq_length"], normalization="LayerNorm", activation="gelu_tanh",
                    layernorm_epsilon=1e-5, rotary_base=10000.0, attention_dropout=0.0, hidden_dropout=0.0,
                    init_method_std=0.02, embed_layernorm=False, untie_embeddings_and_output_weights=False,
                    linear_bias=True)
    return {**defaults, **config}


def main():
    out_dir = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.set_num_threads(1)
    for name, (build, batch, seed) in CASES.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        tensors, config = make_case(build, batch, seed)
        adam = dict(ADAM, weight_decay=WEIGHT_DECAY, clip_grad=CLIP, steps=STEPS)
        save_file(tensors, os.path.join(out_dir, name + ".safetensors"), {
            "format": "pt", "model": json.dumps(full(config)), "optimizer": json.dumps(adam),
            "made_by": f"make_models.py, torch {torch.__version__}, transformers {transformers.__version__}"})
        print(name, "losses", tensors["losses"], "norms", tensors["grad_norms"])
        print(name, "max |f32 - f64| of the losses", np.abs(tensors["losses"] - tensors["losses_f64"]).max())


if __name__ == "__main__":
    main()
