// SPDX-License-Identifier: Apache-2.0
// One line of JSON Lines, read slowly and exactly as Python's json.loads reads it (NaN and Infinity
// pass, the last of equal keys wins), with the byte and the reason when it is not right. The fast
// path is simdjson in jsonl.cpp; this decides whatever that refuses.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::data {

struct LineError {
    // What kind of remedy there is: of a character alone, another key, for the whole input, and
    // none where a text turns out too long while it is encoded: some of its ids have been written.
    enum class Fault { line, character, key, encoding, length };

    bool is_skippable() const { return fault != Fault::length; }

    i64 byte;  // from 1, in the line
    std::string reason;
    Fault fault = Fault::line;
};

struct JsonValue {
    enum class Kind { missing, string, strings, other } kind = Kind::missing;
    std::string text;                    // string
    std::vector<std::string> sentences;  // strings: an array of nothing but strings
    i64 byte = 0;                        // where it stands
    const char* what = "";               // other: "a number", "null"...
    i64 n_lone = 0;                      // lone surrogates in it, which became U+FFFD
    i64 first_lone = 0;                  // byte of the first
};

enum class LoneSurrogates { refuse, replace };

struct JsonLine {
    std::vector<JsonValue> values;  // in the order of the keys
    i64 n_replaced = 0;             // lone surrogates in them that became U+FFFD
};

// The values of `keys` in the object that `line` is. Throws LineError. `line` is valid UTF-8. Lone
// surrogates are refused in these values alone, not in a value that an equal key behind it
// replaces.
JsonLine read_json_line(std::string_view line, std::span<const std::string> keys,
                        LoneSurrogates surrogates);

}  // namespace lm::data
