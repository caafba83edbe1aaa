// SPDX-License-Identifier: Apache-2.0
// The arguments of the norms of attention heads (QK norm: Henry et al. 2020, "Query-key
// normalization"). Each head of query and key is normalized by itself, before the rotary embedding.
// For each token, a row has H query heads, then G key heads, then values, each D wide.
#pragma once

#include "device/view.hpp"
#include "spec/normalization.hpp"

namespace lm::device {

// Computes y = norm(x) * (weight + offset) + bias for each head of query and key, and copies the
// values. The offset is 1 with `one_plus`, else 0.
struct HeadNormForward {
    spec::Normalization norm = spec::Normalization::layer_norm;
    double eps = 1e-5;
    View x{};             // [B, T, W] bf16|fp16|fp32, W a multiple of D
    View query_weight{};  // [D] bf16|fp16|fp32
    View query_bias{};    // [D] bf16|fp16|fp32; optional
    View key_weight{};    // [D] bf16|fp16|fp32
    View key_bias{};      // [D] bf16|fp16|fp32; present if query_bias is
    View y{};             // [B, T, W] bf16|fp16|fp32
    i64 n_heads = 0;      // H
    i64 n_groups = 0;     // G
    bool one_plus = false;
};

// Computes dx = norm'(dy) for each head of query and key, and copies the gradients of the values.
// Recomputes the statistics of the heads, because forward does not store them. Adds to the
// gradients of the parameters when `accumulate` is set, else overwrites them.
struct HeadNormBackward {
    spec::Normalization norm = spec::Normalization::layer_norm;
    double eps = 1e-5;
    View dy{};             // [B, T, W] bf16|fp16|fp32
    View x{};              // [B, T, W] bf16|fp16|fp32: forward's input
    View query_weight{};   // [D] bf16|fp16|fp32
    View key_weight{};     // [D] bf16|fp16|fp32
    View dx{};             // [B, T, W] bf16|fp16|fp32; may alias dy
    View dquery_weight{};  // [D] fp32
    View dquery_bias{};    // [D] fp32; optional
    View dkey_weight{};    // [D] fp32
    View dkey_bias{};      // [D] fp32; present if dquery_bias is
    i64 n_heads = 0;
    i64 n_groups = 0;
    bool one_plus = false;
    bool accumulate = true;
};

// The widest head that the operations support.
constexpr i64 widest_normed_head = 256;

}  // namespace lm::device
