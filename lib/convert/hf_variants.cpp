// SPDX-License-Identifier: Apache-2.0
#include "convert/hf_variants.hpp"

#include <array>

#include "base/error.hpp"

namespace lm::convert {
namespace {

using spec::ModelConfig;

// The constants of Llama 3.1's scaling, which are fixed in Megatron-LM and lm-utils.
constexpr std::array<std::pair<const char*, double>, 3> llama3_constants{
    std::pair{"low_freq_factor", 1.0}, std::pair{"high_freq_factor", 4.0},
    std::pair{"original_max_position_embeddings", 8192.0}};

io::Json llama3_scaling(double factor) {
    return {{"rope_type", "llama3"},
            {"factor", factor},
            {"low_freq_factor", 1.0},
            {"high_freq_factor", 4.0},
            {"original_max_position_embeddings", 8192}};
}

// Reads rope_scaling, or the rope_parameters of newer versions of transformers.
void read_scaling(const HfArchitecture& architecture, const io::Json& scaling, ModelConfig& config,
                  const std::string& path) {
    const auto old_type = io::json_get_or<std::string>(scaling, "type", "default", path);
    const auto type = io::json_get_or<std::string>(scaling, "rope_type", old_type, path);
    if (type == "default") return;
    if (type != "llama3" || !architecture.rope_scaling) {
        usage_error(path, "expected rope_type 'default'{}, got '{}': lm-utils does not support it",
                    architecture.rope_scaling ? " or 'llama3'" : "", type);
    }
    for (const auto& [key, value] : llama3_constants) {
        const auto got = io::json_get<double>(scaling, key, path);
        if (got == value) continue;
        usage_error(path, "expected '{}' to be {}, got {}: lm-utils does not support such models",
                    key, value, got);
    }
    config.rope_scaling = io::json_get<double>(scaling, "factor", path);
}

// Returns the object `key`, or nullptr if it is missing or null.
const io::Json* object_of(const io::Json& json, const char* key) {
    const auto found = json.find(key);
    return found == json.end() || found->is_null() ? nullptr : &*found;
}

void read_rope(const HfArchitecture& architecture, const io::Json& json, ModelConfig& config,
               const std::string& path) {
    if (const io::Json* scaling = object_of(json, "rope_scaling");
        scaling && architecture.rope_scaling) {
        read_scaling(architecture, *scaling, config, path);
    }
    const io::Json* const parameters = object_of(json, "rope_parameters");
    if (!parameters) return;
    read_scaling(architecture, *parameters, config, path);
    config.rotary_base =
        io::json_get_or<double>(*parameters, "rope_theta", config.rotary_base, path);
    if (!architecture.partial_rotary) return;
    config.rotary_percent =
        io::json_get_or<double>(*parameters, "partial_rotary_factor", config.rotary_percent, path);
}

// transformers uses a window of 4096 tokens if the config.json of a Mistral model has no key
// sliding_window.
void read_window(const io::Json& json, ModelConfig& config, const std::string& path) {
    const auto found = json.find("sliding_window");
    if (found != json.end() && found->is_null()) return;
    const i64 window = io::json_get_or<i64>(json, "sliding_window", 4096, path);
    if (window < config.max_positions) config.window = window;
}

}  // namespace

std::optional<Misfit> misfit_of_variants(const HfArchitecture& a, const spec::ModelConfig& c) {
    const bool rope = c.position == spec::PositionEmbedding::rope;
    if (rope && c.rotary_percent != 1 && !a.partial_rotary) {
        return Misfit{"--rotary-percent", fmt::format("{} of each head rotated", c.rotary_percent)};
    }
    if (rope && c.rotary_interleaved) {
        return Misfit{"--rotary-interleaved", "adjacent rotary pairs"};
    }
    if (rope && c.rope_scaling != 0 && !a.rope_scaling) {
        return Misfit{"--use-rope-scaling", "scaled rotary frequencies"};
    }
    if (c.window > 0 && c.window < c.max_positions && !a.window) {
        return Misfit{"--window-size", fmt::format("a window of {} keys", c.window)};
    }
    if (c.norm_1p != a.one_plus) {
        return Misfit{"--apply-layernorm-1p",
                      c.norm_1p ? "norms with 1 + weight" : "norms without 1 + weight"};
    }
    if (c.qk_norm != a.qk_norm) {
        return Misfit{"--qk-layernorm",
                      c.qk_norm ? "norms of query and key" : "no norms of query and key"};
    }
    if (a.squared_relu && c.activation != spec::Activation::squared_relu) {
        return Misfit{"--squared-relu", std::string(name_of(c.activation))};
    }
    const bool own_bias = !c.linear_bias && c.qkv_bias;
    if (a.qkv_bias != Rule::any && own_bias != (a.qkv_bias == Rule::always)) {
        return Misfit{"--add-qkv-bias", own_bias ? "biases of query, key and value"
                                                 : "no biases of query, key and value"};
    }
    return std::nullopt;
}

void write_variants(const HfArchitecture& architecture, const ModelConfig& config, io::Json& json) {
    if (architecture.rope_scaling) {
        json["rope_scaling"] =
            config.rope_scaling != 0 ? llama3_scaling(config.rope_scaling) : io::Json(nullptr);
    }
    if (architecture.window) {
        const bool limited = config.window > 0 && config.window < config.max_positions;
        json["sliding_window"] = limited ? io::Json(config.window) : io::Json(nullptr);
    }
    if (architecture.format == Format::hf_stablelm) json["use_qkv_bias"] = config.qkv_bias;
}

void read_variants(const HfArchitecture& architecture, const io::Json& json, ModelConfig& config,
                   const std::string& path) {
    read_rope(architecture, json, config, path);
    if (architecture.window) read_window(json, config, path);
    config.norm_1p = architecture.one_plus;
    config.qk_norm = architecture.qk_norm;
    config.qkv_bias = architecture.qkv_bias == Rule::always;
    if (architecture.format == Format::hf_stablelm) {
        config.qkv_bias = io::json_get_or<bool>(json, "use_qkv_bias", false, path);
    }
    if (config.qkv_bias) config.linear_bias = false;
}

}  // namespace lm::convert
