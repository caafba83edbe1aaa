// SPDX-License-Identifier: Apache-2.0
// The tensors of a Hugging Face model under the names of lm-utils, read from the model's files.
#pragma once

#include <memory>
#include <string>

#include "ckpt/format/tensor_source.hpp"

namespace lm::convert {

struct HfSource {
    std::unique_ptr<ckpt::TensorSource> tensors;
    ckpt::TokenizerInfo tokenizer;
};

// Opens the model `path`: a directory, or a .safetensors or .bin file next to its config.json.
// Throws the errors of open_hf().
HfSource open_hf_source(const std::string& path);

}  // namespace lm::convert
