// SPDX-License-Identifier: Apache-2.0
// The settings of config.json that hf_reference.hpp needs: sizes, switches and the names of the
// tensors.
#pragma once

#include <array>
#include <string>

#include "base/types.hpp"
#include "io/json_fwd.hpp"

namespace lm::convert {

// The tensors of query, key and value. no: three tensors. whole: one tensor, with all rows of
// query, then all of key, then all of value. heads: one tensor, with the query, key and value of
// each head in turn.
enum class Fused { no, whole, heads };

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
    bool qkv_bias = false;  // query, key and value have biases even if `bias` is false
    bool conv1d = false;
    bool one_plus = false;   // norms multiply by 1 + weight
    double rotated = 1;      // part of each head that is rotated
    double rope_factor = 0;  // factor in rope_scaling of Llama 3.1; 0: none
    i64 window = 0;          // keys that a query sees; 0: all
    Fused fused = Fused::no;
    // Names of modules, without ".weight" and ".bias". In the files all names start with `prefix`,
    // which the other members omit. `layers` is the start of the names in a layer ("h.", before the
    // layer's number).
    std::string prefix;
    std::string layers;
    std::string word;
    std::string position;
    std::string embedding_norm;
    std::string attention_norm;
    std::array<std::string, 3> qkv;
    std::string query_norm;  // empty: no norms of query and key
    std::string key_norm;
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
