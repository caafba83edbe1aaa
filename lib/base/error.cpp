// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <cstring>

#include "base/types.hpp"

namespace lm {

void bug(const char* file, int line, std::string_view what) {
    const char* name = std::strrchr(file, '/');
    fail(Exit::bug, fmt::format("{}:{}", name ? name + 1 : file, line),
         "internal error: {}: please report it with the command line", what);
}

i64 checked_mul(i64 a, i64 b) {
    i64 product = 0;
    if (__builtin_mul_overflow(a, b, &product)) {
        usage_error("size", "{} x {} does not fit in 64 bits", a, b);
    }
    return product;
}

}  // namespace lm
