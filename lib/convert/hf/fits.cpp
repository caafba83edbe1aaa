// SPDX-License-Identifier: Apache-2.0
#include "convert/hf/fits.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "convert/hf/rope_json.hpp"

namespace lm::convert {
namespace {

using spec::Activation;
using spec::ModelConfig;

bool has_activation(const HfClass& hf, Activation activation) {
    if (!hf.activation_key) return hf.activations.front().value == activation;
    return std::ranges::find(hf.activations, activation, &Named<Activation>::value) !=
           hf.activations.end();
}

std::optional<Misfit> misfit_of_activation(const HfClass& hf, Activation activation) {
    if (has_activation(hf, activation)) return std::nullopt;
    std::string_view flag = "--no-bias-gelu-fusion";
    if (is_gated(activation) != is_gated(hf.activations.front().value)) {
        const bool by_name = is_gated(activation) && switch_of(activation).empty();
        flag = by_name ? "--glu-activation" : "--swiglu";
    }
    return Misfit{std::string(flag), std::string(name_of(activation))};
}

bool holds_groups(const HfClass& hf, i64 n_groups, i64 n_heads) {
    if (hf.has_key(&ModelConfig::n_groups)) return true;
    return n_groups == (hf.n_groups > 0 ? hf.n_groups : n_heads);
}

std::optional<Misfit> misfit_of_scaling(const HfClass& hf, const ModelConfig& c) {
    const spec::RotaryScaling& scaling = c.rope_scaling;
    if (!has_rule(hf, scaling.rule)) {
        return Misfit{"the scaling of rotary frequencies",
                      fmt::format("frequencies scaled by {}", name_of(scaling.rule))};
    }
    if (c.query_beta > 0 && !hf.query_scale)
        return Misfit{"--llama-4-scaling-beta", "queries scaled by their positions"};
    if (hf.absent_local_base == 0 && c.rotary_local_base > 0)
        return Misfit{"--rope-local-base-freq",
                      "rotary frequencies of their own in layers with a window"};
    if (hf.absent_local_base == 0) return std::nullopt;
    // The layers with a window have unscaled frequencies, and `truncate` is not read.
    if (c.window > 0 && c.rotary_local_base == 0 && scaling.rule != spec::RotaryRule::none)
        return Misfit{"--rope-local-base-freq", "scaled frequencies in layers with a window"};
    if (!scaling.truncate)
        return Misfit{"--no-yarn-correction-range-round-to-int", "a range that is not rounded"};
    return std::nullopt;
}

std::optional<Misfit> misfit_of_rotary(const HfClass& hf, const ModelConfig& c) {
    if (c.rotary_percent != 1 && !hf.has_key(&ModelConfig::rotary_percent)) {
        return Misfit{"--rotary-percent", fmt::format("{} of each head rotated", c.rotary_percent)};
    }
    if (c.rotary_interleaved != hf.rotary_interleaved) {
        return Misfit{"--rotary-interleaved",
                      c.rotary_interleaved ? "adjacent rotary pairs" : "rotary pairs of halves"};
    }
    return misfit_of_scaling(hf, c);
}

std::optional<Misfit> misfit_of_scales(const HfClass& hf, const ModelConfig& c) {
    struct Scale {
        const char* flag;
        double ModelConfig::*member;
        double absent;
    };
    constexpr Scale scales[] = {{"--embedding-multiplier", &ModelConfig::embedding_scale, 1},
                                {"--attention-multiplier", &ModelConfig::attention_scale, 0},
                                {"--residual-multiplier", &ModelConfig::residual_scale, 1},
                                {"--logit-scale", &ModelConfig::logit_scale, 1}};
    for (const auto& [flag, member, absent] : scales) {
        if (hf.scaled_embedding && member == &ModelConfig::embedding_scale) {
            if (c.*member != std::sqrt(static_cast<double>(c.hidden)))
                return Misfit{flag, "an embedding without the root of the hidden size"};
            continue;
        }
        const auto key = std::ranges::find(hf.numbers, member, &HfClass::Number::member);
        if (key != hf.numbers.end() && key->form == HfClass::Form::inverse_square) {
            const double scale = c.score_scale();
            if (1 / std::sqrt(std::round(1 / (scale * scale))) != scale)
                return Misfit{flag,
                              fmt::format("a factor of {}, not of the root of an integer", scale)};
            continue;
        }
        if (c.*member != absent && !hf.has_key(member))
            return Misfit{flag, fmt::format("a factor of {}", c.*member)};
    }
    return std::nullopt;
}

Misfit misfit_of_heads(const ModelConfig& c) {
    return {"--kv-channels",
            fmt::format("{} heads of {} at a hidden size of {}", c.n_heads, c.head_dim, c.hidden)};
}

// Returns the names of the first classes that can hold the model: "hf-llama or hf-mistral".
std::string names_that_fit(const ModelConfig& config) {
    constexpr int most = 3;
    std::string names;
    int n = 0;
    for (const HfClass* hf : hf_classes()) {
        if (misfit(*hf, config)) continue;
        names += fmt::format("{}{}", n == 0 ? "" : " or ", hf->name);
        if (++n == most) break;
    }
    return names;
}

}  // namespace

std::optional<Misfit> inexpressible(const HfClass& hf, const ModelConfig& c) {
    // Names all properties of a layer, so that a new one does not compile until it is refused for
    // the classes that lack it. Layers differ in window and position only.
    const auto [n_groups, position, rotary, window, activation, parallel_residual, shared_norm,
                norms] = c.layer(0);
    if (c.position != hf.position) {
        return Misfit{"--position-embedding-type", std::string(name_of(c.position))};
    }
    if (hf.only_windows_rotate) {
        const bool limited = c.window > 0 && c.window < c.max_positions;
        if (limited && c.unrotated_layers != c.full_layers)
            return Misfit{"--no-rope-freq", "a window in other layers than rotary positions"};
    } else if (!c.unrotated_layers.empty() && !hf.unrotated_layers)
        return Misfit{"--no-rope-freq", "layers without rotary positions"};
    if (!c.full_layers.empty() && !hf.has_window)
        return Misfit{"--window-attn-skip-freq", "a window in some layers only"};
    if (c.normalization != hf.normalization) {
        return Misfit{"--normalization", std::string(name_of(c.normalization))};
    }
    if (norms != hf.norms) {
        return Misfit{"--norm-placement", fmt::format("{} norms", name_of(norms))};
    }
    if (const auto found = misfit_of_activation(hf, activation)) return found;
    if (!holds_groups(hf, n_groups, c.n_heads)) {
        return Misfit{"--num-query-groups",
                      fmt::format("{} groups for {} heads", n_groups, c.n_heads)};
    }
    if (c.attention_width() != c.hidden && !hf.has_key(&ModelConfig::head_dim)) {
        return misfit_of_heads(c);
    }
    if (c.embedding_norm != hf.embedding_norm) {
        return Misfit{"--embed-layernorm",
                      c.embedding_norm ? "a normalized embedding" : "no normalized embedding"};
    }
    if (c.linear_bias != hf.linear_bias && !hf.has_key(&ModelConfig::linear_bias)) {
        return Misfit{"--disable-bias-linear", c.linear_bias ? "biases" : "no biases"};
    }
    if (c.ffn_hidden != 4 * c.hidden && !hf.has_key(&ModelConfig::ffn_hidden)) {
        return Misfit{"--ffn-hidden-size",
                      fmt::format("{} at a hidden size of {}", c.ffn_hidden, c.hidden)};
    }
    if (is_rotary(c.position)) {
        if (const auto found = misfit_of_rotary(hf, c)) return found;
    }
    if (c.window > 0 && c.window < c.max_positions && hf.absent_window == 0) {
        return Misfit{"--window-size", fmt::format("a window of {} keys", c.window)};
    }
    if (c.norm_1p != hf.norm_1p) {
        return Misfit{"--apply-layernorm-1p",
                      c.norm_1p ? "norms with 1 + weight" : "norms without 1 + weight"};
    }
    if (c.qk_norm != hf.qk_norm) {
        return Misfit{"--qk-layernorm",
                      c.qk_norm ? "norms of query and key" : "no norms of query and key"};
    }
    if (c.joint_qk_norm != hf.joint_qk_norm) {
        return Misfit{"--qk-layernorm-all-heads",
                      c.joint_qk_norm ? "one norm over all heads" : "a norm of each head"};
    }
    if (c.norm_bias != hf.norm_bias) {
        return Misfit{"--no-norm-bias", c.norm_bias ? "norms with biases" : "norms without biases"};
    }
    if (parallel_residual != hf.shared_norm && !hf.has_key(&ModelConfig::parallel_residual)) {
        return Misfit{"--use-parallel-residual",
                      parallel_residual ? "a parallel residual" : "no parallel residual"};
    }
    if (shared_norm != hf.shared_norm) {
        return Misfit{"--parallel-shared-norm",
                      shared_norm ? "one norm before attention and MLP" : "a norm before the MLP"};
    }
    if (const auto found = misfit_of_scales(hf, c)) return found;
    const bool own_bias = !c.linear_bias && c.qkv_bias;
    if (own_bias != hf.qkv_bias && !hf.has_key(&ModelConfig::qkv_bias)) {
        return Misfit{"--add-qkv-bias", own_bias ? "biases of query, key and value"
                                                 : "no biases of query, key and value"};
    }
    return std::nullopt;
}

std::optional<Misfit> misfit(const HfClass& hf, const ModelConfig& c) {
    if (const auto found = inexpressible(hf, c)) return found;
    if (c.attention_width() == c.hidden || hf.any_head_dim) return std::nullopt;
    const bool has_other = std::ranges::any_of(hf_classes(), [&](const HfClass* other) {
        return other->any_head_dim && !inexpressible(*other, c);
    });
    // Version 4.44 reads scaled frequencies of Llama only.
    const bool scaled = c.rope_scaling.rule != spec::RotaryRule::none;
    if (hf.newer_head_dim && (scaled || !has_other)) return std::nullopt;
    return misfit_of_heads(c);
}

void check_fits(const HfClass& hf, const ModelConfig& config) {
    const std::optional<Misfit> found = misfit(hf, config);
    if (!found) return;
    const std::string others = names_that_fit(config);
    // The export to Megatron refuses these.
    const bool refused = config.parallel_residual || config.norms != spec::NormPlacement::pre ||
                         config.joint_qk_norm || config.rotary_local_base > 0 ||
                         config.query_beta > 0 ||
                         config.rope_scaling.rule == spec::RotaryRule::longrope;
    const std::string_view none =
        refused ? "no other format can, either"
                : "no supported class of transformers can: use --to megatron-lm";
    usage_error(found->flag, "the model has {}, which {} ({}) cannot express: {}{}", found->has,
                hf.name, hf.class_name, others.empty() ? none : "use --to ", others);
}

const HfClass& choose_class(const ModelConfig& config) {
    for (const HfClass* hf : hf_classes()) {
        if (!misfit(*hf, config)) return *hf;
    }
    // No class can hold the model. The error names one class and a flag to change. Prefers a class
    // that has the model's position embedding and norm, because any other flag is easier to change.
    for (const HfClass* hf : hf_classes()) {
        const Misfit found = *misfit(*hf, config);
        if (found.flag != "--position-embedding-type" && found.flag != "--normalization") {
            check_fits(*hf, config);
        }
    }
    check_fits(*hf_classes().front(), config);
    bug(__FILE__, __LINE__, "expected a model that does not fit");
}

}  // namespace lm::convert
