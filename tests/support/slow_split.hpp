// SPDX-License-Identifier: Apache-2.0
// Pretokenizers as a backtracking matcher of their regular expressions, alternative by alternative:
// slow, and close to the text of the pattern. What the splitters are compared with.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "text/splitter.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace lm::test {

class SlowSplit {
  public:
    SlowSplit(text::SplitRule rule, std::string_view bytes) : rule_(rule) {
        for (size_t i = 0; i < bytes.size();) {
            const text::Decoded d = text::decode_utf8(bytes.substr(i));
            chars_.push_back(d.code_point);
            i += static_cast<size_t>(d.length);
            ends_.push_back(static_cast<u32>(i));
        }
    }

    std::vector<u32> ends() const {
        std::vector<u32> out;
        for (size_t at = 0; at < chars_.size();) {
            at = piece_end(at);
            out.push_back(ends_[at - 1]);
        }
        return out;
    }

  private:
    using Class = std::function<bool(u32)>;

    static bool is(u32 c, text::CharClass cls) { return text::class_table()[c] == cls; }
    static bool letter(u32 c) { return is(c, text::CharClass::letter); }
    static bool number(u32 c) { return is(c, text::CharClass::number); }
    static bool space(u32 c) { return is(c, text::CharClass::space); }
    static bool other(u32 c) { return is(c, text::CharClass::other); }
    static bool line_end(u32 c) { return c == '\r' || c == '\n'; }
    static bool bloom_word(u32 c) {
        constexpr std::u32string_view gaps = U"()|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C";
        return !space(c) && gaps.find(c) == gaps.npos;
    }

    // The end of the longest run of a class from `at`, of at most `most` characters.
    size_t run(size_t at, const Class& cls, size_t most = ~size_t{0}) const {
        const size_t begin = at;
        while (at < chars_.size() && at - begin < most && cls(chars_[at])) ++at;
        return at;
    }
    // X?Y+ : `at` where it does not match.
    size_t optional_then_run(size_t at, const Class& first, const Class& rest) const {
        if (at < chars_.size() && first(chars_[at]) && run(at + 1, rest) > at + 1)
            return run(at + 1, rest);
        return run(at, rest);
    }
    size_t contraction(size_t at, bool any_case) const {
        if (chars_[at] != '\'') return at;
        for (const std::u32string_view tail : {U"s", U"t", U"re", U"ve", U"m", U"ll", U"d"}) {
            size_t k = 0;
            while (k < tail.size() && at + 1 + k < chars_.size() &&
                   same(chars_[at + 1 + k], tail[k], any_case))
                ++k;
            if (k == tail.size()) return at + 1 + k;
        }
        return at;
    }
    static bool same(u32 c, u32 wanted, bool any_case) {
        return c == wanted || (any_case && (c + 32 == wanted || (c == 0x17F && wanted == 's')));
    }
    // \s*[\r\n]+
    size_t lines(size_t at) const {
        for (size_t end = run(at, space); end > at; --end) {
            if (line_end(chars_[end - 1])) return end;
        }
        return at;
    }
    // \s+(?!\S)|\s+
    size_t spaces(size_t at) const {
        const size_t end = run(at, space);
        return end == chars_.size() || end - at < 2 ? end : end - 1;
    }

    size_t piece_end(size_t at) const {
        switch (rule_) {
            case text::SplitRule::gpt2:
                return gpt2(at);
            case text::SplitRule::starcoder:
                return starcoder(at);
            case text::SplitRule::digits:
                return digits(at);
            case text::SplitRule::llama3:
                return llama3(at, 3);
            case text::SplitRule::qwen2:
                return llama3(at, 1);
            case text::SplitRule::bloom:
                return bloom(at);
            default:
                return chars_.size();
        }
    }
    static bool blank(u32 c) { return c == ' '; }

    size_t gpt2(size_t at) const {
        if (const size_t end = contraction(at, false); end > at) return end;
        for (const Class& cls : {Class(letter), Class(number), Class(other)}) {
            if (const size_t end = optional_then_run(at, blank, cls); end > at) return end;
        }
        return spaces(at);
    }
    // GPT-2's rule on the text up to the next number, as if nothing came behind it.
    size_t starcoder(size_t at) const { return number(chars_[at]) ? at + 1 : digits(at); }
    size_t digits(size_t at) const {
        if (number(chars_[at])) return run(at, number);
        SlowSplit stretch = *this;
        stretch.chars_.resize(run(at, [](u32 c) { return !number(c); }));
        return stretch.gpt2(at);
    }
    size_t llama3(size_t at, size_t digits) const {
        if (const size_t end = contraction(at, true); end > at) return end;
        const Class lead = [](u32 c) { return !line_end(c) && !letter(c) && !number(c); };
        if (const size_t end = optional_then_run(at, lead, letter); end > at) return end;
        if (const size_t end = run(at, number, digits); end > at) return end;
        if (const size_t end = optional_then_run(at, blank, other); end > at)
            return run(end, line_end);
        if (const size_t end = lines(at); end > at) return end;
        return spaces(at);
    }
    // A match, or the gap up to the next one.
    size_t bloom(size_t at) const {
        if (const size_t end = optional_then_run(at, blank, bloom_word); end > at) return end;
        while (at < chars_.size() && optional_then_run(at, blank, bloom_word) == at) ++at;
        return at;
    }

    text::SplitRule rule_;
    std::vector<u32> chars_;
    std::vector<u32> ends_;  // byte offsets
};

inline std::vector<u32> slow_ends(text::SplitRule rule, std::string_view text) {
    return SlowSplit(rule, text).ends();
}

}  // namespace lm::test
