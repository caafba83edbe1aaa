// SPDX-License-Identifier: Apache-2.0
// The tokenizer without files. Each byte is an id.
#pragma once

#include <memory>

#include "text/tokenizer.hpp"

namespace lm::text {

// Returns the tokenizer with ids 0 to 255 for the bytes and 256 for the end of document.
std::shared_ptr<const Tokenizer> make_byte_tokenizer();

}  // namespace lm::text
