// SPDX-License-Identifier: Apache-2.0
// The byte map of GPT-2, which spells bytes as visible characters in vocab.json and merges.txt. The
// bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF map to the code points with the same value. The other 68
// bytes map, in ascending order, to U+0100 and the code points after it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/types.hpp"

namespace lm::text {

u32 char_of_byte(u8 byte);

// Returns the bytes that `token` spells, or nullopt if it is invalid UTF-8 or contains a character
// outside the byte map.
std::optional<std::string> bytes_of_token(std::string_view token);
std::string token_of_bytes(std::string_view bytes);

}  // namespace lm::text
