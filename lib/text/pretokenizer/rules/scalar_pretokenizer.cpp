// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenizer/rules/scalar_pretokenizer.hpp"

#include "base/error.hpp"
#include "text/pretokenizer/rules/pretoken_rules.hpp"
#include "text/pretokenizer/rules/staged.hpp"

namespace lm::text {
namespace {

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
