// SPDX-License-Identifier: Apache-2.0
// What hf_reference.hpp needs of config.json: sizes, switches and the names of the tensors.
#pragma once

#include <array>
#include <string>

#include "base/types.hpp"
#include "io/json.hpp"

namespace lm::convert {

enum class Fused { no, whole, heads };  // query, key and value in one tensor, and its order

struct ReferenceConfig {
    i64 n_layers = 0;
    i64 width = 0;
    i64 n_heads = 0;
    i64 n_groups = 0;
    i64 head_dim = 0;
    double eps = 0;
    double theta = 10000;
    std::string activation;  // as in config.json
    bool rms_norm = false;
    bool rope = false;
    bool alibi = false;
    bool tied = false;
    bool bias = true;
    bool conv1d = false;
    Fused fused = Fused::no;
    // Names without prefix and ending; those of a layer without the layer's prefix.
    std::string prefix;
    std::string layers;
    std::string word;
    std::string position;
    std::string embedding_norm;
    std::string attention_norm;
    std::array<std::string, 3> qkv;
    std::string output;
    std::string mlp_norm;
    std::string gate;
    std::string up;
    std::string down;
    std::string final_norm;
    std::string head;
};

// Reads config.json, which was parsed from `path`. Throws Error(failure) for a missing key or an
// unknown model_type.
ReferenceConfig reference_config(const io::Json& json, const std::string& path);

}  // namespace lm::convert
