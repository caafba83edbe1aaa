// SPDX-License-Identifier: Apache-2.0
#include "config/model_flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/shape.hpp"
#include "config/presets.hpp"

namespace lm::config {
namespace {

using spec::Activation;
using spec::ModelConfig;
using spec::Normalization;
using spec::PositionEmbedding;

constexpr i64 gpt2_vocab = 50257;

PositionEmbedding position_from(const ModelFlags& flags) {
    if (flags.rotary || flags.position == "rope") return PositionEmbedding::rope;
    if (flags.position == "alibi") return PositionEmbedding::alibi;
    if (flags.position == "none" || flags.no_position) return PositionEmbedding::none;
    return PositionEmbedding::absolute;
}

// Megatron: the fused bias-GELU and OpenAI's GELU are the tanh form, the plain one is erf.
Activation activation_from(const ModelFlags& flags) {
    if (flags.swiglu || flags.glu_activation == "swiglu") return Activation::swiglu;
    if (flags.glu_activation == "geglu") return Activation::geglu;
    const bool tanh_form = flags.bias_gelu_fusion || flags.openai_gelu;
    return tanh_form ? Activation::gelu_tanh : Activation::gelu_erf;
}

// Which flags were given on the command line; none when there was no command line.
class Given {
  public:
    explicit Given(const ModelFlags& flags) : options_(flags.options) {}
    template <typename... Names>
    bool any(Names... names) const {
        return options_ && (options_->given(names) || ...);
    }

