// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenizer/rules/scalar_pretokenizer.hpp"

#include <functional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "text/pretokenizer/rules/pretoken_rules.hpp"

namespace lm::text {
namespace {

// The pre-tokenizers of DeepSeek and Falcon, which are sequences of stages. Each stage cuts every
// pre-token of the previous stage as a separate text.

// Returns the end of the pre-token that begins at `begin` < text size.
using Stage = u32 (*)(const CharReader& chars, u32 begin);

class StagedPretokenizer final : public Pretokenizer {
  public:
    explicit StagedPretokenizer(std::span<const Stage> stages) {
        for (const Stage stage : stages) levels_.push_back({stage});
    }

    void start(std::string_view text) override {
        levels_[0].enter(text, 0);
        deepest_ = 0;
    }

    i64 next(u32* ends, i64 capacity) override {
        i64 n = 0;
        // Each level cuts one pre-token and passes it to the next level as a text, before it cuts
        // its own next pre-token. The last level writes the ends. When a level reaches the end of
        // its text, the previous level continues.
        while (n < capacity) {
            if (levels_[deepest_].at_end()) {
                if (deepest_ == 0) break;
                --deepest_;
                continue;
            }
            Level& level = levels_[deepest_];
            const u32 begin = level.position;
            level.position = level.stage(level.chars, begin);
            const u32 offset = level.offset + begin;
            if (deepest_ + 1 == levels_.size()) {
                ends[n++] = level.offset + level.position;
            } else {
                const std::string_view text = level.chars.text();
                levels_[++deepest_].enter(text.substr(begin, level.position - begin), offset);
            }
        }
        return n;
    }

  private:
    struct Level {
        Stage stage;
        CharReader chars{};
        u32 offset = 0;    // offset of this level's text in the whole text
        u32 position = 0;  // position in this level's text

        void enter(std::string_view text, u32 at) {
            chars = CharReader(text);
            offset = at;
            position = 0;
        }
        bool at_end() const { return position == chars.size(); }
    };

    std::vector<Level> levels_;
    size_t deepest_ = 0;  // index of the active level
};

// Returns the end of the match at `begin`. If there is none, returns the beginning of the next
// match, or the end of the text. match_end(at) returns the end of the match at `at`, or `at` if
// there is none.
template <typename MatchEnd>
u32 match_or_gap(const CharReader& chars, u32 begin, MatchEnd match_end) {
    if (const u32 end = match_end(begin); end > begin) return end;
    u32 at = begin;
    do at += chars.at(at).length;
    while (at < chars.size() && match_end(at) == at);
    return at;
}

// Returns the first position >= `at` whose character does not satisfy `holds`.
template <typename Holds>
u32 run_end(const CharReader& chars, u32 at, Holds holds) {
    for (Char c = chars.at(at); c.length > 0 && holds(c.code_point); c = chars.at(at))
        at += c.length;
    return at;
}

// Returns the end of the match of \s?X+ at `begin`, where X are the code points that satisfy
// `holds`. If there is none, returns the beginning of the next match, or the end of the text.
template <typename Holds>
u32 spaced_run(const CharReader& chars, u32 begin, Holds holds) {
    return match_or_gap(chars, begin, [&](u32 at) {
        const Char c = chars.at(at);
        const u32 first = c.cls == CharClass::space ? at + c.length : at;
        const u32 end = run_end(chars, first, holds);
        return end > first ? end : run_end(chars, at, holds);
    });
}

// Returns the end of the longest run at `begin` in which `holds` has the same value for all
// characters.
template <typename Holds>
u32 alike(const CharReader& chars, u32 begin, Holds holds) {
    const bool first = holds(chars.at(begin).code_point);
    return run_end(chars, begin, [&](u32 cp) { return holds(cp) == first; });
}

// A function object that tests whether a code point has the given class or kind.
template <typename Value>
struct IsA {
    const CodePointTable<Value>& table;
    Value value;

