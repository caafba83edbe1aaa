// SPDX-License-Identifier: Apache-2.0
#include "convert/hf_reference_config.hpp"

#include "base/error.hpp"
#include "io/json.hpp"

namespace lm::convert {
namespace {

class ConfigReader {
  public:
    ConfigReader(const io::Json& json, const std::string& path) : json_(json), path_(path) {}

    i64 integer(const char* key) const { return io::json_get<i64>(json_, key, path_); }
    i64 integer(const char* key, i64 absent) const {
        return io::json_get_or<i64>(json_, key, absent, path_);
    }
    double number(const char* key, double absent) const {
        return io::json_get_or<double>(json_, key, absent, path_);
    }
    bool flag(const char* key, bool absent) const {
        return io::json_get_or<bool>(json_, key, absent, path_);
    }
    std::string text(const char* key, const char* absent) const {
        return io::json_get_or<std::string>(json_, key, absent, path_);
    }
    // Returns the value of a `key` of the rotary positions. Newer versions of transformers store
    // these keys in rope_parameters.
    double rope_number(const char* key, double absent) const {
        const auto found = json_.find("rope_parameters");
        const bool newer = found != json_.end() && found->is_object();
        return io::json_get_or<double>(newer ? *found : json_, key, absent, path_);
    }
    // Returns the factor of rope_scaling of the type llama3, else 0.
    double rope_factor() const {
        for (const char* key : {"rope_scaling", "rope_parameters"}) {
            const auto found = json_.find(key);
            if (found == json_.end() || !found->is_object()) continue;
            const auto type = io::json_get_or<std::string>(*found, "rope_type", "default", path_);
            if (type == "llama3") return io::json_get<double>(*found, "factor", path_);
        }
        return 0;
    }
    bool has(const char* key) const { return json_.contains(key); }

