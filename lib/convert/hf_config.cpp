// SPDX-License-Identifier: Apache-2.0
#include "convert/hf_config.hpp"

#include "convert/hf_variants.hpp"

#include <array>

#include "base/error.hpp"
#include "io/json.hpp"

namespace lm::convert {
namespace {

using spec::Activation;
using spec::ModelConfig;

struct Integer {
    const char* key;
    i64 ModelConfig::*member;
    i64 absent = -1;              // value when the key is missing or null; -1: the key is required
    const char* other = nullptr;  // an older name of the key
};
struct Number {
    const char* key;
    double ModelConfig::*member;
    double absent;
};
// A key that must have one value, because lm-utils does not support the arithmetic of other values.
// Values are JSON.
struct Constant {
    const char* key;
    const char* value;
    const char* absent;  // value when the key is missing
};

// The keys of one architecture, in the order of the file. Several keys may set hidden_dropout.
struct Keys {
    Format format;
    std::span<const Integer> integers;
    std::span<const Number> numbers;
    std::span<const Constant> constants;
    const char* activation;        // key; nullptr: the architecture has only gelu_tanh
    const char* gelu;              // value of `activation` that means gelu_tanh; "": no value
    bool tied_by_default = false;  // default of the key tie_word_embeddings
};

constexpr std::array gpt2_integers{
    Integer{"vocab_size", &ModelConfig::vocab_size},
    Integer{"n_positions", &ModelConfig::max_positions},
    Integer{"n_embd", &ModelConfig::hidden},
    Integer{"n_layer", &ModelConfig::n_layers},
    Integer{"n_head", &ModelConfig::n_heads},
    Integer{"n_inner", &ModelConfig::ffn_hidden, 0},
};
constexpr std::array gpt2_numbers{
    Number{"resid_pdrop", &ModelConfig::hidden_dropout, 0.1},
    Number{"embd_pdrop", &ModelConfig::hidden_dropout, 0.1},
    Number{"attn_pdrop", &ModelConfig::attention_dropout, 0.1},
    Number{"layer_norm_epsilon", &ModelConfig::norm_eps, 1e-5},
    Number{"initializer_range", &ModelConfig::init_std, 0.02},
};
constexpr std::array gpt2_constants{
    Constant{"scale_attn_weights", "true", "true"},
    Constant{"scale_attn_by_inverse_layer_idx", "false", "false"},
    Constant{"reorder_and_upcast_attn", "false", "false"},
    Constant{"add_cross_attention", "false", "false"},
};
constexpr std::array bigcode_constants{
    Constant{"multi_query", "true", "true"},
    Constant{"scale_attn_weights", "true", "true"},
    Constant{"add_cross_attention", "false", "false"},
};
constexpr std::array bloom_integers{
    Integer{"vocab_size", &ModelConfig::vocab_size},
    Integer{"hidden_size", &ModelConfig::hidden, -1, "n_embed"},
    Integer{"n_layer", &ModelConfig::n_layers, -1, "num_hidden_layers"},
    Integer{"n_head", &ModelConfig::n_heads, -1, "num_attention_heads"},
    Integer{"seq_length", &ModelConfig::max_positions, 2048},
};
constexpr std::array bloom_numbers{
    Number{"hidden_dropout", &ModelConfig::hidden_dropout, 0},
    Number{"attention_dropout", &ModelConfig::attention_dropout, 0},
    Number{"layer_norm_epsilon", &ModelConfig::norm_eps, 1e-5},
    Number{"initializer_range", &ModelConfig::init_std, 0.02},
};
constexpr std::array bloom_constants{
    Constant{"apply_residual_connection_post_layernorm", "false", "false"},
    Constant{"slow_but_exact", "false", "false"},
};
constexpr std::array llama_integers{
    Integer{"vocab_size", &ModelConfig::vocab_size},
    Integer{"hidden_size", &ModelConfig::hidden},
    Integer{"intermediate_size", &ModelConfig::ffn_hidden},
    Integer{"num_hidden_layers", &ModelConfig::n_layers},
    Integer{"num_attention_heads", &ModelConfig::n_heads},
    Integer{"num_key_value_heads", &ModelConfig::n_groups, 0},
    Integer{"head_dim", &ModelConfig::head_dim, 0},
    Integer{"max_position_embeddings", &ModelConfig::max_positions, 2048},
};
constexpr std::array llama_numbers{
    Number{"rms_norm_eps", &ModelConfig::norm_eps, 1e-6},
    Number{"rope_theta", &ModelConfig::rotary_base, 10000},
    Number{"attention_dropout", &ModelConfig::attention_dropout, 0},
    Number{"initializer_range", &ModelConfig::init_std, 0.02},
};
constexpr std::array<Constant, 0> llama_constants{};  // read_rope_scaling() reads rope_scaling
constexpr std::array no_scaling{Constant{"rope_scaling", "null", "null"}};
constexpr std::array qwen2_constants{Constant{"use_sliding_window", "false", "false"},
                                     Constant{"rope_scaling", "null", "null"}};
constexpr std::array qwen3_constants{Constant{"use_sliding_window", "false", "false"},
                                     Constant{"attention_bias", "false", "false"},
                                     Constant{"rope_scaling", "null", "null"}};
constexpr std::array nemotron_numbers{
    Number{"norm_eps", &ModelConfig::norm_eps, 1e-5},
    Number{"rope_theta", &ModelConfig::rotary_base, 10000},
    Number{"partial_rotary_factor", &ModelConfig::rotary_percent, 0.5},
    Number{"attention_dropout", &ModelConfig::attention_dropout, 0},
    Number{"initializer_range", &ModelConfig::init_std, 0.0134},
};
constexpr std::array neox_integers{
    Integer{"vocab_size", &ModelConfig::vocab_size},
    Integer{"hidden_size", &ModelConfig::hidden},
    Integer{"intermediate_size", &ModelConfig::ffn_hidden},
    Integer{"num_hidden_layers", &ModelConfig::n_layers},
    Integer{"num_attention_heads", &ModelConfig::n_heads},
    Integer{"max_position_embeddings", &ModelConfig::max_positions, 2048},
};
constexpr std::array neox_numbers{
    Number{"layer_norm_eps", &ModelConfig::norm_eps, 1e-5},
    Number{"rotary_emb_base", &ModelConfig::rotary_base, 10000},
    Number{"rotary_pct", &ModelConfig::rotary_percent, 0.25},
    Number{"hidden_dropout", &ModelConfig::hidden_dropout, 0},
    Number{"attention_dropout", &ModelConfig::attention_dropout, 0},
    Number{"initializer_range", &ModelConfig::init_std, 0.02},
};
constexpr std::array neox_constants{
    Constant{"use_parallel_residual", "false", "true"},
    Constant{"attention_bias", "true", "true"},
    Constant{"rope_scaling", "null", "null"},
};
constexpr std::array starcoder2_numbers{
    Number{"norm_epsilon", &ModelConfig::norm_eps, 1e-5},
    Number{"rope_theta", &ModelConfig::rotary_base, 10000},
    Number{"attention_dropout", &ModelConfig::attention_dropout, 0},
    Number{"residual_dropout", &ModelConfig::hidden_dropout, 0},
    Number{"embedding_dropout", &ModelConfig::hidden_dropout, 0},
    Number{"initializer_range", &ModelConfig::init_std, 0.018042},
};
constexpr std::array starcoder2_constants{Constant{"sliding_window", "null", "null"},
                                          Constant{"rope_scaling", "null", "null"}};
constexpr std::array stablelm_numbers{
    Number{"layer_norm_eps", &ModelConfig::norm_eps, 1e-5},
    Number{"rope_theta", &ModelConfig::rotary_base, 10000},
    Number{"partial_rotary_factor", &ModelConfig::rotary_percent, 0.25},
    Number{"attention_dropout", &ModelConfig::attention_dropout, 0},
    Number{"hidden_dropout", &ModelConfig::hidden_dropout, 0},
    Number{"initializer_range", &ModelConfig::init_std, 0.02},
};
constexpr std::array stablelm_constants{
    Constant{"use_parallel_residual", "false", "false"},
    Constant{"qk_layernorm", "false", "false"},
    Constant{"rope_scaling", "null", "null"},
};

constexpr std::array all_keys{
    Keys{Format::hf_gpt2, gpt2_integers, gpt2_numbers, gpt2_constants, "activation_function",
         "gelu_new", true},
    Keys{Format::hf_bloom, bloom_integers, bloom_numbers, bloom_constants, nullptr, "", true},
    Keys{Format::hf_llama, llama_integers, llama_numbers, llama_constants, "hidden_act", ""},
    Keys{Format::hf_mistral, llama_integers, llama_numbers, no_scaling, "hidden_act", ""},
    Keys{Format::hf_gpt_neox, neox_integers, neox_numbers, neox_constants, "hidden_act",
         "gelu_new"},
    Keys{Format::hf_starcoder2, llama_integers, starcoder2_numbers, starcoder2_constants,
         "hidden_act", "gelu_pytorch_tanh", true},
    Keys{Format::hf_gpt_bigcode, gpt2_integers, gpt2_numbers, bigcode_constants,
         "activation_function", "gelu_pytorch_tanh", true},
    Keys{Format::hf_stablelm, llama_integers, stablelm_numbers, stablelm_constants, "hidden_act",
         ""},
    Keys{Format::hf_nemotron, llama_integers, nemotron_numbers, no_scaling, "hidden_act",
         "gelu_new"},
    Keys{Format::hf_qwen2, llama_integers, llama_numbers, qwen2_constants, "hidden_act", ""},
    Keys{Format::hf_qwen3, llama_integers, llama_numbers, qwen3_constants, "hidden_act", ""},
};

const Keys& keys_of(Format format) {
    for (const Keys& keys : all_keys) {
        if (keys.format == format) return keys;
    }
    bug(__FILE__, __LINE__, "expected a format of Hugging Face, got {}", name_of(format));
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

std::string_view activation_name(const Keys& keys, Activation activation) {
    switch (activation) {
        case Activation::swiglu:
            return "silu";
        case Activation::gelu_tanh:
            return keys.gelu;
        case Activation::squared_relu:
            return "relu2";
        default:
            return "gelu";
    }
}

// Returns the value that transformers assumes when the key of the activation is missing.
std::string_view default_activation(const Keys& keys) {
    if (keys.format == Format::hf_gpt_neox) return "gelu";
    if (keys.format == Format::hf_nemotron) return "relu2";
    return *keys.gelu != '\0' ? keys.gelu : "silu";
}

Activation read_activation(const Keys& keys, bool gated, const io::Json& json,
                           const std::string& path) {
    if (!keys.activation) return Activation::gelu_tanh;
    const auto name = io::json_get_or<std::string>(json, keys.activation,
                                                   std::string(default_activation(keys)), path);
    if (gated) {
        if (name == "silu" || name == "swish") return Activation::swiglu;
        if (name == "gelu") return Activation::geglu;
        usage_error(path, "{}: expected silu or gelu, got '{}'", keys.activation, name);
    }
    if (name == "gelu_new" || name == "gelu_fast" || name == "gelu_pytorch_tanh") {
        return Activation::gelu_tanh;
    }
    if (name == "gelu") return Activation::gelu_erf;
    if (name == "relu2") return Activation::squared_relu;
    usage_error(path,
                "{}: expected gelu_new, gelu_fast, gelu_pytorch_tanh, gelu or relu2, got '{}'",
                keys.activation, name);
}

void check_constants(const Keys& keys, i64 max_positions, const io::Json& json,
                     const std::string& path) {
    for (const Constant& constant : keys.constants) {
        const auto found = json.find(constant.key);
        const io::Json value =
            found == json.end() ? io::parse_json(constant.absent, constant.key) : io::Json(*found);
        if (value == io::parse_json(constant.value, constant.key)) continue;
        // A window that includes all positions has no effect.
        if (std::string_view(constant.key) == "sliding_window" && value.is_number() &&
            value.get<double>() >= static_cast<double>(max_positions)) {
            continue;
        }
        usage_error(path, "expected '{}' to be {}, got {}: lm-utils does not support such models",
                    constant.key, constant.value, value.dump());
    }
}

// Reads whether linear layers have biases. transformers has a key for the attention and another key
// for the MLP.
bool read_biases(const HfArchitecture& architecture, const io::Json& json,
                 const std::string& path) {
    if (architecture.bias != Rule::any) return architecture.bias == Rule::always;
    if (architecture.format == Format::hf_starcoder2) {
        return io::json_get_or<bool>(json, "use_bias", true, path);
    }
    const bool attention = io::json_get_or<bool>(json, "attention_bias", false, path);
    const bool mlp = io::json_get_or<bool>(json, "mlp_bias", false, path);
    if (attention != mlp) {
        usage_error(path,
                    "expected attention_bias and mlp_bias to be equal, got {} and {}: lm-utils "
                    "does not support such models",
                    attention, mlp);
    }
    return attention;
}

const HfArchitecture& architecture_of(const io::Json& json, const std::string& path) {
    const auto type = io::json_get<std::string>(json, "model_type", path);
    std::string known;
    for (const HfArchitecture& architecture : hf_architectures()) {
        if (architecture.model_type == type) return architecture;
        known += fmt::format("{}'{}'", known.empty() ? "" : ", ", architecture.model_type);
    }
    usage_error(path, "expected model_type {}, got '{}'", known, type);
}

}  // namespace

io::Json hf_config(const HfArchitecture& architecture, const ModelConfig& config,
                   i64 end_of_document, DType dtype) {
    const Keys& keys = keys_of(architecture.format);
    io::Json json;
    json["architectures"] = {architecture.class_name};
    json["model_type"] = architecture.model_type;
    for (const Integer& key : keys.integers) json[key.key] = config.*key.member;
    for (const Number& key : keys.numbers) json[key.key] = config.*key.member;
    for (const Constant& key : keys.constants) json[key.key] = io::parse_json(key.value, key.key);
    if (architecture.format == Format::hf_gpt2) json["n_ctx"] = config.max_positions;
    if (json.contains("n_inner") && config.ffn_hidden == 4 * config.hidden) {
        json["n_inner"] = nullptr;
    }
    if (architecture.format == Format::hf_llama || architecture.format == Format::hf_nemotron) {
        json["attention_bias"] = json["mlp_bias"] = config.linear_bias;
    }
    if (architecture.format == Format::hf_starcoder2) json["use_bias"] = config.linear_bias;
    write_variants(architecture, config, json);
    if (keys.activation) json[keys.activation] = activation_name(keys, config.activation);
    json["tie_word_embeddings"] = !config.untied_head;
    json["use_cache"] = true;
    json["bos_token_id"] = json["eos_token_id"] = id_or_null(end_of_document);
    json["torch_dtype"] = torch_name(dtype);
    return json;
}

io::Json hf_generation_config(i64 end_of_document) {
    return {{"_from_model_config", true},
            {"bos_token_id", id_or_null(end_of_document)},
            {"eos_token_id", id_or_null(end_of_document)}};
}

HfModel hf_model(const io::Json& json, const std::string& path) {
    HfModel model;
    model.architecture = &architecture_of(json, path);
    const HfArchitecture& architecture = *model.architecture;
    const Keys& keys = keys_of(architecture.format);
    ModelConfig& c = model.config;
    c.hidden_dropout = 0;  // some architectures, such as Llama, have no key for it
    for (const Integer& key : keys.integers) {
        const bool older = key.other && json.contains(key.other) && !json.contains(key.key);
        const char* name = older ? key.other : key.key;
        c.*key.member = key.absent < 0 ? io::json_get<i64>(json, name, path)
                                       : io::json_get_or<i64>(json, name, key.absent, path);
    }
    for (const Number& key : keys.numbers) {
        c.*key.member = io::json_get_or<double>(json, key.key, key.absent, path);
    }
    if (architecture.groups == Groups::one) c.n_groups = 1;
    check_constants(keys, c.max_positions, json, path);
    read_variants(architecture, json, c, path);
    c.position = architecture.position;
    c.normalization = architecture.normalization;
    c.embedding_norm = architecture.embedding_norm;
    c.activation = read_activation(keys, architecture.gated, json, path);
    c.linear_bias = read_biases(architecture, json, path);
    c.untied_head = !io::json_get_or<bool>(json, "tie_word_embeddings", keys.tied_by_default, path);
    c.seq_length = c.max_positions;
    try {
        c.resolve();
    } catch (const Error& error) {
        fail(error.code(), path, "{}", error.what());
    }
    const auto eos = json.find("eos_token_id");
    // Llama 3 has a list of ids; the first one is the end-of-document token.
    const io::Json id = eos == json.end()                  ? io::Json(nullptr)
                        : eos->is_array() && !eos->empty() ? (*eos)[0]
                                                           : *eos;
    if (id.is_number_integer() && id.get<i64>() >= 0 && id.get<i64>() < c.vocab_size) {
        model.tokenizer.end_of_document = id.get<i64>();
    }
    return model;
}

}  // namespace lm::convert
