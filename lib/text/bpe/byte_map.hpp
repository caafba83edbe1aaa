// SPDX-License-Identifier: Apache-2.0
// GPT-2's way to write bytes as visible characters in vocab.json and merges.txt: 0x21-0x7E,
// 0xA1-0xAC and 0xAE-0xFF stand for themselves, the other 68 bytes in ascending order for U+0100...
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/types.hpp"

namespace lm::text {

u32 char_of_byte(u8 byte);

// The bytes that `token` spells; nullopt when a character stands for no byte (or is not valid
// UTF-8).
std::optional<std::string> bytes_of_token(std::string_view token);
std::string token_of_bytes(std::string_view bytes);

}  // namespace lm::text
