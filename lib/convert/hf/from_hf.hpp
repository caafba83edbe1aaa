// SPDX-License-Identifier: Apache-2.0
// Reads a Hugging Face model and writes a checkpoint of lm-utils.
#pragma once

#include "convert/conversion.hpp"
#include "convert/native_import.hpp"

namespace lm::convert {

// A model of Hugging Face, with a source for every tensor.
struct OpenedHf {
    ckpt::TokenizerInfo tokenizer;
    NativeImport import;
    i64 n_tensors = 0;
};
// Reads config.json and the headers of the weight files of the model `path`. Throws Error(failure)
// that names a missing or unknown tensor.
OpenedHf open_hf(const std::string& path);

struct HfSource {
    std::unique_ptr<ckpt::TensorSource> tensors;
    ckpt::TokenizerInfo tokenizer;
};
// Opens the tensors of the model `path`: a directory, or a .safetensors or .bin file next to its
// config.json. Throws the errors of open_hf().
HfSource open_hf_source(const std::string& path);

// Converts request.in (directory, or one weight file next to its config.json) to the directory
// request.out, which appears whole or not at all. The checkpoint has weights only, as step 0.
// Throws Error(usage) for a model that lm-utils does not support, Error(failure) that names a
// tensor that is missing, unknown or of another shape.
ConversionReport from_hf(const ConversionRequest& request);

}  // namespace lm::convert
