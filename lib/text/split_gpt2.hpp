// SPDX-License-Identifier: Apache-2.0
// GPT-2's pretokenizer as a hand-written walk over code points: linear in any text, and the truth
// that the vectorised one is tested against.
#pragma once

#include "text/chars.hpp"
#include "text/splitter.hpp"

namespace lm::text {

class Gpt2Splitter : public Splitter {
  public:
    void start(std::string_view text) override;
    i64 next(u32* ends, i64 capacity) override;

  private:
    CharReader chars_;
    u32 position_ = 0;
};

// The end of the piece that begins at `begin` < text size.
u32 gpt2_piece_end(const CharReader& chars, u32 begin);

}  // namespace lm::text
