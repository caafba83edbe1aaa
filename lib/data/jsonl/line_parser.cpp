// SPDX-License-Identifier: Apache-2.0
// Why three readers of a JSON line.
//
// The input of a pretraining is a line {"text": "..."} a few billion times. Megatron-LM reads each
// with json.loads in a pool of processes, and its interpretation is the standard here: a dataset
// must not change because another program has made it. No single reader has the interpretation, the
// messages and the speed.
//
// - simdjson's DOM (parse_fast) reads a line that is valid and has the keys with values of the
//   expected kinds.
// - json_line.cpp (parse_slow) reads what simdjson refuses or reads differently. json.loads accepts
//   NaN and Infinity, and takes the last of equal keys. And a user with one bad line in a billion
//   needs the byte, what is wrong there and what was expected, which simdjson does not report. This
//   reader is slow and plain, and a good file never reaches it.
// - plain_line.cpp reads the most common line faster than simdjson, which first finds the structure
//   of a line, and then builds a tree and copies the strings. With AVX-512 VBMI2 one pass finds the
//   end of the line and decodes its escapes. simdjson alone made lm-preprocess 5 to 8 % slower on
//   English text and 4 to 6 % on multilingual text (bench/preprocess.md, JSON).
//
// The last is the one to doubt, so its limits are tight. It declines everything unusual before it
// has changed anything: other members, a key with escapes, several keys. Lines with escapes of code
// points (four hexadecimal digits) belong to simdjson, which was 10 % and more faster on them. A
// version without AVX-512 was removed because it was no faster than simdjson. Where the processor
// lacks these instructions, this reader only serves lines above 16 MiB, whose text it decodes in
// place for the sake of memory: a document of 100 MB needs 195 MiB instead of 243.
//
// simdjson's On-Demand interface would avoid the tree. It also skips the validation of values that
// are not asked for, and json.loads does not: a line with damage after the text might be accepted.
//
// The price is the danger that two readers understand a line differently, and the same corpus gives
// other tokens on another processor. tests/fuzz/jsonl_fuzz.cpp requires that each line that
// simdjson accepts has the same content in all of them, or is declined; a run of 946,386 lines
// found nothing (bench/preprocess.md, Fuzzers). If a later simdjson removes the 5 %, only the
// in-place decoding of plain_line.cpp should stay.
#include "data/jsonl/line_parser.hpp"

#include <simdjson.h>

#include "base/error.hpp"
#include "base/utf8.hpp"
#include "data/jsonl/plain_line.hpp"
#include "io/other_format.hpp"

namespace lm::data {
namespace {

constexpr size_t keep_bytes = size_t{32} << 20;  // a larger parser is replaced after use

// Returns "UTF-16" or "UTF-32" for a line in one of these encodings, else nullptr. Recognizes them
// by the byte order mark, or by the zero bytes of an ASCII character: one of two in UTF-16, three
// of four in UTF-32.
const char* wide_encoding(std::string_view line) {
    const auto is_zero = [&](size_t i) { return i < line.size() && line[i] == '\0'; };
    if (line.starts_with("\xFF\xFE"))
        return is_zero(2) && is_zero(3) && !is_zero(4) ? "UTF-32" : "UTF-16";
    if (line.starts_with("\xFE\xFF")) return "UTF-16";
    if (line.size() > 3 && is_zero(0) && is_zero(1) && (line.substr(2, 2) == "\xFE\xFF"))
        return "UTF-32";
    if (line.size() < 2) return nullptr;
    const bool big_32 = is_zero(0) && is_zero(1) && is_zero(2) && line.size() > 3 && !is_zero(3);
    const bool little_32 = !is_zero(0) && is_zero(1) && is_zero(2) && is_zero(3);
    if (big_32 || little_32) return "UTF-32";
    return is_zero(0) != is_zero(1) ? "UTF-16" : nullptr;
}

void check_length(std::string_view text) {
    if (static_cast<i64>(text.size()) > max_text_bytes)
        throw LineError{1, "the text is longer than 2.15 GB"};
}

}  // namespace

struct LineParser::State {
    std::vector<std::string> keys;
    InvalidText invalid_text;
    simdjson::dom::parser parser;
    std::vector<LineValue> values;
    std::vector<JsonValue> slow;  // owns the strings of parse_slow()
    std::string cleaned;
    bool replaced = false;
    std::optional<PlainLineReader> plain;  // set if there is a single key

