// SPDX-License-Identifier: Apache-2.0
// The description of a class of Hugging Face's transformers: the names of its tensors and the keys
// of its config.json. The import, the export, the choice of a class for a model and the reference
// of --check all read this description, so that they cannot differ.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/named.hpp"
#include "convert/tensor_map.hpp"
#include "io/json_fwd.hpp"

namespace lm::convert {

inline constexpr std::array common_rope_types{Named{spec::RotaryRule::linear, "linear"},
                                              Named{spec::RotaryRule::llama3, "llama3"},
                                              Named{spec::RotaryRule::yarn, "yarn"}};

struct HfClass {
    // The names of a module in transformers and in lm-utils, to which ".weight" and ".bias" are
    // added. The names of a layer's modules omit the prefix of the layer. "attention.qkv": query,
    // key and value in one tensor; "mlp.gate_up": gate and up.
    struct Row {
        std::string_view theirs;
        std::string_view ours;
    };
    // Keys of config.json and the members that they set. Several keys may set one member.
    struct Integer {
        const char* key;
        i64 spec::ModelConfig::*member;
        i64 absent = -1;  // value when the key is missing or null; -1: the key is required
        const char* other = nullptr;  // another name of the key, which wins, as in transformers
    };
    // How a number follows from the value of its key: it is the value, 1 / value, or 1 / the root,
    // whose key is an integer.
    enum class Form { same, inverse, inverse_square };
    struct Number {
        const char* key;
        double spec::ModelConfig::*member;
        double absent;
        Form form = Form::same;
    };
    struct Flag {
        const char* key;
        bool spec::ModelConfig::*member;
        bool absent;
    };
    // A key that must have one value, because lm-utils does not support the arithmetic of other
    // values. Values are JSON.
    struct Constant {
        const char* key;
        const char* value;
        const char* absent;  // value when the key is missing
        // What another value means. Empty: only other roundings, so any value is accepted.
        std::string_view otherwise;
    };

    std::string_view name;  // value of the options --to and --from
    std::string_view model_type;
    std::string_view class_name;
    // The start of every tensor name except the head's, such as "transformer.". Files of the model
    // without head (GPT2Model) omit this prefix.
    std::string_view prefix;
    std::string_view layer_prefix;  // "h.": precedes "3.ln_1.weight" in a layer's tensor names
    std::string_view head;
    std::span<const Row> before_layers;  // the first row is the embedding
    std::span<const Row> in_layers;
    std::span<const Row> after_layers;
    QkvOrder qkv = QkvOrder::groups;
    bool conv1d = false;  // the matrices in the layers are [in, out], not [out, in]

    std::span<const Integer> integers;
    std::span<const Number> numbers;
    std::span<const Flag> flags = {};
    std::span<const Constant> constants = {};
    const char* activation_key = nullptr;  // nullptr: the class has only the first activation
    std::span<const Named<spec::Activation>> activations;
    std::string_view absent_activation = {};  // value when the key is missing
    bool absent_tied = false;                 // value of tie_word_embeddings when it is missing
    i64 absent_window = 0;  // value of sliding_window when it is missing; 0: not a key
    // For a class with a window in some layers, which "layer_types" lists: whether a layer has the
    // window when this key is missing. nullptr: all layers of the class have the same window.
    bool (*has_window)(const spec::ModelConfig& config, const io::Json& json, i64 layer) = nullptr;
    const char* window_switch = nullptr;  // key without which sliding_window has no effect
    bool unrotated_layers = false;        // the key no_rope_layers
    bool only_windows_rotate = false;     // beside a window, layers without one do not rotate
    bool window_required = false;         // sliding_window is never null
    // The rules of rotary frequencies besides "default", by the names of rope_type; the first name
    // of a rule is written.
    std::span<const Named<spec::RotaryRule>> rope_types = common_rope_types;
    i64 absent_original = 0;            // value of original_max_position_embeddings; 0: not a key
    std::string_view absent_rope = {};  // the object when it is missing; empty: no scaling
    // Base of the layers with a window when no key sets it, in a class whose rope_parameters has an
    // object for these layers and one for the others. 0: all layers have the same.
    double absent_local_base = 0;
    const char* local_base_key = nullptr;  // its key in version 4
    bool query_scale = false;              // the key llama_4_scaling_beta
    // Adds keys to a config.json that follow from others. May be nullptr.
    void (*write_more)(const spec::ModelConfig& config, io::Json& json) = nullptr;
    // Versions of transformers before 4.45 compute the head size of some classes from the hidden
    // size. Their head_dim is read, but no model with another head size is written, except by a
    // class with newer_head_dim if no class with any_head_dim can hold the model.
    bool any_head_dim = false;
    bool newer_head_dim = false;

    // The members of a model that no key of the class sets.
    spec::PositionEmbedding position = spec::PositionEmbedding::rope;
    spec::Normalization normalization = spec::Normalization::layer_norm;
    bool norm_bias = true;
    bool shared_norm = false;  // and a parallel residual
    bool rotary_interleaved = false;
    bool embedding_norm = false;
    bool scaled_embedding = false;  // by the root of the hidden size
    bool norm_1p = false;
    spec::NormPlacement norms = spec::NormPlacement::pre;
    bool qk_norm = false;
    bool joint_qk_norm = false;
    bool linear_bias = true;
    bool qkv_bias = false;
    i64 n_groups = 0;  // 0: one for each head

    // Returns whether a key sets this member.
    bool has_key(i64 spec::ModelConfig::*member) const { return has_key(integers, member); }
    bool has_key(double spec::ModelConfig::*member) const { return has_key(numbers, member); }
    bool has_key(bool spec::ModelConfig::*member) const { return has_key(flags, member); }
    static bool has_key(const auto& keys, auto member) {
        return std::ranges::any_of(keys, [&](const auto& key) { return key.member == member; });
    }
};

}  // namespace lm::convert
