// SPDX-License-Identifier: Apache-2.0
// A checkpoint of Megatron-LM or Megatron-DeepSpeed of any format.
#pragma once

#include "convert/megatron/megatron_import.hpp"

namespace lm::convert {

// Returns whether `path` is a step of Megatron, or a directory of its steps.
bool is_megatron_checkpoint(const std::string& path);
// Returns the sources of all tensors of request.in. `request` outlives them.
MegatronImport open_megatron(const ConversionRequest& request);

// A step in a directory of Megatron.
struct MegatronStep {
    std::string path;
    i64 iteration = 0;
    bool latest = false;
};
// Returns the steps in `directory` (iter_NNNNNNN or global_stepN), ascending; `directory` itself
// when it is a step.
std::vector<MegatronStep> megatron_steps(const std::string& directory);
// Returns "torch", "torch_dist", "deepspeed" or "universal".
std::string_view megatron_layout(const std::string& step);

}  // namespace lm::convert
