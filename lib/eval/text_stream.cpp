// SPDX-License-Identifier: Apache-2.0
#include "eval/text_stream.hpp"

#include <algorithm>
#include <utility>

#include "base/utf8.hpp"

namespace lm::eval {
namespace {

// Returns the length of the longest suffix of `text` that is also a prefix of `stop`. The result is
// below the length of `stop`.
size_t common_end(std::string_view text, std::string_view stop) {
    for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
        if (text.ends_with(stop.substr(0, n))) return n;
    }
    return 0;
}

// Returns the number of bytes of the incomplete UTF-8 character at the end of `text`; 0: none.
size_t begun_character(std::string_view text) {
    for (size_t n = 1; n <= std::min<size_t>(3, text.size()); ++n) {
        const auto byte = static_cast<unsigned char>(text[text.size() - n]);
        if ((byte & 0xC0U) == 0x80U) continue;
        const size_t length = byte > 0xF4U    ? 1
                              : byte >= 0xF0U ? 4
                              : byte >= 0xE0U ? 3
                              : byte >= 0xC0U ? 2
                                              : 1;
        return length > n ? n : 0;
    }
    return 0;
}

std::string as_text(std::string_view bytes) {
    std::string text;
    append_utf8_lossy(text, bytes);
    return text;
}

}  // namespace

std::string TextStream::append(std::string_view bytes) {
    if (stopped_) return {};
    kept_ += bytes;
    size_t stop_at = std::string::npos;
    size_t keep = begun_character(kept_);
    for (const std::string& stop : stops_) {
        if (stop.empty()) continue;
        stop_at = std::min(stop_at, kept_.find(stop));
        keep = std::max(keep, common_end(kept_, stop));
    }
    if (stop_at != std::string::npos) {
        stopped_ = true;
        kept_.resize(stop_at);
        return as_text(std::exchange(kept_, {}));
    }
    // Also keeps an incomplete character at the end of the ready bytes, so that no character is
    // split.
    size_t ready = kept_.size() - keep;
    ready -= begun_character(std::string_view(kept_).substr(0, ready));
    const std::string text = as_text(std::string_view(kept_).substr(0, ready));
    kept_.erase(0, ready);
    return text;
}

std::string TextStream::finish() {
    return as_text(std::exchange(kept_, {}));
}

}  // namespace lm::eval
