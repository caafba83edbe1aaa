// SPDX-License-Identifier: Apache-2.0
// The globals that a torch file may refer to, and the calls that have a meaning as data.
#pragma once

#include <string_view>

#include "convert/torch/pickle_value.hpp"

namespace lm::convert {

// Returns whether a checkpoint of Megatron, DeepSpeed or transformers refers to `name` of `module`.
// Classes of megatron and deepspeed all count: they stay inert.
bool is_known_global(std::string_view module, std::string_view name);

// Completes `storage` from the name of a storage type, such as "torch BFloat16Storage". Returns
// false for another global.
bool set_storage_type(std::string_view global, PickledTensor& storage);
// The same for a dtype, such as "torch bfloat16".
bool set_dtype(std::string_view global, PickledTensor& storage);

}  // namespace lm::convert
