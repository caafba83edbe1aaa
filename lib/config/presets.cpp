// SPDX-License-Identifier: Apache-2.0
#include "config/presets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"

namespace lm::config {
namespace {

using spec::Activation;
using spec::ModelConfig;
using spec::Normalization;
using spec::PositionEmbedding;

constexpr i64 gpt2_vocab = 50257;

ModelConfig gpt(i64 n_layers, i64 hidden, i64 n_heads, i64 seq_length, double init_std = 0.02) {
    ModelConfig model;
    model.n_layers = n_layers;
    model.hidden = hidden;
    model.n_heads = n_heads;
    model.seq_length = seq_length;
    model.vocab_size = gpt2_vocab;
    model.init_std = init_std;
    return model;
}

// The vocabulary as the published weights have it: 250680 tokens and 200 reserved rows.
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
        {"104b", "BigScience tr8-104B, as its script ran",
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
        // Table 1 of arXiv 2104.04473, as the AWS Megatron example lists it.
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
    std::vector<std::string_view> names;
    for (const Preset& preset : presets()) {
        if (preset.name == name) return preset;
        names.push_back(preset.name);
    }
    usage_error("--model", "'{}' is not one of {}", name, fmt::join(names, ", "));
}

std::string as_flags(const ModelConfig& model) {
    const ModelConfig defaults;
    std::string text = fmt::format("--num-layers {} --hidden-size {} --num-attention-heads {}",
                                   model.n_layers, model.hidden, model.n_heads);
    const auto add = [&text](bool differs, auto&&... args) {
        if (differs) text += " " + fmt::format(std::forward<decltype(args)>(args)...);
    };
    add(model.ffn_hidden != 0, fmt::runtime("--ffn-hidden-size {}"), model.ffn_hidden);
    add(model.n_groups != 0 && model.n_groups != model.n_heads,
        fmt::runtime("--group-query-attention --num-query-groups {}"), model.n_groups);
    add(true, fmt::runtime("--seq-length {} --vocab-size {}"), model.seq_length, model.vocab_size);
    add(model.position != defaults.position, fmt::runtime("--position-embedding-type {}"),
        name_of(model.position));
    add(model.normalization != defaults.normalization, fmt::runtime("--normalization {}"),
        name_of(model.normalization));
    add(model.embedding_norm, fmt::runtime("--embed-layernorm"));
    add(model.activation == Activation::swiglu, fmt::runtime("--swiglu"));
    add(model.untied_head, fmt::runtime("--untie-embeddings-and-output-weights"));
    add(!model.linear_bias, fmt::runtime("--disable-bias-linear"));
    add(model.attention_dropout != defaults.attention_dropout,
        fmt::runtime("--attention-dropout {}"), model.attention_dropout);
    add(model.hidden_dropout != defaults.hidden_dropout, fmt::runtime("--hidden-dropout {}"),
        model.hidden_dropout);
    add(model.init_std != defaults.init_std, fmt::runtime("--init-method-std {}"), model.init_std);
    return text;
}

}  // namespace lm::config
