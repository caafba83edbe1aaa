// SPDX-License-Identifier: Apache-2.0
// Opens a checkpoint of Megatron-LM or Megatron-DeepSpeed in any of their formats.
#pragma once

#include "convert/megatron/megatron_import.hpp"

namespace lm::convert {

// Returns whether `path` is a step of Megatron, or a directory of its steps.
bool is_megatron_checkpoint(const std::string& path);
// Returns the sources of all tensors of request.in. `request` must outlive the sources.
MegatronImport open_megatron(const ConversionRequest& request);

// Opens the tensors of a step of Megatron, or of the latest step of a directory, under the names of
// lm-utils. With `weights_only`, ignores masters and moments. Throws Error(failure) when a tensor
// has elements without a source.
std::unique_ptr<ckpt::TensorSource> open_megatron_tensors(const std::string& path,
                                                          bool weights_only);

// A step in a directory of Megatron.
struct MegatronStep {
    std::string path;
    i64 iteration = 0;
    bool latest = false;
};
// Returns the steps in `directory` (iter_NNNNNNN or global_stepN), ascending. When `directory` is
// itself a step, returns only this step.
std::vector<MegatronStep> megatron_steps(const std::string& directory);
// Returns the format of a step: "torch", "torch_dist", "deepspeed" or "universal".
std::string_view megatron_layout(const std::string& step);

}  // namespace lm::convert
