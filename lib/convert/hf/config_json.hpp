// SPDX-License-Identifier: Apache-2.0
// config.json and generation_config.json of the classes in classes.hpp.
#pragma once

#include <string>

#include "base/dtype.hpp"
#include "ckpt/format/manifest.hpp"
#include "convert/hf/classes.hpp"
#include "io/json.hpp"
#include "spec/model.hpp"

namespace lm::convert {

// Returns the path of the model's config.json: in the directory `model`, or in the directory of the
// weight file `model`.
std::string hf_config_path(const std::string& model);

// Return config.json and generation_config.json. Unknown ids of bos and eos are written as null.
io::Json hf_config(const HfClass& hf, const spec::ModelConfig& config, const ckpt::SpecialIds& ids,
                   DType dtype);
io::Json hf_generation_config(const ckpt::SpecialIds& ids, const ckpt::SpecialIds& config);

// Gives `ids` those of `other` that it does not state.
void add_missing(ckpt::SpecialIds& ids, const ckpt::SpecialIds& other);

struct HfModel {
    const HfClass* hf_class = nullptr;
    spec::ModelConfig config;
    ckpt::TokenizerInfo tokenizer;
};
// Parses the text of a config.json. All code that needs a value of config.json calls this function.
// Throws Error(usage) for a model that lm-utils does not support, Error(failure) for missing and
// invalid fields.
HfModel hf_model(std::string_view text, const std::string& path);
// Reads the config.json of the model `model`, and generation_config.json next to it. Throws
// Error(usage) when there is none.
HfModel read_hf_model(const std::string& model);
// Returns the class that this config.json names; nullptr: none, or one that lm-utils does not
// support.
const HfClass* hf_class_in(const std::string& config_path);

// Throws Error(answer_is_no) when config.json of the model `hf` (a directory or a file) describes a
// different forward pass than `checkpoint`. The message names the differing keys, each with both
// values. Does not compare dropout, initialization and the length of sequences. Throws the same
// error for a special id that both state, with different values.
void check_hf_config(const std::string& hf, const spec::ModelConfig& checkpoint,
                     const ckpt::TokenizerInfo& tokenizer);

}  // namespace lm::convert
