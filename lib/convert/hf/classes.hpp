// SPDX-License-Identifier: Apache-2.0
// The classes of Hugging Face's transformers that lm-utils supports. Pure functions over tables.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "convert/hf/families/hf_class.hpp"

namespace lm::convert {

// Returns all classes. If several classes can hold a model, the most common of them is first.
std::span<const HfClass* const> hf_classes();
// Returns the class with this model_type, or nullptr.
const HfClass* hf_class_of_type(std::string_view model_type);

// Returns the tensors of a model in the order of PyTorch's state_dict.
std::vector<MappedTensor> hf_tensors(const HfClass& hf, const ModelTensors& tensors);

}  // namespace lm::convert
