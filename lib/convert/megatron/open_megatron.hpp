// SPDX-License-Identifier: Apache-2.0
// Opens a checkpoint of Megatron-LM or Megatron-DeepSpeed in any of their formats.
#pragma once

#include "convert/megatron/megatron_import.hpp"

namespace lm::convert {

// Returns whether `path` is a step of Megatron, or a directory of its steps.
bool is_megatron_checkpoint(const std::string& path);
// Returns the sources of all tensors of request.in. `request` must outlive the sources.
MegatronImport open_megatron(const ConversionRequest& request);

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
