// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/byte_map.hpp"

#include <array>

#include "base/utf8.hpp"

namespace lm::text {
namespace {

constexpr bool visible(int byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct ByteMap {
    std::array<u16, 256> to_char{};
    std::array<i16, 0x144> to_byte{};

    constexpr ByteMap() {
        for (i16& byte : to_byte) byte = -1;
        int next = 0x100;
        for (int byte = 0; byte < 256; ++byte) {
            const int c = visible(byte) ? byte : next++;
            to_char[static_cast<size_t>(byte)] = static_cast<u16>(c);
            to_byte[static_cast<size_t>(c)] = static_cast<i16>(byte);
        }
    }
};

constexpr ByteMap map;

}  // namespace

u32 char_of_byte(u8 byte) {
    return map.to_char[byte];
}

std::optional<std::string> bytes_of_token(std::string_view token) {
    std::string bytes(token.size(), '\0');
    size_t n = 0;
    for (size_t i = 0; i < token.size(); ++i) {
        u32 c = static_cast<u8>(token[i]);
        if (c >= 0x80) {  // all other characters of the map have two bytes
            if ((c & 0xE0) != 0xC0 || i + 1 == token.size()) return std::nullopt;
            const auto second = static_cast<u8>(token[++i]);
            if ((second & 0xC0) != 0x80) return std::nullopt;
            c = (c & 0x1F) << 6 | (second & 0x3F);
            if (c < 0x80) return std::nullopt;  // overlong encoding
        }
        if (c >= map.to_byte.size() || map.to_byte[c] < 0) return std::nullopt;
        bytes[n++] = static_cast<char>(map.to_byte[c]);
    }
    bytes.resize(n);
    return bytes;
}

std::string token_of_bytes(std::string_view bytes) {
    std::string token;
    for (const char byte : bytes) append_utf8(token, char_of_byte(static_cast<u8>(byte)));
    return token;
}

}  // namespace lm::text
