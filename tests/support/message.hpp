// SPDX-License-Identifier: Apache-2.0
// What a test knows of a message: the object that it names, its numbers, and a short word where one
// object has several errors. Only tests/e2e/wrong_inputs.tsv has whole sentences.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lm::test {

// Returns whether `message` has all parts, in this order and without overlap.
inline bool has_in_order(std::string_view message, const std::vector<std::string>& parts) {
    size_t from = 0;
    for (const std::string& part : parts) {
        from = message.find(part, from);
        if (from == message.npos) return false;
        from += part.size();
    }
    return true;
}

}  // namespace lm::test