    bool operator()(u32 cp) const { return table[cp] == value; }
};
IsA<CharClass> is_letter() {
    return {class_table(), CharClass::letter};
}
IsA<CharClass> is_number() {
    return {class_table(), CharClass::number};
}
IsA<CharKind> is_punctuation() {
    return {kind_table(), CharKind::punctuation};
}
bool is_han_or_kana(u32 cp) {
    return (cp >= 0x4E00 && cp <= 0x9FA5) || (cp >= 0x3040 && cp <= 0x30FF);
}
bool is_han_or_hangul(u32 cp) {
    return (cp >= 0x800 && cp <= 0x9FA5) || (cp >= 0xAC00 && cp <= 0xD7FF);
}

u32 numbers_by(const CharReader& chars, u32 begin, int most) {
    if (chars.at(begin).cls == CharClass::number) return detail::digits_end(chars, begin, most);
    return run_end(chars, begin, std::not_fn(is_number()));
}

u32 lines(const CharReader& chars, u32 begin) {
    if (detail::is_line_end(chars.at(begin))) return begin + 1;
    return run_end(chars, begin, [](u32 cp) { return cp != '\r' && cp != '\n'; });
}

bool is_word(CharKind kind) {
    return kind == CharKind::upper || kind == CharKind::lower || kind == CharKind::caseless ||
           kind == CharKind::mark;
}
bool is_sign(CharKind kind) {
    return kind == CharKind::punctuation || kind == CharKind::symbol;
}
bool is_ascii_letter(u32 cp) {
    return (cp | 0x20) >= 'a' && (cp | 0x20) <= 'z';
}

// Returns the end of the match of DeepSeek-V3's last pattern at `begin`, or `begin` if there is no
// match. The text between two matches contains only numbers and characters without a kind.
u32 deepseek_match_end(const CharReader& chars, u32 begin) {
    const KindTable& kinds = kind_table();
    const auto kind_at = [&](const Char& c) {
        return c.length > 0 ? kinds[c.code_point] : CharKind::other;
    };
    const auto skip = [&](u32 at, bool (*holds)(CharKind)) {
        return run_end(chars, at, [&](u32 cp) { return holds(kinds[cp]); });
    };
    const Char c = chars.at(begin);
    const Char following = chars.at(begin + c.length);
    const CharKind kind = kind_at(c), next = kind_at(following);
    const bool ascii_sign = c.code_point < 0x80 && is_sign(kind);
    if (ascii_sign && following.length > 0 && is_ascii_letter(following.code_point))
        return run_end(chars, begin + 1, is_ascii_letter);
    if (is_word(kind)) return skip(begin, is_word);
    if (is_word(next) && !is_sign(kind) && !detail::is_line_end(c))
        return skip(begin + c.length, is_word);
    if (is_sign(kind) || (c.code_point == ' ' && is_sign(next))) {
        u32 end = skip(begin + c.length, is_sign);
        while (detail::is_line_end(chars.at(end))) ++end;
        return end;
    }
    return kind == CharKind::space ? detail::space_run_end(chars, begin) : begin;
}

// ByteLevel replaces each byte by a character of the byte map. Returns whether this character is a
// number.
bool is_numeric_byte(u8 byte) {
    switch (byte) {
        case 0xB2:
        case 0xB3:
        case 0xB9:
        case 0xBC:
        case 0xBD:
        case 0xBE:
            return true;
        default:
            return byte >= '0' && byte <= '9';
    }
}

u32 numeric_bytes(const CharReader& chars, u32 begin) {
    const auto numeric = [&](u32 at) { return is_numeric_byte(static_cast<u8>(chars.text()[at])); };
    u32 end = begin + 1;
    while (end < chars.size() && numeric(end) == numeric(begin)) ++end;
    return end;
}

u32 three_digits(const CharReader& chars, u32 begin) {
    const auto matches = [&](u32 at) {
        const std::string_view three = chars.text().substr(at, 3);
        return three.size() == 3 && three.find_first_not_of("0123456789") == three.npos;
    };
    if (matches(begin)) return begin + 3;
    u32 end = begin + 1;
    while (end < chars.size() && !matches(end)) ++end;
    return end;
}

// Each stage implements one pattern of patterns.hpp, in the order of known_sequences
// (pretokenizer_component.cpp).
constexpr Stage deepseek_v3_stages[] = {
    [](const CharReader& chars, u32 begin) { return numbers_by(chars, begin, 3); },
    [](const CharReader& chars, u32 begin) { return alike(chars, begin, is_han_or_kana); },
    [](const CharReader& chars, u32 begin) {
        return match_or_gap(chars, begin, [&](u32 at) { return deepseek_match_end(chars, at); });
    },
};
constexpr Stage deepseek_coder_stages[] = {
    lines,
    [](const CharReader& chars, u32 begin) { return spaced_run(chars, begin, is_letter()); },
    [](const CharReader& chars, u32 begin) { return spaced_run(chars, begin, is_punctuation()); },
    [](const CharReader& chars, u32 begin) { return alike(chars, begin, is_han_or_hangul); },
    [](const CharReader& chars, u32 begin) { return numbers_by(chars, begin, 1); },
};
constexpr Stage falcon_stages[] = {
    [](const CharReader& chars, u32 begin) { return alike(chars, begin, is_split_punctuation); },
    gpt2_pretoken_end,
    numeric_bytes,
    three_digits,
};

// Returns a pre-tokenizer that takes linear time and constant memory. Throws Error(bug) when `rule`
// has no stages.
std::unique_ptr<Pretokenizer> make_staged_pretokenizer(PretokenizerRule rule) {
    switch (rule) {
        case PretokenizerRule::deepseek_v3:
            return std::make_unique<StagedPretokenizer>(deepseek_v3_stages);
        case PretokenizerRule::deepseek_coder:
            return std::make_unique<StagedPretokenizer>(deepseek_coder_stages);
        case PretokenizerRule::falcon:
            return std::make_unique<StagedPretokenizer>(falcon_stages);
        case PretokenizerRule::none:
        case PretokenizerRule::gpt2:
        case PretokenizerRule::llama3:
        case PretokenizerRule::qwen2:
        case PretokenizerRule::bloom:
        case PretokenizerRule::starcoder:
        case PretokenizerRule::digits:
        case PretokenizerRule::o200k:
        case PretokenizerRule::tekken:
        case PretokenizerRule::qwen3_5:
            break;
    }
    bug(__FILE__, __LINE__, "pre-tokenizer rule {} has no stages", static_cast<int>(rule));
}

class WholeTextPretokenizer : public Pretokenizer {
  public:
    void start(std::string_view text) override { left_ = static_cast<u32>(text.size()); }
    i64 next(u32* ends, i64) override {
        if (left_ == 0) return 0;
        ends[0] = left_;
        left_ = 0;
        return 1;
    }

