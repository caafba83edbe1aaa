// SPDX-License-Identifier: Apache-2.0
#include "data/jsonl/json_line.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.hpp"

namespace lm::data {
namespace {

constexpr int deepest = 1000;  // Python's recursion limit

class Reader {
  public:
    Reader(std::string_view line, InvalidText lone_surrogates)
        : line_(line), lone_surrogates_(lone_surrogates) {}

    JsonLine object_values(std::span<const std::string> keys) {
        std::vector<JsonValue> values(keys.size());
        if (line_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // byte order mark (RFC 8259, 8.1)
        skip_spaces();
        if (at_end()) error("the line is empty");
        if (peek() != '{') no_object();
        members([&](const std::string* key) {
            const auto found = key ? std::ranges::find(keys, *key) : keys.end();
            if (found == keys.end()) return skip_value(1);
            values[static_cast<size_t>(found - keys.begin())] = wanted_value();
        });
        const bool carriage_return = peek() == '\r';
        skip_spaces();
        if (!at_end() && carriage_return)
            error("lines end in carriage returns: convert them to line feeds (tr '\\r' '\\n')");
        if (!at_end()) error("expected the end of the line after the object");
        const i64 n_replaced = check_surrogates(values);
        return {std::move(values), n_replaced};
    }

  private:
    [[noreturn]] void error(const std::string& reason,
                            LineError::Fault fault = LineError::Fault::line) const {
        throw LineError{static_cast<i64>(at_) + 1, "not valid JSON: " + reason, fault};
    }
    [[noreturn]] void no_object() const {
        const char* expected = "expected an object such as {\"text\": \"...\"} on each line";
        if (peek() == '[')
            error(fmt::format("an array: {} (jq -c '.[]' FILE writes such lines)", expected));
        error(fmt::format("{}, not text or CSV", expected));
    }
    i64 check_surrogates(std::span<const JsonValue> values) {
        i64 n = 0;
        for (const JsonValue& value : values) {
            n += value.n_lone;
            if (value.n_lone == 0 || lone_surrogates_ == InvalidText::replace) continue;
            at_ = static_cast<size_t>(value.first_lone) - 1;
            error(fmt::format("{} is half of a surrogate pair, not a character",
                              line_.substr(at_, std::string_view("\\uXXXX").size())),
                  LineError::Fault::character);
        }
        return n;
    }
    static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
    bool at_end() const { return at_ >= line_.size(); }
    char peek() const { return at_end() ? '\0' : line_[at_]; }
    void skip_spaces() {
        while (!at_end() && is_space(line_[at_])) ++at_;
    }
    void expect(char c, const char* what) {
        skip_spaces();
        if (at_end()) error(fmt::format("expected {}, got the end of the line", what));
        if (line_[at_] != c) error(fmt::format("expected {}", what));
        ++at_;
    }

    // Calls value(key) at the value of each member of the object. `key` is null for a key with a
    // lone surrogate, which cannot equal a wanted key.
    template <typename Value>
    void members(Value value) {
        ++at_;
        skip_spaces();
        if (peek() == '}') return void(++at_);
        for (;;) {
            skip_spaces();
            if (peek() != '"') error("expected a key in double quotes");
            n_lone_ = 0;
            const std::string key = string();
            expect(':', "':'");
            skip_spaces();
            value(n_lone_ == 0 ? &key : nullptr);
            skip_spaces();
            if (peek() == '}') return void(++at_);
            expect(',', "',' or '}'");
        }
    }

    template <typename Value>
    void elements(Value value) {
        ++at_;
        skip_spaces();
        if (peek() == ']') return void(++at_);
        for (;;) {
            skip_spaces();
            value();
            skip_spaces();
            if (peek() == ']') return void(++at_);
            expect(',', "',' or ']'");
        }
    }

    JsonValue wanted_value() {
        JsonValue value;
        value.byte = static_cast<i64>(at_) + 1;
        n_lone_ = 0;
        value.kind = JsonValue::Kind::other;
        if (peek() == '"') {
            value.kind = JsonValue::Kind::string;
            value.text = string();
        } else if (peek() == '[') {
            value.kind = JsonValue::Kind::strings;
            elements([&] {
                if (peek() == '"') return value.sentences.push_back(string());
                value.kind = JsonValue::Kind::other;
                skip_value(2);
            });
            value.what = "an array with elements other than strings";
        } else {
            value.what = kind_name(peek());
            skip_value(1);
        }
        if (value.kind != JsonValue::Kind::other) {
            value.n_lone = n_lone_;
            value.first_lone = first_lone_;
        }
        return value;
    }

    static const char* kind_name(char c) {
        if (c == '{') return "an object";
        if (c == 'n') return "null";
        if (c == 't' || c == 'f') return "true or false";
        return "a number";
    }

    void skip_value(int depth) {
        if (depth > deepest) error("nested too deeply");
        const char c = peek();
        if (at_end()) error("expected a value, got the end of the line");
        if (c == '"') return void(string());
        if (c == '{') return members([&](const std::string*) { skip_value(depth + 1); });
        if (c == '[') return elements([&] { skip_value(depth + 1); });
        for (const std::string_view word :
             {"true", "false", "null", "NaN", "Infinity", "-Infinity"}) {
            if (line_.substr(at_).starts_with(word)) return void(at_ += word.size());
        }
        number();
    }

    size_t digits() {
        const size_t begin = at_;
        while (peek() >= '0' && peek() <= '9') ++at_;
        return at_ - begin;
    }

    void number() {
        if (peek() == '-') ++at_;
        const bool zero = peek() == '0';
        const size_t n = zero ? (++at_, 1) : digits();
        if (n == 0) error("expected a value");
        if (peek() == '.') {
            ++at_;
            if (digits() == 0) error("expected a digit");
        }
        if (peek() == 'e' || peek() == 'E') {
            ++at_;
            if (peek() == '+' || peek() == '-') ++at_;
            if (digits() == 0) error("expected a digit");
        }
    }

    // Returns the number of bytes before the closing quote, escapes included.
    size_t source_length() const {
        size_t end = at_;
        while (end < line_.size() && line_[end] != '"') end += line_[end] == '\\' ? 2 : 1;
        return end - at_;
    }

    std::string string() {
        std::string out;
        ++at_;
        out.reserve(source_length());  // a growing string would have two copies in memory
        for (;;) {
            const size_t begin = at_;
            while (!at_end() && line_[at_] != '"' && line_[at_] != '\\' &&
                   static_cast<unsigned char>(line_[at_]) >= 0x20) {
                ++at_;
            }
            out.append(line_, begin, at_ - begin);
            if (at_end()) error("the line ends inside a string");
            if (line_[at_] == '"') {
                ++at_;
                return out;
            }
            if (line_[at_] != '\\') error("control character in a string");
            escape(out);
        }
    }

    void escape(std::string& out) {
        constexpr std::string_view names = "\"\\/bfnrt";
        constexpr std::string_view values = "\"\\/\b\f\n\r\t";
        ++at_;
        if (peek() == 'u') return unicode_escape(out);
        const size_t which = at_end() ? names.npos : names.find(line_[at_]);
        if (which == names.npos) error("unknown escape");
        out.push_back(values[which]);
        ++at_;
    }

    u32 four_digits() {
        ++at_;
        u32 value = 0;
        for (int i = 0; i < 4; ++i, ++at_) {
            const char c = peek();
            const bool digit = c >= '0' && c <= '9';
            const char lower = static_cast<char>(c | 0x20);
            if (!digit && (lower < 'a' || lower > 'f'))
                error("\\u must be followed by 4 hexadecimal digits");
            value = value << 4 | static_cast<u32>(digit ? c - '0' : lower - 'a' + 10);
        }
        return value;
    }

    void unicode_escape(std::string& out) {
        const size_t begin = at_ - 1;
        u32 cp = four_digits();
        if (cp >= 0xD800 && cp < 0xDC00 && line_.substr(at_).starts_with("\\u")) {
            const size_t second = at_;
            ++at_;
            const u32 low = four_digits();
            if (low >= 0xDC00 && low < 0xE000) {
                cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
            } else {
                at_ = second;
            }
        }
        if (cp >= 0xD800 && cp < 0xE000) {
            if (n_lone_++ == 0) first_lone_ = static_cast<i64>(begin) + 1;
            cp = 0xFFFD;
        }
        append_utf8(out, cp);
    }

    std::string_view line_;
    InvalidText lone_surrogates_;
    size_t at_ = 0;
    i64 n_lone_ = 0;      // lone surrogates in the current key or wanted value
    i64 first_lone_ = 0;  // byte of the first lone surrogate
};

}  // namespace

JsonLine read_json_line(std::string_view line, std::span<const std::string> keys,
                        InvalidText surrogates) {
    return Reader(line, surrogates).object_values(keys);
}

}  // namespace lm::data
