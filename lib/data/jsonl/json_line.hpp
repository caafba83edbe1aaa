// SPDX-License-Identifier: Apache-2.0
// Reads one JSON line exactly as Python's json.loads does, which Megatron-LM uses: NaN and Infinity
// are accepted, and the last of equal keys wins. The reader is slow, so line_parser.cpp calls it
// only for lines that simdjson refuses. simdjson alone is not enough, because it reports neither
// the byte of an error nor what is expected there, and it refuses lines that json.loads accepts.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::data {

struct LineError {
    // The kind of fault, which selects the remedy in the message. line: the line is not JSON.
    // character: replacing one character repairs the line. key: the text is under another key.
    // encoding: the whole input is not UTF-8. length: the text is too long. token: the tokenizer
    // has no token for a byte. The last two are detected only after some ids of the line were
    // written.
    enum class Fault { line, character, key, encoding, length, token };

    bool is_skippable() const { return fault != Fault::length && fault != Fault::token; }

    i64 byte;  // position in the line, from 1
    std::string reason;
    Fault fault = Fault::line;
};

struct JsonValue {
    enum class Kind { missing, string, strings, other } kind = Kind::missing;
    std::string text;                    // value of kind string
    std::vector<std::string> sentences;  // elements of kind strings, an array of strings only
    i64 byte = 0;                        // position of the value's first byte, from 1
    const char* what = "";               // description of kind other: "a number", "null"...
    i64 n_lone = 0;                      // number of lone surrogates, each replaced by U+FFFD
    i64 first_lone = 0;                  // position of the first lone surrogate, from 1
};

// Handling of bytes that are not UTF-8 and of lone surrogates in escapes: throw LineError, or
// replace them by U+FFFD.
enum class InvalidText { refuse, replace };

struct JsonLine {
    std::vector<JsonValue> values;  // in the order of the keys
    i64 n_replaced = 0;             // lone surrogates in the values, each replaced by U+FFFD
};

// Returns the values of `keys` in the object `line`, which must be valid UTF-8. Throws LineError.
// Lone surrogates are refused in the returned values only.
JsonLine read_json_line(std::string_view line, std::span<const std::string> keys,
                        InvalidText lone_surrogates);

}  // namespace lm::data
