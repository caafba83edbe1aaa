// SPDX-License-Identifier: Apache-2.0
#include "convert/hf/config_match.hpp"

#include "base/error.hpp"
#include "ckpt/format/model_json.hpp"
#include "convert/hf/config_json.hpp"
#include "convert/hf/fits.hpp"

namespace lm::convert {
namespace {

using spec::ModelConfig;

// Returns a copy of `expected` that has the values of `found` in the members that the forward pass
// does not use.
ModelConfig with_unused_members(ModelConfig expected, const ModelConfig& found) {
    const auto unused = [&](auto member) { expected.*member = found.*member; };
    unused(&ModelConfig::seq_length);
    unused(&ModelConfig::attention_dropout);
    unused(&ModelConfig::hidden_dropout);
    unused(&ModelConfig::init_std);
    const auto no_window = [](const ModelConfig& c) {
        return c.window == 0 || c.window >= c.max_positions;
    };
    if (no_window(expected) && no_window(found)) unused(&ModelConfig::window);
    if (!has_table(expected.position)) {
        unused(&ModelConfig::max_positions);
    }
    if (!is_rotary(expected.position)) {
        unused(&ModelConfig::rotary_base);
        unused(&ModelConfig::rotary_percent);
        unused(&ModelConfig::rotary_interleaved);
        unused(&ModelConfig::rope_scaling);
    }
    return expected;
}

// Returns "KEY is VALUE, expected VALUE" for each key of config.json that differs.
std::string differences(const HfModel& found, const ModelConfig& expected) {
    const io::Json theirs = hf_config(*found.hf_class, found.config, -1, DType::fp32);
    const io::Json wanted = hf_config(*found.hf_class, expected, -1, DType::fp32);
    std::string text;
    for (const auto& [key, value] : wanted.items()) {
        const io::Json other = theirs.value(key, io::Json(nullptr));
        if (other == value) continue;
        text += fmt::format("{}{} is {}, expected {}", text.empty() ? "" : "; ", key, other.dump(),
                            value.dump());
    }
    return text;
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

void check_hf_config(const std::string& hf, const ModelConfig& checkpoint) {
    const HfModel found = read_model(hf);
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
