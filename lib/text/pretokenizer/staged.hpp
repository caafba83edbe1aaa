// SPDX-License-Identifier: Apache-2.0
// Pretokenizers that are sequences of others, each of which cuts the pre-tokens of those before it
// as if each were a text of its own: DeepSeek's and Falcon's.
#pragma once

#include <memory>

#include "text/pretokenizer/pretokenizer.hpp"

namespace lm::text {

// Linear in any text, in constant memory.
std::unique_ptr<Pretokenizer> make_staged_pretokenizer(PretokenizerRule rule);

}  // namespace lm::text
