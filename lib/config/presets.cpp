// SPDX-License-Identifier: Apache-2.0
#include "config/presets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/error.hpp"
#include "base/nearest_name.hpp"
#include "config/layer_pattern.hpp"
#include "config/model_fields.hpp"

namespace lm::config {
namespace {

using spec::Activation;
using spec::ModelConfig;
using spec::Normalization;
using spec::PositionEmbedding;

constexpr i64 gpt2_vocabulary = 50257;

ModelConfig gpt(i64 n_layers, i64 hidden, i64 n_heads, i64 seq_length, double init_std = 0.02) {
    ModelConfig model;
    model.n_layers = n_layers;
    model.hidden = hidden;
    model.n_heads = n_heads;
    model.seq_length = seq_length;
    model.vocab_size = gpt2_vocabulary;
    model.init_std = init_std;
    return model;
}

// Returns a BLOOM model. The published weights have 250880 vocabulary rows: 250680 tokens and 200
// reserved rows.
ModelConfig bloom(i64 n_layers, i64 hidden, i64 n_heads, double init_std) {
    ModelConfig model = gpt(n_layers, hidden, n_heads, 2048, init_std);
    model.vocab_size = 250880;
    model.position = PositionEmbedding::alibi;
    model.embedding_norm = true;
    return model;
}

ModelConfig llama(i64 n_layers, i64 hidden, i64 ffn_hidden, i64 n_heads, i64 n_groups,
                  i64 seq_length) {
    ModelConfig model = gpt(n_layers, hidden, n_heads, seq_length);
    model.ffn_hidden = ffn_hidden;
    model.n_groups = n_groups;
    model.vocab_size = 32000;
    model.position = PositionEmbedding::rope;
    model.normalization = Normalization::rms_norm;
    model.activation = Activation::swiglu;
    model.untied_head = true;
    model.linear_bias = false;
    model.attention_dropout = 0.0;
    model.hidden_dropout = 0.0;
    return model;
}

}  // namespace

const std::vector<Preset>& presets() {
    static const std::vector<Preset> table = {
        {"gpt2-124m", "GPT-2 small", gpt(12, 768, 12, 1024)},
        {"gpt2-355m", "GPT-2 medium", gpt(24, 1024, 16, 1024)},
        {"gpt2-774m", "GPT-2 large", gpt(36, 1280, 20, 1024)},
        {"gpt2-1558m", "GPT-2 XL", gpt(48, 1600, 25, 1024)},
        {"gpt3-13b", "BigScience tr1-13B", gpt(40, 5120, 32, 2048)},
        {"104b", "BigScience tr8-104B, values of its launch script",
         [] {
             ModelConfig model = gpt(64, 11600, 80, 2048, 0.006);
             model.embedding_norm = true;
             return model;
         }()},
        {"bloom-560m", "BLOOM 560M", bloom(24, 1024, 16, 0.02)},
        {"bloom-176b", "BLOOM", bloom(70, 14336, 112, 0.0048)},
        {"llama-1b", "TinyLlama 1.1B", llama(22, 2048, 5632, 32, 4, 2048)},
        {"llama-7b", "Llama 2 7B", llama(32, 4096, 11008, 32, 0, 4096)},
        {"llama-70b", "Llama 2 70B", llama(80, 8192, 28672, 64, 8, 4096)},
        // The values come from table 1 of arXiv 2104.04473, as the AWS Megatron example lists them.
        {"1.7b", "arXiv 2104.04473, table 1", gpt(24, 2304, 24, 2048)},
        {"3.6b", "arXiv 2104.04473, table 1", gpt(30, 3072, 32, 2048)},
        {"7.5b", "arXiv 2104.04473, table 1", gpt(36, 4096, 32, 2048)},
        {"18.4b", "arXiv 2104.04473, table 1", gpt(40, 6144, 48, 2048)},
        {"39.1b", "arXiv 2104.04473, table 1", gpt(48, 8192, 64, 2048)},
        {"76.1b", "arXiv 2104.04473, table 1", gpt(60, 10240, 80, 2048)},
        {"145.6b", "arXiv 2104.04473, table 1", gpt(80, 12288, 96, 2048)},
        {"310.1b", "arXiv 2104.04473, table 1", gpt(96, 16384, 128, 2048)},
    };
    return table;
}

const Preset& preset_named(std::string_view name) {
    std::vector<std::string> names;
    for (const Preset& preset : presets()) {
        if (preset.name == name) return preset;
        names.emplace_back(preset.name);
    }
    refuse_value("--model", name, names);
}

namespace {

// A setting of a model as a flag and its value. The flag is empty when the value is the default.
struct Setting {
    std::string_view flag;
    std::string value;  // empty: a switch
    bool operator==(const Setting&) const = default;

