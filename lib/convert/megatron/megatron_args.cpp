// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/megatron_args.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace lm::convert {
namespace {

using Kind = PickleValue::Kind;

// Reads attributes of the Namespace. An attribute whose value is None counts as missing.
class Args {
  public:
    Args(const PickleValue& args, const std::string& path) : args_(args), path_(path) {}

    const PickleValue* find(const char* name) const {
        const PickleValue* value = args_.find(name);
        return value && !value->is(Kind::none) ? value : nullptr;
    }
    i64 integer(const char* name, i64 absent) const {
        const PickleValue* value = find(name);
        if (!value) return absent;
        if (!value->is(Kind::integer)) wrong(name, "a whole number", *value);
        return value->integer;
    }
    double number(const char* name, double absent) const {
        const PickleValue* value = find(name);
        if (!value) return absent;
        if (value->is(Kind::integer)) return static_cast<double>(value->integer);
        if (!value->is(Kind::real)) wrong(name, "a number", *value);
        return value->real;
    }
    bool flag(const char* name, bool absent) const {
        const PickleValue* value = find(name);
        if (!value) return absent;
        if (!value->is(Kind::boolean)) wrong(name, "True or False", *value);
        return value->boolean;
    }
    // Returns the layers of a number or a list; `marks`: the entry of a chosen layer.
    spec::LayerPattern layers(const char* name, bool marks) const {
        const PickleValue* value = find(name);
        if (!value) return {};
        if (value->is(Kind::integer)) return {.every = value->integer, .chosen = {}};
        if (!value->is(Kind::list)) wrong(name, "a whole number or a list", *value);
        spec::LayerPattern pattern;
        for (const auto& item : value->items) {
            if (!item->is(Kind::integer)) wrong(name, "whole numbers", *item);
            pattern.chosen.push_back((item->integer != 0) == marks);
        }
        return pattern;
    }
    // Throws Error(usage) when the argument `name` is true, because it changes the arithmetic.
    void refuse(const char* name) const {
        if (flag(name, false)) {
            usage_error(path_, "args.{} is set: lm-utils does not support such models", name);
        }
    }
    const std::string& path() const { return path_; }

  private:
    [[noreturn]] void wrong(const char* name, const char* wanted, const PickleValue& got) const {
        run_error(path_, "args.{}: expected {}, got a {}", name, wanted, name_of(got.kind));
    }

