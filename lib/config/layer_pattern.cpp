// SPDX-License-Identifier: Apache-2.0
#include "config/layer_pattern.hpp"

#include <charconv>
#include <optional>

#include "base/error.hpp"

namespace lm::config {
namespace {

constexpr size_t max_layers = 100'000;  // as ModelConfig::resolve()

// Parses the lists that Megatron-LM gives to Python:
//     sum = product {"+" product}, product = factor {"*" factor},
//     factor = number | "[" [sum {"," sum}] "]" | "(" sum ")".
// A number repeats the list that it is multiplied with.
class ListParser {
  public:
    ListParser(std::string_view flag, std::string_view text) : flag_(flag), text_(text) {}

    std::vector<bool> parse() {
        const Value value = sum(0);
        skip_blanks();
        if (at_ != text_.size() || !value.is_list) fail();
        std::vector<bool> bits;
        for (const i64 entry : value.list) {
            if (entry != 0 && entry != 1) fail();
            bits.push_back(entry == 1);
        }
        if (bits.empty()) fail();
        return bits;
    }

  private:
    struct Value {
        bool is_list = false;
        i64 number = 0;
        std::vector<i64> list;
    };

    [[noreturn]] void fail() const {
        usage_error(flag_,
                    "expected a number of layers, or a list of 0 and 1 such as ([1]*3+[0])*2, got "
                    "'{}'",
                    text_);
    }
    void skip_blanks() {
        while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    }
    bool take(char c) {
        skip_blanks();
        if (at_ == text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    Value sum(int depth) {
        Value left = product(depth);
        while (take('+')) {
            const Value right = product(depth);
            if (!left.is_list || !right.is_list) fail();
            left.list.insert(left.list.end(), right.list.begin(), right.list.end());
            if (left.list.size() > max_layers) fail();
        }
        return left;
    }
    Value product(int depth) {
        Value left = factor(depth);
        while (take('*')) {
            Value right = factor(depth);
            if (left.is_list == right.is_list) fail();
            if (right.is_list) std::swap(left, right);
            left = repeated(left, right.number);
        }
        return left;
    }
    Value repeated(const Value& value, i64 n) const {
        if (n > static_cast<i64>(max_layers) ||
            value.list.size() * static_cast<size_t>(n) > max_layers) {
            fail();
        }
        Value result{.is_list = true};
        for (i64 i = 0; i < n; ++i)
            result.list.insert(result.list.end(), value.list.begin(), value.list.end());
        return result;
    }
    Value factor(int depth) {
        constexpr int most = 20;
        if (depth > most) fail();
        if (take('(')) {
            Value value = sum(depth + 1);
            if (!take(')')) fail();
            return value;
        }
        if (take('[')) return entries(depth + 1);
        skip_blanks();
        Value value;
        const char* const begin = text_.data() + at_;
        const char* const end = text_.data() + text_.size();
        const auto [stop, error] = std::from_chars(begin, end, value.number);
        if (error != std::errc() || value.number < 0) fail();
        at_ += static_cast<size_t>(stop - begin);
        return value;
    }
    Value entries(int depth) {
        Value value{.is_list = true};
        if (take(']')) return value;
        do {
            const Value entry = sum(depth);
            if (entry.is_list) fail();
            value.list.push_back(entry.number);
        } while (take(','));
        if (!take(']')) fail();
        return value;
    }

    std::string_view flag_;
    std::string_view text_;
    size_t at_ = 0;
};

std::optional<i64> as_number(std::string_view text) {
    i64 value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
    return value;
}

}  // namespace

spec::LayerPattern parse_layer_pattern(std::string_view flag, std::string_view text, bool marks) {
    if (const auto number = as_number(text)) {
        if (*number < 1) usage_error(flag, "must be at least 1, got {}", *number);
        return {.every = *number, .chosen = {}};
    }
    std::vector<bool> bits = ListParser(flag, text).parse();
    if (!marks) bits.flip();
    return {.every = 0, .chosen = std::move(bits)};
}

std::string text_of(const spec::LayerPattern& pattern, bool marks) {
    if (pattern.empty()) return "";
    if (pattern.every > 0) return fmt::format("{}", pattern.every);
    std::string text;
    for (const bool chosen : pattern.chosen) {
        text += text.empty() ? '[' : ',';
        text += chosen == marks ? '1' : '0';
    }
    return text + "]";
}

}  // namespace lm::config
