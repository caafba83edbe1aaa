// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint of Megatron under the names of lm-utils, read from the checkpoint's
// files.
#pragma once

#include <memory>
#include <string>

#include "ckpt/format/tensor_source.hpp"

namespace lm::convert {

// Opens a step of Megatron, or the latest step of a directory. With `weights_only`, ignores masters
// and moments. Throws Error(failure) when a tensor has elements without a source.
std::unique_ptr<ckpt::TensorSource> open_megatron_tensors(const std::string& path,
                                                          bool weights_only);

}  // namespace lm::convert