    std::string text() const {
        return value.empty() ? std::string(flag) : fmt::format("{} {}", flag, value);
    }
};

Setting activation_setting(Activation activation) {
    if (const std::string_view own = switch_of(activation); !own.empty()) return {own, ""};
    if (is_gated(activation)) return {"--glu-activation", std::string(name_of(activation))};
    return activation == Activation::gelu_erf ? Setting{"--no-bias-gelu-fusion", ""} : Setting{};
}

Setting value(std::string_view flag, const auto& x) {
    return {flag, fmt::format("{}", x)};
}

// Returns the settings of the scaling of rotary frequencies. The factors of LongRoPE have no flag.
std::vector<Setting> scaling_settings(const ModelConfig& model) {
    using spec::RotaryRule;
    const spec::RotaryScaling& scaling = model.rope_scaling;
    const auto of = [&](RotaryRule rule, const Setting& setting) {
        return scaling.rule == rule ? setting : Setting{};
    };
    return {
        of(RotaryRule::linear, value("--rotary-seq-len-interpolation-factor", scaling.factor)),
        of(RotaryRule::llama3, {"--use-rope-scaling", ""}),
        of(RotaryRule::llama3, value("--rope-scaling-factor", scaling.factor)),
        of(RotaryRule::llama3, value("--rope-scaling-low-freq-factor", scaling.low_freq_factor)),
        of(RotaryRule::llama3, value("--rope-scaling-high-freq-factor", scaling.high_freq_factor)),
        of(RotaryRule::llama3,
           value("--rope-scaling-original-max-position-embeddings", scaling.original_length)),
        of(RotaryRule::yarn, value("--rotary-scaling-factor", scaling.factor)),
        of(RotaryRule::yarn,
           value("--yarn-original-max-position-embeddings", scaling.original_length)),
        of(RotaryRule::yarn, value("--yarn-beta-fast", scaling.beta_fast)),
        of(RotaryRule::yarn, value("--yarn-beta-slow", scaling.beta_slow)),
        of(RotaryRule::yarn,
           scaling.truncate ? Setting{} : Setting{"--no-yarn-correction-range-round-to-int", ""}),
        of(RotaryRule::yarn, value("--mscale", scaling.mscale)),
        of(RotaryRule::yarn, value("--mscale-all-dim", scaling.mscale_all_dim)),
        of(RotaryRule::yarn, value("--rope-attention-factor", scaling.attention_factor)),
        value("--rope-local-base-freq", model.rotary_local_base),
        value("--llama-4-scaling-beta", model.query_beta),
    };
}

// Returns the settings of a model. Every model has the same settings in the same order, so that two
// models can be compared by index. A value of 0 means that ModelConfig::resolve() derives it.
std::vector<Setting> settings_of(const ModelConfig& model) {
    const auto switched = [](std::string_view flag, bool on) {
        return on ? Setting{flag, ""} : Setting{};
    };
    const auto pattern = [](std::string_view flag, const spec::LayerPattern& layers, bool marks) {
        return layers.empty() ? Setting{} : Setting{flag, text_of(layers, marks)};
    };
    const bool grouped = model.n_groups != 0 && model.n_groups != model.n_heads;
    const bool is_yarn = model.rope_scaling.rule == spec::RotaryRule::yarn;
    std::vector<Setting> settings{
        value("--num-layers", model.n_layers),
        value("--hidden-size", model.hidden),
        value("--num-attention-heads", model.n_heads),
        value("--ffn-hidden-size", model.ffn_hidden),
        value("--kv-channels", model.head_dim),
        switched("--group-query-attention", grouped),
        grouped ? value("--num-query-groups", model.n_groups) : Setting{},
        value("--seq-length", model.seq_length),
        value("--max-position-embeddings", model.max_positions),
        value("--vocab-size", model.vocab_size),
        value("--position-embedding-type", is_yarn ? yarn : name_of(model.position)),
        value("--rotary-base", model.rotary_base),
        value("--rotary-percent", model.rotary_percent),
        switched("--rotary-interleaved", model.rotary_interleaved),
        model.window > 0 ? Setting{"--window-size", fmt::format("{},0", model.window - 1)}
                         : Setting{},
        pattern("--window-attn-skip-freq", model.full_layers, false),
        pattern("--no-rope-freq", model.unrotated_layers, true),
        value("--normalization", name_of(model.normalization)),
        value("--norm-placement", name_of(model.norms)),
        value("--layernorm-epsilon", model.norm_eps),
        switched("--embed-layernorm", model.embedding_norm),
        switched("--no-norm-bias", !model.norm_bias),
        switched("--apply-layernorm-1p", model.norm_1p),
        switched("--qk-layernorm", model.qk_norm),
        switched("--qk-layernorm-all-heads", model.joint_qk_norm),
        switched("--use-parallel-residual", model.parallel_residual),
        switched("--parallel-shared-norm", model.shared_norm),
        value("--embedding-multiplier", model.embedding_scale),
        model.attention_scale != 0 ? value("--attention-multiplier", model.attention_scale)
                                   : Setting{},
        value("--residual-multiplier", model.residual_scale),
        value("--logit-scale", model.logit_scale),
        activation_setting(model.activation),
        switched("--untie-embeddings-and-output-weights", model.untied_head),
        switched("--disable-bias-linear", !model.linear_bias),
        switched("--add-qkv-bias", model.qkv_bias),
        value("--attention-dropout", model.attention_dropout),
        value("--hidden-dropout", model.hidden_dropout),
        value("--init-method-std", model.init_std)};
    std::ranges::copy(scaling_settings(model), std::back_inserter(settings));
    return settings;
}

// Returns true for a flag of a position encoding that the model does not use.
bool without_effect(std::string_view flag, const ModelConfig& model) {
    const bool rotary = flag.starts_with("--rotary-") || flag.starts_with("--rope-") ||
                        flag.starts_with("--yarn-") || flag.starts_with("--mscale") ||
                        flag == "--use-rope-scaling" || flag == "--llama-4-scaling-beta";
    return (rotary && !is_rotary(model.position)) ||
           (flag == "--max-position-embeddings" && !has_table(model.position));
}

}  // namespace

std::string as_flags(const ModelConfig& model) {
    const std::vector<Setting> settings = settings_of(model);
    const std::vector<Setting> defaults = settings_of(ModelConfig{});
    std::vector<std::string> flags;
    for (size_t i = 0; i < settings.size(); ++i) {
        if (!settings[i].flag.empty() && settings[i] != defaults[i])
            flags.push_back(settings[i].text());
    }
    return fmt::format("{}", fmt::join(flags, " "));
}

std::vector<Override> overrides(const ModelConfig& preset, const ModelConfig& model) {
    const std::vector<Setting> before = settings_of(preset);
    const std::vector<Setting> after = settings_of(model);
    std::vector<Override> changes;
    for (size_t i = 0; i < after.size(); ++i) {
        const Setting& was = before[i];
        const Setting& is = after[i];
        if (is == was || without_effect(is.flag, model)) continue;
        if (is.flag.empty()) {
            changes.push_back({was.flag, fmt::format("no {}", was.flag)});
        } else if (was.flag.empty()) {
            changes.push_back({is.flag, is.text()});
        } else {
            changes.push_back({is.flag, fmt::format("{} instead of {}", is.text(),
                                                    is.flag == was.flag ? was.value : was.text())});
        }
    }
    return changes;
}

}  // namespace lm::config
