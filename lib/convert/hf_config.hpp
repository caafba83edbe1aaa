// SPDX-License-Identifier: Apache-2.0
// config.json and generation_config.json of the architectures of hf_architecture.hpp. The functions
// are pure: they read and write no file.
#pragma once

#include <string>

#include "base/dtype.hpp"
#include "ckpt/format/manifest.hpp"
#include "convert/hf_architecture.hpp"
#include "io/json.hpp"

namespace lm::convert {

// Return config.json and generation_config.json. `end_of_document` -1: not known, written as null.
io::Json hf_config(const HfArchitecture& architecture, const spec::ModelConfig& config,
                   i64 end_of_document, DType dtype);
io::Json hf_generation_config(i64 end_of_document);

struct HfModel {
    const HfArchitecture* architecture = nullptr;
    spec::ModelConfig config;
    ckpt::TokenizerInfo tokenizer;
};
// Parses config.json. Throws Error(usage) for a model that lm-utils does not support,
// Error(failure) for missing and invalid fields.
HfModel hf_model(const io::Json& config, const std::string& path);

}  // namespace lm::convert
