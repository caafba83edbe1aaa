// SPDX-License-Identifier: Apache-2.0
// The names of tensors in checkpoints of Megatron, in all its versions, and the part of each tensor
// that a tensor-parallel rank holds.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "ckpt/format/kind.hpp"
#include "convert/tensor_map.hpp"

namespace lm::convert {

// Removes a whole number of at most 12 digits from the front of `text` and returns the number; when
// `text` does not start with such a number, returns nullopt and leaves `text` unchanged.
std::optional<i64> consume_number(std::string_view& text);
// Parses the whole text as a number; returns nullopt for any other text.
std::optional<i64> parse_number(std::string_view text);
// A name such as "3.mlp.dense_h_to_4h.weight", divided into the number 3 and the rest
// "mlp.dense_h_to_4h.weight".
struct NumberedName {
    i64 number = 0;
    std::string_view rest;
};
std::optional<NumberedName> parse_numbered(std::string_view name);
// Returns `name` without the modules before the tensor, for example "layers.3.mlp..." for
// "language_model.encoder.layers.3.mlp...".
std::string_view without_modules(std::string_view name);
// Returns the name that a tensor of a layer has in lm-utils: "attention.qkv.weight" for
// "self_attention.query_key_value.weight"; "mlp.up.weight" for "mlp.dense_h_to_4h.weight" or, with
// a gated activation, "mlp.gate_up.weight". Returns an empty text for an unknown name.
std::string megatron_layer_name(std::string_view name, bool gated);
// Returns the name that a tensor outside of the layers has in lm-utils: "embedding.word.weight" for
// "word_embeddings.weight". Returns an empty text for an unknown name.
std::string megatron_outer_name(std::string_view name);

// The state of a training with Adam: the masters, and Adam's states, which have the same names in
// checkpoints of PyTorch, Megatron and DeepSpeed.
inline constexpr auto adam_kinds = [] {
    std::array<ckpt::SliceKind, 1 + spec::adam_states.size()> kinds{ckpt::SliceKind::master};
    std::ranges::copy(spec::adam_states, kinds.begin() + 1);
    return kinds;
}();

struct MegatronPart {
    i64 tp_rank = 0;
    i64 tp = 1;
    QkvOrder qkv = QkvOrder::groups;
    i64 padded_vocab = 0;  // rows of the word embedding matrix over all ranks
};

// Returns the description of the part of the tensor `own` ("layers.3.mlp.gate_up.weight") that a
// rank has; nullopt when the model has no such tensor. Throws Error(usage) when the tensor cannot
// be divided among the ranks.
std::optional<MappedTensor> megatron_part(const ModelTensors& tensors, const std::string& own,
                                          const MegatronPart& part);
// Returns whether every tensor-parallel rank holds the whole tensor.
bool is_replicated(std::string_view own);

}  // namespace lm::convert
