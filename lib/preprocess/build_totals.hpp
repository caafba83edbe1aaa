// SPDX-License-Identifier: Apache-2.0
// The counts of lm-preprocess while it encodes, for a chunk, a part or a whole run.
#pragma once

#include <string>

#include "base/types.hpp"
#include "io/json_fwd.hpp"

namespace lm::preprocess {

struct BuildTotals {
    i64 documents = 0;    // lines that were encoded
    i64 tokens = 0;       // tokens of all keys
    i64 text_bytes = 0;   // bytes of the encoded texts: UTF-8, without JSON escapes
    i64 input_bytes = 0;  // bytes of the input after decompression
    i64 blank = 0;        // blank lines
    i64 bad = 0;          // lines skipped by --on-bad-line skip
    i64 replaced = 0;     // lines with bytes that --on-bad-line replace changed to U+FFFD

    BuildTotals& operator+=(const BuildTotals& other);
    BuildTotals& operator-=(const BuildTotals& other);
    io::OrderedJson to_json() const;
    // Throws Error(failure) naming `path` when a count is missing.
    static BuildTotals parse(const io::Json& object, const std::string& path);
};

}  // namespace lm::preprocess
