// SPDX-License-Identifier: Apache-2.0
// The text of generated tokens as it can be printed: whole characters only, and up to the first
// stop text. Tokens of byte-level BPE may end within a character.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::eval {

class TextStream {
  public:
    // An empty stop text is ignored.
    explicit TextStream(std::vector<std::string> stops) : stops_(std::move(stops)) {}

    // Adds the bytes of a token. Returns the text that no later token can change: bytes that may
    // begin a stop text or a character are buffered.
    std::string append(std::string_view bytes);
    // Returns the buffered bytes as text; invalid bytes become U+FFFD.
    std::string finish();
    // Returns whether a stop text has appeared. The returned text ends before the stop text.
    bool stopped() const { return stopped_; }

  private:
    std::vector<std::string> stops_;
    std::string kept_;
    bool stopped_ = false;
};

}  // namespace lm::eval
