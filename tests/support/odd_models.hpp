// SPDX-License-Identifier: Apache-2.0
// Small models of five architectures with odd sizes, for tests of layouts. Dropout is on.
#pragma once

#include "spec/model.hpp"

namespace lm::test {

// GPT-2 with 5 heads, 53 ids, 37 hidden units in the MLP, and one position more than a sequence
// has.
inline spec::ModelConfig odd_model(i64 n_layers) {
    spec::ModelConfig model;
    model.n_layers = n_layers;
    model.hidden = 20;
    model.n_heads = 5;
    model.ffn_hidden = 37;
    model.seq_length = 6;
    model.max_positions = 7;
    model.vocab_size = 53;
    model.attention_dropout = 0.1;
    model.hidden_dropout = 0.1;
    model.resolve();
    return model;
}

// BLOOM: ALiBi, a normalized embedding, a tied head.
inline spec::ModelConfig bloom_model(i64 n_layers, i64 n_heads, i64 head_dim) {
    spec::ModelConfig model = odd_model(n_layers);
    model.n_heads = model.n_groups = n_heads;
    model.head_dim = head_dim;
    model.hidden = n_heads * head_dim;
    model.position = spec::PositionEmbedding::alibi;
    model.embedding_norm = true;
    model.resolve();
    return model;
}

// GPT with the options of Megatron-LM's Nemotron: squared ReLU, LayerNorm-1p, half of each head
// rotated, no biases but those of query, key and value.
inline spec::ModelConfig nemotron_model(i64 n_layers, i64 n_heads, i64 n_groups) {
    spec::ModelConfig model = odd_model(n_layers);
    model.n_heads = n_heads;
    model.n_groups = n_groups;
    model.head_dim = 5;
    model.hidden = n_heads * model.head_dim;
    model.position = spec::PositionEmbedding::rope;
    model.rotary_percent = 0.5;
    model.activation = spec::Activation::squared_relu;
    model.norm_1p = true;
    model.untied_head = true;
    model.linear_bias = false;
    model.qkv_bias = true;
    model.qk_norm = true;
    model.resolve();
    return model;
}

// GPT-NeoX: a parallel residual, half of each head rotated, an untied head.
inline spec::ModelConfig neox_model(i64 n_layers, i64 n_heads) {
    spec::ModelConfig model = odd_model(n_layers);
    model.n_heads = model.n_groups = n_heads;
    model.head_dim = 4;
    model.hidden = n_heads * model.head_dim;
    model.position = spec::PositionEmbedding::rope;
    model.rotary_percent = 0.5;
    model.activation = spec::Activation::gelu_erf;
    model.untied_head = true;
    model.parallel_residual = true;
    model.resolve();
    return model;
}

inline spec::ModelConfig llama_model(i64 n_layers, i64 n_heads, i64 n_groups);

// Llama with a window in all layers but every second, and without rotary positions in the first and
// the last layer.
inline spec::ModelConfig patterned_model(i64 n_layers, i64 n_heads, i64 n_groups) {
    spec::ModelConfig model = llama_model(n_layers, n_heads, n_groups);
    model.window = 2;
    model.full_layers.every = 2;
    model.unrotated_layers.chosen.assign(static_cast<size_t>(n_layers), false);
    model.unrotated_layers.chosen.front() = model.unrotated_layers.chosen.back() = true;
    model.resolve();
    return model;
}

// Llama: RoPE, RMSNorm, SwiGLU, an untied head, no biases.
inline spec::ModelConfig llama_model(i64 n_layers, i64 n_heads, i64 n_groups) {
    spec::ModelConfig model = odd_model(n_layers);
    model.n_heads = n_heads;
    model.n_groups = n_groups;
    model.head_dim = 4;
    model.hidden = n_heads * model.head_dim;
    model.position = spec::PositionEmbedding::rope;
    model.normalization = spec::Normalization::rms_norm;
    model.activation = spec::Activation::swiglu;
    model.untied_head = true;
    model.linear_bias = false;
    model.resolve();
    return model;
}

}  // namespace lm::test