  private:
    u32 left_ = 0;
};

// A pre-tokenizer whose rule computes the end of a pre-token from its beginning.
template <typename PretokenEnd>
class RulePretokenizer : public Pretokenizer {
  public:
    RulePretokenizer(PretokenEnd pretoken_end, const ClassTable& classes)
        : pretoken_end_(pretoken_end), classes_(classes) {}
    void start(std::string_view text) override {
        chars_ = CharReader(text, classes_);
        position_ = 0;
    }
    i64 next(u32* ends, i64 capacity) override {
        i64 n = 0;
        while (n < capacity && position_ < chars_.size())
            ends[n++] = position_ = pretoken_end_(chars_, position_);
        return n;
    }

  private:
    PretokenEnd pretoken_end_;
    const ClassTable& classes_;
    CharReader chars_;
    u32 position_ = 0;
};

template <typename PretokenEnd>
std::unique_ptr<Pretokenizer> rule_pretokenizer(PretokenEnd pretoken_end,
                                                const ClassTable& classes = class_table()) {
    return std::make_unique<RulePretokenizer<PretokenEnd>>(pretoken_end, classes);
}

std::unique_ptr<Pretokenizer> llama3_pretokenizer(int max_digits, const ClassTable& classes) {
    return rule_pretokenizer(
        [max_digits](const CharReader& chars, u32 begin) {
            return llama3_pretoken_end(chars, begin, max_digits);
        },
        classes);
}

std::unique_ptr<Pretokenizer> cased_pretokenizer(CasedRule rule) {
    return rule_pretokenizer([rule](const CharReader& chars, u32 begin) {
        return cased_pretoken_end(chars, begin, rule);
    });
}

}  // namespace

std::unique_ptr<Pretokenizer> make_scalar_pretokenizer(PretokenizerRule rule) {
    switch (rule) {
        case PretokenizerRule::none:
            return std::make_unique<WholeTextPretokenizer>();
        case PretokenizerRule::gpt2:
            return rule_pretokenizer(gpt2_pretoken_end);
        case PretokenizerRule::starcoder:
            return rule_pretokenizer(starcoder_pretoken_end);
        case PretokenizerRule::digits:
            return rule_pretokenizer(digits_pretoken_end);
        case PretokenizerRule::llama3:
            return llama3_pretokenizer(3, class_table());
        case PretokenizerRule::qwen2:
            return llama3_pretokenizer(1, class_table());
        case PretokenizerRule::qwen3_5:
            return llama3_pretokenizer(1, class_table_with_marks());
        case PretokenizerRule::o200k:
            return cased_pretokenizer({true, 3});
        case PretokenizerRule::tekken:
            return cased_pretokenizer({false, 1});
        case PretokenizerRule::deepseek_v3:
        case PretokenizerRule::deepseek_coder:
        case PretokenizerRule::falcon:
            return make_staged_pretokenizer(rule);
        case PretokenizerRule::bloom:
            return rule_pretokenizer([](const CharReader& chars, u32 begin) {
                return bloom_pretoken_end(chars, begin);
            });
    }
    bug(__FILE__, __LINE__, "unknown pre-tokenizer rule {}", static_cast<int>(rule));
}

}  // namespace lm::text
