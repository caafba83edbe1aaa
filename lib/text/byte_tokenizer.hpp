// SPDX-License-Identifier: Apache-2.0
// The tokenizer without files: one id per byte.
#pragma once

#include <memory>

#include "text/tokenizer.hpp"

namespace lm::text {

// Every byte is its own id; 256 is the end of document.
std::shared_ptr<const Tokenizer> make_byte_tokenizer();

}  // namespace lm::text
