// SPDX-License-Identifier: Apache-2.0
// Parses one JSON line and returns the strings under the wanted keys. One parser per thread.
// Lines that simdjson refuses, or reads differently from Python, go to json_line.hpp.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "data/jsonl/json_line.hpp"
#include "data/jsonl/line_chunks.hpp"

namespace lm::data {

// The value of one key: one text, or a list of sentences.
struct LineValue {
    bool is_list = false;
    std::string_view text;
    std::vector<std::string_view> sentences;
};

// What to do with invalid UTF-8 and lone surrogates: throw LineError, or put U+FFFD there.
enum class BadBytes { refuse, replace };

class LineParser {
  public:
    LineParser(std::vector<std::string> keys, BadBytes bad_bytes);
    ~LineParser();
    LineParser(LineParser&&) noexcept;

    // Returns the values of the keys, in the order of the keys; valid until the next call. `line`
    // must be followed by LineChunk::padding readable bytes. Throws LineError, also for a text
    // longer than max_text_bytes.
    std::span<const LineValue> parse(std::string_view line);

    // The faster way for the most common line (plain_line.hpp): when `rest` begins with an object
    // of one string under the only key, returns the text, as parse() would, and removes the line
    // from `rest`. Else returns nullopt: then parse() must read the line.
    std::optional<std::string_view> parse_plain(std::string_view& rest);
    bool replaced() const;  // whether U+FFFD was put into the last line
    void release();         // frees memory that only long lines need, and the returned values

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace lm::data
