// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lm {

// What this machine calls itself; "unknown" when it does not say.
std::string host_name();

}  // namespace lm
