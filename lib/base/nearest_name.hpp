// SPDX-License-Identifier: Apache-2.0
// Suggests a known name in the message about an unknown one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lm {

// Returns the known name that is most similar to `name`, or "" when none is similar.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

// Throws the Error(usage) for a value of `option` that is not one of `choices`. The message names
// the nearest choice. The nearest choice of a PyTorch data type is the same type: fp32 of float32.
[[noreturn]] void refuse_value(std::string_view option, std::string_view value,
                               const std::vector<std::string>& choices);

}  // namespace lm
