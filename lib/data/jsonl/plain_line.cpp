// SPDX-License-Identifier: Apache-2.0
#include "data/jsonl/plain_line.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cstring>

#include "data/jsonl/unescape_in_place.hpp"
#include "data/jsonl/x86/unescape_avx512.hpp"

namespace lm::data {
namespace {

constexpr size_t longest_copy = size_t{16} << 20;  // if more bytes remain, decodes in place
constexpr size_t longest_key = 32;                 // shorter than the padding after a chunk

const char* skip_spaces(const char* p) {
    while (*p == ' ' || *p == '\t' || *p == '\r') ++p;
    return p;
}

// Returns the start of the next line if `}` and the line end follow the closing quote at `p`, else
// nullptr.
const char* skip_line_end(const char* p, const char* end) {
    p = skip_spaces(p + 1);
    if (*p != '}') return nullptr;
    p = skip_spaces(p + 1);
    if (p < end && *p != '\n') return nullptr;
    return p < end ? p + 1 : end;
}

}  // namespace

bool PlainLineReader::has_one_pass() {
    return has_unescape_avx512();
}

PlainLineReader::PlainLineReader(const std::string& key) : one_pass_(has_one_pass()) {
    const auto is_plain = [](char c) { return c >= ' ' && c < 0x7F && c != '"' && c != '\\'; };
    if (key.size() <= longest_key && std::ranges::all_of(key, is_plain)) opening_ = '"' + key + '"';
}

std::optional<PlainLineReader::Decoded> PlainLineReader::decode_one_pass(const char* source,
                                                                         size_t most) {
    if (capacity_ < most) {
        capacity_ = most + most / 4;
        buffer_ = std::make_unique_for_overwrite<char[]>(capacity_ + unescape_block);
    }
    const Unescaped result = unescape_avx512(source, buffer_.get());
    if (*result.next != '"') return std::nullopt;
    const auto n_source = static_cast<size_t>(result.next - source);
    if (!result.is_ascii && !simdjson::validate_utf8(source, n_source)) return std::nullopt;
    return Decoded{result.next, {buffer_.get(), static_cast<size_t>(result.out - buffer_.get())}};
}

std::optional<std::string_view> PlainLineReader::parse(std::string_view& rest) {
    const bool in_place = rest.size() > longest_copy;
    if (opening_.empty() || (!in_place && !one_pass_)) return std::nullopt;
    // No step reads beyond the padding, because each step stops at a zero byte.
    const char* p = skip_spaces(rest.data());
    if (*p != '{') return std::nullopt;
    p = skip_spaces(p + 1);
    if (std::memcmp(p, opening_.data(), opening_.size()) != 0) return std::nullopt;
    p = skip_spaces(p + opening_.size());
    if (*p != ':') return std::nullopt;
    p = skip_spaces(p + 1);
    if (*p != '"') return std::nullopt;

    const char* const source = p + 1;
    const char* const end = rest.data() + rest.size();
    if (!in_place) {
        const auto decoded = decode_one_pass(source, rest.size());
        if (!decoded) return std::nullopt;
        const char* const next = skip_line_end(decoded->end, end);
        if (next == nullptr) return std::nullopt;
        rest.remove_prefix(static_cast<size_t>(next - rest.data()));
        return decoded->text;
    }
    const char* const quote = find_string_end(source);
    const char* const next = quote != nullptr ? skip_line_end(quote, end) : nullptr;
    if (next == nullptr || !simdjson::validate_utf8(source, static_cast<size_t>(quote - source)))
        return std::nullopt;
    rest.remove_prefix(static_cast<size_t>(next - rest.data()));
    // The const_cast is valid, because the memory is the buffer of a LineChunk, and the line is not
    // read again.
    return std::string_view(source, unescape_in_place(const_cast<char*>(source), quote));
}

}  // namespace lm::data
