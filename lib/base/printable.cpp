// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include <fmt/format.h>

#include "base/utf8.hpp"

namespace lm {

std::string printable(std::string_view text) {
    std::string line;
    while (!text.empty()) {
        const DecodedChar c = decode_utf8(text);
        const std::string_view bytes = text.substr(0, static_cast<size_t>(c.length));
        text.remove_prefix(bytes.size());
        const bool control = c.code_point < 0x20 || (c.code_point >= 0x7F && c.code_point < 0xA0);
        if (c.valid && !control) {
            line += bytes;
        } else if (bytes == "\n" || bytes == "\t" || bytes == "\r") {
            line += bytes == "\n" ? "\\n" : bytes == "\t" ? "\\t" : "\\r";
        } else {
            for (const char byte : bytes)
                line += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
        }
    }
    return line;
}

std::string printable_lines(std::string_view text) {
    std::string lines;
    while (true) {
        const size_t end = text.find('\n');
        lines += printable(text.substr(0, end));
        if (end == text.npos) return lines;
        lines += '\n';
        text.remove_prefix(end + 1);
    }
}

}  // namespace lm
