// SPDX-License-Identifier: Apache-2.0
#include "base/named.hpp"

#include "base/error.hpp"

namespace lm {

void throw_no_name_for(int value) {
    bug(__FILE__, __LINE__, "expected a value of the table of names, got {}", value);
}

}  // namespace lm
