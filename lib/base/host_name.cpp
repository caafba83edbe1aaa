// SPDX-License-Identifier: Apache-2.0
#include "base/host_name.hpp"

#include <unistd.h>

#include <array>

namespace lm {

std::string host_name() {
    std::array<char, 256> name{};  // a name that is too long need not end with a zero
    if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
    return name.data();
}

}  // namespace lm
