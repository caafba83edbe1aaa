// SPDX-License-Identifier: Apache-2.0
// All combinations of the flags that define a model: each format of Hugging Face holds it, bit for
// bit in both directions, or names the flag that it cannot hold and the formats that can.
#include <algorithm>
#include <map>
#include <set>

#include "../ckpt/support.hpp"
#include "../support/odd_models.hpp"
#include "ckpt/format/model_json.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/diff.hpp"
#include "convert/conversions.hpp"
#include "convert/hf/fits.hpp"
#include "convert/hf/from_hf.hpp"
#include "convert/hf/to_hf.hpp"
#include "convert/megatron/from_megatron_lm.hpp"
#include "convert/megatron/to_megatron.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::convert;
using spec::Activation;
using spec::ModelConfig;
using spec::Normalization;
using spec::PositionEmbedding;

namespace {

using Names = std::set<std::string_view>;  // names of classes

constexpr i64 n_heads = 6;

ModelConfig model(i64 n_groups, bool wide_heads, bool odd_ffn) {
    ModelConfig c;
    c.n_layers = 1;
    c.hidden = 4 * n_heads;
    c.head_dim = wide_heads ? 6 : 4;
    c.n_heads = n_heads;
    c.n_groups = n_groups;
    c.ffn_hidden = odd_ffn ? 37 : 4 * c.hidden;
    c.seq_length = c.max_positions = 5;
    c.vocab_size = 19;
    c.attention_dropout = c.hidden_dropout = 0;
    return c;
}

// Calls body(config) for each combination.
template <typename Body>
void for_each_model(Body&& body) {
    for (const i64 n_groups : {n_heads, i64{2}, i64{1}}) {
        for (unsigned bits = 0; bits < 32; ++bits) {
            ModelConfig c = model(n_groups, bits & 1, bits & 2);
            c.embedding_norm = bits & 4;
            c.untied_head = bits & 8;
            c.linear_bias = bits & 16;
            for (const auto& position : spec::position_embeddings) {
                c.position = position.value;
                for (const auto& normalization : spec::normalizations) {
                    c.normalization = normalization.value;
                    for (const auto& activation : spec::activations) {
                        c.activation = activation.value;
                        body(c);
                        ModelConfig other = c;
                        other.parallel_residual = true;
                        body(other);
                        if (n_groups != 2) continue;
                        other.shared_norm = true;
                        other.norm_bias = c.normalization == Normalization::rms_norm;
                        other.rotary_interleaved = is_rotary(c.position);
                        body(other);
                        other = c;
                        other.norm_1p = true;
                        body(other);
                        other = c;
                        other.qk_norm = true;
                        body(other);
                        other.norms = spec::NormPlacement::reordered;
                        body(other);
                        other.joint_qk_norm = c.normalization == Normalization::rms_norm;
                        if (other.joint_qk_norm) body(other);
                        other = c;
                        other.norms = spec::NormPlacement::peri;
                        other.rotary_interleaved = is_rotary(c.position);
                        body(other);
                        other.rotary_interleaved = false;
                        other.norm_1p = other.qk_norm = true;
                        other.embedding_scale = std::sqrt(static_cast<double>(c.hidden));
                        body(other);
                        if (c.linear_bias) continue;
                        other = c;
                        other.qkv_bias = true;
                        body(other);
                    }
                }
            }
        }
    }
}

bool layer_norm_gelu(const ModelConfig& c) {
    return c.normalization == Normalization::layer_norm && !is_gated(c.activation);
}
bool rms_norm_gated(const ModelConfig& c) {
    return c.normalization == Normalization::rms_norm && is_gated(c.activation);
}

// Returns the formats of Nemotron, Qwen3, Qwen2, Seed-OSS or StableLM that can hold the model.
// Their norms or biases differ from those of Llama.
Names classes_that_hold_variant(const ModelConfig& c) {
    if (c.position != PositionEmbedding::rope || c.embedding_norm) return {};
    if (c.norm_1p) return layer_norm_gelu(c) ? Names{"hf-nemotron"} : Names{};
    if (c.qk_norm) {
        if (!rms_norm_gated(c) || c.linear_bias) return {};
        if (c.norms == spec::NormPlacement::pre) return {"hf-qwen3"};
        if (!c.joint_qk_norm) return {"hf-exaone4"};
        return c.head_dim == 4 ? Names{"hf-olmo2", "hf-olmo3"} : Names{};
    }
    if (!is_gated(c.activation)) return {};
    if (c.head_dim != 4) return rms_norm_gated(c) ? Names{"hf-seed-oss"} : Names{};
    return rms_norm_gated(c) ? Names{"hf-qwen2", "hf-seed-oss"} : Names{"hf-stablelm"};
}

// Returns the formats that can hold the model, as the classes of transformers 4.44 state them.
Names classes_that_hold(const ModelConfig& c) {
    if (c.norms == spec::NormPlacement::peri) {
        if (!is_rotary(c.position) || c.embedding_norm || c.linear_bias || !rms_norm_gated(c))
            return {};
        return {c.qk_norm ? "hf-gemma3" : "hf-glm4"};
    }
    if (c.norm_1p || c.qk_norm || c.qkv_bias) return classes_that_hold_variant(c);
    if (c.shared_norm) {
        const bool cohere = is_rotary(c.position) && !c.embedding_norm && !c.norm_bias &&
                            is_gated(c.activation) && !c.linear_bias && c.head_dim == 4;
        return cohere ? Names{"hf-cohere2"} : Names{};
    }
    Names names;
    const auto add_if = [&](std::string_view name, bool holds) {
        if (holds) names.insert(name);
    };
    const bool heads = c.n_groups == c.n_heads;
    if (c.position == PositionEmbedding::rope && !c.embedding_norm) {
        const bool gated = c.normalization == Normalization::layer_norm && is_gated(c.activation);
        add_if("hf-gpt-neox", layer_norm_gelu(c) && c.linear_bias && heads && c.head_dim == 4);
        if (c.parallel_residual) return names;
        for (const char* name : {"hf-mistral", "hf-ministral", "hf-seed-oss", "hf-ministral3"})
            add_if(name, rms_norm_gated(c) && !c.linear_bias);
        // Only transformers 4.45 and newer reads head_dim of Llama.
        add_if("hf-llama", rms_norm_gated(c) && (c.head_dim == 4 || c.linear_bias));
        if (c.head_dim != 4) return names;
        add_if("hf-smollm3", rms_norm_gated(c));
        add_if("hf-granite", rms_norm_gated(c));
        add_if("hf-phi3", rms_norm_gated(c) && !c.linear_bias);
        add_if("hf-starcoder2", layer_norm_gelu(c));
        add_if("hf-stablelm", gated && !c.linear_bias);
    }
    if (!layer_norm_gelu(c) || !c.linear_bias || c.head_dim != 4 || c.parallel_residual) {
        return names;
    }
    if (c.position == PositionEmbedding::absolute && !c.embedding_norm) {
        add_if("hf-gpt2", heads);
        add_if("hf-gpt-bigcode", c.n_groups == 1);
    }
    add_if("hf-bloom", c.position == PositionEmbedding::alibi && c.embedding_norm && heads &&
                           c.activation == Activation::gelu_tanh && c.ffn_hidden != 37);
    return names;
}

// Returns the value of a flag in the model.
std::string value_of(const std::string& flag, const ModelConfig& c) {
    const std::map<std::string, std::string> values{
        {"--position-embedding-type", std::string(name_of(c.position))},
        {"--normalization", std::string(name_of(c.normalization))},
        {"--norm-placement", std::string(name_of(c.norms))},
        {"--swiglu", std::string(name_of(c.activation))},
        {"--glu-activation", std::string(name_of(c.activation))},
        {"--no-bias-gelu-fusion", std::string(name_of(c.activation))},
        {"--num-query-groups", std::to_string(c.n_groups)},
        {"--kv-channels", std::to_string(c.head_dim)},
        {"--embed-layernorm", std::to_string(c.embedding_norm)},
        {"--disable-bias-linear", std::to_string(c.linear_bias)},
        {"--apply-layernorm-1p", std::to_string(c.norm_1p)},
        {"--embedding-multiplier", std::to_string(c.embedding_scale)},
        {"--no-norm-bias", std::to_string(c.norm_bias)},
        {"--parallel-shared-norm", std::to_string(c.shared_norm)},
        {"--rotary-interleaved", std::to_string(c.rotary_interleaved)},
        {"--qk-layernorm", std::to_string(c.qk_norm)},
        {"--qk-layernorm-all-heads", std::to_string(c.joint_qk_norm)},
        {"--add-qkv-bias", std::to_string(c.qkv_bias)},
        {"--use-parallel-residual", std::to_string(c.parallel_residual)},
        {"--ffn-hidden-size", std::to_string(c.ffn_hidden)}};
    REQUIRE(values.contains(flag));
    return values.at(flag);
}

bool same_model(const std::string& a, const std::string& b,
                std::span<const ckpt::SliceKind> kinds) {
    return test::same(a, b, kinds) && ckpt::to_json(ckpt::open(a).manifest().model) ==
                                          ckpt::to_json(ckpt::open(b).manifest().model);
}

// Checks the error of --to `format` for a model that the class cannot hold. The error names a flag
// whose value no model of the class has; its remedy names all classes that can hold the model.
void check_refusal(const HfClass& hf, const ModelConfig& c,
                   const std::set<std::string>& held_values, const Names& holding,
                   const std::string& flag) {
    INFO(hf.name << " " << ckpt::to_json(c).dump());
    const std::string text = test::error_of([&] { check_fits(hf, c); }, Exit::usage);
    INFO(text);
    CHECK(text.starts_with(flag + ": the model has "));
    CHECK(!held_values.contains(value_of(flag, c)));
    std::string remedy;
    if (holding.empty()) {
        remedy = c.parallel_residual || c.norms != spec::NormPlacement::pre
                     ? "no other format can, either"
                     : "no supported class of transformers can: use --to megatron-lm";
    }
    int n = 0;  // at most three are named
    for (const HfClass* other : hf_classes()) {
        if (!holding.contains(other->name) || ++n > 3) continue;
        remedy += fmt::format("{}{}", remedy.empty() ? "use --to " : " or ", other->name);
    }
    CHECK(text.ends_with(remedy));
}

}  // namespace