    const PickleValue& args_;
    const std::string& path_;
};

// Returns the name of an enum's member. Newer versions of Megatron save the name as text. Older
// versions save a call of the enum class with the number, or a call of getattr with the name.
std::string enum_name(const PickleValue& value) {
    if (value.is(Kind::text)) return value.text;
    if (!value.is(Kind::object) || value.items.empty()) return {};
    const PickleValue& last = *value.items.back();
    if (last.is(Kind::text)) return last.text;
    if (!last.is(Kind::integer)) return {};
    // megatron/enums.py of BigScience and of DeepSpeed: rotary 1, absolute 2, alibi 3.
    switch (last.integer) {
        case 1:
            return "rotary";
        case 2:
            return "absolute";
        case 3:
            return "alibi";
        default:
            return {};
    }
}

spec::PositionEmbedding position_of(const Args& args) {
    if (args.flag("use_rotary_position_embeddings", false)) return spec::PositionEmbedding::rope;
    const PickleValue* value = args.find("position_embedding_type");
    const std::string name = value ? enum_name(*value) : "learned_absolute";
    if (name == "rope" || name == "rotary" || name == "yarn") return spec::PositionEmbedding::rope;
    if (name == "alibi") return spec::PositionEmbedding::alibi;
    if (name == "none") return spec::PositionEmbedding::none;
    if (name != "absolute" && name != "learned_absolute") {
        usage_error(args.path(), "args.position_embedding_type: lm-utils does not support '{}'",
                    name);
    }
    return spec::PositionEmbedding::absolute;
}

spec::Activation activation_of(const Args& args) {
    const PickleValue* glu = args.find("glu_activation");
    if (args.flag("swiglu", false)) return spec::Activation::swiglu;
    if (glu && glu->is(Kind::text)) {
        const auto unit = value_in(spec::activations, glu->text);
        if (unit && is_gated(*unit)) return *unit;
        usage_error(args.path(), "args.glu_activation: lm-utils does not support '{}'", glu->text);
    }
    for (const auto& [activation, name] : spec::activations) {
        const std::string own = argument_of(activation);
        if (!own.empty() && args.flag(own.c_str(), false)) return activation;
    }
    // openai_gelu and bias_gelu_fusion compute the tanh form of GELU. If both are false, Megatron
    // computes the erf form.
    const bool tanh = args.flag("openai_gelu", false) || args.flag("bias_gelu_fusion", true);
    return tanh ? spec::Activation::gelu_tanh : spec::Activation::gelu_erf;
}

void refuse_others(const Args& args) {
    for (const char* name : {"apply_residual_connection_post_layernorm", "multi_latent_attention",
                             "retro_add_retriever", "group_query_head", "qk_l2_norm",
                             "attention_output_gate", "quick_geglu"}) {
        args.refuse(name);
    }
    // These settings of newer versions are None in a supported model.
    for (const char* name :
         {"mtp_num_layers", "linear_attention_freq", "experimental_attention_variant",
          "heterogeneous_layers_config_path"}) {
        if (args.find(name)) {
            usage_error(args.path(), "args.{} is set: lm-utils does not support such models", name);
        }
    }
    const PickleValue* experts = args.find("num_experts");
    const bool list = experts && experts->is(Kind::list);
    const i64 n = list ? (experts->items.empty() ? 0 : experts->items[0]->integer)
                       : args.integer("num_experts", 0);
    if (n > 1)
        usage_error(
            args.path(),
            "args.num_experts: expected at most 1, got {}: lm-utils does not support experts", n);
}

// Returns the number of keys that a query sees with window_size (LEFT, RIGHT), its own key
// included; 0 when a query sees all previous keys.
i64 window_of(const Args& args) {
    const PickleValue* const size = args.find("window_size");
    if (!size || !(size->is(Kind::list) || size->is(Kind::tuple)) || size->items.size() != 2) {
        return 0;
    }
    return size->items[0]->integer + 1;
}

// Returns the scaling of rotary frequencies. Arguments of Megatron's yarn have the names of its
// flags; those that it does not have are ours.
spec::RotaryScaling scaling_of(const Args& args) {
    using spec::RotaryRule;
    const PickleValue* const position = args.find("position_embedding_type");
    const double interpolation = args.number("rotary_seq_len_interpolation_factor", 1);
    spec::RotaryScaling scaling;
    const auto read = [&](double& member, const char* name) { member = args.number(name, member); };
    if (position && enum_name(*position) == "yarn") {
        scaling = spec::usual_scaling(RotaryRule::yarn);
        read(scaling.factor, "rotary_scaling_factor");
        scaling.original_length =
            args.integer("yarn_original_max_position_embeddings", scaling.original_length);
        read(scaling.beta_fast, "yarn_beta_fast");
        read(scaling.beta_slow, "yarn_beta_slow");
        read(scaling.mscale, "mscale");
        read(scaling.mscale_all_dim, "mscale_all_dim");
        scaling.truncate = args.flag("yarn_correction_range_round_to_int", true);
    } else if (args.flag("use_rope_scaling", false)) {
        scaling = spec::usual_scaling(RotaryRule::llama3);
        read(scaling.factor, "rope_scaling_factor");
        read(scaling.low_freq_factor, "rope_scaling_low_freq_factor");
        read(scaling.high_freq_factor, "rope_scaling_high_freq_factor");
        scaling.original_length =
            args.integer("rope_scaling_original_max_position_embeddings", scaling.original_length);
    } else if (interpolation != 1) {
        scaling = spec::usual_scaling(RotaryRule::linear);
        scaling.factor = interpolation;
    }
    return scaling;
}

void read_variants(const Args& args, spec::ModelConfig& c) {
    c.rotary_percent = args.number("rotary_percent", 1);
    c.rotary_interleaved = args.flag("rotary_interleaved", false);
    c.rope_scaling = scaling_of(args);
    if (c.rope_scaling.rule == spec::RotaryRule::yarn && c.rotary_percent != 1) {
        usage_error(args.path(),
                    "args.rotary_percent: expected 1 with yarn, got {}: Megatron ignores it there",
                    c.rotary_percent);
    }
    c.window = window_of(args);
    c.full_layers = args.layers("window_attn_skip_freq", false);
    c.unrotated_layers = args.layers("no_rope_freq", true);
    c.norm_1p = args.flag("apply_layernorm_1p", false);
    c.qk_norm = args.flag("qk_layernorm", false);
    c.qkv_bias = args.flag("add_qkv_bias", false);
}

// Sets the number of imported rows of the vocabulary: `requested` (--vocab-size) if it is not 0,
// else the size that the checkpoint states, else the padded size, of which `rows` are in the file.
// Throws Error(usage) when `requested` would drop tokens of the model.
void read_vocabulary(const Args& args, const PickleValue* checkpoint_info, i64 requested, i64 rows,
                     MegatronModel& model) {
    model.padded_vocab = args.integer("padded_vocab_size", rows);
    const PickleValue* original =
        checkpoint_info ? checkpoint_info->find("original_vocab_size") : nullptr;
    if (original && !original->is(Kind::integer)) original = nullptr;
    const i64 stated = original ? original->integer : args.integer("vocab_size", 0);
    if (requested > 0 && requested < stated) {
        usage_error("--vocab-size",
                    "must be at least {}, the size of the vocabulary in {}, got {}: a smaller "
                    "vocabulary would lose tokens",
                    stated, args.path(), requested);
    }
    if (requested == 0 && stated == 0 && model.padded_vocab == 0) {
        usage_error("--vocab-size",
                    "is missing: {} states neither padded_vocab_size nor vocab_size", args.path());
    }
    const i64 size = requested > 0 ? requested : stated;
    model.vocab_known = size > 0;
    model.config.vocab_size = model.vocab_known ? size : model.padded_vocab;
    const PickleValue* tokenizer = args.find("tokenizer_type");
    model.eod_after_vocab = requested == 0 && stated > 0 && tokenizer != nullptr &&
                            tokenizer->is(Kind::text) && tokenizer->text == "NullTokenizer";
}

// Adds the sizes of the model that the arguments do not state.
void complete(const ConversionRequest& request, spec::ModelConfig& config,
              const std::string& path) {
    const bool whole =
        std::min({config.n_layers, config.hidden, config.n_heads, config.seq_length}) != 0;
    if (whole && !request.model_flag.empty()) {
        usage_error(request.model_flag,
                    "is valid only for a checkpoint without arguments, but {} "
                    "states them: omit the option",
                    path);
    }
    if (whole) return;
    if (!request.complete) {
        run_error(path,
                  "does not state the arguments of its model: convert it by lm-convert, which has "
                  "flags for them");
    }
    config = request.complete(config, path);
}

}  // namespace