  private:
    const cli::Options* options_;
};

void override_kind(ModelConfig& model, const ModelFlags& flags, const Given& given) {
    if (given.any("--position-embedding-type", "--use-rotary-position-embeddings",
                  "--no-position-embedding")) {
        model.position = position_from(flags);
    }
    const bool gate_given = given.any("--swiglu", "--glu-activation");
    const bool gelu_given = given.any("--openai-gelu", "--no-bias-gelu-fusion");
    if (gate_given || (gelu_given && !is_gated(model.activation))) {
        if (is_gated(activation_from(flags)) != is_gated(model.activation)) model.ffn_hidden = 0;
        model.activation = activation_from(flags);
    }
    if (given.any("--normalization")) {
        model.normalization =
            flags.normalization == "RMSNorm" ? Normalization::rms_norm : Normalization::layer_norm;
    }
    if (given.any("--rotary-base")) model.rotary_base = flags.rotary_base;
    if (given.any("--layernorm-epsilon")) model.norm_eps = flags.norm_eps;
    if (given.any("--attention-dropout")) model.attention_dropout = flags.attention_dropout;
    if (given.any("--hidden-dropout")) model.hidden_dropout = flags.hidden_dropout;
    if (given.any("--init-method-std")) model.init_std = flags.init_std;
    model.embedding_norm = model.embedding_norm || flags.embedding_norm;
    model.untied_head = model.untied_head || flags.untied_head;
    model.linear_bias = model.linear_bias && flags.linear_bias;
}

// Runs after override_kind: the default width of the MLP depends on the activation.
void override_shape(ModelConfig& model, const ModelFlags& flags) {
    const auto set = [](i64& target, const std::optional<i64>& value) {
        if (value) target = *value;
    };
    if (flags.hidden) model.ffn_hidden = 0;  // a preset's width belongs to the preset's hidden size
    set(model.n_layers, flags.n_layers);
    set(model.hidden, flags.hidden);
    set(model.ffn_hidden, flags.ffn_hidden);
    set(model.n_heads, flags.n_heads);
    set(model.head_dim, flags.kv_channels);
    set(model.seq_length, flags.seq_length);
    set(model.max_positions, flags.max_positions);
    if (flags.group_query_attention && model.n_groups == 0) model.n_groups = 1;
    set(model.n_groups, flags.n_groups);
    const bool three_matrices =
        model.activation == Activation::swiglu && flags.glu_activation.empty();
    if (model.ffn_hidden == 0 && three_matrices) {
        // Megatron: as many parameters as two matrices of four times the hidden size have.
        model.ffn_hidden = checked_mul(8, model.hidden) / 3 / 64 * 64;
        if (model.ffn_hidden == 0) {
            usage_error("--ffn-hidden-size",
                        "--swiglu makes it 8/3 of --hidden-size {} rounded "
                        "down to a multiple of 64, which is 0: give one",
                        model.hidden);
        }
    }
}

// What a preset sets, which flags have another word, and what follows from these.
void note_preset(const Preset& preset, const ModelConfig& model, const Given& given) {
    ModelConfig resolved = preset.model;
    resolved.resolve();
    std::vector<std::string> overridden;
    std::vector<std::string> derived;
    for (const Override& change : overrides(resolved, model)) {
        const bool follows =
            (change.flag == "--ffn-hidden-size" || change.flag == "--kv-channels" ||
             change.flag == "--max-position-embeddings") &&
            !given.any(change.flag);
        (follows ? derived : overridden).push_back(change.text);
    }
    const auto list = [](std::string_view title, const std::vector<std::string>& changes) {
        return changes.empty() ? "" : fmt::format("; {}: {}", title, fmt::join(changes, ", "));
    };
    note("--model {} ({}) sets {}{}{}", preset.name, preset.source, as_flags(preset.model),
         list("overridden", overridden), list("hence", derived));
}

// Flags that the model has no use for.
void note_unused(const ModelConfig& model, const ModelFlags& flags, const Given& given) {
    const auto ignore = [&given](std::string_view flag, std::string_view why) {
        if (given.any(flag)) note("{}: ignored: {}", flag, why);
    };
    if (model.position != PositionEmbedding::rope) {
        ignore("--rotary-base", "only --position-embedding-type rope rotates");
    }
    if (flags.rotary && flags.position != "rope") {
        ignore("--position-embedding-type", "--use-rotary-position-embeddings has the word");
    }
    if (flags.no_position && flags.position.ends_with("absolute")) {
        ignore("--position-embedding-type", "--no-position-embedding has the word");
    }
    if (is_gated(model.activation)) {
        for (const char* flag : {"--openai-gelu", "--no-bias-gelu-fusion"}) {
            ignore(flag, "the MLP has a gate, whose function --swiglu or --glu-activation names");
        }
    }
}

void check_positive(std::string_view flag, const std::optional<i64>& value) {
    if (value && *value < 1) usage_error(flag, "{} is not at least 1", *value);
}

void check_flags(const ModelFlags& flags, const ModelConfig& preset) {
    check_positive("--ffn-hidden-size", flags.ffn_hidden);
    check_positive("--num-query-groups", flags.n_groups);
    check_positive("--kv-channels", flags.kv_channels);
    check_positive("--max-position-embeddings", flags.max_positions);
    check_positive("--vocab-size", flags.vocab_size);
    check_positive("--pad-vocab-size-to", flags.pad_vocab_to);
    check_positive("--make-vocab-size-divisible-by", flags.vocab_divisible_by);
    constexpr i64 most_ids = i64{1} << 31;  // token ids have 32 bits
    if (flags.vocab_divisible_by > most_ids) {
        usage_error("--make-vocab-size-divisible-by", "{} is more than {}, the most that ids reach",
                    flags.vocab_divisible_by, most_ids);
    }
    const bool grouped = flags.group_query_attention || preset.n_groups != 0;
    if (flags.n_groups && !grouped) {
        usage_error("--num-query-groups", "needs --group-query-attention");
    }
    if (flags.swiglu && !flags.glu_activation.empty()) {
        usage_error("--glu-activation", "--swiglu names a gate already: give one of the two");
    }
}

void add_shape_options(cli::Options& options, ModelFlags& flags) {
    std::vector<std::string> names;
    for (const Preset& preset : presets()) names.emplace_back(preset.name);
    options.value(
        "--model", &flags.preset, "NAME",
        fmt::format("a named model that the flags below override: {}", fmt::join(names, ", ")));
    options.completes(names);
    options.value("--num-layers", &flags.n_layers, "N", "transformer layers");
    options.value("--hidden-size", &flags.hidden, "N", "width of the residual stream");
    options.value("--ffn-hidden-size", &flags.ffn_hidden, "N",
                  "width of the MLP; default: 4 times the hidden size, with --swiglu 8/3 of it "
                  "rounded down to a multiple of 64");
    options.value("--num-attention-heads", &flags.n_heads, "N", "attention heads");
    options.flag("--group-query-attention", &flags.group_query_attention,
                 "heads share keys and values in groups");
    options.value("--num-query-groups", &flags.n_groups, "N",
                  "key-value groups with --group-query-attention; default: 1");
    options.value("--kv-channels", &flags.kv_channels, "N",
                  "size of a head; default: the hidden size / the heads");
    options.value("--seq-length", &flags.seq_length, "N", "tokens in a training sequence");
    options.value("--max-position-embeddings", &flags.max_positions, "N",
                  "rows of the position table; default: the sequence length");
}

void add_kind_options(cli::Options& options, ModelFlags& flags) {
    options.choice("--position-embedding-type", &flags.position,
                   {"absolute", "learned_absolute", "alibi", "rope", "none"},
                   "how the model knows positions");
    options.flag("--use-rotary-position-embeddings", &flags.rotary,
                 "the same as --position-embedding-type rope");
    options.flag("--no-position-embedding", &flags.no_position,
                 "no position table: the type none, unless alibi or rope is named");
    options.value("--rotary-base", &flags.rotary_base, "X", "base of the rotary frequencies");
    options.choice("--normalization", &flags.normalization, {"LayerNorm", "RMSNorm"},
                   "normalization before attention, MLP and head");
    options.value("--layernorm-epsilon,--norm-epsilon", &flags.norm_eps, "X",
                  "added to the variance in a normalization");
    options.flag("--embed-layernorm", &flags.embedding_norm,
                 "normalize the output of the word embedding");
    options.flag("--swiglu", &flags.swiglu, "SwiGLU in the MLP");
    options.choice("--glu-activation", &flags.glu_activation, {"swiglu", "geglu"},
                   "gate in the MLP; unlike --swiglu it keeps the default MLP width");
    options.flag("--openai-gelu", &flags.openai_gelu,
                 "the tanh form of GELU, which is the default");
    options.flag_off("--no-bias-gelu-fusion", &flags.bias_gelu_fusion,
                     "the erf form of GELU, unless --openai-gelu is given");
    options.flag("--untie-embeddings-and-output-weights", &flags.untied_head,
                 "an output projection of its own instead of the word embedding");
    options.flag_off("--disable-bias-linear", &flags.linear_bias, "linear layers without bias");
}

void add_training_options(cli::Options& options, ModelFlags& flags) {
    options.value("--attention-dropout", &flags.attention_dropout, "P",
                  "dropout of attention probabilities");
    options.value("--hidden-dropout", &flags.hidden_dropout, "P",
                  "dropout of embeddings and of what joins the residual stream");
    options.value("--init-method-std", &flags.init_std, "X",
                  "standard deviation of initial weights; output projections of a branch get it "
                  "divided by the root of 2 x layers");
    options.value("--vocab-size", &flags.vocab_size, "N",
                  "vocabulary, when neither tokenizer nor data says it; default: GPT-2's 50257");
    options.value("--make-vocab-size-divisible-by", &flags.vocab_divisible_by, "N",
                  "pad the vocabulary in memory to a multiple of N x tensor-parallel size");
    options.value("--pad-vocab-size-to", &flags.pad_vocab_to, "N",
                  "pad the vocabulary in memory to N rows instead");
    options.value("--seed", &flags.seed, "N", "seed of weights, dropout and data order");
}

}  // namespace

void add_model_options(cli::Options& options, ModelFlags& flags) {
    flags.options = &options;
    options.group("Model");
    add_shape_options(options, flags);
    add_kind_options(options, flags);
    add_training_options(options, flags);
}

ModelConfig resolve_model(const ModelFlags& flags, std::optional<i64> data_vocab) {
    ModelConfig model;
    if (!flags.preset.empty()) model = preset_named(flags.preset).model;
    check_flags(flags, model);
    const Given given(flags);
    override_kind(model, flags, given);
    override_shape(model, flags);
    if (flags.vocab_size) {
        model.vocab_size = *flags.vocab_size;
    } else if (data_vocab) {
        model.vocab_size = *data_vocab;
    } else if (model.vocab_size == 0) {
        model.vocab_size = gpt2_vocab;
    }
    model.resolve();
    if (!flags.preset.empty()) note_preset(preset_named(flags.preset), model, given);
    note_unused(model, flags, given);
    return model;
}

std::optional<i64> seq_length_of(const ModelFlags& flags) {
    if (flags.seq_length || flags.preset.empty()) return flags.seq_length;
    for (const Preset& preset : presets()) {
        if (preset.name == flags.preset) return preset.model.seq_length;
    }
    return std::nullopt;
}

}  // namespace lm::config
