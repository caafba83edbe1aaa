// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/model_json.hpp"

#include <array>
#include <utility>

#include "base/error.hpp"
#include "io/json.hpp"

namespace lm::ckpt {
namespace {

using spec::ModelConfig;

constexpr std::array integer_fields{
    std::pair{"num_layers", &ModelConfig::n_layers},
    std::pair{"hidden_size", &ModelConfig::hidden},
    std::pair{"ffn_hidden_size", &ModelConfig::ffn_hidden},
    std::pair{"num_attention_heads", &ModelConfig::n_heads},
    std::pair{"num_query_groups", &ModelConfig::n_groups},
    std::pair{"kv_channels", &ModelConfig::head_dim},
    std::pair{"seq_length", &ModelConfig::seq_length},
    std::pair{"max_position_embeddings", &ModelConfig::max_positions},
    std::pair{"vocab_size", &ModelConfig::vocab_size},
};
constexpr std::array number_fields{
    std::pair{"layernorm_epsilon", &ModelConfig::norm_eps},
    std::pair{"rotary_base", &ModelConfig::rotary_base},
    std::pair{"attention_dropout", &ModelConfig::attention_dropout},
    std::pair{"hidden_dropout", &ModelConfig::hidden_dropout},
    std::pair{"init_method_std", &ModelConfig::init_std},
};
constexpr std::array flag_fields{
    std::pair{"embed_layernorm", &ModelConfig::embedding_norm},
    std::pair{"untie_embeddings_and_output_weights", &ModelConfig::untied_head},
    std::pair{"linear_bias", &ModelConfig::linear_bias},
};

// Members that later versions added. The JSON omits a member that has its default, so that the
// manifests of older models do not change.
constexpr std::array later_integers{std::pair{"window", &ModelConfig::window}};
constexpr std::array later_numbers{
    std::pair{"rotary_percent", &ModelConfig::rotary_percent},
    std::pair{"rope_local_base_freq", &ModelConfig::rotary_local_base},
    std::pair{"llama_4_scaling_beta", &ModelConfig::query_beta},
    std::pair{"embedding_multiplier", &ModelConfig::embedding_scale},
    std::pair{"attention_multiplier", &ModelConfig::attention_scale},
    std::pair{"residual_multiplier", &ModelConfig::residual_scale},
    std::pair{"logit_scale", &ModelConfig::logit_scale},
};
constexpr std::array later_flags{
    std::pair{"rotary_interleaved", &ModelConfig::rotary_interleaved},
    std::pair{"apply_layernorm_1p", &ModelConfig::norm_1p},
    std::pair{"qk_layernorm", &ModelConfig::qk_norm},
    std::pair{"qk_layernorm_all_heads", &ModelConfig::joint_qk_norm},
    std::pair{"use_parallel_residual", &ModelConfig::parallel_residual},
    std::pair{"parallel_shared_norm", &ModelConfig::shared_norm},
    std::pair{"norm_bias", &ModelConfig::norm_bias},
    std::pair{"add_qkv_bias", &ModelConfig::qkv_bias},
};

// A choice of layers: a number, or a list of 0 and 1 with `mark` for a chosen layer, as the flag of
// the same name takes it.
struct PatternField {
    const char* key;
    spec::LayerPattern ModelConfig::*member;
    bool mark;
};
constexpr std::array pattern_fields{
    PatternField{"window_attn_skip_freq", &ModelConfig::full_layers, false},
    PatternField{"no_rope_freq", &ModelConfig::unrotated_layers, true},
};

io::OrderedJson pattern_json(const spec::LayerPattern& pattern, bool mark) {
    if (pattern.empty()) return nullptr;
    if (pattern.every > 0) return pattern.every;
    io::OrderedJson list = io::OrderedJson::array();
    for (const bool chosen : pattern.chosen) list.push_back(chosen == mark ? 1 : 0);
    return list;
}

spec::LayerPattern pattern_from(const io::Json& value, bool mark, const char* key,
                                const std::string& path) {
    if (value.is_null()) return {};
    if (!value.is_array()) return {.every = io::json_as<i64>(value, key, path), .chosen = {}};
    spec::LayerPattern pattern;
    for (const i64 entry : io::json_as<std::vector<i64>>(value, key, path)) {
        pattern.chosen.push_back((entry != 0) == mark);
    }
    return pattern;
}

// The key of earlier versions, which had the rule of Llama 3.1 and its factor only.
constexpr const char* llama3_factor = "rope_scaling_factor";

using spec::RotaryRule;
using spec::RotaryScaling;

constexpr std::array scaling_numbers{
    std::pair{"low_freq_factor", &RotaryScaling::low_freq_factor},
    std::pair{"high_freq_factor", &RotaryScaling::high_freq_factor},
    std::pair{"beta_fast", &RotaryScaling::beta_fast},
    std::pair{"beta_slow", &RotaryScaling::beta_slow},
    std::pair{"mscale", &RotaryScaling::mscale},
    std::pair{"mscale_all_dim", &RotaryScaling::mscale_all_dim},
    std::pair{"attention_factor", &RotaryScaling::attention_factor},
};
constexpr std::array scaling_lists{
    std::pair{"short_factor", &RotaryScaling::short_factors},
    std::pair{"long_factor", &RotaryScaling::long_factors},
};
constexpr const char* original_length = "original_max_position_embeddings";

// Omits settings with their defaults. The names are those of transformers.
io::OrderedJson scaling_json(const RotaryScaling& scaling) {
    if (scaling.rule == RotaryRule::none) return nullptr;
    const RotaryScaling defaults;
    io::OrderedJson json{{"rope_type", spec::name_of(scaling.rule)}, {"factor", scaling.factor}};
    if (scaling.original_length > 0) json[original_length] = scaling.original_length;
    const auto add = [&](const auto& table) {
        for (const auto& [key, member] : table) {
            if (scaling.*member != defaults.*member) json[key] = scaling.*member;
        }
    };
    add(scaling_numbers);
    add(scaling_lists);
    if (!scaling.truncate) json["truncate"] = false;
    return json;
}

// Calls body(table) for each of the tables later_integers, later_numbers and later_flags.
template <typename Body>
void for_later_fields(const Body& body) {
    body(later_integers);
    body(later_numbers);
    body(later_flags);
}

template <typename Table>
auto from_name(const Table& table, const io::Json& object, const std::string& key,
               const std::string& path) {
    const auto name = io::json_get<std::string>(object, key, path);
    if (const auto value = value_in(table, name)) return *value;
    run_error(path, "'{}' has the unknown value '{}': use a newer lm-utils", key, name);
}

RotaryScaling scaling_from(const io::Json& object, const std::string& path) {
    RotaryScaling scaling;
    if (const auto factor = io::json_get_or<double>(object, llama3_factor, 0, path); factor > 0) {
        scaling = spec::usual_scaling(RotaryRule::llama3);
        scaling.factor = factor;
    }
    if (!object.contains("rope_scaling") || object["rope_scaling"].is_null()) return scaling;
    const io::Json& json = object["rope_scaling"];
    scaling.rule = from_name(spec::rotary_rules, json, "rope_type", path);
    scaling.factor = io::json_get<double>(json, "factor", path);
    scaling.original_length = io::json_get_or<i64>(json, original_length, 0, path);
    scaling.truncate = io::json_get_or<bool>(json, "truncate", true, path);
    const auto read = [&](const auto& table) {
        for (const auto& [key, member] : table) {
            scaling.*member = io::json_get_or(json, key, scaling.*member, path);
        }
    };
    read(scaling_numbers);
    read(scaling_lists);
    return scaling;
}

}  // namespace

io::OrderedJson to_json(const ModelConfig& config, bool with_defaults) {
    io::OrderedJson object;
    for (const auto& [key, member] : integer_fields) object[key] = config.*member;
    object["position_embedding_type"] = spec::name_of(config.position);
    object["normalization"] = spec::name_of(config.normalization);
    object["activation"] = spec::name_of(config.activation);
    for (const auto& [key, member] : number_fields) object[key] = config.*member;
    for (const auto& [key, member] : flag_fields) object[key] = config.*member;
    const ModelConfig defaults;
    for_later_fields([&](const auto& table) {
        for (const auto& [key, member] : table) {
            if (with_defaults || config.*member != defaults.*member) object[key] = config.*member;
        }
    });
    if (with_defaults || config.norms != defaults.norms)
        object["norm_placement"] = spec::name_of(config.norms);
    if (with_defaults || config.rope_scaling.rule != RotaryRule::none)
        object["rope_scaling"] = scaling_json(config.rope_scaling);
    for (const auto& [key, member, mark] : pattern_fields) {
        if (with_defaults || !(config.*member).empty())
            object[key] = pattern_json(config.*member, mark);
    }
    return object;
}

ModelConfig model_from_json(const io::Json& object, const std::string& path) {
    ModelConfig config;
    for (const auto& [key, member] : integer_fields) {
        config.*member = io::json_get<i64>(object, key, path);
    }
    config.position = from_name(spec::position_embeddings, object, "position_embedding_type", path);
    config.normalization = from_name(spec::normalizations, object, "normalization", path);
    config.activation = from_name(spec::activations, object, "activation", path);
    for (const auto& [key, member] : number_fields) {
        config.*member = io::json_get<double>(object, key, path);
    }
    for (const auto& [key, member] : flag_fields) {
        config.*member = io::json_get<bool>(object, key, path);
    }
    for_later_fields([&](const auto& table) {
        for (const auto& [key, member] : table) {
            config.*member = io::json_get_or(object, key, config.*member, path);
        }
    });
    if (object.contains("norm_placement"))
        config.norms = from_name(spec::norm_placements, object, "norm_placement", path);
    config.rope_scaling = scaling_from(object, path);
    for (const auto& [key, member, mark] : pattern_fields) {
        if (object.contains(key)) config.*member = pattern_from(object[key], mark, key, path);
    }
    config.resolve();
    return config;
}

}  // namespace lm::ckpt
