// SPDX-License-Identifier: Apache-2.0
#include "convert/hf/config_json.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "ckpt/format/model_json.hpp"
#include "convert/hf/fits.hpp"
#include "convert/hf/rope_json.hpp"
#include "convert/torch/pickle_globals.hpp"
#include "io/file.hpp"
#include "io/path.hpp"

namespace lm::convert {

namespace {

using spec::Activation;
using spec::ModelConfig;

// Puts the words NaN, Infinity and -Infinity in quotes. Python writes them for numbers that JSON
// does not have. No key that lm-utils reads may have such a value: a quoted one is not a number.
std::string with_quoted_words(std::string_view text) {
    constexpr std::array<std::string_view, 3> words{"NaN", "Infinity", "-Infinity"};
    std::string result;
    bool in_string = false;
    for (size_t i = 0; i < text.size();) {
        const auto word = std::ranges::find_if(
            words, [&](std::string_view w) { return text.substr(i).starts_with(w); });
        if (!in_string && word != words.end()) {
            result += fmt::format("\"{}\"", *word);
            i += word->size();
            continue;
        }
        const size_t n = in_string && text[i] == '\\' ? 2 : 1;  // an escaped quote
        if (text[i] == '"') in_string = !in_string;
        result += text.substr(i, n);
        i += n;
    }
    return result;
}

void put_special_ids(const ckpt::SpecialIds& ids, io::Json& json) {
    json["bos_token_id"] = ids.bos ? io::Json(*ids.bos) : io::Json(nullptr);
    json["eos_token_id"] = ids.eos.empty()       ? io::Json(nullptr)
                           : ids.eos.size() == 1 ? io::Json(ids.eos.front())
                                                 : io::Json(ids.eos);
    if (ids.pad) json["pad_token_id"] = *ids.pad;
}

std::string_view activation_name(const HfClass& hf, Activation activation) {
    if (value_in(hf.activations, hf.absent_activation) == activation) return hf.absent_activation;
    return name_in(hf.activations, activation);
}

Activation read_activation(const HfClass& hf, const io::Json& json, const std::string& path) {
    if (!hf.activation_key) return hf.activations.front().value;
    const auto name = io::json_get_or<std::string>(json, hf.activation_key,
                                                   std::string(hf.absent_activation), path);
    if (const auto activation = value_in(hf.activations, name)) return *activation;
    usage_error(path, "{}: expected {}, got '{}'", hf.activation_key,
                fmt::join(names_in(hf.activations), ", "), name);
}

void check_constants(const HfClass& hf, const ModelConfig& config, const io::Json& json,
                     const std::string& path) {
    for (const HfClass::Constant& constant : hf.constants) {
        const io::Json wanted = io::parse_json(constant.value, constant.key);
        const auto found = json.find(constant.key);
        const io::Json value =
            found == json.end() ? io::parse_json(constant.absent, constant.key) : io::Json(*found);
        // Python takes null for false.
        if (value == wanted || (value.is_null() && wanted == false)) continue;
        const std::string_view key = constant.key;
        if (value.is_boolean() && constant.otherwise.empty()) continue;
        // The first layer has the number 1.
        if (key == "scale_attn_by_inverse_layer_idx" && value == true && config.n_layers == 1)
            continue;
        usage_error(path,
                    "expected '{}' to be {}, got {}, {}: lm-utils does not support such models",
                    key, constant.value, value.dump(),
                    constant.otherwise.empty() ? "which is no boolean" : constant.otherwise);
    }
}

// Reads which linear layers have biases. Some classes have a key for the attention and another key
// for the MLP.
void read_flags(const HfClass& hf, const io::Json& json, ModelConfig& config,
                const std::string& path) {
    for (const HfClass::Flag& flag : hf.flags) {
        config.*flag.member = io::json_get_or<bool>(json, flag.key, flag.absent, path);
    }
    for (const HfClass::Flag& flag : hf.flags) {
        const bool value = io::json_get_or<bool>(json, flag.key, flag.absent, path);
        const bool last = config.*flag.member;
        if (value == last) continue;
        usage_error(path,
                    "expected {} and {} to be equal, got {} and {}: lm-utils does not support such "
                    "models",
                    flag.key, hf.flags.back().key, value, last);
    }
}

// Returns the layers of "layer_types" that have no window.
std::vector<bool> full_layers(const io::Json& json, i64 n_layers, const std::string& path) {
    std::vector<bool> full;
    for (const auto& type : io::json_get<std::vector<std::string>>(json, "layer_types", path)) {
        if (type != "full_attention" && type != "sliding_attention") {
            usage_error(path,
                        "layer_types: expected full_attention or sliding_attention, got '{}': "
                        "lm-utils does not support it",
                        type);
        }
        full.push_back(type == "full_attention");
    }
    if (std::ssize(full) != n_layers)
        usage_error(path, "layer_types has {} entries, but the model has {} layers", full.size(),
                    n_layers);
    return full;
}

// transformers ignores a null, and a window of all positions has no effect.
void read_window(const HfClass& hf, const io::Json& json, ModelConfig& config,
                 const std::string& path) {
    if (hf.window_switch && !io::json_get_or<bool>(json, hf.window_switch, false, path)) return;
    if (json.contains("sliding_window") && !is_set(json, "sliding_window")) return;
    config.window = io::json_get_or<i64>(json, "sliding_window", hf.absent_window, path);
    if (hf.has_window) {
        std::vector<bool>& full = config.full_layers.chosen;
        if (is_set(json, "layer_types")) {
            full = full_layers(json, config.n_layers, path);
        } else {
            for (i64 i = 0; i < config.n_layers; ++i)
                full.push_back(!hf.has_window(config, json, i));
        }
        if (hf.only_windows_rotate) config.unrotated_layers.chosen = full;
        if (std::ranges::find(full, false) == full.end()) config.window = 0;
    }
    const bool same_base = config.rotary_local_base == config.rotary_base &&
                           config.rope_scaling.rule == spec::RotaryRule::none;
    const bool marks = config.rotary_local_base > 0 && !same_base;
    if (config.window >= config.max_positions && !marks) config.window = 0;
}

// Reads the layers without rotary positions: 0 in no_rope_layers, whose default is every Nth.
void read_unrotated_layers(const io::Json& json, ModelConfig& config, const std::string& path) {
    if (!is_set(json, "no_rope_layers")) {
        config.unrotated_layers.every =
            io::json_get_or<i64>(json, "no_rope_layer_interval", 4, path);
        return;
    }
    for (const i64 rotates : io::json_get<std::vector<i64>>(json, "no_rope_layers", path)) {
        config.unrotated_layers.chosen.push_back(rotates == 0);
    }
}

// Writes the windows of the layers.
void write_windows(const HfClass& hf, const ModelConfig& config, io::Json& json) {
    // A class where only windows rotate needs one to mark the layers that do not, and some have one
    // always. A window of all positions limits nothing.
    const bool limited =
        config.window > 0 && (config.window < config.max_positions || config.rotary_local_base > 0);
    const bool marks = hf.only_windows_rotate && !config.unrotated_layers.empty();
    const i64 window = limited                       ? config.window
                       : marks || hf.window_required ? config.max_positions
                                                     : 0;
    json["sliding_window"] = window > 0 ? io::Json(window) : io::Json(nullptr);
    if (hf.window_switch) json[hf.window_switch] = limited;
    if (!hf.has_window || (window == 0 && !hf.only_windows_rotate)) return;
    const spec::LayerPattern& full = marks ? config.unrotated_layers : config.full_layers;
    for (i64 i = 0; i < config.n_layers; ++i) {
        const bool windowed = (limited || hf.only_windows_rotate) && window > 0 && !full.has(i);
        json["layer_types"].push_back(windowed ? "sliding_attention" : "full_attention");
    }
}

// config.json and generation_config.json have some kilobytes, and 100 numbers for each layer at
// most.
constexpr i64 max_config_bytes = i64{16} << 20;

io::Json parse(std::string_view text, const std::string& path) {
    return io::parse_json(with_quoted_words(text), path);
}

const HfClass& class_of(const io::Json& json, const std::string& path) {
    const auto type = io::json_get<std::string>(json, "model_type", path);
    if (const HfClass* hf = hf_class_of_type(type)) return *hf;
    std::string known;
    for (const HfClass* hf : hf_classes()) {
        known += fmt::format("{}'{}'", known.empty() ? "" : ", ", hf->model_type);
    }
    usage_error(path, "expected model_type {}, got '{}'", known, type);
}

double member_of(HfClass::Form form, double value) {
    switch (form) {
        case HfClass::Form::same:
            return value;
        case HfClass::Form::inverse:
            return 1 / value;
        case HfClass::Form::inverse_square:
            return 1 / std::sqrt(value);
    }
    __builtin_unreachable();
}

// Returns the value for which member_of() is `member`. A whole number has no error of rounding.
double key_of(HfClass::Form form, double member) {
    const double value = form == HfClass::Form::same             ? member
                         : form == HfClass::Form::inverse_square ? 1 / (member * member)
                                                                 : 1 / member;
    return member_of(form, std::round(value)) == member ? std::round(value) : value;
}

ModelConfig model_of(const HfClass& hf, const io::Json& json, const std::string& path) {
    ModelConfig c;
    c.hidden_dropout = 0;  // some classes, such as Llama, have no key for it
    c.position = hf.position;
    c.normalization = hf.normalization;
    c.embedding_norm = hf.embedding_norm;
    c.norm_1p = hf.norm_1p;
    c.norm_bias = hf.norm_bias;
    c.shared_norm = c.parallel_residual = hf.shared_norm;
    c.rotary_interleaved = hf.rotary_interleaved;
    c.norms = hf.norms;
    c.qk_norm = hf.qk_norm;
    c.joint_qk_norm = hf.joint_qk_norm;
    c.linear_bias = hf.linear_bias;
    c.qkv_bias = hf.qkv_bias;
    c.n_groups = hf.n_groups;
    for (const HfClass::Integer& key : hf.integers) {
        const char* name = key.other && is_set(json, key.other) ? key.other : key.key;
        c.*key.member = key.absent < 0 ? io::json_get<i64>(json, name, path)
                                       : io::json_get_or<i64>(json, name, key.absent, path);
    }
    for (const HfClass::Number& key : hf.numbers) {
        const double value = io::json_get_or<double>(json, key.key, key.absent, path);
        c.*key.member = member_of(key.form, value);
    }
    read_flags(hf, json, c, path);
    check_constants(hf, c, json, path);
    if (is_rotary(hf.position)) read_rope(hf, json, c, path);
    if (hf.unrotated_layers) read_unrotated_layers(json, c, path);
    if (hf.absent_window > 0) read_window(hf, json, c, path);
    if (hf.scaled_embedding) c.embedding_scale = std::sqrt(static_cast<double>(c.hidden));
    c.activation = read_activation(hf, json, path);
    c.untied_head = !io::json_get_or<bool>(json, "tie_word_embeddings", hf.absent_tied, path);
    c.seq_length = c.max_positions;
    try {
        c.resolve();
    } catch (const Error& error) {
        fail(error.code(), path, "{}", error.what());
    }
    return c;
}

// Returns the special ids that are in the vocabulary. Old configurations have -1 for none.
ckpt::SpecialIds special_ids(const io::Json& json, i64 vocab_size) {
    const auto id_of = [&](const io::Json& id) {
        const bool valid =
            id.is_number_integer() && id.get<i64>() >= 0 && id.get<i64>() < vocab_size;
        return valid ? std::optional(id.get<i64>()) : std::nullopt;
    };
    ckpt::SpecialIds ids;
    if (!json.is_object()) return ids;
    const io::Json eos = json.value("eos_token_id", io::Json());
    for (const io::Json& one : eos.is_array() ? eos : io::Json::array({eos})) {
        if (const auto id = id_of(one)) ids.eos.push_back(*id);
    }
    ids.bos = id_of(json.value("bos_token_id", io::Json()));
    ids.pad = id_of(json.value("pad_token_id", io::Json()));
    return ids;
}

// Llama 3 has a list of ids; the first one is the end-of-document token.
void set_end_of_document(ckpt::TokenizerInfo& tokenizer) {
    for (const ckpt::SpecialIds* ids : {&tokenizer.config, &tokenizer.generation_config}) {
        if (tokenizer.end_of_document < 0 && !ids->eos.empty())
            tokenizer.end_of_document = ids->eos.front();
    }
}

}  // namespace

std::string hf_config_path(const std::string& model) {
    if (io::is_directory(model)) return model + "/config.json";
    const size_t slash = model.rfind('/');
    return (slash == model.npos ? std::string() : model.substr(0, slash + 1)) + "config.json";
}

io::Json hf_config(const HfClass& hf, const ModelConfig& config, const ckpt::SpecialIds& ids,
                   DType dtype) {
    io::Json json;
    json["architectures"] = {hf.class_name};
    json["model_type"] = hf.model_type;
    for (const HfClass::Integer& key : hf.integers) json[key.key] = config.*key.member;
    for (const HfClass::Number& key : hf.numbers) {
        const bool scores = key.member == &ModelConfig::attention_scale;
        const double value = scores ? config.score_scale() : config.*key.member;
        json[key.key] = key_of(key.form, value);
        // The only key of this form, query_pre_attn_scalar, is an integer.
        if (key.form == HfClass::Form::inverse_square)
            json[key.key] = std::llround(key_of(key.form, value));
    }
    for (const HfClass::Flag& key : hf.flags) json[key.key] = config.*key.member;
    for (const HfClass::Constant& key : hf.constants)
        json[key.key] = io::parse_json(key.value, key.key);
    if (is_rotary(hf.position)) write_rope(hf, config, json);
    if (hf.absent_window > 0) write_windows(hf, config, json);
    for (i64 i = 0; hf.unrotated_layers && i < config.n_layers; ++i) {
        json["no_rope_layers"].push_back(config.unrotated_layers.has(i) ? 0 : 1);
    }
    if (hf.activation_key) json[hf.activation_key] = activation_name(hf, config.activation);
    if (hf.write_more) hf.write_more(config, json);
    json["tie_word_embeddings"] = !config.untied_head;
    json["use_cache"] = true;
    put_special_ids(ids, json);
    json["torch_dtype"] = torch_dtype(dtype);
    return json;
}

// transformers replaces a generation_config.json with _from_model_config by the values of
// config.json.
io::Json hf_generation_config(const ckpt::SpecialIds& ids, const ckpt::SpecialIds& config) {
    io::Json json = io::Json::object();
    if (ids == config) json["_from_model_config"] = true;
    put_special_ids(ids, json);
    return json;
}

void add_missing(ckpt::SpecialIds& ids, const ckpt::SpecialIds& other) {
    if (ids.eos.empty()) ids.eos = other.eos;
    if (!ids.bos) ids.bos = other.bos;
    if (!ids.pad) ids.pad = other.pad;
}

HfModel hf_model(std::string_view text, const std::string& path) {
    const io::Json json = parse(text, path);
    HfModel model;
    model.hf_class = &class_of(json, path);
    model.config = model_of(*model.hf_class, json, path);
    model.tokenizer.config = special_ids(json, model.config.vocab_size);
    set_end_of_document(model.tokenizer);
    return model;
}

HfModel read_hf_model(const std::string& model) {
    const std::string path = hf_config_path(model);
    if (!io::exists(path)) {
        usage_error(path,
                    "does not exist: copy the model's config.json, which states the number of "
                    "heads, to this path");
    }
    HfModel read = hf_model(io::read_file(path, max_config_bytes), path);
    const std::string generation = io::parent_of(path) + "/generation_config.json";
    if (io::exists(generation)) {
        read.tokenizer.generation_config = special_ids(
            parse(io::read_file(generation, max_config_bytes), generation), read.config.vocab_size);
    }
    set_end_of_document(read.tokenizer);
    return read;
}

const HfClass* hf_class_in(const std::string& config_path) {
    const io::Json json = parse(io::read_file(config_path, max_config_bytes), config_path);
    return hf_class_of_type(io::json_get_or<std::string>(json, "model_type", "", config_path));
}

namespace {

// Returns a copy of `expected` that has the values of `found` in the members that the forward pass
// does not use.
ModelConfig with_unused_members(ModelConfig expected, const ModelConfig& found) {
    const auto unused = [&](auto member) { expected.*member = found.*member; };
    unused(&ModelConfig::seq_length);
    unused(&ModelConfig::attention_dropout);
    unused(&ModelConfig::hidden_dropout);
    unused(&ModelConfig::init_std);
    const auto no_window = [](const ModelConfig& c) {
        return c.window == 0 || (c.window >= c.max_positions && c.rotary_local_base == 0);
    };
    if (no_window(expected) && no_window(found)) {
        unused(&ModelConfig::window);
        unused(&ModelConfig::full_layers);
    }
    if (!has_table(expected.position)) {
        unused(&ModelConfig::max_positions);
    }
    if (!is_rotary(expected.position)) {
        unused(&ModelConfig::rotary_base);
        unused(&ModelConfig::rotary_percent);
        unused(&ModelConfig::rotary_interleaved);
        unused(&ModelConfig::rope_scaling);
        unused(&ModelConfig::query_beta);
    }
    // Several settings give one factor of attention.
    spec::RotaryScaling& scaling = expected.rope_scaling;
    if (attention_factor(scaling) == attention_factor(found.rope_scaling)) {
        scaling.attention_factor = found.rope_scaling.attention_factor;
        scaling.mscale = found.rope_scaling.mscale;
        scaling.mscale_all_dim = found.rope_scaling.mscale_all_dim;
        if (scaling.rule == spec::RotaryRule::longrope) scaling.factor = found.rope_scaling.factor;
    }
    return expected;
}

// Returns "KEY is VALUE, expected VALUE" for each key of config.json that differs.
std::string differences(const HfModel& found, const ModelConfig& expected) {
    const io::Json theirs = hf_config(*found.hf_class, found.config, {}, DType::fp32);
    const io::Json wanted = hf_config(*found.hf_class, expected, {}, DType::fp32);
    std::string text;
    for (const auto& [key, value] : wanted.items()) {
        const io::Json other = theirs.value(key, io::Json(nullptr));
        if (other == value) continue;
        text += fmt::format("{}{} is {}, expected {}", text.empty() ? "" : "; ", key, other.dump(),
                            value.dump());
    }
    return text;
}

// The first id of eos is the end-of-document token of a training. A checkpoint that states only
// this token agrees with every list that has it.
void check_special_ids(const std::string& hf, const ckpt::TokenizerInfo& found,
                       const ckpt::TokenizerInfo& expected) {
    const auto all = [](const ckpt::TokenizerInfo& tokenizer) {
        ckpt::SpecialIds ids = tokenizer.config;
        add_missing(ids, tokenizer.generation_config);
        return ids;
    };
    const ckpt::SpecialIds theirs = all(found);
    ckpt::SpecialIds ours = all(expected);
    const i64 end = expected.end_of_document;
    if (ours.eos.empty() && end >= 0)
        ours.eos = std::ranges::count(theirs.eos, end) > 0 ? theirs.eos : std::vector{end};
    const auto check = [&](const char* key, const auto& is, const auto& wanted, bool stated) {
        if (!stated || is == wanted) return;
        fail(Exit::answer_is_no, hf_config_path(hf),
             "describes a different model than the checkpoint: {} is {}, expected {}", key,
             io::Json(is).dump(), io::Json(wanted).dump());
    };
    check("eos_token_id", theirs.eos, ours.eos, !theirs.eos.empty() && !ours.eos.empty());
    check("bos_token_id", theirs.bos.value_or(-1), ours.bos.value_or(-1), theirs.bos && ours.bos);
    check("pad_token_id", theirs.pad.value_or(-1), ours.pad.value_or(-1), theirs.pad && ours.pad);
}

HfModel read_model(const std::string& hf) {
    try {
        return read_hf_model(hf);
    } catch (const Error& error) {
        // lm-utils supports a config.json that describes `expected`. So a config.json that lm-utils
        // does not support describes another model.
        throw Error(error.code() == Exit::usage ? Exit::answer_is_no : error.code(), error.what());
    }
}

}  // namespace

void check_hf_config(const std::string& hf, const ModelConfig& checkpoint,
                     const ckpt::TokenizerInfo& tokenizer) {
    const HfModel found = read_model(hf);
    check_special_ids(hf, found.tokenizer, tokenizer);
    const ModelConfig expected = with_unused_members(checkpoint, found.config);
    if (ckpt::to_json(found.config) == ckpt::to_json(expected)) return;
    const std::string path = hf_config_path(hf);
    if (const auto unfit = inexpressible(*found.hf_class, expected)) {
        fail(Exit::answer_is_no, path,
             "model_type '{0}' cannot be this checkpoint's, which has {2} ({1}): give the "
             "config.json of the right model",
             found.hf_class->model_type, unfit->flag, unfit->has);
    }
    fail(Exit::answer_is_no, path, "{}: correct config.json", differences(found, expected));
}

}  // namespace lm::convert
