// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenizer/pretokenizer.hpp"

#include "base/error.hpp"
#include "text/pretokenizer/cased_rule.hpp"
#include "text/pretokenizer/gpt2_rule.hpp"
#include "text/pretokenizer/rules.hpp"
#include "text/pretokenizer/staged.hpp"
#include "text/pretokenizer/x86/gpt2_pretokenizer.hpp"
#include "text/pretokenizer/x86/masked_pretokenizer.hpp"

namespace lm::text {
namespace {

class WholeSplitter : public Splitter {
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

// Any rule that tells the end of a piece from its beginning.
template <typename PieceEnd>
class WalkingSplitter : public Splitter {
  public:
    WalkingSplitter(PieceEnd piece_end, const ClassTable& classes)
        : piece_end_(piece_end), classes_(classes) {}
    void start(std::string_view text) override {
        chars_ = CharReader(text, classes_);
        position_ = 0;
    }
    i64 next(u32* ends, i64 capacity) override {
        i64 n = 0;
        while (n < capacity && position_ < chars_.size())
            ends[n++] = position_ = piece_end_(chars_, position_);
        return n;
    }

  private:
    PieceEnd piece_end_;
    const ClassTable& classes_;
    CharReader chars_;
    u32 position_ = 0;
};

template <typename PieceEnd>
std::unique_ptr<Splitter> walking(PieceEnd piece_end, const ClassTable& classes = class_table()) {
    return std::make_unique<WalkingSplitter<PieceEnd>>(piece_end, classes);
}

std::unique_ptr<Splitter> walking_llama3(int most_digits, const ClassTable& classes) {
    return walking([most_digits](const CharReader& chars,
                                 u32 begin) { return llama3_piece_end(chars, begin, most_digits); },
                   classes);
}

std::unique_ptr<Splitter> walking_cased(CasedRule rule) {
    return walking(
        [rule](const CharReader& chars, u32 begin) { return cased_piece_end(chars, begin, rule); });
}

}  // namespace

std::unique_ptr<Splitter> make_scalar_splitter(SplitRule rule) {
    switch (rule) {
        case SplitRule::none:
            return std::make_unique<WholeSplitter>();
        case SplitRule::gpt2:
            return walking(gpt2_piece_end);
        case SplitRule::starcoder:
            return walking(starcoder_piece_end);
        case SplitRule::digits:
            return walking(digits_piece_end);
        case SplitRule::llama3:
            return walking_llama3(3, class_table());
        case SplitRule::qwen2:
            return walking_llama3(1, class_table());
        case SplitRule::qwen3_5:
            return walking_llama3(1, class_table_with_marks());
        case SplitRule::o200k:
            return walking_cased({true, 3});
        case SplitRule::tekken:
            return walking_cased({false, 1});
        case SplitRule::deepseek_v3:
        case SplitRule::deepseek_coder:
        case SplitRule::falcon:
            return make_staged_splitter(rule);
        case SplitRule::bloom:
            return walking(
                [](const CharReader& chars, u32 begin) { return bloom_piece_end(chars, begin); });
    }
    bug(__FILE__, __LINE__, "unknown split rule");
}

std::unique_ptr<Splitter> make_splitter(SplitRule rule) {
    if (has_vector_splitter()) {
        if (rule == SplitRule::gpt2)
            return has_wide_splitter() ? make_wide_gpt2_splitter() : make_vector_gpt2_splitter();
        if (rule == SplitRule::llama3 || rule == SplitRule::qwen2 || rule == SplitRule::bloom)
            return make_masked_splitter(rule);
    }
    return make_scalar_splitter(rule);
}

}  // namespace lm::text
