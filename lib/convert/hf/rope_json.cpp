// SPDX-License-Identifier: Apache-2.0
#include "convert/hf/rope_json.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "io/json.hpp"

namespace lm::convert {

bool is_set(const io::Json& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && !found->is_null();
}

namespace {

using spec::ModelConfig;
using spec::RotaryRule;
using spec::RotaryScaling;

constexpr const char* original_key = "original_max_position_embeddings";
constexpr const char* beta_key = "llama_4_scaling_beta";

RotaryRule read_rule(const HfClass& hf, const io::Json& object, const std::string& path) {
    const auto old_type = io::json_get_or<std::string>(object, "type", "default", path);
    const auto type = io::json_get_or<std::string>(object, "rope_type", old_type, path);
    if (type == "default") return RotaryRule::none;
    if (type == "linear" && io::json_get<double>(object, "factor", path) == 1)
        return RotaryRule::none;
    if (const auto rule = value_in(hf.rope_types, type)) return *rule;
    usage_error(path, "expected rope_type 'default', {}, got '{}': lm-utils does not support it{}",
                fmt::join(names_in(hf.rope_types), ", "), type,
                type == "dynamic" ? ", because its frequencies change with each batch" : "");
}

// Returns the original context. transformers prefers the key beside the object to that in it.
i64 read_original(const HfClass& hf, const io::Json& json, const io::Json& object,
                  const ModelConfig& config, const std::string& path) {
    if (is_set(json, original_key)) return io::json_get<i64>(json, original_key, path);
    if (hf.absent_original > 0) return hf.absent_original;
    return io::json_get_or<i64>(object, original_key, config.max_positions, path);
}

RotaryScaling read_scaling(const HfClass& hf, const io::Json& json, const io::Json& object,
                           const ModelConfig& config, const std::string& path) {
    RotaryScaling scaling{.rule = read_rule(hf, object, path)};
    const auto number = [&](const char* key, double absent) {
        return io::json_get_or<double>(object, key, absent, path);
    };
    const auto required = [&](const char* key) { return io::json_get<double>(object, key, path); };
    const auto read_context = [&] {
        scaling.original_length = read_original(hf, json, object, config, path);
        scaling.factor = number("factor", static_cast<double>(config.max_positions) /
                                              static_cast<double>(scaling.original_length));
        scaling.attention_factor = number("attention_factor", 0);
    };
    switch (scaling.rule) {
        case RotaryRule::none:
            break;
        case RotaryRule::linear:
            scaling.factor = required("factor");
            break;
        case RotaryRule::llama3:
            scaling.factor = required("factor");
            scaling.low_freq_factor = required("low_freq_factor");
            scaling.high_freq_factor = required("high_freq_factor");
            scaling.original_length = read_original(hf, json, object, config, path);
            break;
        case RotaryRule::yarn: {
            read_context();
            const auto or_default = [&](double& member, const char* key) {
                if (const double value = number(key, 0); value != 0) member = value;
            };
            or_default(scaling.beta_fast, "beta_fast");
            or_default(scaling.beta_slow, "beta_slow");
            const double mscale = number("mscale", 0), all_dim = number("mscale_all_dim", 0);
            if (mscale != 0 && all_dim != 0) {
                scaling.mscale = mscale;
                scaling.mscale_all_dim = all_dim;
            }
            // transformers 5.24 does not read it inside of an object for some layers.
            if (hf.absent_local_base == 0)
                scaling.truncate = io::json_get_or<bool>(object, "truncate", true, path);
            break;
        }
        case RotaryRule::longrope:
            read_context();
            scaling.short_factors = io::json_get<std::vector<double>>(object, "short_factor", path);
            scaling.long_factors = io::json_get<std::vector<double>>(object, "long_factor", path);
            break;
    }
    return scaling;
}

// Reads the object of all layers, or of those without a window.
void read_object(const HfClass& hf, const io::Json& json, const io::Json& object,
                 ModelConfig& config, const std::string& path) {
    config.rope_scaling = read_scaling(hf, json, object, config, path);
    config.rotary_base = io::json_get_or<double>(object, "rope_theta", config.rotary_base, path);
    if (hf.query_scale) config.query_beta = io::json_get_or<double>(object, beta_key, 0, path);
    if (!hf.has_key(&ModelConfig::rotary_percent)) return;
    config.rotary_percent =
        io::json_get_or<double>(object, "partial_rotary_factor", config.rotary_percent, path);
}

constexpr const char* full = "full_attention";
constexpr const char* sliding = "sliding_attention";

void read_local(const HfClass& hf, const io::Json& object, ModelConfig& config,
                const std::string& path) {
    if (!is_set(object, sliding)) return;
    const io::Json& local = object[sliding];
    if (read_rule(hf, local, path) != RotaryRule::none)
        usage_error(path, "expected rope_type 'default' for {}: lm-utils does not support others",
                    sliding);
    config.rotary_local_base =
        io::json_get_or<double>(local, "rope_theta", config.rotary_local_base, path);
}

}  // namespace

void read_rope(const HfClass& hf, const io::Json& json, ModelConfig& config,
               const std::string& path) {
    config.rotary_local_base = hf.absent_local_base;
    if (hf.local_base_key) {
        config.rotary_local_base =
            io::json_get_or<double>(json, hf.local_base_key, config.rotary_local_base, path);
    }
    const bool old = is_set(json, "rope_scaling") && !json["rope_scaling"].empty();
    const char* const key = old ? "rope_scaling" : "rope_parameters";
    if (!is_set(json, key)) {
        if (!hf.absent_rope.empty())
            read_object(hf, json, io::parse_json(hf.absent_rope, path), config, path);
        return;
    }
    const io::Json& object = json[key];
    const bool nested = object.contains(full) || object.contains(sliding);
    if (nested && hf.absent_local_base == 0) {
        usage_error(path, "{}: a {} has one object for all layers, got {} and {}", key,
                    hf.class_name, full, sliding);
    }
    if (!nested) return read_object(hf, json, object, config, path);
    if (is_set(object, full)) read_object(hf, json, object[full], config, path);
    read_local(hf, object, config, path);
}

namespace {

io::Json scaling_object(const HfClass& hf, const ModelConfig& config) {
    const RotaryScaling& scaling = config.rope_scaling;
    if (scaling.rule == RotaryRule::none) return nullptr;
    const std::string_view type = name_in(hf.rope_types, scaling.rule);
    io::Json json;
    switch (scaling.rule) {
        case RotaryRule::none:
            break;
        case RotaryRule::linear:
            json = {{"rope_type", type}, {"factor", scaling.factor}};
            break;
        case RotaryRule::llama3:
            json = {{"rope_type", type},
                    {"factor", scaling.factor},
                    {"low_freq_factor", scaling.low_freq_factor},
                    {"high_freq_factor", scaling.high_freq_factor},
                    {original_key, scaling.original_length}};
            break;
        case RotaryRule::yarn:
            json = {{"rope_type", type},
                    {"factor", scaling.factor},
                    {original_key, scaling.original_length},
                    {"beta_fast", scaling.beta_fast},
                    {"beta_slow", scaling.beta_slow}};
            // transformers ignores one of the two without the other.
            if (scaling.attention_factor == 0 && scaling.mscale != 0 &&
                scaling.mscale_all_dim != 0) {
                json["mscale"] = scaling.mscale;
                json["mscale_all_dim"] = scaling.mscale_all_dim;
            } else if (scaling.attention_factor > 0 || scaling.mscale != 1) {
                json["attention_factor"] = attention_factor(scaling);
            }
            if (!scaling.truncate) json["truncate"] = false;
            break;
        case RotaryRule::longrope: {
            // Version 4.44 requires these three keys and no others, and computes the factor of
            // attention from the two contexts.
            json = {{"type", type},
                    {"short_factor", scaling.short_factors},
                    {"long_factor", scaling.long_factors}};
            RotaryScaling by_context = scaling;
            by_context.attention_factor = 0;
            by_context.factor = static_cast<double>(config.max_positions) /
                                static_cast<double>(scaling.original_length);
            if (attention_factor(by_context) != attention_factor(scaling))
                json["attention_factor"] = attention_factor(scaling);
            break;
        }
    }
    return json;
}

}  // namespace

void write_rope(const HfClass& hf, const ModelConfig& config, io::Json& json) {
    io::Json object = scaling_object(hf, config);
    if (config.rope_scaling.rule == RotaryRule::longrope)
        json[original_key] = config.rope_scaling.original_length;
    if (hf.absent_local_base == 0 && !hf.query_scale) {
        json["rope_scaling"] = std::move(object);
        return;
    }
    if (object.is_null()) object = {{"rope_type", "default"}};
    object["rope_theta"] = config.rotary_base;
    if (hf.query_scale) {
        object[beta_key] = config.query_beta;
        // The class divides positions by it, also with a beta of 0.
        if (!object.contains(original_key)) object[original_key] = config.max_positions;
    }
    if (hf.absent_local_base == 0) {
        json["rope_parameters"] = std::move(object);
        return;
    }
    // Without a base of their own, layers with a window have the frequencies of the others.
    io::Json local{{"rope_type", "default"}, {"rope_theta", config.rotary_base}};
    if (config.rotary_local_base > 0) local["rope_theta"] = config.rotary_local_base;
    json["rope_parameters"] = {{full, std::move(object)}, {sliding, std::move(local)}};
}

bool has_rule(const HfClass& hf, RotaryRule rule) {
    return rule == RotaryRule::none ||
           std::ranges::find(hf.rope_types, rule, &Named<RotaryRule>::value) != hf.rope_types.end();
}

}  // namespace lm::convert
