// SPDX-License-Identifier: Apache-2.0
// The commonest line of all, {"text": "..."} and nothing else, read in one pass that finds its end,
// undoes escapes and notices bytes beyond ASCII. Whatever is not exactly that, or not right, is
// left to the readers that know everything.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.hpp"
#include "data/jsonl/x86/unescape_avx512.hpp"

namespace lm::data {

class PlainLineReader {
  public:
    // Without `wide` the way that needs nothing of the machine is taken: for tests.
    explicit PlainLineReader(const std::string& key, bool wide = has_wide_unescape());

    // When `rest` begins with such a line: its text, valid until the next call, and `rest` loses
    // the line with its end. Else nullopt, and nothing has changed. A text with escapes longer than
    // 16 MiB is unescaped where it lies, to spare a copy. 64 bytes behind `rest` are readable, and
    // none of them continues a line.
    std::optional<std::string_view> take(std::string_view& rest);

  private:
    std::string opening_;  // the key in quotes; empty when keys of that kind are not read here
    std::unique_ptr<char[]> buffer_;
    size_t capacity_ = 0;
    bool wide_;
};

}  // namespace lm::data
