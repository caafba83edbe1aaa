// SPDX-License-Identifier: Apache-2.0
// A tokenizer that needs no files. Each byte of a text is an id.
#pragma once

#include <memory>

#include "text/tokenizer.hpp"

namespace lm::text {

// Returns the tokenizer. Ids 0 to 255 are the bytes, and 256 is the end of document.
std::shared_ptr<const Tokenizer> make_byte_tokenizer();

}  // namespace lm::text