std::string argument_of(spec::Activation activation) {
    const std::string_view flag = spec::switch_of(activation);
    std::string name(flag.substr(flag.empty() ? 0 : 2));
    std::ranges::replace(name, '-', '_');
    return name;
}

MegatronModel megatron_model(const PickleValue& namespace_, const PickleValue* checkpoint_info,
                             const ConversionRequest& request, const MegatronFiles& files,
                             const std::string& path) {
    const Args args(namespace_, path);
    refuse_others(args);
    MegatronModel model;
    spec::ModelConfig& c = model.config;
    c.n_layers = args.integer("num_layers", 0);
    c.hidden = args.integer("hidden_size", 0);
    c.n_heads = args.integer("num_attention_heads", 0);
    c.ffn_hidden = args.integer("ffn_hidden_size", 0);
    c.head_dim = args.integer("kv_channels", 0);
    if (args.flag("group_query_attention", false)) {
        c.n_groups = args.integer("num_query_groups", 0);
    } else if (!args.find("group_query_attention")) {
        c.n_groups = args.integer("num_key_value_heads", 0);  // Megatron-DeepSpeed
    }
    c.max_positions = args.integer("max_position_embeddings", args.integer("seq_length", 0));
    c.seq_length = args.integer("seq_length", c.max_positions);
    c.position = position_of(args);
    c.rotary_base = args.number("rotary_base", args.number("rope_theta", 10000));
    read_variants(args, c);
    const PickleValue* norm = args.find("normalization");
    if (norm && norm->is(Kind::text)) {
        const bool rms = norm->text == "RMSNorm" || norm->text == "rmsnorm";
        if (rms) c.normalization = spec::Normalization::rms_norm;
    }
    c.activation = activation_of(args);
    c.norm_eps = args.number("layernorm_epsilon", args.number("norm_epsilon", 1e-5));
    c.embedding_norm = args.flag("embed_layernorm", false);
    c.untied_head = args.flag("untie_embeddings_and_output_weights", false);
    c.linear_bias = args.flag("add_bias_linear", !args.flag("disable_bias_linear", false));
    c.attention_dropout = args.number("attention_dropout", 0.1);
    c.hidden_dropout = args.number("hidden_dropout", 0.1);
    c.init_std = args.number("init_method_std", 0.02);
    model.tp =
        args.integer("tensor_model_parallel_size", args.integer("model_parallel_size", files.tp));
    model.pp = args.integer("pipeline_model_parallel_size", files.pp);
    read_vocabulary(args, checkpoint_info, request.vocab_size, files.word_rows * model.tp, model);
    model.virtual_stages = args.integer("virtual_pipeline_model_parallel_size", 1);
    model.data_parallel =
        args.integer("data_parallel_size", 1) * args.integer("context_parallel_size", 1);
    model.overlap_grad_reduce = args.flag("overlap_grad_reduce", false);
    model.bucket_size = args.integer("ddp_bucket_size", 0);
    model.consumed_samples = args.integer("consumed_train_samples", 0);
    model.consumed_tokens = args.integer("consumed_train_tokens", -1);
    model.seed = args.integer("seed", 0);
    complete(request, c, path);
    c.resolve();
    return model;
}

}  // namespace lm::convert
