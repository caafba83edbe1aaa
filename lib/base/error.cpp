// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <cstring>

namespace lm {

void bug(const char* file, int line, std::string_view what) {
    const char* name = std::strrchr(file, '/');
    fail(Exit::bug, fmt::format("{}:{}", name ? name + 1 : file, line),
         "internal error: {}: please report it with the command line", what);
}

}  // namespace lm
