// SPDX-License-Identifier: Apache-2.0
#include "convert/hf_architecture.hpp"

#include <array>

#include "base/error.hpp"
#include "convert/hf_variants.hpp"

namespace lm::convert {
namespace {

using spec::Normalization;
using spec::PositionEmbedding;

constexpr std::array gpt2_before{HfRow{"wte.weight", "embedding.word.weight"},
                                 HfRow{"wpe.weight", "embedding.position.weight"}};
constexpr std::array gpt2_layer{HfRow{"ln_1.weight", "attention.norm.weight"},
                                HfRow{"ln_1.bias", "attention.norm.bias"},
                                HfRow{"attn.c_attn.weight", "attention.qkv.weight"},
                                HfRow{"attn.c_attn.bias", "attention.qkv.bias"},
                                HfRow{"attn.c_proj.weight", "attention.output.weight"},
                                HfRow{"attn.c_proj.bias", "attention.output.bias"},
                                HfRow{"ln_2.weight", "mlp.norm.weight"},
                                HfRow{"ln_2.bias", "mlp.norm.bias"},
                                HfRow{"mlp.c_fc.weight", "mlp.up.weight"},
                                HfRow{"mlp.c_fc.bias", "mlp.up.bias"},
                                HfRow{"mlp.c_proj.weight", "mlp.down.weight"},
                                HfRow{"mlp.c_proj.bias", "mlp.down.bias"}};
constexpr std::array gpt2_after{HfRow{"ln_f.weight", "final_norm.weight"},
                                HfRow{"ln_f.bias", "final_norm.bias"}};
constexpr std::array<std::string_view, 2> gpt2_buffers{".attn.bias", ".attn.masked_bias"};

constexpr std::array bloom_before{
    HfRow{"word_embeddings.weight", "embedding.word.weight"},
    HfRow{"word_embeddings_layernorm.weight", "embedding.norm.weight"},
    HfRow{"word_embeddings_layernorm.bias", "embedding.norm.bias"}};
constexpr std::array bloom_layer{
    HfRow{"input_layernorm.weight", "attention.norm.weight"},
    HfRow{"input_layernorm.bias", "attention.norm.bias"},
    HfRow{"self_attention.query_key_value.weight", "attention.qkv.weight"},
    HfRow{"self_attention.query_key_value.bias", "attention.qkv.bias"},
    HfRow{"self_attention.dense.weight", "attention.output.weight"},
    HfRow{"self_attention.dense.bias", "attention.output.bias"},
    HfRow{"post_attention_layernorm.weight", "mlp.norm.weight"},
    HfRow{"post_attention_layernorm.bias", "mlp.norm.bias"},
    HfRow{"mlp.dense_h_to_4h.weight", "mlp.up.weight"},
    HfRow{"mlp.dense_h_to_4h.bias", "mlp.up.bias"},
    HfRow{"mlp.dense_4h_to_h.weight", "mlp.down.weight"},
    HfRow{"mlp.dense_4h_to_h.bias", "mlp.down.bias"}};

constexpr std::array neox_before{HfRow{"embed_in.weight", "embedding.word.weight"}};
constexpr std::array neox_layer{HfRow{"input_layernorm.weight", "attention.norm.weight"},
                                HfRow{"input_layernorm.bias", "attention.norm.bias"},
                                HfRow{"post_attention_layernorm.weight", "mlp.norm.weight"},
                                HfRow{"post_attention_layernorm.bias", "mlp.norm.bias"},
                                HfRow{"attention.query_key_value.weight", "attention.qkv.weight"},
                                HfRow{"attention.query_key_value.bias", "attention.qkv.bias"},
                                HfRow{"attention.dense.weight", "attention.output.weight"},
                                HfRow{"attention.dense.bias", "attention.output.bias"},
                                HfRow{"mlp.dense_h_to_4h.weight", "mlp.up.weight"},
                                HfRow{"mlp.dense_h_to_4h.bias", "mlp.up.bias"},
                                HfRow{"mlp.dense_4h_to_h.weight", "mlp.down.weight"},
                                HfRow{"mlp.dense_4h_to_h.bias", "mlp.down.bias"}};
constexpr std::array neox_after{HfRow{"final_layer_norm.weight", "final_norm.weight"},
                                HfRow{"final_layer_norm.bias", "final_norm.bias"}};
constexpr std::array<std::string_view, 3> neox_buffers{".attention.bias", ".attention.masked_bias",
                                                       ".rotary_emb.inv_freq"};

// The names of Llama, Mistral, StableLM, Nemotron, Qwen2 and Qwen3. StarCoder2 has the same names
// outside the layers. A row is skipped if the model does not have its tensor.
constexpr std::array llama_before{HfRow{"embed_tokens.weight", "embedding.word.weight"}};
constexpr std::array llama_layer{HfRow{"self_attn.q_proj.weight", "attention.query.weight"},
                                 HfRow{"self_attn.q_proj.bias", "attention.query.bias"},
                                 HfRow{"self_attn.k_proj.weight", "attention.key.weight"},
                                 HfRow{"self_attn.k_proj.bias", "attention.key.bias"},
                                 HfRow{"self_attn.v_proj.weight", "attention.value.weight"},
                                 HfRow{"self_attn.v_proj.bias", "attention.value.bias"},
                                 HfRow{"self_attn.q_norm.weight", "attention.query_norm.weight"},
                                 HfRow{"self_attn.k_norm.weight", "attention.key_norm.weight"},
                                 HfRow{"self_attn.o_proj.weight", "attention.output.weight"},
                                 HfRow{"self_attn.o_proj.bias", "attention.output.bias"},
                                 HfRow{"mlp.gate_proj.weight", "mlp.gate.weight"},
                                 HfRow{"mlp.gate_proj.bias", "mlp.gate.bias"},
                                 HfRow{"mlp.up_proj.weight", "mlp.up.weight"},
                                 HfRow{"mlp.up_proj.bias", "mlp.up.bias"},
                                 HfRow{"mlp.down_proj.weight", "mlp.down.weight"},
                                 HfRow{"mlp.down_proj.bias", "mlp.down.bias"},
                                 HfRow{"input_layernorm.weight", "attention.norm.weight"},
                                 HfRow{"input_layernorm.bias", "attention.norm.bias"},
                                 HfRow{"post_attention_layernorm.weight", "mlp.norm.weight"},
                                 HfRow{"post_attention_layernorm.bias", "mlp.norm.bias"}};
constexpr std::array starcoder2_layer{HfRow{"self_attn.q_proj.weight", "attention.query.weight"},
                                      HfRow{"self_attn.q_proj.bias", "attention.query.bias"},
                                      HfRow{"self_attn.k_proj.weight", "attention.key.weight"},
                                      HfRow{"self_attn.k_proj.bias", "attention.key.bias"},
                                      HfRow{"self_attn.v_proj.weight", "attention.value.weight"},
                                      HfRow{"self_attn.v_proj.bias", "attention.value.bias"},
                                      HfRow{"self_attn.o_proj.weight", "attention.output.weight"},
                                      HfRow{"self_attn.o_proj.bias", "attention.output.bias"},
                                      HfRow{"mlp.c_fc.weight", "mlp.up.weight"},
                                      HfRow{"mlp.c_fc.bias", "mlp.up.bias"},
                                      HfRow{"mlp.c_proj.weight", "mlp.down.weight"},
                                      HfRow{"mlp.c_proj.bias", "mlp.down.bias"},
                                      HfRow{"input_layernorm.weight", "attention.norm.weight"},
                                      HfRow{"input_layernorm.bias", "attention.norm.bias"},
                                      HfRow{"post_attention_layernorm.weight", "mlp.norm.weight"},
                                      HfRow{"post_attention_layernorm.bias", "mlp.norm.bias"}};
constexpr std::array llama_after{HfRow{"norm.weight", "final_norm.weight"},
                                 HfRow{"norm.bias", "final_norm.bias"}};
constexpr std::array<std::string_view, 1> rope_buffers{".rotary_emb.inv_freq"};

constexpr std::array architectures{
    HfArchitecture{.format = Format::hf_gpt2,
                   .model_type = "gpt2",
                   .class_name = "GPT2LMHeadModel",
                   .prefix = "transformer.",
                   .layer_prefix = "h.",
                   .head = "lm_head.weight",
                   .before_layers = gpt2_before,
                   .in_layers = gpt2_layer,
                   .after_layers = gpt2_after,
                   .qkv = QkvOrder::whole,
                   .conv1d = true,
                   .buffers = gpt2_buffers,
                   .position = PositionEmbedding::absolute},
    HfArchitecture{.format = Format::hf_bloom,
                   .model_type = "bloom",
                   .class_name = "BloomForCausalLM",
                   .prefix = "transformer.",
                   .layer_prefix = "h.",
                   .head = "lm_head.weight",
                   .before_layers = bloom_before,
                   .in_layers = bloom_layer,
                   .after_layers = gpt2_after,
                   .position = PositionEmbedding::alibi,
                   .tanh_only = true,
                   .embedding_norm = true,
                   .any_ffn = false},
    HfArchitecture{.format = Format::hf_llama,
                   .model_type = "llama",
                   .class_name = "LlamaForCausalLM",
                   .prefix = "model.",
                   .layer_prefix = "layers.",
                   .head = "lm_head.weight",
                   .before_layers = llama_before,
                   .in_layers = llama_layer,
                   .after_layers = llama_after,
                   .buffers = rope_buffers,
                   .normalization = Normalization::rms_norm,
                   .gated = true,
                   .bias = Rule::any,
                   .groups = Groups::any,
                   .rope_scaling = true},
    HfArchitecture{.format = Format::hf_gpt_neox,
                   .model_type = "gpt_neox",
                   .class_name = "GPTNeoXForCausalLM",
                   .prefix = "gpt_neox.",
                   .layer_prefix = "layers.",
                   .head = "embed_out.weight",
                   .before_layers = neox_before,
                   .in_layers = neox_layer,
                   .after_layers = neox_after,
                   .buffers = neox_buffers,
                   .partial_rotary = true},
    HfArchitecture{.format = Format::hf_mistral,
                   .model_type = "mistral",
                   .class_name = "MistralForCausalLM",
                   .prefix = "model.",
                   .layer_prefix = "layers.",
                   .head = "lm_head.weight",
                   .before_layers = llama_before,
                   .in_layers = llama_layer,
                   .after_layers = llama_after,
                   .buffers = rope_buffers,
                   .normalization = Normalization::rms_norm,
                   .gated = true,
                   .bias = Rule::never,
                   .groups = Groups::any,
                   .any_head_dim = true,
                   .window = true},
    HfArchitecture{.format = Format::hf_starcoder2,
                   .model_type = "starcoder2",
                   .class_name = "Starcoder2ForCausalLM",
                   .prefix = "model.",
                   .layer_prefix = "layers.",
                   .head = "lm_head.weight",
                   .before_layers = llama_before,
                   .in_layers = starcoder2_layer,
                   .after_layers = llama_after,
                   .buffers = rope_buffers,
                   .bias = Rule::any,
                   .groups = Groups::any},
    // Has the tensor names of GPT-2, but its matrices are [out, in].
    HfArchitecture{.format = Format::hf_gpt_bigcode,
                   .model_type = "gpt_bigcode",
                   .class_name = "GPTBigCodeForCausalLM",
                   .prefix = "transformer.",
                   .layer_prefix = "h.",
                   .head = "lm_head.weight",
                   .before_layers = gpt2_before,
                   .in_layers = gpt2_layer,
                   .after_layers = gpt2_after,
                   .qkv = QkvOrder::whole,
                   .buffers = gpt2_buffers,
                   .position = PositionEmbedding::absolute,
                   .groups = Groups::one},
    HfArchitecture{.format = Format::hf_stablelm,
                   .model_type = "stablelm",
                   .class_name = "StableLmForCausalLM",
                   .prefix = "model.",
                   .layer_prefix = "layers.",
                   .head = "lm_head.weight",
                   .before_layers = llama_before,
                   .in_layers = llama_layer,
                   .after_layers = llama_after,
                   .buffers = rope_buffers,
                   .gated = true,
                   .bias = Rule::never,
                   .groups = Groups::any,
                   .partial_rotary = true,
                   .qkv_bias = Rule::any},
    HfArchitecture{.format = Format::hf_nemotron,
                   .model_type = "nemotron",
                   .class_name = "NemotronForCausalLM",
                   .prefix = "model.",
                   .layer_prefix = "layers.",
                   .head = "lm_head.weight",
                   .before_layers = llama_before,
                   .in_layers = llama_layer,
                   .after_layers = llama_after,
                   .buffers = rope_buffers,
                   .bias = Rule::any,
                   .groups = Groups::any,
                   .any_head_dim = true,
                   .partial_rotary = true,
                   .one_plus = true,
                   .squared_relu = true},
    HfArchitecture{.format = Format::hf_qwen2,
                   .model_type = "qwen2",
                   .class_name = "Qwen2ForCausalLM",
                   .prefix = "model.",
                   .layer_prefix = "layers.",
                   .head = "lm_head.weight",
                   .before_layers = llama_before,
                   .in_layers = llama_layer,
                   .after_layers = llama_after,
                   .buffers = rope_buffers,
                   .normalization = Normalization::rms_norm,
                   .gated = true,
                   .bias = Rule::never,
                   .groups = Groups::any,
                   .qkv_bias = Rule::always},
    HfArchitecture{.format = Format::hf_qwen3,
                   .model_type = "qwen3",
                   .class_name = "Qwen3ForCausalLM",
                   .prefix = "model.",
                   .layer_prefix = "layers.",
                   .head = "lm_head.weight",
                   .before_layers = llama_before,
                   .in_layers = llama_layer,
                   .after_layers = llama_after,
                   .buffers = rope_buffers,
                   .normalization = Normalization::rms_norm,
                   .gated = true,
                   .bias = Rule::never,
                   .groups = Groups::any,
                   .any_head_dim = true,
                   .qk_norm = true},
};

bool holds_groups(Groups groups, const spec::ModelConfig& config) {
    if (groups == Groups::any) return true;
    return config.n_groups == (groups == Groups::one ? 1 : config.n_heads);
}

// Returns the names of the architectures that can hold the model: "hf-llama or hf-mistral".
std::string names_that_fit(const spec::ModelConfig& config) {
    std::string names;
    for (const HfArchitecture& architecture : architectures) {
        if (misfit(architecture, config)) continue;
        names += fmt::format("{}{}", names.empty() ? "" : " or ", name_of(architecture.format));
    }
    return names;
}

std::string_view flag_of_gate(spec::Activation activation) {
    return activation == spec::Activation::geglu ? "--glu-activation" : "--swiglu";
}

}  // namespace

std::span<const HfArchitecture> hf_architectures() {
    return architectures;
}

const HfArchitecture& hf_architecture(Format format) {
    for (const HfArchitecture& architecture : architectures) {
        if (architecture.format == format) return architecture;
    }
    bug(__FILE__, __LINE__, "expected a format of Hugging Face, got {}", name_of(format));
}

std::optional<Misfit> misfit(const HfArchitecture& a, const spec::ModelConfig& c) {
    if (c.position != a.position) {
        return Misfit{"--position-embedding-type", std::string(name_of(c.position))};
    }
    if (c.normalization != a.normalization) {
        return Misfit{"--normalization", std::string(name_of(c.normalization))};
    }
    if (is_gated(c.activation) != a.gated) {
        return Misfit{std::string(flag_of_gate(c.activation)), std::string(name_of(c.activation))};
    }
    if (a.tanh_only && c.activation != spec::Activation::gelu_tanh) {
        return Misfit{"--no-bias-gelu-fusion", std::string(name_of(c.activation))};
    }
    if (!holds_groups(a.groups, c)) {
        return Misfit{"--num-query-groups",
                      fmt::format("{} groups for {} heads", c.n_groups, c.n_heads)};
    }
    if (!a.any_head_dim && c.attention_width() != c.hidden) {
        return Misfit{"--kv-channels", fmt::format("{} heads of {} at a hidden size of {}",
                                                   c.n_heads, c.head_dim, c.hidden)};
    }
    if (c.embedding_norm != a.embedding_norm) {
        return Misfit{"--embed-layernorm",
                      c.embedding_norm ? "a normalized embedding" : "no normalized embedding"};
    }
    if (a.bias != Rule::any && c.linear_bias != (a.bias == Rule::always)) {
        return Misfit{"--disable-bias-linear", c.linear_bias ? "biases" : "no biases"};
    }
    if (!a.any_ffn && c.ffn_hidden != 4 * c.hidden) {
        return Misfit{"--ffn-hidden-size",
                      fmt::format("{} at a hidden size of {}", c.ffn_hidden, c.hidden)};
    }
    return misfit_of_variants(a, c);
}

void check_fits(const HfArchitecture& architecture, const spec::ModelConfig& config) {
    const std::optional<Misfit> found = misfit(architecture, config);
    if (!found) return;
    const std::string others = names_that_fit(config);
    usage_error(found->flag, "the model has {}, which {} ({}) cannot express: {}{}", found->has,
                name_of(architecture.format), architecture.class_name,
                others.empty() ? "no supported class of transformers can: use --to megatron-lm"
                               : "use --to ",
                others);
}

const HfArchitecture& choose_architecture(const spec::ModelConfig& config) {
    for (const HfArchitecture& architecture : architectures) {
        if (!misfit(architecture, config)) return architecture;
    }
    // No architecture can hold the model. The error names one architecture and a flag to change.
    // Prefers an architecture that has the model's position embedding and norm, because any other
    // flag is easier to change.
    for (const HfArchitecture& architecture : architectures) {
        const Misfit found = *misfit(architecture, config);
        if (found.flag != "--position-embedding-type" && found.flag != "--normalization") {
            check_fits(architecture, config);
        }
    }
    check_fits(architectures.front(), config);
    bug(__FILE__, __LINE__, "expected a model that does not fit");
}

std::vector<MappedTensor> hf_tensors(const HfArchitecture& architecture,
                                     const ModelTensors& tensors) {
    std::vector<MappedTensor> mapped;
    const auto add = [&](std::span<const HfRow> rows, const std::string& theirs,
                         const std::string& ours, bool conv1d) {
        for (const HfRow& row : rows) {
            auto tensor = tensors.map(fmt::format("{}{}", theirs, row.theirs),
                                      fmt::format("{}{}", ours, row.ours), architecture.qkv);
            if (!tensor) continue;
            tensor->transposed = conv1d && tensor->rank == 2;
            mapped.push_back(std::move(*tensor));
        }
    };
    const std::string prefix(architecture.prefix);
    add(architecture.before_layers, prefix, "", false);
    for (i64 layer = 0; layer < tensors.config().n_layers; ++layer) {
        add(architecture.in_layers,
            fmt::format("{}{}{}.", prefix, architecture.layer_prefix, layer),
            fmt::format("layers.{}.", layer), architecture.conv1d);
    }
    add(architecture.after_layers, prefix, "", false);
    const HfRow head{architecture.head, "head.weight"};
    add(std::span(&head, 1), "", "", false);
    return mapped;
}

}  // namespace lm::convert
