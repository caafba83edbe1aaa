// SPDX-License-Identifier: Apache-2.0
// UTF-8: strict validation (no overlong forms, no surrogates, at most U+10FFFF), decoding of valid
// text, and replacement of each maximal invalid subpart by U+FFFD (Unicode 3.9; the same as
// errors="replace" of Python and from_utf8_lossy of Rust).
#pragma once

#include <string>
#include <string_view>

#include "base/types.hpp"

namespace lm {

// The longest text that tokenizers accept, in bytes. Offsets in such a text fit in 32 bits.
inline constexpr i64 max_text_bytes = i64{1} << 31;

// Returns the byte offset of the first sequence that is not valid UTF-8, or -1.
i64 find_invalid_utf8(std::string_view bytes);
inline bool is_valid_utf8(std::string_view bytes) {
    return find_invalid_utf8(bytes) < 0;
}

struct DecodedChar {
    u32 code_point;  // U+FFFD when the sequence is not valid
    int length;      // bytes consumed: the character, or the maximal invalid subpart
    bool valid;
};
// Decodes the sequence at bytes[0]; `bytes` is not empty.
DecodedChar decode_utf8(std::string_view bytes);

void append_utf8(std::string& out, u32 code_point);
// Appends `bytes` to `out` and replaces invalid sequences. Returns the number of replacements.
i64 append_utf8_lossy(std::string& out, std::string_view bytes);

}  // namespace lm
