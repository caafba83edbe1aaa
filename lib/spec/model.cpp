// SPDX-License-Identifier: Apache-2.0
#include "spec/model.hpp"

#include <cmath>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/problem_list.hpp"
#include "base/shape.hpp"

namespace lm::spec {

std::string_view name_of(PositionEmbedding value) {
    return name_in(position_embeddings, value);
}

std::string_view name_of(Normalization value) {
    return name_in(normalizations, value);
}

std::string_view name_of(NormPlacement value) {
    return name_in(norm_placements, value);
}

namespace {

// Refuses models whose byte counts could overflow 64 bits. Computes a bound from the largest
// matrices in floating point, before any integer product of sizes is computed.
void check_size(const ModelConfig& c) {
    const double h = static_cast<double>(c.hidden);
    const double layer =
        h * (4.0 * static_cast<double>(c.n_heads) * static_cast<double>(c.head_dim) +
             3.0 * static_cast<double>(c.ffn_hidden));
    const double total =
        layer * static_cast<double>(c.n_layers) +
        h * (2.0 * static_cast<double>(c.vocab_size) + static_cast<double>(c.max_positions));
    constexpr double most = 1e15;
    if (total > most) {
        usage_error("--hidden-size",
                    "{} gives a model of {:.0e} parameters: at most {:.0e} are supported", c.hidden,
                    total, most);
    }
}

bool has_valid_percent(const ModelConfig& c) {
    return c.rotary_percent > 0 && c.rotary_percent <= 1;
}

void check_rotary(const ModelConfig& c) {
    if (c.rotary_percent == 1 && c.head_dim % 2 != 0) {
        usage_error("--kv-channels", "rotary positions need an even head size, got {}", c.head_dim);
    }
    if (c.rotary_dim() < 2 || c.rotary_dim() % 2 != 0) {
        usage_error(
            "--rotary-percent",
            "{} of the {} elements of a head are {} elements: expected an even number, at least 2",
            c.rotary_percent, c.head_dim, c.rotary_dim());
    }
    if (c.rope_scaling.rule != RotaryRule::longrope) return;
    const auto check_length = [&](std::string_view flag, const std::vector<double>& factors) {
        if (std::ssize(factors) == c.rotary_dim() / 2) return;
        usage_error(flag, "has {} factors, but {} pairs of each head are rotated", factors.size(),
                    c.rotary_dim() / 2);
    };
    check_length("--rope-short-factor", c.rope_scaling.short_factors);
    check_length("--rope-long-factor", c.rope_scaling.long_factors);
}

void check_query_scale(const ModelConfig& c) {
    constexpr std::string_view flag = "--llama-4-scaling-beta";
    check_from_to(flag, c.query_beta, 0, 1e3);
    if (c.query_beta == 0) return;
    if (c.rope_scaling.original_length == 0)
        usage_error(flag, "needs an original context: give --position-embedding-type yarn");
}

void check_sizes(const ModelConfig& c) {
    constexpr i64 max_layers =
        100'000;  // the tensor table has an entry for each tensor of each layer
    check_all([&] { check_at_least("--num-layers", c.n_layers, 1); },
              [&] { check_at_most("--num-layers", c.n_layers, max_layers); },
              [&] { check_at_least("--hidden-size", c.hidden, 1); },
              [&] { check_at_least("--num-attention-heads", c.n_heads, 1); },
              [&] { check_at_least("--seq-length", c.seq_length, 1); },
              [&] { check_at_least("--vocab-size", c.vocab_size, 1); },
              [&] {
                  if (c.ffn_hidden != 0) check_at_least("--ffn-hidden-size", c.ffn_hidden, 1);
              },
              [&] {
                  if (c.head_dim != 0) check_at_least("--kv-channels", c.head_dim, 1);
              });
}

void check_pattern(std::string_view flag, const LayerPattern& pattern, i64 n_layers) {
    if (pattern.every < 0) usage_error(flag, "must be at least 1, got {}", pattern.every);
    if (pattern.chosen.empty() || std::ssize(pattern.chosen) == n_layers) return;
    usage_error(flag, "has {} entries, but the model has {} layers", pattern.chosen.size(),
                n_layers);
}

// Checks the sizes that must fit each other.
void check_shape(const ModelConfig& c) {
    check_all(
        [&] {
            if (c.qk_norm && !c.joint_qk_norm && c.head_dim > 256) {
                usage_error("--kv-channels",
                            "--qk-layernorm supports a head size of at most 256, got {}",
                            c.head_dim);
            }
        },
        [&] {
            if (is_rotary(c.position) && has_valid_percent(c)) check_rotary(c);
        },
        [&] {
            if (is_rotary(c.position) && c.query_beta > 0 && c.head_dim % 2 != 0)
                usage_error("--llama-4-scaling-beta", "needs an even head size, got {}",
                            c.head_dim);
        },
        [&] {
            if (c.n_groups < 1 || c.n_heads % c.n_groups != 0) {
                usage_error("--num-query-groups", "{} does not divide --num-attention-heads {}",
                            c.n_groups, c.n_heads);
            }
        },
        [&] {
            if (has_table(c.position) && c.max_positions < c.seq_length) {
                usage_error(
                    "--max-position-embeddings",
                    "{0} is less than --seq-length {1}: give {1} or more, or a --seq-length of at "
                    "most {0}",
                    c.max_positions, c.seq_length);
            }
        },
        [&] { check_pattern("--window-attn-skip-freq", c.full_layers, c.n_layers); },
        [&] { check_pattern("--no-rope-freq", c.unrotated_layers, c.n_layers); },
        [&] { check_size(c); });
}

}  // namespace

i64 ModelConfig::rotary_dim() const {
    return static_cast<i64>(static_cast<double>(head_dim) * rotary_percent);
}

double ModelConfig::score_scale() const {
    return attention_scale != 0 ? attention_scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
}

LayerConfig ModelConfig::layer(i64 index) const {
    const bool rotates = is_rotary(position) && !unrotated_layers.has(index);
    const i64 own_window = full_layers.has(index) ? 0 : window;
    RotaryFrequencies rotary;
    if (rotates && own_window > 0 && rotary_local_base > 0) {
        rotary.base = rotary_local_base;
    } else if (rotates) {
        rotary = {rotary_base, rope_scaling, query_beta};
    }
    return {.n_groups = n_groups,
            .position = is_rotary(position) && !rotates ? PositionEmbedding::none : position,
            .rotary = rotary,
            .window = own_window,
            .activation = activation,
            .parallel_residual = parallel_residual,
            .shared_norm = shared_norm,
            .norms = norms};
}

namespace {

template <typename Value>
void add_once(std::vector<Value>& values, const Value& value) {
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
}

}  // namespace

std::vector<LayerConfig> layer_kinds(const ModelConfig& config) {
    std::vector<LayerConfig> kinds;
    for (i64 i = 0; i < config.n_layers; ++i) add_once(kinds, config.layer(i));
    return kinds;
}

std::vector<i64> windows(const ModelConfig& config) {
    std::vector<i64> all;
    for (i64 i = 0; i < config.n_layers; ++i) add_once(all, config.layer(i).window);
    return all;
}

std::vector<RotaryFrequencies> rotary_frequencies(const ModelConfig& config) {
    std::vector<RotaryFrequencies> all;
    for (i64 i = 0; i < config.n_layers; ++i) {
        const LayerConfig layer = config.layer(i);
        if (is_rotary(layer.position)) add_once(all, layer.rotary);
    }
    return all;
}

i64 count_layers(const ModelConfig& config, const LayerConfig& kind) {
    i64 n = 0;
    for (i64 i = 0; i < config.n_layers; ++i) n += config.layer(i) == kind ? 1 : 0;
    return n;
}

void ModelConfig::check_values() const {
    check_all(
        [&] {
            if (is_rotary(position) && !has_valid_percent(*this))
                usage_error("--rotary-percent", "{} is not in (0, 1]", rotary_percent);
        },
        [&] {
            if (is_rotary(position)) check(rope_scaling);
        },
        [&] {
            if (is_rotary(position)) check_query_scale(*this);
        },
        [&] {
            if (rotary_local_base != 0)
                check_from_to("--rope-local-base-freq", rotary_local_base, 1, 1e30);
        },
        [&] {
            if (window != 0) check_at_least("--window-size", window - 1, 0);
        },
        [&] {
            if (shared_norm && !parallel_residual)
                usage_error("--parallel-shared-norm", "needs --use-parallel-residual");
        },
        [&] {
            if (joint_qk_norm && is_centred(normalization))
                usage_error("--qk-layernorm-all-heads", "needs --normalization RMSNorm, got {}",
                            name_of(normalization));
        },
        [&] { check_below_one("--attention-dropout", attention_dropout); },
        [&] { check_below_one("--hidden-dropout", hidden_dropout); },
        // The bounds are far beyond the values of real models, but well within the range of fp32.
        [&] { check_from_to("--init-method-std", init_std, 1e-30, 1e6); },
        [&] { check_from_to("--embedding-multiplier", embedding_scale, 1e-6, 1e6); },
        [&] {
            if (attention_scale != 0)
                check_from_to("--attention-multiplier", attention_scale, 1e-6, 1e6);
        },
        [&] { check_from_to("--residual-multiplier", residual_scale, 1e-6, 1e6); },
        [&] { check_from_to("--logit-scale", logit_scale, 1e-6, 1e6); },
        [&] {
            check_from_to("--rotary-base", rotary_base, 1, 1e30);
            if (is_rotary(position) && rope_scaling.rule == RotaryRule::yarn)
                check_above("--rotary-base", rotary_base, 1);
        },
        [&] { check_from_to("--layernorm-epsilon", norm_eps, 1e-30, 1); });
}

namespace {

// Fills the sizes that follow from others, and checks all sizes.
void resolve_sizes(ModelConfig& c) {
    if (c.ffn_hidden == 0) c.ffn_hidden = checked_mul(4, c.hidden);
    if (c.n_groups == 0) c.n_groups = c.n_heads;
    if (c.max_positions == 0) c.max_positions = c.seq_length;
    // Without a table, the sequences that the model has seen count.
    if (!has_table(c.position)) c.max_positions = std::max(c.max_positions, c.seq_length);
    if (c.head_dim == 0) {
        if (c.hidden % c.n_heads != 0) {
            usage_error("--num-attention-heads",
                        "{} does not divide --hidden-size {}: use a divisor, or give --kv-channels",
                        c.n_heads, c.hidden);
        }
        c.head_dim = c.hidden / c.n_heads;
    }
    check_shape(c);
    if (c.attention_scale == 1.0 / std::sqrt(static_cast<double>(c.head_dim)))
        c.attention_scale = 0;
    c.full_layers = c.window > 0 ? c.full_layers.canonical(c.n_layers) : LayerPattern{};
    c.unrotated_layers =
        is_rotary(c.position) ? c.unrotated_layers.canonical(c.n_layers) : LayerPattern{};
    const bool same_base =
        c.rotary_local_base == c.rotary_base && c.rope_scaling.rule == RotaryRule::none;
    if (c.window == 0 || same_base) c.rotary_local_base = 0;
}

}  // namespace

void ModelConfig::resolve() {
    if (linear_bias) qkv_bias = false;  // linear_bias includes the biases of query, key and value
    if (!qk_norm) joint_qk_norm = false;
    if (!is_centred(normalization)) norm_bias = true;  // without effect
    Problems problems;
    const bool sizes_are_valid = problems.check([&] { check_sizes(*this); });
    problems.check([&] { check_values(); });
    if (sizes_are_valid) problems.check([&] { resolve_sizes(*this); });
    problems.throw_found();
}

}  // namespace lm::spec
