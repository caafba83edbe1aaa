// SPDX-License-Identifier: Apache-2.0
// Parses one JSON line and returns the strings under the given keys. Use one parser per thread.
// json_line.hpp parses the lines that simdjson refuses or reads differently from Python.
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

class LineParser {
  public:
    LineParser(std::vector<std::string> keys, InvalidText invalid_text);
    ~LineParser();
    LineParser(LineParser&&) noexcept;

    // Returns the values in the order of the keys. They are valid until the next call. `line` must
    // be followed by LineChunk::padding readable bytes. Throws LineError, also for a text longer
    // than max_text_bytes.
    std::span<const LineValue> parse(std::string_view line);

    // Parses the most common kind of line faster (plain_line.hpp). When `rest` begins with an
    // object whose only member is a string under the parser's only key, returns the same text as
    // parse() and removes the line from `rest`. Otherwise returns nullopt, and parse() must read
    // the line.
    std::optional<std::string_view> parse_plain(std::string_view& rest);
    bool replaced() const;  // whether the last line had bytes replaced by U+FFFD
    void release();         // frees memory that only long lines need, and the returned values

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace lm::data
