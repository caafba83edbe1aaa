// SPDX-License-Identifier: Apache-2.0
#include "convert/hf_match.hpp"

#include "base/error.hpp"
#include "convert/hf_architecture.hpp"
#include "convert/hf_config.hpp"
#include "convert/hf_files.hpp"
#include "io/json.hpp"

namespace lm::convert {
namespace {

// Returns a copy of `expected` that has the values of `found` in the members that the forward pass
// does not use.
spec::ModelConfig with_unused_members(spec::ModelConfig expected, const spec::ModelConfig& found) {
    expected.seq_length = found.seq_length;
    expected.attention_dropout = found.attention_dropout;
    expected.hidden_dropout = found.hidden_dropout;
    expected.init_std = found.init_std;
    if (expected.position != spec::PositionEmbedding::absolute) {
        expected.max_positions = found.max_positions;
    }
    return expected;
}

// Returns "KEY is VALUE, expected VALUE" for each key that differs. Compares both configurations in
// the form of config.json, so that names with the same meaning (gelu_new, gelu_fast) are equal.
std::string differences(const HfModel& found, const spec::ModelConfig& expected) {
    const HfArchitecture& architecture = *found.architecture;
    const io::Json theirs = hf_config(architecture, found.config, -1, DType::fp32);
    const io::Json wanted =
        hf_config(architecture, with_unused_members(expected, found.config), -1, DType::fp32);
    std::string text;
    for (const auto& [key, value] : wanted.items()) {
        const io::Json other = theirs.value(key, io::Json(nullptr));
        if (other == value) continue;
        text += fmt::format("{}{} is {}, expected {}", text.empty() ? "" : "; ", key, other.dump(),
                            value.dump());
    }
    return text;
}

HfModel read_hf_model(const std::string& path) {
    try {
        return hf_model(io::read_json(path), path);
    } catch (const Error& error) {
        // lm-utils supports a config.json that describes `expected`. So a config.json that lm-utils
        // does not support describes another model.
        throw Error(error.code() == Exit::usage ? Exit::answer_is_no : error.code(), error.what());
    }
}

}  // namespace

void check_hf_config(const std::string& hf, const spec::ModelConfig& expected) {
    const std::string path = hf_config_path(hf);
    const HfModel found = read_hf_model(path);
    if (const auto unfit = misfit(*found.architecture, expected)) {
        fail(Exit::answer_is_no, path,
             "model_type '{0}' cannot be this checkpoint's, which has {2} ({1}): give the "
             "config.json of the right model",
             found.architecture->model_type, unfit->flag, unfit->has);
    }
    const std::string text = differences(found, expected);
    if (!text.empty()) fail(Exit::answer_is_no, path, "{}: correct config.json", text);
}

}  // namespace lm::convert
