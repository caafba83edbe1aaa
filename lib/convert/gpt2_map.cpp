// SPDX-License-Identifier: Apache-2.0
#include "convert/gpt2_map.hpp"

#include <array>

#include "base/error.hpp"

namespace lm::convert {
namespace {

struct Row {
    std::string_view theirs;
    std::string_view ours[3];  // unused ones are empty
    bool transposed = false;
};

constexpr std::array before_layers{
    Row{"wte.weight", {"embedding.word.weight"}},
    Row{"wpe.weight", {"embedding.position.weight"}},
};
// The tensors of one layer, without the prefixes "h.N." and "layers.N." of their names.
constexpr std::array in_layers{
    Row{"ln_1.weight", {"attention.norm.weight"}},
    Row{"ln_1.bias", {"attention.norm.bias"}},
    Row{"attn.c_attn.weight",
        {"attention.query.weight", "attention.key.weight", "attention.value.weight"},
        true},
    Row{"attn.c_attn.bias", {"attention.query.bias", "attention.key.bias", "attention.value.bias"}},
    Row{"attn.c_proj.weight", {"attention.output.weight"}, true},
    Row{"attn.c_proj.bias", {"attention.output.bias"}},
    Row{"ln_2.weight", {"mlp.norm.weight"}},
    Row{"ln_2.bias", {"mlp.norm.bias"}},
    Row{"mlp.c_fc.weight", {"mlp.up.weight"}, true},
    Row{"mlp.c_fc.bias", {"mlp.up.bias"}},
    Row{"mlp.c_proj.weight", {"mlp.down.weight"}, true},
    Row{"mlp.c_proj.bias", {"mlp.down.bias"}},
};
constexpr std::array after_layers{
    Row{"ln_f.weight", {"final_norm.weight"}},
    Row{"ln_f.bias", {"final_norm.bias"}},
};

Gpt2Tensor tensor_of(const Row& row, const std::string& their_prefix,
                     const std::string& our_prefix) {
    Gpt2Tensor tensor;
    tensor.name = fmt::format("{}{}{}", gpt2_prefix, their_prefix, row.theirs);
    tensor.transposed = row.transposed;
    for (const std::string_view part : row.ours) {
        if (!part.empty()) tensor.parts.push_back(fmt::format("{}{}", our_prefix, part));
    }
    return tensor;
}

io::Json id_or_null(i64 id) {
    return id < 0 ? io::Json(nullptr) : io::Json(id);
}

std::string_view torch_name(DType dtype) {
    switch (dtype) {
        case DType::bf16:
            return "bfloat16";
        case DType::fp16:
            return "float16";
        default:
            return "float32";
    }
}

spec::Activation activation_from(const std::string& name, const std::string& path) {
    if (name == "gelu_new" || name == "gelu_fast" || name == "gelu_pytorch_tanh") {
        return spec::Activation::gelu_tanh;
    }
    if (name == "gelu") return spec::Activation::gelu_erf;
    usage_error(
        path,
        "expected activation_function gelu_new, gelu_fast, gelu_pytorch_tanh or gelu, got '{}'",
        name);
}

// Checks a switch of GPT2Config whose other value would change the arithmetic.
void require(const io::Json& config, const std::string& key, bool wanted, const std::string& path) {
    if (io::json_get_or<bool>(config, key, wanted, path) == wanted) return;
    usage_error(path, "expected '{}' to be {}, got {}: lm-utils does not support such models", key,
                wanted, !wanted);
}

}  // namespace

std::vector<Gpt2Tensor> gpt2_tensors(i64 n_layers) {
    std::vector<Gpt2Tensor> tensors;
    for (const Row& row : before_layers) tensors.push_back(tensor_of(row, "", ""));
    for (i64 layer = 0; layer < n_layers; ++layer) {
        for (const Row& row : in_layers) {
            tensors.push_back(
                tensor_of(row, fmt::format("h.{}.", layer), fmt::format("layers.{}.", layer)));
        }
    }
    for (const Row& row : after_layers) tensors.push_back(tensor_of(row, "", ""));
    return tensors;
}

bool is_gpt2_buffer(std::string_view name) {
    if (name == "lm_head.weight") return true;
    return name.starts_with("h.") &&
           (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

void check_fits_gpt2(const spec::ModelConfig& config) {
    constexpr std::string_view without = "GPT-2 of Hugging Face does not support it";
    if (config.position != spec::PositionEmbedding::absolute) {
        usage_error("--position-embedding-type", "the model has {}: {}", name_of(config.position),
                    without);
    }
    if (config.normalization != spec::Normalization::layer_norm) {
        usage_error("--normalization", "the model has {}: {}", name_of(config.normalization),
                    without);
    }
    if (is_gated(config.activation)) {
        usage_error(config.activation == spec::Activation::swiglu ? "--swiglu" : "--glu-activation",
                    "the model has {}: {}", name_of(config.activation), without);
    }
    if (config.n_groups != config.n_heads) {
        usage_error("--num-query-groups", "the model has {} groups for {} heads: {}",
                    config.n_groups, config.n_heads, without);
    }
    if (config.attention_width() != config.hidden) {
        usage_error("--kv-channels", "the model has {} heads of {} at a hidden size of {}: {}",
                    config.n_heads, config.head_dim, config.hidden, without);
    }
    if (config.embedding_norm) usage_error("--embed-layernorm", "{}", without);
    if (config.untied_head) usage_error("--untie-embeddings-and-output-weights", "{}", without);
    if (!config.linear_bias) usage_error("--disable-bias-linear", "{}", without);
}

io::Json gpt2_config(const spec::ModelConfig& config, i64 end_of_document, DType dtype) {
    const bool default_inner = config.ffn_hidden == 4 * config.hidden;
    return {{"architectures", {"GPT2LMHeadModel"}},
            {"model_type", "gpt2"},
            {"vocab_size", config.vocab_size},
            {"n_positions", config.max_positions},
            {"n_ctx", config.max_positions},
            {"n_embd", config.hidden},
            {"n_layer", config.n_layers},
            {"n_head", config.n_heads},
            {"n_inner", default_inner ? io::Json(nullptr) : io::Json(config.ffn_hidden)},
            {"activation_function",
             config.activation == spec::Activation::gelu_erf ? "gelu" : "gelu_new"},
            {"resid_pdrop", config.hidden_dropout},
            {"embd_pdrop", config.hidden_dropout},
            {"attn_pdrop", config.attention_dropout},
            {"layer_norm_epsilon", config.norm_eps},
            {"initializer_range", config.init_std},
            {"scale_attn_weights", true},
            {"scale_attn_by_inverse_layer_idx", false},
            {"reorder_and_upcast_attn", false},
            {"use_cache", true},
            {"bos_token_id", id_or_null(end_of_document)},
            {"eos_token_id", id_or_null(end_of_document)},
            {"tie_word_embeddings", true},
            {"torch_dtype", torch_name(dtype)}};
}

io::Json gpt2_generation_config(i64 end_of_document) {
    return {{"_from_model_config", true},
            {"bos_token_id", id_or_null(end_of_document)},
            {"eos_token_id", id_or_null(end_of_document)}};
}

Gpt2Model gpt2_model(const io::Json& config, const std::string& path) {
    const auto type = io::json_get<std::string>(config, "model_type", path);
    if (type != "gpt2")
        usage_error(path, "expected model_type 'gpt2', got '{}': only GPT-2 can be converted",
                    type);
    require(config, "tie_word_embeddings", true, path);
    require(config, "scale_attn_weights", true, path);
    require(config, "scale_attn_by_inverse_layer_idx", false, path);
    require(config, "add_cross_attention", false, path);
    Gpt2Model model;
    spec::ModelConfig& c = model.config;
    c.vocab_size = io::json_get<i64>(config, "vocab_size", path);
    c.max_positions = io::json_get<i64>(config, "n_positions", path);
    c.seq_length = c.max_positions;
    c.hidden = io::json_get<i64>(config, "n_embd", path);
    c.n_layers = io::json_get<i64>(config, "n_layer", path);
    c.n_heads = io::json_get<i64>(config, "n_head", path);
    c.ffn_hidden = io::json_get_or<i64>(config, "n_inner", 0, path);
    c.activation = activation_from(
        io::json_get_or<std::string>(config, "activation_function", "gelu_new", path), path);
    c.hidden_dropout = io::json_get_or<double>(config, "resid_pdrop", 0.1, path);
    c.attention_dropout = io::json_get_or<double>(config, "attn_pdrop", 0.1, path);
    c.norm_eps = io::json_get_or<double>(config, "layer_norm_epsilon", 1e-5, path);
    c.init_std = io::json_get_or<double>(config, "initializer_range", 0.02, path);
    c.resolve();
    const i64 eos = io::json_get_or<i64>(config, "eos_token_id", -1, path);
    if (eos >= 0 && eos < c.vocab_size) model.tokenizer.end_of_document = eos;
    return model;
}

}  // namespace lm::convert