  private:
    const io::Json& json_;
    const std::string& path_;
};

ReferenceConfig gpt2(const ConfigReader& json) {
    ReferenceConfig c;
    c.n_layers = json.integer("n_layer");
    c.n_heads = c.n_groups = json.integer("n_head");
    c.width = json.integer("n_embd");
    c.eps = json.number("layer_norm_epsilon", 1e-5);
    c.activation = json.text("activation_function", "gelu_new");
    c.tied = json.flag("tie_word_embeddings", true);
    c.conv1d = true;
    c.fused = Fused::whole;
    c.prefix = "transformer.";
    c.layers = "h.";
    c.word = "wte";
    c.position = "wpe";
    c.attention_norm = "ln_1";
    c.qkv[0] = "attn.c_attn";
    c.output = "attn.c_proj";
    c.mlp_norm = "ln_2";
    c.up = "mlp.c_fc";
    c.down = "mlp.c_proj";
    c.final_norm = "ln_f";
    c.head = "lm_head";
    return c;
}

// Returns the settings of GPT-BigCode: the names of GPT-2, matrices that are [out, in] instead of
// [in, out], and one key-value group for all heads.
ReferenceConfig bigcode(const ConfigReader& json, const std::string& path) {
    if (!json.flag("multi_query", true)) {
        run_error(path, "--check does not support multi_query false");
    }
    ReferenceConfig c = gpt2(json);
    c.n_groups = 1;
    c.activation = json.text("activation_function", "gelu_pytorch_tanh");
    c.conv1d = false;
    return c;
}

// Sets the names of a layer's tensors for BLOOM and GPT-NeoX, which use Megatron's names.
void name_megatron_layer(ReferenceConfig& c, const std::string& attention) {
    c.fused = Fused::heads;
    c.attention_norm = "input_layernorm";
    c.qkv[0] = attention + ".query_key_value";
    c.output = attention + ".dense";
    c.mlp_norm = "post_attention_layernorm";
    c.up = "mlp.dense_h_to_4h";
    c.down = "mlp.dense_4h_to_h";
}

ReferenceConfig bloom(const ConfigReader& json) {
    ReferenceConfig c;
    c.n_layers = json.integer(json.has("n_layer") ? "n_layer" : "num_hidden_layers");
    c.n_heads = c.n_groups = json.integer(json.has("n_head") ? "n_head" : "num_attention_heads");
    c.width = json.integer(json.has("hidden_size") ? "hidden_size" : "n_embed");
    c.eps = json.number("layer_norm_epsilon", 1e-5);
    c.activation = "gelu_new";
    c.tied = json.flag("tie_word_embeddings", true);
    c.alibi = true;
    name_megatron_layer(c, "self_attention");
    c.prefix = "transformer.";
    c.layers = "h.";
    c.word = "word_embeddings";
    c.embedding_norm = "word_embeddings_layernorm";
    c.final_norm = "ln_f";
    c.head = "lm_head";
    return c;
}

ReferenceConfig neox(const ConfigReader& json) {
    ReferenceConfig c;
    c.n_layers = json.integer("num_hidden_layers");
    c.n_heads = c.n_groups = json.integer("num_attention_heads");
    c.width = json.integer("hidden_size");
    c.eps = json.number("layer_norm_eps", 1e-5);
    c.theta = json.number("rotary_emb_base", 10000);
    c.rotated = json.number("rotary_pct", 0.25);
    c.activation = json.text("hidden_act", "gelu");
    c.tied = json.flag("tie_word_embeddings", false);
    c.rope = true;
    name_megatron_layer(c, "attention");
    c.prefix = "gpt_neox.";
    c.layers = "layers.";
    c.word = "embed_in";
    c.final_norm = "final_layer_norm";
    c.head = "embed_out";
    return c;
}

// Returns the settings of Llama, Mistral or StarCoder2. StarCoder2 has another norm and MLP, and
// biases.
ReferenceConfig llama(const ConfigReader& json, bool starcoder2) {
    ReferenceConfig c;
    c.n_layers = json.integer("num_hidden_layers");
    c.n_heads = json.integer("num_attention_heads");
    c.n_groups = json.integer("num_key_value_heads", c.n_heads);
    c.width = json.integer("hidden_size");
    c.head_dim = json.integer("head_dim", 0);
    c.theta = json.rope_number("rope_theta", 10000);
    c.rope_factor = json.rope_factor();
    c.rope = true;
    c.rms_norm = !starcoder2;
    c.eps = starcoder2 ? json.number("norm_epsilon", 1e-5) : json.number("rms_norm_eps", 1e-6);
    c.activation = json.text("hidden_act", starcoder2 ? "gelu_pytorch_tanh" : "silu");
    c.bias = starcoder2 ? json.flag("use_bias", true) : json.flag("attention_bias", false);
    c.tied = json.flag("tie_word_embeddings", starcoder2);
    c.prefix = "model.";
    c.layers = "layers.";
    c.word = "embed_tokens";
    c.attention_norm = "input_layernorm";
    c.qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    c.output = "self_attn.o_proj";
    c.mlp_norm = "post_attention_layernorm";
    c.gate = starcoder2 ? "" : "mlp.gate_proj";
    c.up = starcoder2 ? "mlp.c_fc" : "mlp.up_proj";
    c.down = starcoder2 ? "mlp.c_proj" : "mlp.down_proj";
    c.final_norm = "norm";
    c.head = "lm_head";
    return c;
}

// Returns the settings of StableLM: Llama with LayerNorm.
ReferenceConfig stablelm(const ConfigReader& json, const std::string& path) {
    for (const char* key : {"use_parallel_residual", "qk_layernorm"}) {
        if (json.flag(key, false)) run_error(path, "--check does not support {} true", key);
    }
    ReferenceConfig c = llama(json, false);
    c.rotated = json.rope_number("partial_rotary_factor", 0.25);
    c.qkv_bias = json.flag("use_qkv_bias", false);
    c.rms_norm = false;
    c.eps = json.number("layer_norm_eps", 1e-5);
    return c;
}

ReferenceConfig mistral(const ConfigReader& json) {
    ReferenceConfig c = llama(json, false);
    c.window = json.integer("sliding_window", json.has("sliding_window") ? 0 : 4096);
    return c;
}

// Returns the settings of Nemotron: no gate, norms with 1 + weight.
ReferenceConfig nemotron(const ConfigReader& json) {
    ReferenceConfig c = llama(json, false);
    c.rms_norm = false;
    c.one_plus = true;
    c.eps = json.number("norm_eps", 1e-5);
    c.rotated = json.rope_number("partial_rotary_factor", 0.5);
    c.activation = json.text("hidden_act", "relu2");
    c.gate = "";
    return c;
}

ReferenceConfig qwen2(const ConfigReader& json) {
    ReferenceConfig c = llama(json, false);
    c.qkv_bias = true;
    return c;
}

// Returns the settings of Qwen3: Llama with a norm of each head of query and key.
ReferenceConfig qwen3(const ConfigReader& json) {
    ReferenceConfig c = llama(json, false);
    c.query_norm = "self_attn.q_norm";
    c.key_norm = "self_attn.k_norm";
    return c;
}

ReferenceConfig config_of(const std::string& type, const ConfigReader& json,
                          const std::string& path) {
    if (type == "gpt2") return gpt2(json);
    if (type == "gpt_bigcode") return bigcode(json, path);
    if (type == "bloom") return bloom(json);
    if (type == "gpt_neox") return neox(json);
    if (type == "llama") return llama(json, false);
    if (type == "mistral") return mistral(json);
    if (type == "nemotron") return nemotron(json);
    if (type == "qwen2") return qwen2(json);
    if (type == "qwen3") return qwen3(json);
    if (type == "starcoder2") return llama(json, true);
    if (type == "stablelm") return stablelm(json, path);
    run_error(path, "--check does not support model_type '{}'", type);
}

}  // namespace

ReferenceConfig reference_config(const io::Json& json, const std::string& path) {
    const ConfigReader reader(json, path);
    ReferenceConfig c = config_of(reader.text("model_type", ""), reader, path);
    if (c.head_dim == 0) c.head_dim = c.width / c.n_heads;
    return c;
}

}  // namespace lm::convert
