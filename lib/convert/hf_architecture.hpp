// SPDX-License-Identifier: Apache-2.0
// The architectures of Hugging Face's transformers that lm-utils supports: the names and the order
// of their tensors, and the models that each architecture can express. Pure functions over tables.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/conversion.hpp"
#include "convert/tensor_map.hpp"

namespace lm::convert {

// The names of a tensor in transformers and in lm-utils. The names of a layer's tensors omit the
// prefix of the layer.
struct HfRow {
    std::string_view theirs;
    std::string_view ours;  // "attention.qkv.weight": query, key and value in one tensor
};

enum class Rule { never, always, any };
// The number of key-value groups: one for each head, one for all heads, or any.
enum class Groups { heads, one, any };

struct HfArchitecture {
    Format format;
    std::string_view model_type;
    std::string_view class_name;
    // The start of every tensor name except the head's, such as "transformer.". Files of the model
    // without head (GPT2Model) omit this prefix.
    std::string_view prefix;
    std::string_view layer_prefix;  // "h.": precedes "3.ln_1.weight" in a layer's tensor names
    std::string_view head;
    std::span<const HfRow> before_layers;
    std::span<const HfRow> in_layers;
    std::span<const HfRow> after_layers;
    QkvOrder qkv = QkvOrder::groups;
    bool conv1d = false;  // the matrices in the layers are [in, out], not [out, in]
    std::span<const std::string_view> buffers = {};  // endings of tensors that are not parameters
    // The next members state which models the architecture can hold.
    spec::PositionEmbedding position = spec::PositionEmbedding::rope;
    spec::Normalization normalization = spec::Normalization::layer_norm;
    bool gated = false;
    bool tanh_only = false;
    Rule bias = Rule::always;
    bool embedding_norm = false;
    Groups groups = Groups::heads;
    bool any_head_dim = false;
    bool any_ffn = true;
    bool partial_rotary = false;  // --rotary-percent is supported
    bool rope_scaling = false;
    bool window = false;
    bool qk_norm = false;
    bool one_plus = false;        // norms multiply by 1 + weight
    bool squared_relu = false;    // squared ReLU is the only activation
    Rule qkv_bias = Rule::never;  // biases of query, key and value, but no others
};

// Returns all architectures. If several architectures can hold a model, the most common of them is
// first.
std::span<const HfArchitecture> hf_architectures();
const HfArchitecture& hf_architecture(Format format);

// The first setting of a model that an architecture cannot express: its flag and its value.
struct Misfit {
    std::string flag;
    std::string has;
};
// Returns nullopt when the architecture can hold the model.
std::optional<Misfit> misfit(const HfArchitecture& architecture, const spec::ModelConfig& config);
// If there is a misfit, throws Error(usage) that names the flag and the architectures that can hold
// the model.
void check_fits(const HfArchitecture& architecture, const spec::ModelConfig& config);
// Returns the first architecture that can hold the model. Throws Error(usage) when there is none.
const HfArchitecture& choose_architecture(const spec::ModelConfig& config);

// Returns the tensors of a model in the order of PyTorch's state_dict.
std::vector<MappedTensor> hf_tensors(const HfArchitecture& architecture,
                                     const ModelTensors& tensors);

}  // namespace lm::convert
