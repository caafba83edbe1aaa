// SPDX-License-Identifier: Apache-2.0
// The architectures of Hugging Face's transformers that lm-utils can express: the names and the
// order of their tensors, and the models that they can hold. Pure functions over tables.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/conversion.hpp"
#include "convert/tensor_map.hpp"

namespace lm::convert {

// A tensor of transformers and its counterpart in lm-utils; within a layer both without the prefix.
struct HfRow {
    std::string_view theirs;
    std::string_view ours;  // "attention.qkv.weight": query, key and value in one tensor
};

enum class Rule { never, always, any };

struct HfArchitecture {
    Format format;
    std::string_view model_type;
    std::string_view class_name;
    std::string_view prefix;        // except of the head; files of the base model lack it
    std::string_view layer_prefix;  // "h.": then the number and a dot
    std::string_view head;
    std::span<const HfRow> before_layers;
    std::span<const HfRow> in_layers;
    std::span<const HfRow> after_layers;
    QkvOrder qkv = QkvOrder::groups;
    bool conv1d = false;                             // the matrices of layers are [in, out]
    std::span<const std::string_view> buffers = {};  // endings of tensors that are not parameters
    // Models that it can hold.
    spec::PositionEmbedding position = spec::PositionEmbedding::rope;
    spec::Normalization normalization = spec::Normalization::layer_norm;
    bool gated = false;
    bool tanh_only = false;
    Rule bias = Rule::always;
    bool embedding_norm = false;
    bool grouped = false;
    bool any_head_dim = false;
    bool any_ffn = true;
};

// All of them. When several can hold a model, the first is the usual one.
std::span<const HfArchitecture> hf_architectures();
const HfArchitecture& hf_architecture(Format format);

// The flag of the model that an architecture cannot express, and the model's value.
struct Misfit {
    std::string flag;
    std::string has;
};
std::optional<Misfit> misfit(const HfArchitecture& architecture, const spec::ModelConfig& config);
// Throws Error(usage) naming the flag and the architectures that can hold the model, if any.
void check_fits(const HfArchitecture& architecture, const spec::ModelConfig& config);
// Returns the first architecture that can hold the model. Throws Error(usage) when there is none.
const HfArchitecture& choose_architecture(const spec::ModelConfig& config);

// Returns the tensors of a model in the order of PyTorch's state_dict.
std::vector<MappedTensor> hf_tensors(const HfArchitecture& architecture,
                                     const ModelTensors& tensors);

}  // namespace lm::convert
