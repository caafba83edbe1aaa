// SPDX-License-Identifier: Apache-2.0
// The Unicode normal forms of UAX #15, computed by utf8proc. As in Hugging Face tokenizers, they
// follow Unicode 9, so newer characters stay unchanged. ICU is four times as fast, but takes
// quadratic time for long runs of marks.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"

namespace lm::text {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

class TextTooLong : public Error {
  public:
    TextTooLong() : Error(Exit::failure, "the text is longer than 2.15 GB after normalization") {}
};

// Appends the normal form of `text` (valid UTF-8) to `out` in O(n log n) time. Throws TextTooLong.
void append_normal_form(NormalForm form, std::string_view text, std::string& out);

// Throws TextTooLong if `text` has more than max_text_bytes.
void check_normalized_length(const std::string& text);

}  // namespace lm::text