TEST_CASE("every combination of model flags is held or refused with the flag and the remedy") {
    using Values = std::map<std::string, std::set<std::string>>;  // values of each flag
    std::map<std::string_view, Values> held;
    i64 n_models = 0;
    for_each_model([&](const ModelConfig& c) {
        ++n_models;
        for (const std::string_view name : classes_that_hold(c)) {
            if (name == "hf-llama" && c.head_dim != 4) continue;  // only without another class
            for (const char* flag : {"--position-embedding-type",
                                     "--normalization",
                                     "--swiglu",
                                     "--glu-activation",
                                     "--no-bias-gelu-fusion",
                                     "--num-query-groups",
                                     "--kv-channels",
                                     "--embed-layernorm",
                                     "--disable-bias-linear",
                                     "--ffn-hidden-size",
                                     "--apply-layernorm-1p",
                                     "--qk-layernorm",
                                     "--add-qkv-bias",
                                     "--norm-placement",
                                     "--qk-layernorm-all-heads",
                                     "--use-parallel-residual",
                                     "--no-norm-bias",
                                     "--embedding-multiplier",
                                     "--parallel-shared-norm",
                                     "--rotary-interleaved"}) {
                held[name][flag].insert(value_of(flag, c));
            }
        }
    });
    CHECK(n_models == 19968);
    CHECK(std::ssize(held) == std::ssize(hf_classes()));
    bool as_expected = true;
    for_each_model([&](const ModelConfig& c) {
        const Names holding = classes_that_hold(c);
        for (const HfClass* hf : hf_classes()) {
            const std::optional<Misfit> found = misfit(*hf, c);
            as_expected &= found.has_value() != holding.contains(hf->name);
            if (found) check_refusal(*hf, c, held[hf->name][found->flag], holding, found->flag);
        }
    });
    CHECK(as_expected);
}

