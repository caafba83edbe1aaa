// SPDX-License-Identifier: Apache-2.0
// JSON Lines: the wanted strings of each line (one parser per thread, over simdjson).
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

// What a line holds under one key: one text, or a list of sentences.
struct LineValue {
    bool is_list = false;
    std::string_view text;
    std::vector<std::string_view> sentences;
};

enum class BadBytes { refuse, replace };  // invalid UTF-8 and lone surrogates

class LineParser {
  public:
    LineParser(std::vector<std::string> keys, BadBytes bad_bytes);
    ~LineParser();
    LineParser(LineParser&&) noexcept;

    // The values of the keys, in the order of the keys; valid until the next call. `line` is
    // followed by LineChunk::padding readable bytes. Throws LineError, also for a text that is
    // longer than max_text_bytes.
    std::span<const LineValue> parse(std::string_view line);

    // When `rest` begins with a line that is the object of one string under the only key: its text,
    // as parse() would give it, and `rest` loses the line (see PlainLineReader). Else nullopt.
    std::optional<std::string_view> take_plain(std::string_view& rest);
    bool replaced() const;  // whether the last line needed U+FFFD
    void release();         // memory that only long lines need; what parse() returned is gone

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace lm::data
