// SPDX-License-Identifier: Apache-2.0
#include "config/model_flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/nearest_name.hpp"
#include "base/problem_list.hpp"
#include "base/shape.hpp"
#include "config/layer_pattern.hpp"
#include "config/model_fields.hpp"
#include "config/presets.hpp"
#include "spec/parallel_config.hpp"

namespace lm::config {
namespace {

using spec::Activation;
using spec::ModelConfig;
using spec::Normalization;
using spec::PositionEmbedding;
using spec::RotaryRule;
using spec::RotaryScaling;

constexpr i64 gpt2_vocab = 50257;
constexpr std::string_view skip_flag = "--window-attn-skip-freq";
constexpr std::string_view no_rope_flag = "--no-rope-freq";

// Returns the value in `table` that has the name `name`, which the user gave for `flag`. Throws
// Error(usage) for an unknown name.
template <typename Table>
auto value_of(std::string_view flag, const Table& table, std::string_view name) {
    if (const auto value = value_in(table, name)) return *value;
    refuse_value(flag, name, names_in(table));
}

// Returns the value of --position-embedding-type.
PositionEmbedding named_position(const ModelFlags& flags) {
    const std::string& name = flags.position;
    if (name == learned_absolute) return PositionEmbedding::absolute;
    if (name == rotary || name == yarn) return PositionEmbedding::rope;
    return value_of("--position-embedding-type", spec::position_embeddings, name);
}

PositionEmbedding position_from(const ModelFlags& flags) {
    if (flags.rotary) return PositionEmbedding::rope;
    const PositionEmbedding position = named_position(flags);
    return flags.no_position && position == PositionEmbedding::absolute ? PositionEmbedding::none
                                                                        : position;
}

// Returns the member of the flag switch_of(activation); nullptr for an activation without one.
constexpr bool ModelFlags::*switch_member(Activation activation) {
    switch (activation) {
        case Activation::none:
        case Activation::gelu_tanh:
        case Activation::gelu_erf:
        case Activation::geglu:
        case Activation::geglu_tanh:
            return nullptr;
        case Activation::squared_relu:
            return &ModelFlags::squared_relu;
        case Activation::swiglu:
            return &ModelFlags::swiglu;
    }
    __builtin_unreachable();
}

bool is_switched_on(const ModelFlags& flags, Activation activation) {
    const auto member = switch_member(activation);
    return member != nullptr && flags.*member;
}

// Returns the given flags each of which chooses an activation: switches and --glu-activation.
std::vector<std::string_view> activation_flags(const ModelFlags& flags) {
    std::vector<std::string_view> given;
    const auto add_switches = [&](bool gated) {
        for (const auto& [activation, name] : spec::activations) {
            if (is_gated(activation) == gated && is_switched_on(flags, activation)) {
                given.push_back(switch_of(activation));
            }
        }
    };
    add_switches(true);
    if (!flags.glu_activation.empty()) given.emplace_back("--glu-activation");
    add_switches(false);
    return given;
}

// Returns the activation function that the flags choose. As in Megatron, the fused bias-GELU and
// OpenAI's GELU use tanh, and the plain GELU uses erf.
Activation activation_from(const ModelFlags& flags) {
    for (const auto& [activation, name] : spec::activations) {
        if (is_switched_on(flags, activation)) return activation;
    }
    if (!flags.glu_activation.empty()) {
        return value_of("--glu-activation", spec::activations, flags.glu_activation);
    }
    const bool tanh_form = flags.bias_gelu_fusion || flags.openai_gelu;
    return tanh_form ? Activation::gelu_tanh : Activation::gelu_erf;
}

// Returns the number of keys that a query sees with --window-size LEFT,RIGHT, including its own
// key. Returns 0 when a query sees all previous keys. As in Megatron, the value may have
// parentheses, and -1 means no limit.
i64 window_from(const std::string& value) {
    constexpr std::string_view flag = "--window-size";
    if (value.empty()) return 0;
    std::string text;
    for (const char c : value) {
        if (c != '(' && c != ')' && c != ' ') text += c;
    }
    const size_t comma = text.find(',');
    if (comma == text.npos) usage_error(flag, "expected LEFT,0, got '{}'", value);
    i64 left = 0;
    i64 right = 0;
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    const auto first = std::from_chars(begin, begin + comma, left);
    const auto second = std::from_chars(begin + comma + 1, end, right);
    if (first.ec != std::errc{} || first.ptr != begin + comma || second.ec != std::errc{} ||
        second.ptr != end || left < -1 || left > i64{1} << 40) {
        usage_error(flag, "expected LEFT,0, got '{}'", value);
    }
    if (right > 0)
        usage_error(flag, "a query sees no later keys: expected {},0, got '{}'", left, value);
    return left + 1;
}

// Sets the scaling of rotary frequencies that the flags choose, or changes that of the model.
void override_scaling(RotaryScaling& scaling, const ModelFlags& flags) {
    const auto set = [](auto& target, const auto& flag) {
        if (flag.given) target = flag.value;
    };
    const auto start = [&](RotaryRule rule) {
        if (scaling.rule != rule) scaling = spec::usual_scaling(rule);
    };
    const bool names_yarn = flags.position.given && flags.position.value == yarn;
    const bool is_linear = flags.interpolation.given && flags.interpolation != 1;
    std::vector<std::string_view> rules;
    if (names_yarn) rules.emplace_back("--position-embedding-type yarn");
    if (flags.rope_scaling) rules.emplace_back("--use-rope-scaling");
    if (is_linear) rules.emplace_back("--rotary-seq-len-interpolation-factor");
    if (rules.size() > 1)
        usage_error(rules[1], "cannot be combined with {}: give one of the two", rules[0]);
    if (names_yarn) {
        start(RotaryRule::yarn);
    } else if (flags.rope_scaling) {
        start(RotaryRule::llama3);
        scaling.factor = flags.rope_scaling_factor;
    } else if (is_linear) {
        start(RotaryRule::linear);
        scaling.factor = flags.interpolation;
    } else if ((flags.position.given && scaling.rule == RotaryRule::yarn) ||
               (flags.interpolation.given && scaling.rule == RotaryRule::linear)) {
        scaling = {};
    }
    if (scaling.rule == RotaryRule::llama3) {
        set(scaling.low_freq_factor, flags.llama3_low);
        set(scaling.high_freq_factor, flags.llama3_high);
        set(scaling.original_length, flags.llama3_original);
    }
    if (scaling.rule == RotaryRule::yarn) {
        set(scaling.factor, flags.yarn_factor);
        set(scaling.original_length, flags.yarn_original);
        set(scaling.beta_fast, flags.yarn_beta_fast);
        set(scaling.beta_slow, flags.yarn_beta_slow);
        set(scaling.mscale, flags.yarn_mscale);
        set(scaling.mscale_all_dim, flags.yarn_mscale_all_dim);
        set(scaling.attention_factor, flags.rope_attention_factor);
        scaling.truncate = scaling.truncate && flags.yarn_truncate;
    }
}

void override_kind(ModelConfig& model, const ModelFlags& flags) {
    if (flags.position.given || flags.rotary || flags.no_position) {
        model.position = position_from(flags);
    }
    const bool gelu_given = flags.openai_gelu || !flags.bias_gelu_fusion;
    if (!activation_flags(flags).empty() || (gelu_given && !is_gated(model.activation))) {
        if (is_gated(activation_from(flags)) != is_gated(model.activation)) model.ffn_hidden = 0;
        model.activation = activation_from(flags);
    }
    if (flags.normalization.given) {
        const std::string& name = flags.normalization;
        const auto other = value_in(deepspeed_normalizations, name);
        model.normalization =
            other ? *other : value_of("--normalization", spec::normalizations, name);
    }
    if (flags.norms.given) {
        const std::string& name = flags.norms;
        model.norms = value_of("--norm-placement", spec::norm_placements, name);
    }
    if (flags.rotary_base.given) model.rotary_base = flags.rotary_base;
    if (flags.rotary_percent.given) model.rotary_percent = flags.rotary_percent;
    if (flags.rotary_local_base.given) model.rotary_local_base = flags.rotary_local_base;
    if (flags.query_beta.given) model.query_beta = flags.query_beta;
    override_scaling(model.rope_scaling, flags);
    if (flags.window_size.given) model.window = window_from(flags.window_size);
    if (!flags.full_layers.empty())
        model.full_layers = parse_layer_pattern(skip_flag, flags.full_layers, false);
    if (!flags.unrotated_layers.empty())
        model.unrotated_layers = parse_layer_pattern(no_rope_flag, flags.unrotated_layers, true);
    if (flags.embedding_scale.given) model.embedding_scale = flags.embedding_scale;
    if (flags.attention_scale.given) model.attention_scale = flags.attention_scale;
    if (flags.residual_scale.given) model.residual_scale = flags.residual_scale;
    if (flags.logit_scale.given) model.logit_scale = flags.logit_scale;
    if (flags.norm_eps.given) model.norm_eps = flags.norm_eps;
    if (flags.attention_dropout.given) model.attention_dropout = flags.attention_dropout;
    if (flags.hidden_dropout.given) model.hidden_dropout = flags.hidden_dropout;
    if (flags.init_std.given) model.init_std = flags.init_std;
    model.rotary_interleaved = model.rotary_interleaved || flags.rotary_interleaved;
    model.embedding_norm = model.embedding_norm || flags.embedding_norm;
    model.norm_1p = model.norm_1p || flags.norm_1p;
    model.joint_qk_norm = model.joint_qk_norm || flags.joint_qk_norm;
    model.qk_norm = model.qk_norm || flags.qk_norm || flags.joint_qk_norm;
    model.shared_norm = model.shared_norm || flags.shared_norm;
    model.norm_bias = model.norm_bias && flags.norm_bias;
    model.parallel_residual = model.parallel_residual || flags.parallel_residual;
    model.qkv_bias = model.qkv_bias || flags.qkv_bias;
    model.untied_head = model.untied_head || flags.untied_head;
    model.linear_bias = model.linear_bias && flags.linear_bias;
}

// Sets the sizes of `model` that are given as flags. Call it after override_kind(), because the
// default width of the MLP depends on the activation.
void override_shape(ModelConfig& model, const ModelFlags& flags) {
    const auto set = [](i64& target, const std::optional<i64>& value) {
        if (value) target = *value;
    };
    // The MLP width of a preset fits only the hidden size of the preset, so --hidden-size sets the
    // MLP width back to the default.
    if (flags.hidden && !(flags.saved && model.hidden == *flags.hidden)) model.ffn_hidden = 0;
    set(model.n_layers, flags.n_layers);
    set(model.hidden, flags.hidden);
    set(model.ffn_hidden, flags.ffn_hidden);
    set(model.n_heads, flags.n_heads);
    set(model.head_dim, flags.kv_channels);
    set(model.seq_length, flags.seq_length);
    set(model.max_positions, flags.max_positions);
    if (flags.max_positions && model.max_positions < model.seq_length) {
        usage_error("--max-position-embeddings",
                    "{0} is less than --seq-length {1}: give {1} or more, or a --seq-length of at "
                    "most {0}",
                    model.max_positions, model.seq_length);
    }
    if (flags.group_query_attention && model.n_groups == 0) model.n_groups = 1;
    set(model.n_groups, flags.n_groups);
    set(model.n_groups, flags.kv_heads);
    const bool three_matrices =
        model.activation == Activation::swiglu && flags.glu_activation.empty();
    if (model.ffn_hidden == 0 && three_matrices) {
        // As in Megatron, the three matrices of SwiGLU have as many parameters as the two matrices
        // of an MLP with width 4 x hidden.
        model.ffn_hidden = checked_mul(8, model.hidden) / 3 / 64 * 64;
        if (model.ffn_hidden == 0) {
            usage_error("--ffn-hidden-size",
                        "its default with --swiglu, 8/3 of --hidden-size {} rounded down to a "
                        "multiple of 64, is 0: give a width",
                        model.hidden);
        }
    }
}

// Throws Error(usage) when a size that has no default is neither in a preset, in a checkpoint nor
// given as a flag, or when a given size is less than 1.
void require_sizes(const ModelConfig& model, const ModelFlags& flags) {
    std::vector<std::string_view> missing;
    std::vector<std::string> problems;
    const auto require = [&](std::string_view flag, i64 value, const std::optional<i64>& given) {
        if (value == 0 && !given) missing.push_back(flag);
        if (given && *given < 1)
            problems.push_back(fmt::format("{}: must be at least 1, got {}", flag, *given));
    };
    require("--num-layers", model.n_layers, flags.n_layers);
    require("--hidden-size", model.hidden, flags.hidden);
    require("--num-attention-heads", model.n_heads, flags.n_heads);
    require("--seq-length", model.seq_length, flags.seq_length);
    if (!missing.empty()) {
        const std::string_view first = missing.front();
        missing.erase(missing.begin());
        problems.push_back(
            fmt::format("{}: is missing{}{}: give the sizes of the model, or --model NAME", first,
                        missing.empty() ? "" : ", as are ", fmt::join(missing, ", ")));
    }
    throw_problems(problems);
}

// Prints a note with the flags that the preset sets, the given flags that override the preset, and
// the values derived from both.
void note_preset(const Preset& preset, const ModelConfig& model, const ModelFlags& flags) {
    ModelConfig resolved = preset.model;
    resolved.resolve();
    std::vector<std::string> overridden;
    std::vector<std::string> derived;
    for (const Override& change : overrides(resolved, model)) {
        const bool follows = (change.flag == "--ffn-hidden-size" && !flags.ffn_hidden) ||
                             (change.flag == "--kv-channels" && !flags.kv_channels) ||
                             (change.flag == "--max-position-embeddings" && !flags.max_positions);
        (follows ? derived : overridden).push_back(change.text);
    }
    const auto list = [](std::string_view title, const std::vector<std::string>& changes) {
        return changes.empty() ? "" : fmt::format("; {}: {}", title, fmt::join(changes, ", "));
    };
    note("--model {} ({}) sets {}{}{}", preset.name, preset.source, as_flags(preset.model),
         list("overridden", overridden), list("derived", derived));
}

// Prints a note for each given flag of a rule that the model does not have.
void note_unused_scaling(RotaryRule rule, const ModelFlags& flags) {
    const auto ignore = [](bool given, std::string_view flag, std::string_view need) {
        if (given) note("{}: ignored: it has an effect with {} only", flag, need);
    };
    if (rule != RotaryRule::llama3 || !flags.rope_scaling)
        ignore(flags.rope_scaling_factor.given, "--rope-scaling-factor", "--use-rope-scaling");
    if (rule != RotaryRule::llama3) {
        constexpr std::string_view need = "--use-rope-scaling";
        ignore(flags.llama3_low.given, "--rope-scaling-low-freq-factor", need);
        ignore(flags.llama3_high.given, "--rope-scaling-high-freq-factor", need);
        ignore(flags.llama3_original.given, "--rope-scaling-original-max-position-embeddings",
               need);
    }
    if (rule != RotaryRule::yarn) {
        constexpr std::string_view need = "--position-embedding-type yarn";
        ignore(flags.yarn_factor.given, "--rotary-scaling-factor", need);
        ignore(flags.yarn_original.given, "--yarn-original-max-position-embeddings", need);
        ignore(flags.yarn_beta_fast.given, "--yarn-beta-fast", need);
        ignore(flags.yarn_beta_slow.given, "--yarn-beta-slow", need);
        ignore(!flags.yarn_truncate, "--no-yarn-correction-range-round-to-int", need);
        ignore(flags.yarn_mscale.given, "--mscale", need);
        ignore(flags.yarn_mscale_all_dim.given, "--mscale-all-dim", need);
        ignore(flags.rope_attention_factor.given, "--rope-attention-factor", need);
    }
}

// Prints a note for each given flag that has no effect on the model.
void note_unused(const ModelConfig& model, const ModelFlags& flags) {
    const auto ignore = [](bool given, std::string_view flag, std::string_view why) {
        if (given) note("{}: ignored: {}", flag, why);
    };
    if (!is_rotary(model.position)) {
        constexpr auto why = "it has an effect with --position-embedding-type rope only";
        ignore(flags.rotary_base.given, "--rotary-base", why);
        ignore(flags.rotary_percent.given, "--rotary-percent", why);
        ignore(flags.rotary_interleaved, "--rotary-interleaved", why);
        ignore(flags.rope_scaling, "--use-rope-scaling", why);
        ignore(flags.interpolation.given && flags.interpolation != 1,
               "--rotary-seq-len-interpolation-factor", why);
        ignore(flags.rotary_local_base.given, "--rope-local-base-freq", why);
        ignore(flags.query_beta.given, "--llama-4-scaling-beta", why);
        ignore(!flags.unrotated_layers.empty(), no_rope_flag, why);
    } else {
        ignore(flags.rotary_local_base.given && model.window == 0, "--rope-local-base-freq",
               "it has an effect with --window-size only");
    }
    note_unused_scaling(is_rotary(model.position) ? model.rope_scaling.rule : RotaryRule::none,
                        flags);
    ignore(!flags.full_layers.empty() && model.window == 0, skip_flag,
           "it has an effect with --window-size only");
    if (model.linear_bias)
        ignore(flags.qkv_bias, "--add-qkv-bias", "all linear layers have biases");
    const PositionEmbedding position = named_position(flags);
    ignore(flags.position.given && flags.rotary && position != PositionEmbedding::rope,
           "--position-embedding-type", "--use-rotary-position-embeddings overrides it");
    ignore(flags.position.given && flags.no_position && position == PositionEmbedding::absolute,
           "--position-embedding-type", "--no-position-embedding overrides it");
    if (is_gated(model.activation) || !switch_of(model.activation).empty()) {
        const std::string why = fmt::format("the activation is {}", name_of(model.activation));
        ignore(flags.openai_gelu, "--openai-gelu", why);
        ignore(!flags.bias_gelu_fusion, "--no-bias-gelu-fusion", why);
    }
}

void check_flags(const ModelFlags& flags, const ModelConfig& preset) {
    constexpr i64 max_ids = i64{1} << 31;  // token ids have 32 bits
    check_all(
        [&] { check_at_least("--ffn-hidden-size", flags.ffn_hidden, 1); },
        [&] { check_at_least("--num-query-groups", flags.n_groups, 1); },
        [&] { check_at_least("--num-key-value-heads", flags.kv_heads, 1); },
        [&] {
            if (flags.n_groups && flags.kv_heads && *flags.n_groups != *flags.kv_heads)
                usage_error("--num-key-value-heads",
                            "cannot be combined with --num-query-groups: give one of the two");
        },
        [&] { check_at_least("--kv-channels", flags.kv_channels, 1); },
        [&] { check_at_least("--max-position-embeddings", flags.max_positions, 1); },
        [&] { check_at_least("--vocab-size", flags.vocab_size, 1); },
        [&] { check_at_least("--pad-vocab-size-to", flags.pad_vocab_to, 1); },
        [&] {
            check_from_to("--make-vocab-size-divisible-by", flags.vocab_divisible_by, 1, max_ids);
        },
        [&] {
            const bool grouped = flags.group_query_attention || preset.n_groups != 0;
            if (flags.n_groups && !grouped)
                usage_error("--num-query-groups", "needs --group-query-attention");
        },
        [&] {
            const std::vector<std::string_view> activations = activation_flags(flags);
            if (activations.size() > 1)
                usage_error(activations[1], "cannot be combined with {}: give one of the two",
                            activations[0]);
        });
}

void add_preset_option(cli::Options& options, ModelFlags& flags) {
    std::vector<std::string> names;
    for (const Preset& preset : presets()) names.emplace_back(preset.name);
    options.value("--model", &flags.preset, "NAME",
                  fmt::format("named model; the flags below override its values; one of {}",
                              fmt::join(names, ", ")));
    options.completes(names);
}

}  // namespace

void add_model_options(cli::Options& options, ModelFlags& flags) {
    options.group("Model");
    add_preset_option(options, flags);
    declare(options, shape_fields(), flags);
    declare(options, kind_fields(), flags);
    declare(options, initial_fields(), flags);
}

ModelConfig resolve_model(const ModelFlags& flags, std::optional<i64> data_vocab,
                          i64 tensor_ranks) {
    ModelConfig model;
    if (!flags.preset.empty()) model = preset_named(flags.preset).model;
    if (flags.saved) model = *flags.saved;
    Problems problems;
    problems.check([&] { check_flags(flags, model); });
    const bool has_kind = problems.check([&] { override_kind(model, flags); });
    const bool has_sizes = problems.check([&] { require_sizes(model, flags); });
    if (!has_sizes && has_kind) problems.check([&] { model.check_values(); });
    problems.throw_found();
    override_shape(model, flags);
    if (flags.vocab_size) {
        model.vocab_size = *flags.vocab_size;
    } else if (data_vocab && !flags.saved) {
        model.vocab_size = *data_vocab;
    } else if (model.vocab_size == 0) {
        model.vocab_size = gpt2_vocab;
    }
    if (flags.softmax_over_padding) {
        spec::ParallelConfig padding;
        padding.tp = std::max<i64>(tensor_ranks, 1);
        padding.vocab_divisible_by = flags.vocab_divisible_by;
        padding.pad_vocab_to = flags.pad_vocab_to.value_or(0);
        model.vocab_size = spec::padded_vocab(model, padding);
    }
    model.resolve();
    if (!flags.preset.empty()) note_preset(preset_named(flags.preset), model, flags);
    note_unused(model, flags);
    return model;
}

std::optional<i64> seq_length_of(const ModelFlags& flags) {
    if (flags.seq_length) return flags.seq_length;
    if (flags.saved) return flags.saved->seq_length;
    for (const Preset& preset : presets()) {
        if (preset.name == flags.preset) return preset.model.seq_length;
    }
    return std::nullopt;
}

}  // namespace lm::config
