// SPDX-License-Identifier: Apache-2.0
// The names of tensors in checkpoints of Megatron, in all its versions, and the part of each tensor
// that a tensor-parallel rank holds.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "convert/tensor_map.hpp"

namespace lm::convert {

// Removes a whole number of at most 12 digits from the front of `text` and returns it; nullopt:
// `text` starts with no such number and is unchanged.
std::optional<i64> consume_number(std::string_view& text);
// Parses the whole text as a number; returns nullopt for any other text.
std::optional<i64> parse_number(std::string_view text);
// "3.mlp.dense_h_to_4h.weight" is number 3 and the rest "mlp.dense_h_to_4h.weight".
struct NumberedName {
    i64 number = 0;
    std::string_view rest;
};
std::optional<NumberedName> parse_numbered(std::string_view name);
// Returns `name` without the modules before the tensor: "language_model.encoder.layers.3.mlp..." is
// "layers.3.mlp...".
std::string_view without_modules(std::string_view name);
// Returns the name in lm-utils of a tensor of a layer: "self_attention.query_key_value.weight" is
// "attention.qkv.weight", "mlp.dense_h_to_4h.weight" is "mlp.up.weight" or, with a gated
// activation, "mlp.gate_up.weight". Returns an empty text for an unknown name.
std::string megatron_layer_name(std::string_view name, bool gated);
// Returns the name in lm-utils of a tensor outside of the layers: "word_embeddings.weight" is
// "embedding.word.weight". Returns an empty text for an unknown name.
std::string megatron_outer_name(std::string_view name);

struct MegatronPart {
    i64 tp_rank = 0;
    i64 tp = 1;
    QkvOrder qkv = QkvOrder::groups;
    i64 padded_vocab = 0;  // rows of the word embedding matrix over all ranks
};

// Describes the part of the tensor `own` ("layers.3.mlp.gate_up.weight") that a rank holds. Returns
// nullopt when the model has no such tensor. Throws Error(usage) when the ranks cannot divide it.
std::optional<MappedTensor> megatron_part(const ModelTensors& tensors, const std::string& own,
                                          const MegatronPart& part);
// Returns whether every tensor-parallel rank holds the whole tensor.
bool is_replicated(std::string_view own);

}  // namespace lm::convert
