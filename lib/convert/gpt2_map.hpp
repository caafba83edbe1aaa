// SPDX-License-Identifier: Apache-2.0
// Hugging Face's GPT-2 and ours: names, shapes and configuration. Nothing here touches files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "ckpt/manifest.hpp"
#include "io/json.hpp"
#include "spec/model.hpp"

namespace lm::convert {

// One tensor of Hugging Face's file: ours stacked along dimension 0, then transposed if so (their
// Conv1D holds [in, out]).
struct Gpt2Tensor {
    std::string name;                // "transformer.h.0.attn.c_attn.weight"
    std::vector<std::string> parts;  // "layers.0.attention.query.weight", key, value
    bool transposed = false;
};

constexpr std::string_view gpt2_prefix = "transformer.";

// In the order of PyTorch's state_dict.
std::vector<Gpt2Tensor> gpt2_tensors(i64 n_layers);

// Does `name`, without prefix, belong to a GPT-2 file but hold no parameters (masks, tied head)?
bool is_gpt2_buffer(std::string_view name);

// Throws Error(usage) naming the flag that Hugging Face's GPT-2 has no counterpart for.
void check_fits_gpt2(const spec::ModelConfig& config);

// config.json and generation_config.json. end_of_document -1: unknown, written as null.
io::Json gpt2_config(const spec::ModelConfig& config, i64 end_of_document, DType dtype);
io::Json gpt2_generation_config(i64 end_of_document);

struct Gpt2Model {
    spec::ModelConfig config;
    ckpt::TokenizerInfo tokenizer;
};
// Reads config.json. Throws Error(usage) for what we cannot express, Error(failure) for nonsense.
Gpt2Model gpt2_model(const io::Json& config, const std::string& path);

}  // namespace lm::convert
