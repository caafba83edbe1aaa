// SPDX-License-Identifier: Apache-2.0
// A reference for pre-tokenizers: backtracking matchers of their regular expressions, slow and
// close to the text of the patterns.
#pragma once

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "base/utf8.hpp"
#include "text/bpe/byte_map.hpp"
#include "text/pretokenizer/pretokenizer.hpp"
#include "text/unicode/char_classes.hpp"

namespace lm::test {

class ReferencePretokenizer {
  public:
    ReferencePretokenizer(text::PretokenizerRule rule, std::string_view bytes) : rule_(rule) {
        for (size_t i = 0; i < bytes.size();) {
            const DecodedChar d = decode_utf8(bytes.substr(i));
            chars_.push_back(d.code_point);
            i += static_cast<size_t>(d.length);
            ends_.push_back(static_cast<u32>(i));
        }
    }

    std::vector<u32> ends() const {
        std::vector<u32> out;
        for (size_t at = 0; at < chars_.size();) {
            at = pretoken_end(at);
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

    // Returns the end of the longest run of a class at `at`, of at most `most` characters.
    size_t run(size_t at, const Class& cls, size_t most = ~size_t{0}) const {
        const size_t begin = at;
        while (at < chars_.size() && at - begin < most && cls(chars_[at])) ++at;
        return at;
    }
    // Returns the end of the match of X?Y+, or `at`.
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

    size_t pretoken_end(size_t at) const {
        switch (rule_) {
            case text::PretokenizerRule::gpt2:
                return gpt2(at);
            case text::PretokenizerRule::starcoder:
                return starcoder(at);
            case text::PretokenizerRule::digits:
                return digits(at);
            case text::PretokenizerRule::llama3:
                return llama3(at, 3);
            case text::PretokenizerRule::qwen2:
                return llama3(at, 1);
            case text::PretokenizerRule::qwen3_5:
                return qwen3_5(at);
            case text::PretokenizerRule::o200k:
                return cased(at, true, 3);
            case text::PretokenizerRule::tekken:
                return cased(at, false, 1);
            case text::PretokenizerRule::bloom:
                return bloom(at);
            case text::PretokenizerRule::none:
            case text::PretokenizerRule::deepseek_v3:
            case text::PretokenizerRule::deepseek_coder:
            case text::PretokenizerRule::falcon:
                break;
        }
        return chars_.size();
    }
    static bool blank(u32 c) { return c == ' '; }
    static text::CharKind kind(u32 c) { return text::kind_table()[c]; }
    static bool mark(u32 c) { return kind(c) == text::CharKind::mark; }
    static bool both_cases(u32 c) { return mark(c) || kind(c) == text::CharKind::caseless; }
    static bool upper(u32 c) { return both_cases(c) || kind(c) == text::CharKind::upper; }
    static bool lower(u32 c) { return both_cases(c) || kind(c) == text::CharKind::lower; }
    static bool lead(u32 c) { return !line_end(c) && !letter(c) && !number(c); }

    size_t gpt2(size_t at) const {
        if (const size_t end = contraction(at, false); end > at) return end;
        for (const Class& cls : {Class(letter), Class(number), Class(other)}) {
            if (const size_t end = optional_then_run(at, blank, cls); end > at) return end;
        }
        return spaces(at);
    }
    // starcoder() ends after one number, digits() after all adjacent numbers. Both apply GPT-2's
    // rule to the text up to the next number, as if the text ended there.
    size_t starcoder(size_t at) const { return number(chars_[at]) ? at + 1 : digits(at); }
    size_t digits(size_t at) const {
        if (number(chars_[at])) return run(at, number);
        ReferencePretokenizer stretch = *this;
        stretch.chars_.resize(run(at, [](u32 c) { return !number(c); }));
        return stretch.gpt2(at);
    }
    size_t llama3(size_t at, size_t digits) const {
        if (const size_t end = contraction(at, true); end > at) return end;
        if (const size_t end = optional_then_run(at, lead, letter); end > at) return end;
        if (const size_t end = run(at, number, digits); end > at) return end;
        if (const size_t end = optional_then_run(at, blank, other); end > at)
            return run(end, line_end);
        if (const size_t end = lines(at); end > at) return end;
        return spaces(at);
    }
    size_t qwen3_5(size_t at) const {
        const Class word = [](u32 c) { return letter(c) || mark(c); };
        const Class sign = [](u32 c) { return other(c) && !mark(c); };
        if (const size_t end = contraction(at, true); end > at) return end;
        if (const size_t end = optional_then_run(at, lead, word); end > at) return end;
        if (number(chars_[at])) return at + 1;
        if (const size_t end = optional_then_run(at, blank, sign); end > at)
            return run(end, line_end);
        if (const size_t end = lines(at); end > at) return end;
        return spaces(at);
    }
    // U*L+ or U+L*: the first match that backtracking finds.
    size_t cased_word(size_t at, bool lower_needed) const {
        const size_t most = run(at, upper);
        if (!lower_needed) return most > at ? run(most, lower) : at;
        for (size_t k = most + 1; k-- > at;) {
            if (const size_t end = run(k, lower); end > k) return end;
        }
        return at;
    }
    size_t cased(size_t at, bool contractions, size_t digits) const {
        for (const bool lower_needed : {true, false}) {
            for (const size_t led : {size_t{1}, size_t{0}}) {
                if (led == 1 && !lead(chars_[at])) continue;
                const size_t end = cased_word(at + led, lower_needed);
                if (end == at + led) continue;
                return contractions && end < chars_.size() ? contraction(end, true) : end;
            }
        }
        if (const size_t end = run(at, number, digits); end > at) return end;
        if (const size_t end = optional_then_run(at, blank, other); end > at)
            return run(end, [](u32 c) { return line_end(c) || c == '/'; });
        if (const size_t end = lines(at); end > at) return end;
        return spaces(at);
    }
    // Returns the end of a match, or of the gap up to the next match.
    size_t bloom(size_t at) const {
        if (const size_t end = optional_then_run(at, blank, bloom_word); end > at) return end;
        while (at < chars_.size() && optional_then_run(at, blank, bloom_word) == at) ++at;
        return at;
    }

    friend class ReferenceStages;
    text::PretokenizerRule rule_;
    std::vector<u32> chars_;
    std::vector<u32> ends_;  // byte offsets
};

// Sequences of stages, each of which cuts every pre-token of the previous stage.
class ReferenceStages {
  public:
    explicit ReferenceStages(std::string_view text) : pretokens_{text} {}

    std::vector<u32> ends(text::PretokenizerRule rule) {
        rule == text::PretokenizerRule::deepseek_v3      ? deepseek_v3()
        : rule == text::PretokenizerRule::deepseek_coder ? deepseek_coder()
                                                         : falcon();
        std::vector<u32> ends;
        for (const std::string_view pretoken : pretokens_)
            ends.push_back((ends.empty() ? 0 : ends.back()) + static_cast<u32>(pretoken.size()));
        return pretokens_[0].empty() ? std::vector<u32>() : ends;
    }

  private:
    using Split = ReferencePretokenizer;
    using Match = std::function<size_t(const Split&, size_t at)>;  // returns `at` for no match

    template <typename Cut>
    void stage(Cut cut) {
        std::vector<std::string_view> all;
        for (const std::string_view pretoken : pretokens_) {
            u32 begin = 0;
            for (const u32 end : cut(pretoken)) {
                all.push_back(pretoken.substr(begin, end - begin));
                begin = end;
            }
        }
        if (!all.empty()) pretokens_ = all;
    }
    static std::vector<u32> isolated(std::string_view pretoken, const Match& match) {
        const Split split(text::PretokenizerRule::none, pretoken);
        std::vector<u32> ends;
        for (size_t at = 0; at < split.chars_.size();) {
            size_t end = match(split, at);
            if (end == at) {
                while (end < split.chars_.size() && match(split, end) == end) ++end;
            }
            ends.push_back(split.ends_[end - 1]);
            at = end;
        }
        return ends;
    }
    void isolate(const Match& match) {
        stage([&](std::string_view pretoken) { return isolated(pretoken, match); });
    }
    void isolate_runs(const Split::Class& cls, size_t most = ~size_t{0}) {
        isolate([&](const Split& split, size_t at) { return split.run(at, cls, most); });
    }
    void isolate_spaced_runs(const Split::Class& cls) {
        isolate([&](const Split& split, size_t at) {
            return split.optional_then_run(at, Split::space, cls);
        });
    }

    static size_t deepseek_match(const Split& split, size_t at) {
        using text::CharKind;
        const auto punctuation = [](u32 c) { return Split::kind(c) == CharKind::punctuation; };
        const auto sign = [=](u32 c) {
            return punctuation(c) || Split::kind(c) == CharKind::symbol;
        };
        const auto ascii_letter = [](u32 c) {
            return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        };
        const std::u32string_view ascii = U"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
        if (ascii.find(split.chars_[at]) != ascii.npos) {
            if (const size_t end = split.run(at + 1, ascii_letter); end > at + 1) return end;
        }
        const auto lead = [=](u32 c) {
            return !Split::line_end(c) && !Split::letter(c) && !sign(c);
        };
        const auto word = [](u32 c) { return Split::letter(c) || Split::mark(c); };
        if (const size_t end = split.optional_then_run(at, lead, word); end > at) return end;
        if (const size_t end = split.optional_then_run(at, Split::blank, sign); end > at)
            return split.run(end, Split::line_end);
        if (const size_t end = split.lines(at); end > at) return end;
        return split.spaces(at);
    }

    void deepseek_v3() {
        isolate_runs(Split::number, 3);
        isolate_runs([](u32 c) {
            return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x309F) ||
                   (c >= 0x30A0 && c <= 0x30FF);
        });
        isolate(deepseek_match);
    }
    void deepseek_coder() {
        isolate_runs(Split::line_end, 1);
        isolate_spaced_runs(Split::letter);
        isolate_spaced_runs([](u32 c) { return Split::kind(c) == text::CharKind::punctuation; });
        isolate_runs([](u32 c) {
            return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x800 && c <= 0x4E00) ||
                   (c >= 0xAC00 && c <= 0xD7FF);
        });
        isolate_runs(Split::number, 1);
    }
    void falcon() {
        isolate_runs(text::is_split_punctuation);
        stage([](std::string_view pretoken) {
            return Split(text::PretokenizerRule::gpt2, pretoken).ends();
        });
        // Applies `match` to the text in which each byte is replaced by its character of the byte
        // map, as Hugging Face's ByteLevel does. Returns ends in bytes.
        const auto over_bytes = [](std::string_view pretoken, const Match& match) {
            const std::string shown = text::token_of_bytes(pretoken);
            std::vector<u32> ends;
            for (const u32 end : isolated(shown, match)) {
                const auto is_first = [](char c) { return (c & 0xC0) != 0x80; };
                ends.push_back(
                    static_cast<u32>(std::count_if(shown.begin(), shown.begin() + end, is_first)));
            }
            return ends;
        };
        stage([&](std::string_view pretoken) {
            return over_bytes(pretoken, [](const Split& split, size_t at) {
                return split.run(at, Split::number);
            });
        });
        const auto digit = [](u32 c) { return c >= '0' && c <= '9'; };
        stage([&](std::string_view pretoken) {
            return over_bytes(pretoken, [&](const Split& split, size_t at) {
                return split.run(at, digit, 3) == at + 3 ? at + 3 : at;
            });
        });
    }

    std::vector<std::string_view> pretokens_;
};

inline std::vector<u32> reference_ends(text::PretokenizerRule rule, std::string_view text) {
    switch (rule) {
        case text::PretokenizerRule::deepseek_v3:
        case text::PretokenizerRule::deepseek_coder:
        case text::PretokenizerRule::falcon:
            return ReferenceStages(text).ends(rule);
        default:
            return ReferencePretokenizer(rule, text).ends();
    }
}

inline constexpr text::PretokenizerRule all_rules[] = {
    text::PretokenizerRule::gpt2,           text::PretokenizerRule::starcoder,
    text::PretokenizerRule::digits,         text::PretokenizerRule::llama3,
    text::PretokenizerRule::qwen2,          text::PretokenizerRule::bloom,
    text::PretokenizerRule::o200k,          text::PretokenizerRule::tekken,
    text::PretokenizerRule::qwen3_5,        text::PretokenizerRule::deepseek_v3,
    text::PretokenizerRule::deepseek_coder, text::PretokenizerRule::falcon};

}  // namespace lm::test
