// SPDX-License-Identifier: Apache-2.0
#include "io/lines.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

namespace lm::io {
namespace {

constexpr size_t line_block_bytes = size_t{1} << 20;

// Splits `line` at carriage returns and into parts of at most longest_line bytes, and passes the
// parts to `use`. Returns false when `use` has returned false.
bool split(std::string_view line, const std::function<bool(std::string_view)>& use) {
    while (!line.empty()) {
        const size_t n = std::min(line.find('\r'), longest_line);
        const std::string_view part = line.substr(0, n);
        if (!part.empty() && !use(part)) return false;
        line.remove_prefix(part.size());
        if (line.starts_with('\r')) line.remove_prefix(1);
    }
    return true;
}

}  // namespace

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

void for_each_line(InputStream& stream, const std::function<void(std::string_view)>& use) {
    for_lines_while(stream, [&use](std::string_view line) {
        use(line);
        return true;
    });
}

void for_lines_while(InputStream& stream, const std::function<bool(std::string_view)>& use) {
    std::vector<char> buffer(longest_line + line_block_bytes);
    size_t kept = 0;  // bytes of an incomplete line, at the start of the buffer
    for (;;) {
        const i64 n =
            stream.read(std::as_writable_bytes(std::span(buffer).subspan(kept, line_block_bytes)));
        std::string_view text(buffer.data(), kept + static_cast<size_t>(n));
        if (n == 0) {
            split(text, use);
            return;
        }
        for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
            if (!split(text.substr(0, end), use)) return;
        }
        while (text.size() > longest_line) {
            if (!split(text.substr(0, longest_line), use)) return;
            text.remove_prefix(longest_line);
        }
        kept = text.size();
        std::memmove(buffer.data(), text.data(), kept);
    }
}

}  // namespace lm::io
