// SPDX-License-Identifier: Apache-2.0
// The element types of safetensors files by name, those that we do not compute with included.
#pragma once

#include <string_view>

namespace lm::ckpt {

int safetensors_bits(std::string_view dtype);  // per element; 0: no such type
int safetensors_rank(std::string_view dtype);  // place in the order of the reference; -1: none

}  // namespace lm::ckpt