TEST_CASE("Llama holds heads of any size if no other class holds the model") {
    // Llama-3.1-Nemotron-Nano-4B: scaled frequencies, and heads of 128 at a hidden size of 3072.
    ModelConfig c = model(2, true, true);
    c.position = PositionEmbedding::rope;
    c.normalization = Normalization::rms_norm;
    c.activation = Activation::swiglu;
    c.linear_bias = false;
    CHECK(choose_class(c).name == "hf-mistral");
    c.rope_scaling = spec::usual_scaling(spec::RotaryRule::llama3);
    CHECK(choose_class(c).name == "hf-llama");
}

TEST_CASE("every combination that a format of Hugging Face holds is equal after a round trip") {
    const test::ScratchDirectory scratch;
    i64 n_conversions = 0;
    for_each_model([&](const ModelConfig& c) {
        const Names names = classes_that_hold(c);
        if (names.empty()) return;
        INFO(ckpt::to_json(c).dump());
        test::save_grid(scratch / "a", c, {}, 3, 5);
        for (const std::string_view name : names) {
            INFO(name);
            to_hf(test::forced_request(scratch / "a", scratch / "hf"),
                  **std::ranges::find(hf_classes(), name, &HfClass::name));
            from_hf(test::forced_request(scratch / "hf", scratch / "b"));
            constexpr std::array weights{ckpt::SliceKind::weight};
            CHECK(same_model(scratch / "a", scratch / "b", weights));
            ++n_conversions;
        }
        io::remove_tree(scratch / "a");
    });
    CHECK(n_conversions == 962);
}

TEST_CASE("combinations of model flags are equal after a round trip through Megatron") {
    constexpr i64 every = 29;  // no divisor of the number of combinations
    const test::ScratchDirectory scratch;
    i64 n = 0;
    for_each_model([&](const ModelConfig& c) {
        if (n++ % every != 0) return;
        INFO(ckpt::to_json(c).dump());
        io::remove_tree(scratch / "a");
        test::save_grid(scratch / "a", c, {}, 3, 5);
        ConversionRequest request = test::forced_request(scratch / "a", scratch / "lm");
        request.tp = c.n_groups % 2 == 0 && c.ffn_hidden % 2 == 0 ? 2 : 1;
        if (c.parallel_residual || c.norms != spec::NormPlacement::pre) {
            const char* const flag =
                c.parallel_residual ? "--use-parallel-residual: " : "--norm-placement: ";
            CHECK_THAT(test::error_of([&] { to_megatron_lm(request); }, Exit::usage),
                       ContainsSubstring(flag));
            return;
        }
        to_megatron_lm(request);
        from_megatron_lm(test::forced_request(scratch / "lm", scratch / "b"));
        CHECK(same_model(scratch / "a", scratch / "b", ckpt::all_kinds));
        io::remove_tree(scratch / "lm");
    });
}
