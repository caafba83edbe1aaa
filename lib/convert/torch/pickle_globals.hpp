// SPDX-License-Identifier: Apache-2.0
// The list of Python classes and functions ("globals") that the pickle of a torch file may name,
// and the element types for which some of these globals stand.
#pragma once

#include <string_view>

#include "convert/torch/pickle_value.hpp"

namespace lm::convert {

// Returns whether a checkpoint of Megatron, DeepSpeed or transformers may refer to `name` of
// `module`. Every class of megatron, deepspeed and transformer_engine may occur, because no class
// is ever imported or called.
bool is_known_global(std::string_view module, std::string_view name);

// Returns the name of fp32, bf16 or fp16 in PyTorch: "bfloat16" of torch.bfloat16, "BFloat16" of
// torch.BFloat16Storage.
std::string_view torch_dtype(DType dtype);
std::string_view torch_storage(DType dtype);

// Sets the element type of `storage` from the name of a storage type, such as
// "torch BFloat16Storage". Returns false for any other global.
bool set_storage_type(std::string_view global, PickledTensor& storage);
// Sets the element type of `storage` from the name of a dtype, such as "torch bfloat16". Returns
// false for any other global.
bool set_dtype(std::string_view global, PickledTensor& storage);

}  // namespace lm::convert