    bool parse_fast(std::string_view line);
    bool read_value(simdjson::dom::element element, LineValue& value);
    void parse_slow(std::string_view line);
    void adopt(size_t k);
};

// Returns false for a line that parse_slow() must read, because simdjson refuses the line, a key is
// missing or occurs twice, or a value is not a string.
bool LineParser::State::parse_fast(std::string_view line) {
    simdjson::dom::object object;
    if (parser.parse(line.data(), line.size(), false).get_object().get(object) !=
        simdjson::SUCCESS) {
        return false;
    }
    size_t found = 0;
    for (const auto field : object) {
        for (size_t k = 0; k < keys.size(); ++k) {
            if (field.key != keys[k]) continue;
            if (found >> k & 1 || !read_value(field.value, values[k])) return false;
            found |= size_t{1} << k;
        }
    }
    return found == (size_t{1} << keys.size()) - 1;
}

bool LineParser::State::read_value(simdjson::dom::element element, LineValue& value) {
    value.sentences.clear();
    simdjson::dom::array sentences;
    value.is_list = element.get_array().get(sentences) == simdjson::SUCCESS;
    if (!value.is_list) return element.get_string().get(value.text) == simdjson::SUCCESS;
    for (const simdjson::dom::element sentence : sentences) {
        std::string_view text;
        if (sentence.get_string().get(text) != simdjson::SUCCESS) return false;
        value.sentences.push_back(text);
    }
    return true;
}

void LineParser::State::adopt(size_t k) {
    JsonValue& from = slow[k];
    LineValue& to = values[k];
    if (from.kind == JsonValue::Kind::missing)
        throw LineError{1, "there is no key '" + keys[k] + "'", LineError::Fault::key};
    if (from.kind == JsonValue::Kind::other) {
        throw LineError{from.byte, "'" + keys[k] + "' is " + from.what + ", not a string",
                        LineError::Fault::key};
    }
    to.is_list = from.kind == JsonValue::Kind::strings;
    to.text = from.text;
    to.sentences.assign(from.sentences.begin(), from.sentences.end());
}

void LineParser::State::parse_slow(std::string_view line) {
    using Fault = LineError::Fault;
    if (const char* encoding = wide_encoding(line)) {
        throw LineError{
            1,
            fmt::format("the text is {0}: convert it to UTF-8 (iconv -f {0} -t UTF-8)", encoding),
            Fault::encoding};
    }
    if (const auto other = io::other_format(line); !other.empty()) {
        throw LineError{1, fmt::format("not valid JSON: {}", other)};
    }
    if (const i64 bad = find_invalid_utf8(line); bad >= 0) {
        if (invalid_text == InvalidText::refuse)
            throw LineError{bad + 1, "not valid UTF-8", Fault::character};
        cleaned.clear();
        append_utf8_lossy(cleaned, line);
        line = cleaned;
        replaced = true;
    }
    JsonLine read = read_json_line(line, keys, invalid_text);
    replaced = replaced || read.n_replaced > 0;
    slow = std::move(read.values);
    cleaned = {};
    for (size_t k = 0; k < keys.size(); ++k) adopt(k);
}

LineParser::LineParser(std::vector<std::string> keys, InvalidText invalid_text)
    : state_(std::make_unique<State>()) {
    LM_CHECK(!keys.empty() && keys.size() < 64, "expected 1 to 63 keys, got {}", keys.size());
    state_->values.resize(keys.size());
    if (keys.size() == 1) state_->plain.emplace(keys[0]);
    state_->keys = std::move(keys);
    state_->invalid_text = invalid_text;
}

LineParser::~LineParser() = default;
LineParser::LineParser(LineParser&&) noexcept = default;

std::span<const LineValue> LineParser::parse(std::string_view line) {
    state_->replaced = false;
    // A simdjson parser never frees memory, so a parser is replaced after a very long line.
    if (state_->parser.capacity() > keep_bytes && line.size() <= keep_bytes) {
        state_->parser = simdjson::dom::parser();
    }
    if (!state_->parse_fast(line)) {
        if (state_->parser.capacity() > keep_bytes) state_->parser = simdjson::dom::parser();
        state_->parse_slow(line);
    }
    for (const LineValue& value : state_->values) {
        check_length(value.text);
        for (const std::string_view sentence : value.sentences) check_length(sentence);
    }
    return state_->values;
}

std::optional<std::string_view> LineParser::parse_plain(std::string_view& rest) {
    if (!state_->plain) return std::nullopt;
    const auto text = state_->plain->parse(rest);
    if (text) check_length(*text);
    return text;
}

void LineParser::release() {
    constexpr size_t keep = size_t{2} << 20;
    if (state_->parser.capacity() > keep) state_->parser = simdjson::dom::parser();
    state_->slow = {};
    for (LineValue& value : state_->values) value = {};
    state_->cleaned = {};
    if (state_->plain) state_->plain.emplace(state_->keys[0]);
}

bool LineParser::replaced() const {
    return state_->replaced;
}

}  // namespace lm::data
