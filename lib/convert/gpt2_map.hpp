// SPDX-License-Identifier: Apache-2.0
// The correspondence between GPT-2 of Hugging Face and of lm-utils: tensor names, shapes,
// configuration. Pure functions: no file is read or written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "ckpt/manifest.hpp"
#include "io/json.hpp"
#include "spec/model.hpp"

namespace lm::convert {

// One tensor of a Hugging Face file: the concatenation of the tensors `parts` of lm-utils along
// dimension 0, then transposed if `transposed` (Conv1D of transformers stores [in, out]).
struct Gpt2Tensor {
    std::string name;                // "transformer.h.0.attn.c_attn.weight"
    std::vector<std::string> parts;  // "layers.0.attention.query.weight", key, value
    bool transposed = false;
};

constexpr std::string_view gpt2_prefix = "transformer.";

// Returns all tensors in the order of PyTorch's state_dict.
std::vector<Gpt2Tensor> gpt2_tensors(i64 n_layers);

// Returns whether a GPT-2 file may contain the tensor `name` (without prefix) although it is not a
// parameter: masks, and the tied head.
bool is_gpt2_buffer(std::string_view name);

// Throws Error(usage) naming a flag of the model that GPT-2 of Hugging Face does not support.
void check_fits_gpt2(const spec::ModelConfig& config);

// Return config.json and generation_config.json. end_of_document -1: unknown, written as null.
io::Json gpt2_config(const spec::ModelConfig& config, i64 end_of_document, DType dtype);
io::Json gpt2_generation_config(i64 end_of_document);

struct Gpt2Model {
    spec::ModelConfig config;
    ckpt::TokenizerInfo tokenizer;
};
// Parses config.json. Throws Error(usage) for a model that lm-utils does not support,
// Error(failure) for missing and invalid fields.
Gpt2Model gpt2_model(const io::Json& config, const std::string& path);

}  // namespace lm::convert
