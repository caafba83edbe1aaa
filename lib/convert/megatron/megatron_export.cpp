// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/megatron_export.hpp"

#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "convert/megatron/megatron_args.hpp"
#include "convert/torch/pickle_globals.hpp"
#include "io/json.hpp"

namespace lm::convert {

ExportedOptimizer exported_optimizer(const ckpt::Manifest& manifest, const std::string& path) {
    const io::Json state = io::parse_json(manifest.state, path);
    const io::Json none = io::Json::object();
    const io::Json& run = state.contains("schedule") ? state.at("schedule") : none;
    const auto number = [&](const io::Json& object, const char* key, double absent) {
        const auto it = object.find(key);
        return it != object.end() && it->is_number() ? it->get<double>() : absent;
    };
    const auto text = [&](const char* key) {
        const auto it = run.find(key);
        return it != run.end() && it->is_string() ? it->get<std::string>() : "constant";
    };
    ExportedOptimizer result;
    spec::AdamWConfig& adam = result.adam;
    adam.beta1 = number(run, "adam_beta1", adam.beta1);
    adam.beta2 = number(run, "adam_beta2", adam.beta2);
    adam.eps = number(run, "adam_eps", adam.eps);
    adam.weight_decay = number(run, "weight_decay", adam.weight_decay);
    const double decay = number(run, "weight_decay", 0);
    result.schedule = {.lr = number(run, "lr", 0),
                       .min_lr = number(run, "min_lr", 0),
                       .warmup_samples = number(run, "lr_warmup_samples", 0),
                       .decay_samples = number(run, "lr_decay_samples", 0),
                       .train_samples = number(run, "train_samples", 0),
                       .decay_style = text("lr_decay_style"),
                       .start_weight_decay = number(run, "start_weight_decay", decay),
                       .end_weight_decay = number(run, "end_weight_decay", decay),
                       .weight_decay_style = text("weight_decay_incr_style")};
    const auto scale = state.find("loss_scale");
    if (scale == state.end() || !scale->is_object()) return result;
    ExportedLossScale& out = result.loss_scale.emplace();
    const auto whole = [&](const io::Json& object, const char* key, i64 absent) {
        return static_cast<i64>(number(object, key, static_cast<double>(absent)));
    };
    out.scale = number(*scale, "scale", 1);
    out.steps_since_overflow = whole(*scale, "steps_since_overflow", 0);
    out.config.min = number(run, "min_loss_scale", out.config.min);
    out.config.window = whole(run, "loss_scale_window", out.config.window);
    out.config.hysteresis = whole(run, "hysteresis", out.config.hysteresis);
    out.hysteresis_left = whole(*scale, "hysteresis_left", out.config.hysteresis);
    return result;
}

void write_hyperparameters(PickleWriter& pickle, const ExportedOptimizer& optimizer, bool decays) {
    const spec::AdamWConfig& adam = optimizer.adam;
    pickle.key("lr").real(optimizer.schedule.lr);
    pickle.key("betas").open_tuple();
    pickle.real(adam.beta1);
    pickle.real(adam.beta2);
    pickle.close_tuple();
    pickle.key("eps").real(adam.eps);
    pickle.key("weight_decay").real(decays ? adam.weight_decay : 0);
    pickle.key("bias_correction").boolean(true);
}

void write_partition_counts(PickleWriter& pickle) {
    for (const auto& [key, value] : {std::pair{"partition_count", 1}, {"group_paddings", 0}}) {
        pickle.key(key).open_list();
        for (int group = 0; group < 2; ++group) pickle.integer(value);
        pickle.close_list();
    }
    // DeepSpeed refuses optimizer states of versions before 0.3.17, because these had another
    // layout.
    pickle.key("ds_version").text("0.3.17");
}

void write_base_groups(PickleWriter& pickle, const ExportedOptimizer& optimizer) {
    pickle.key("param_groups").open_list();
    for (i64 group = 0; group < 2; ++group) {
        pickle.open_dict();
        write_hyperparameters(pickle, optimizer, group == 0);
        pickle.key("params").open_list();
        pickle.integer(group);
        pickle.close_list();
        pickle.close_dict();
    }
    pickle.close_list();
}

// Writes a DynamicLossScaler of fp16/loss_scaler.py. The number of steps since the last overflow is
// cur_iter - 1 - last_overflow_iter.
void write_loss_scaler(PickleWriter& pickle, const ExportedLossScale& scale) {
    pickle.key("dynamic_loss_scale").boolean(true);
    pickle.key("overflow").boolean(false);
    pickle.key("loss_scaler")
        .open_object("deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler");
    pickle.key("cur_scale").real(scale.scale);
    pickle.key("cur_iter").integer(scale.steps_since_overflow);
    pickle.key("last_overflow_iter").integer(-1);
    pickle.key("scale_factor").real(2);
    pickle.key("scale_window").integer(scale.config.window);
    pickle.key("min_scale").real(scale.config.min);
    pickle.key("delayed_shift").integer(scale.config.hysteresis);
    pickle.key("cur_hysteresis").integer(scale.hysteresis_left);
    pickle.key("consecutive_hysteresis").boolean(false);
    pickle.key("raise_error_at_min_scale").boolean(true);
    pickle.key("dynamic").boolean(true);
    pickle.key("dtype").type(DType::fp16);
    pickle.close_object();
}

namespace {

constexpr i64 gpt2_vocab_size = 50257;

struct Row {
    const char* theirs;
    const char* own;
};
constexpr std::array classic_rows{
    Row{"input_layernorm", "attention.norm"},
    Row{"self_attention.query_key_value", "attention.qkv"},
    Row{"self_attention.q_layernorm", "attention.query_norm"},
    Row{"self_attention.k_layernorm", "attention.key_norm"},
    Row{"self_attention.dense", "attention.output"},
    Row{"post_attention_layernorm", "mlp.norm"},
    Row{"mlp.dense_h_to_4h", "mlp.up"},
    Row{"mlp.dense_4h_to_h", "mlp.down"},
};
// The orders in which megatron-core creates its modules, with its own layers and with
// TransformerEngine's. The optimizer of megatron-core numbers the parameters in this order. The
// attention creates linear_proj before linear_qkv (SelfAttention of transformer/attention.py).
constexpr std::array local_rows{
    Row{"input_layernorm", "attention.norm"},
    Row{"self_attention.linear_proj", "attention.output"},
    Row{"self_attention.linear_qkv", "attention.qkv"},
    Row{"self_attention.q_layernorm", "attention.query_norm"},
    Row{"self_attention.k_layernorm", "attention.key_norm"},
    Row{"pre_mlp_layernorm", "mlp.norm"},
    Row{"mlp.linear_fc1", "mlp.up"},
    Row{"mlp.linear_fc2", "mlp.down"},
};
// TransformerEngine fuses a norm with the projection after it.
constexpr std::array transformer_engine_rows{
    Row{"self_attention.linear_proj", "attention.output"},
    Row{"self_attention.linear_qkv.layer_norm_", "attention.norm"},
    Row{"self_attention.linear_qkv", "attention.qkv"},
    Row{"self_attention.q_layernorm", "attention.query_norm"},
    Row{"self_attention.k_layernorm", "attention.key_norm"},
    Row{"mlp.linear_fc1.layer_norm_", "mlp.norm"},
    Row{"mlp.linear_fc1", "mlp.up"},
    Row{"mlp.linear_fc2", "mlp.down"},
};

std::span<const Row> layer_rows(MegatronNames names) {
    switch (names) {
        case MegatronNames::transformer_engine:
            return transformer_engine_rows;
        case MegatronNames::local:
            return local_rows;
        case MegatronNames::classic:
            return classic_rows;
    }
    return {};
}

// Returns the name of a parameter of a module, "mlp.linear_fc1" + ".bias"; for a fused norm
// "mlp.linear_fc1.layer_norm_" + "bias".
std::string parameter(std::string_view module, std::string_view suffix) {
    if (module.ends_with('_')) suffix.remove_prefix(1);
    return std::string(module) + std::string(suffix);
}

constexpr std::array embedding_rows{
    Row{"word_embeddings", "embedding.word"},
    Row{"word_embeddings.norm", "embedding.norm"},
    Row{"position_embeddings", "embedding.position"},
};
constexpr std::array suffixes{".weight", ".bias"};

std::string_view position_name(spec::PositionEmbedding position,
                               const spec::RotaryScaling& scaling) {
    switch (position) {
        case spec::PositionEmbedding::absolute:
            return "learned_absolute";
        case spec::PositionEmbedding::alibi:
        case spec::PositionEmbedding::none:
            return name_of(position);
        case spec::PositionEmbedding::rope:
            return scaling.rule == spec::RotaryRule::yarn ? "yarn" : name_of(position);
    }
    __builtin_unreachable();
}

// Refuses rotary positions that Megatron does not have.
void check_rotary(const spec::ModelConfig& config) {
    using spec::RotaryRule;
    const spec::RotaryScaling& scaling = config.rope_scaling;
    const auto refuse = [](std::string_view flag, std::string_view has) {
        usage_error(flag,
                    "the model has {}, which Megatron does not have: use a format of Hugging "
                    "Face",
                    has);
    };
    if (!is_rotary(config.position)) return;
    if (config.rotary_local_base > 0)
        refuse("--rope-local-base-freq", "rotary frequencies of their own in layers with a window");
    if (config.query_beta > 0)
        refuse("--llama-4-scaling-beta", "queries scaled by their positions");
    const spec::RotaryScaling usual = spec::usual_scaling(RotaryRule::llama3);
    switch (scaling.rule) {
        case RotaryRule::none:
            break;
        case RotaryRule::linear:
            if (scaling.factor != std::floor(scaling.factor))
                refuse("--rotary-seq-len-interpolation-factor", "a factor that is not whole");
            break;
        case RotaryRule::llama3:
            if (scaling.low_freq_factor != usual.low_freq_factor ||
                scaling.high_freq_factor != usual.high_freq_factor ||
                scaling.original_length != usual.original_length)
                refuse("--use-rope-scaling", "other constants than those of Llama 3.1");
            break;
        case RotaryRule::yarn:
            if (config.rotary_percent != 1 || config.rotary_interleaved)
                refuse("--rotary-percent", "yarn in a part of each head, or in adjacent pairs");
            if (scaling.factor == 1 && attention_factor(scaling) != 1)
                refuse("--rope-attention-factor", "yarn with a factor of 1 that scales attention");
            break;
        case RotaryRule::longrope:
            refuse("the scaling of rotary frequencies", "longrope");
    }
}

// Returns what megatron-core does not have of the model; nullptr: it has all.
const char* missing_in_core(const spec::ModelConfig& config) {
    switch (config.position) {
        case spec::PositionEmbedding::alibi:
            return "ALiBi";
        case spec::PositionEmbedding::absolute:
        case spec::PositionEmbedding::rope:
        case spec::PositionEmbedding::none:
            break;
    }
    return config.embedding_norm ? "a norm after the embedding" : nullptr;
}

}  // namespace

MegatronNames megatron_names_of(const spec::ModelConfig& config,
                                std::optional<MegatronNames> wanted) {
    const char* const missing = missing_in_core(config);
    if (missing == nullptr) return wanted.value_or(MegatronNames::transformer_engine);
    if (wanted && *wanted != MegatronNames::classic) {
        usage_error("--transformer-impl", "megatron-core does not have {}: use classic", missing);
    }
    return MegatronNames::classic;
}

MegatronLayout::MegatronLayout(const spec::ModelConfig& config, i64 tp, i64 pp, i64 vocab_multiple,
                               MegatronNames names)
    : model_(config), tp_(tp), pp_(pp), vocab_multiple_(vocab_multiple), names_(names) {
    if (config.parallel_residual) {
        usage_error("--use-parallel-residual",
                    "the model has a parallel residual, which Megatron does not have: use --to "
                    "hf-gpt-neox");
    }
    if (config.norms != spec::NormPlacement::pre) {
        usage_error("--norm-placement",
                    "the model has {} norms, for which Megatron has no flag: use --to hf",
                    name_of(config.norms));
    }
    if (!config.norm_bias) {
        usage_error("--no-norm-bias",
                    "the model's LayerNorm has no bias, but Megatron's has: use --to hf");
    }
    if (config.joint_qk_norm) {
        usage_error("--qk-layernorm-all-heads",
                    "the model has one norm over all heads, which Megatron does not have: use "
                    "--to hf");
    }
    if (config.embedding_scale != 1 || config.attention_scale != 0 || config.residual_scale != 1 ||
        config.logit_scale != 1) {
        usage_error(
            "--embedding-multiplier, --attention-multiplier, --residual-multiplier, "
            "--logit-scale",
            "the model has one of these multipliers, which Megatron does not have: use "
            "--to hf-granite");
    }
    check_rotary(config);
    if (vocab_multiple < 1) {
        usage_error("--make-vocab-size-divisible-by", "must be positive, got {}", vocab_multiple);
    }
    if (tp < 1 || tp > 99)
        usage_error("--tensor-model-parallel-size", "must be from 1 to 99, got {}", tp);
    if (pp < 1 || config.n_layers % pp != 0) {
        usage_error("--pipeline-model-parallel-size", "{} does not divide {} layers", pp,
                    config.n_layers);
    }
    const i64 multiple = checked_mul(vocab_multiple_, tp);
    padded_vocab_ = (config.vocab_size + multiple - 1) / multiple * multiple;
}

void MegatronLayout::add(std::vector<MegatronTensor>& all, MegatronTensor tensor,
                         const std::string& own, i64 tp_rank) const {
    auto map = megatron_part(model_, own, {tp_rank, tp_, QkvOrder::groups, padded_vocab_});
    if (!map) return;
    tensor.map = std::move(*map);
    all.push_back(std::move(tensor));
}

void MegatronLayout::add_layer(std::vector<MegatronTensor>& all, i64 layer, i64 local,
                               i64 tp_rank) const {
    const bool gated = is_gated(model_.config().layer(layer).activation);
    for (const Row& row : layer_rows(names_)) {
        const bool up = gated && std::string_view(row.own) == "mlp.up";
        for (const char* suffix : suffixes) {
            add(all, {MegatronSection::layer, layer, local, parameter(row.theirs, suffix), {}},
                fmt::format("layers.{}.{}{}", layer, up ? "mlp.gate_up" : row.own, suffix),
                tp_rank);
        }
    }
}

std::vector<MegatronTensor> MegatronLayout::tensors(i64 tp_rank, i64 stage) const {
    std::vector<MegatronTensor> all;
    const auto outer = [&](MegatronSection section, const std::string& name,
                           const std::string& own) {
        add(all, {section, 0, 0, name, {}}, own, tp_rank);
    };
    const bool copies = pp_ > 1 && stage == pp_ - 1 && !model_.config().untied_head;
    if (stage == 0 || (copies && whole_tied_module_)) {
        for (const Row& row : embedding_rows) {
            for (const char* suffix : suffixes) {
                outer(stage == 0 ? MegatronSection::embedding : MegatronSection::tied_copy,
                      std::string(row.theirs) + suffix, std::string(row.own) + suffix);
            }
        }
    }
    const i64 in_stage = model_.config().n_layers / pp_;
    for (i64 local = 0; local < in_stage; ++local) {
        add_layer(all, stage * in_stage + local, local, tp_rank);
    }
    if (stage < pp_ - 1) return all;
    outer(MegatronSection::norm, "weight", "final_norm.weight");
    outer(MegatronSection::norm, "bias", "final_norm.bias");
    outer(MegatronSection::head, "weight", "head.weight");
    if (copies && !whole_tied_module_) {
        outer(MegatronSection::tied_copy, "weight", "embedding.word.weight");
    }
    return all;
}

i64 MegatronLayout::n_bytes(DType weights, i64 n_states) const {
    const i64 per_element = size_of(weights) + n_states * size_of(DType::fp32);
    i64 n = 0;
    for (i64 stage = 0; stage < pp_; ++stage) {
        for (i64 rank = 0; rank < tp_; ++rank) {
            for (const MegatronTensor& tensor : tensors(rank, stage)) n += tensor.map.numel();
        }
    }
    return n * per_element;
}

namespace {

// Writes the arguments that choose the activation, but for those of its own flag.
void write_activation(PickleWriter& pickle, spec::Activation activation) {
    bool swiglu = false, tanh = false;
    std::string_view gate;
    switch (activation) {
        case spec::Activation::swiglu:
            swiglu = true;
            break;
        case spec::Activation::geglu:
        case spec::Activation::geglu_tanh:
            gate = name_of(activation);
            break;
        case spec::Activation::gelu_tanh:
            tanh = true;
            break;
        case spec::Activation::gelu_erf:      // Megatron's default without fusion
        case spec::Activation::squared_relu:  // write_variants() has its flag
        case spec::Activation::none:
            break;
    }
    pickle.key("swiglu").boolean(swiglu);
    if (!gate.empty()) pickle.key("glu_activation").text(gate);
    pickle.key("bias_gelu_fusion").boolean(tanh);
}

// Writes the layers as a number or a list; `marks`: the entry of a chosen layer.
void write_layers(PickleWriter& pickle, const char* name, const spec::LayerPattern& pattern,
                  bool marks) {
    if (pattern.empty()) return;
    if (pattern.every > 0) {
        pickle.key(name).integer(pattern.every);
        return;
    }
    pickle.key(name).open_list();
    for (const bool chosen : pattern.chosen) pickle.integer(chosen == marks ? 1 : 0);
    pickle.close_list();
}

void write_scaling(PickleWriter& pickle, const spec::RotaryScaling& scaling) {
    using spec::RotaryRule;
    switch (scaling.rule) {
        case RotaryRule::none:
        case RotaryRule::longrope:  // check_rotary() has refused it
            break;
        case RotaryRule::linear:
            pickle.key("rotary_seq_len_interpolation_factor")
                .integer(static_cast<i64>(scaling.factor));
            break;
        case RotaryRule::llama3:
            pickle.key("use_rope_scaling").boolean(true);
            pickle.key("rope_scaling_factor").real(scaling.factor);
            break;
        case RotaryRule::yarn: {
            // Megatron has no flag for a given factor of attention: the mscale that gives it.
            const bool given = scaling.attention_factor > 0 && scaling.factor > 1;
            const double mscale =
                given ? (scaling.attention_factor - 1) / (0.1 * std::log(scaling.factor))
                      : scaling.mscale;
            pickle.key("rotary_scaling_factor").real(scaling.factor);
            pickle.key("yarn_original_max_position_embeddings").integer(scaling.original_length);
            pickle.key("yarn_beta_fast").real(scaling.beta_fast);
            pickle.key("yarn_beta_slow").real(scaling.beta_slow);
            pickle.key("mscale").real(mscale);
            pickle.key("mscale_all_dim").real(given ? 0.0 : scaling.mscale_all_dim);
            pickle.key("yarn_correction_range_round_to_int").boolean(scaling.truncate);
            break;
        }
    }
}

// Writes arguments only for the settings that the model uses. Megatron uses its defaults for
// missing arguments.
void write_variants(PickleWriter& pickle, const spec::ModelConfig& c,
                    const spec::LayerConfig& layer) {
    const auto flag = [&](const char* name, bool value) {
        if (!value || *name == '\0') return;
        pickle.key(name).boolean(true);
    };
    if (!is_gated(layer.activation)) flag(argument_of(layer.activation).c_str(), true);
    flag("rotary_interleaved", c.rotary_interleaved);
    flag("apply_layernorm_1p", c.norm_1p);
    flag("qk_layernorm", c.qk_norm);
    flag("add_qkv_bias", c.qkv_bias);
    write_scaling(pickle, c.rope_scaling);
    write_layers(pickle, "window_attn_skip_freq", c.full_layers, false);
    write_layers(pickle, "no_rope_freq", c.unrotated_layers, true);
    if (c.window == 0) return;
    pickle.key("window_size").open_list();
    pickle.integer(c.window - 1);
    pickle.integer(0);
    pickle.close_list();
}

}  // namespace

void MegatronLayout::write_args(PickleWriter& pickle, const ckpt::Manifest& manifest,
                                DType weights) const {
    const spec::ModelConfig& c = model_.config();
    // Names all properties of a layer, so that a new one does not compile until it is written or
    // refused. write_variants() has windows, scaling and the layers that differ in window and
    // position; the constructor refuses a parallel residual and other places of the norms.
    const spec::LayerConfig layer = c.layer(0);
    const auto& [n_groups, position, rotary, window, activation, parallel_residual, shared_norm,
                 norms] = layer;
    pickle.open_namespace();
    pickle.key("num_layers").integer(c.n_layers);
    pickle.key("hidden_size").integer(c.hidden);
    pickle.key("ffn_hidden_size").integer(c.ffn_hidden);
    pickle.key("num_attention_heads").integer(c.n_heads);
    pickle.key("kv_channels").integer(c.head_dim);
    pickle.key("group_query_attention").boolean(n_groups != c.n_heads);
    pickle.key("num_query_groups").integer(n_groups);
    pickle.key("seq_length").integer(c.seq_length);
    pickle.key("max_position_embeddings").integer(c.max_positions);
    pickle.key("padded_vocab_size").integer(padded_vocab_);
    pickle.key("vocab_size").integer(c.vocab_size);
    pickle.key("make_vocab_size_divisible_by").integer(vocab_multiple_);
    if (c.vocab_size == gpt2_vocab_size) pickle.key("tokenizer_type").text("GPT2BPETokenizer");
    if (names_ != MegatronNames::classic) pickle.key("transformer_impl").text(name_of(names_));
    pickle.key("ckpt_format").text("torch");
    pickle.key("add_position_embedding").boolean(true);
    pickle.key("position_embedding_type").text(position_name(c.position, c.rope_scaling));
    pickle.key("normalization").text(name_of(c.normalization));
    write_activation(pickle, activation);
    pickle.key("openai_gelu").boolean(false);
    pickle.key("embed_layernorm").boolean(c.embedding_norm);
    pickle.key("untie_embeddings_and_output_weights").boolean(c.untied_head);
    pickle.key("add_bias_linear").boolean(c.linear_bias);
    pickle.key("layernorm_epsilon").real(c.norm_eps);
    pickle.key("norm_epsilon").real(c.norm_eps);
    pickle.key("rotary_base").real(c.rotary_base);
    pickle.key("rotary_percent").real(c.rotary_percent);
    write_variants(pickle, c, layer);
    pickle.key("attention_dropout").real(c.attention_dropout);
    pickle.key("hidden_dropout").real(c.hidden_dropout);
    pickle.key("init_method_std").real(c.init_std);
    pickle.key("bf16").boolean(weights == DType::bf16);
    pickle.key("fp16").boolean(weights == DType::fp16);
    pickle.key("params_dtype").text(fmt::format("torch.{}", torch_dtype(weights)));
    pickle.key("tensor_model_parallel_size").integer(tp_);
    pickle.key("pipeline_model_parallel_size").integer(pp_);
    pickle.key("iteration").integer(manifest.counters.iteration);
    pickle.key("consumed_train_samples").integer(manifest.counters.consumed_samples);
    pickle.key("consumed_train_tokens").integer(manifest.counters.consumed_tokens);
    pickle.key("consumed_valid_samples").integer(0);
    pickle.key("seed").integer(manifest.seed);
    pickle.close_namespace();
}

void MegatronFile::tensor(const MappedTensor& map, ckpt::SliceKind kind, DType dtype) {
    pickle_.tensor(dtype, map.shape());
    sources_.push_back({map, kind, dtype});
}

void MegatronFile::flat(const std::vector<const MappedTensor*>& maps, ckpt::SliceKind kind) {
    i64 n = 0;
    for (const MappedTensor* map : maps) {
        n += map->numel();
        sources_.push_back({*map, kind, DType::fp32});
    }
    pickle_.tensor(DType::fp32, {n});
}

void MegatronFile::last_scalar(double value) {
    pickle_.tensor(DType::fp32, {1});
    scalars_.push_back(static_cast<float>(value));
}

void MegatronFile::write(const std::string& path) {
    TorchWriter writer = TorchWriter::create(path, std::move(pickle_));
    write_tensors(checkpoint_, sources_, [&](std::span<const std::byte> bytes) {
        writer.append(bytes);
        report_.n_bytes += static_cast<i64>(bytes.size());
        if (request_.progress) request_.progress(report_.n_bytes, n_total_);
    });
    if (!scalars_.empty()) writer.append(std::as_bytes(std::span(scalars_)));
    report_.n_tensors += std::ssize(sources_);
    writer.commit();
}

void write_slice_mapping(PickleWriter& pickle, const std::vector<const MegatronTensor*>& group,
                         const std::function<std::string(const MegatronTensor&)>& name) {
    i64 start = 0;
    pickle.open_dict();
    for (const MegatronTensor* tensor : group) {
        const i64 n = tensor->map.numel();
        pickle.key(name(*tensor))
            .open_object("deepspeed.utils.tensor_fragment", "fragment_address");
        pickle.key("numel").integer(n);
        pickle.key("start").integer(std::exchange(start, start + n));
        pickle.close_object();
    }
    pickle.close_dict();
}

// DeepSpeed refuses patterns that no parameter matches.
void write_universal_info(PickleWriter& pickle, const spec::ModelConfig& config) {
    using Patterns = std::vector<const char*>;
    Patterns vocabulary{R"(tied_modules\.embed\.word_embeddings\.weight$)"};
    Patterns every_stage = vocabulary;
    Patterns every_rank{R"(\d+\.(input|post_attention)_layernorm\.)", R"(\d+\.(weight|bias)$)"};
    if (config.qk_norm) every_rank.push_back(R"(\d+\.self_attention\.[qk]_layernorm\.)");
    if (config.untied_head) vocabulary.push_back(R"(\d+\.lm_head\.weight$)");
    if (config.linear_bias) {
        every_rank.push_back(R"(\d+\.(self_attention\.dense|mlp\.dense_4h_to_h)\.bias$)");
    }
    for (const auto& [has, pattern] :
         {std::pair{has_table(config.position),
                    R"(tied_modules\.embed\.position_embeddings\.weight$)"},
          {config.embedding_norm, R"(tied_modules\.embed\.word_embeddings\.norm\.)"}}) {
        if (!has) continue;
        every_stage.push_back(pattern);
        every_rank.push_back(pattern);
    }
    Patterns halves;
    if (is_gated(config.activation)) halves.push_back(R"(\d+\.mlp\.dense_h_to_4h\.weight$)");
    pickle.key("universal_checkpoint_info").open_dict();
    pickle.key("universal_checkpoint_version").real(0.2);
    pickle.key("original_vocab_size").integer(config.vocab_size);
    const auto list = [&](const char* key, const Patterns& patterns) {
        pickle.key(key).open_list();
        for (const char* pattern : patterns) pickle.text(pattern);
        pickle.close_list();
    };
    list("vocabulary_parameter_patterns", vocabulary);
    list("pipeline_replicated_parameter_patterns", every_stage);
    list("tp_replicated_parameter_patterns", every_rank);
    list("parameter_to_average_patterns", {});
    list("parameter_with_row_parallelism_patterns",
         {R"(\d+\.mlp\.dense_4h_to_h\.weight$)", R"(\d+\.self_attention\.dense\.weight$)"});
    list("parameter_with_2_sub_params_cat_dim_0", halves);
    pickle.close_dict();
}

}  // namespace lm::convert
