// SPDX-License-Identifier: Apache-2.0
// A reader of the most common line, {"text": "..."} with no other member. simdjson reads all other
// lines. The reader has two purposes:
// - With AVX-512 VBMI2 it finds the end of the line and decodes the common escapes in one pass,
//   which makes lm-preprocess 5 % faster (bench/preprocess.md, "JSON").
// - On every processor it decodes the text of a line above 16 MiB in place (unescape_in_place.hpp).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.hpp"

namespace lm::data {

class PlainLineReader {
  public:
    // Returns whether the processor can run the one-pass decoder. Otherwise parse() reads only long
    // lines.
    static bool has_one_pass();

    explicit PlainLineReader(const std::string& key);

    // When `rest` begins with a line {KEY: "..."}, removes the line and its end from `rest` and
    // returns the text, which is valid until the next call. Otherwise returns nullopt and changes
    // nothing. `rest` must be the end of a LineChunk's text, which LineChunk::padding zero bytes
    // follow; parse() may overwrite `rest`.
    std::optional<std::string_view> parse(std::string_view& rest);

  private:
    struct Decoded {
        const char* end;  // the closing quote
        std::string_view text;
    };
    std::optional<Decoded> decode_one_pass(const char* source, size_t most);

    std::string opening_;  // the key in quotes; empty when the key needs escapes
    std::unique_ptr<char[]> buffer_;
    size_t capacity_ = 0;  // size of buffer_, without the bytes that unescape_avx512() overwrites
    bool one_pass_;
};

}  // namespace lm::data
