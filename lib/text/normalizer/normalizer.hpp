// SPDX-License-Identifier: Apache-2.0
// The normalizers of tokenizer.json that lm-utils applies exactly: Unicode normal forms, lower
// case, removal of accents, and literal edits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "text/normalizer/normal_form.hpp"

namespace lm::text {

struct NormalizerStep {
    enum class Kind { nfc, nfd, nfkc, nfkd, lowercase, strip_accents, strip, replace, prepend };
    Kind kind;
    std::string pattern = {};  // replace: the literal text to replace, not empty
    std::string content =
        {};  // replace: the new text; prepend: the text to prepend to a non-empty text
    bool left = true, right = true;  // strip: the sides to strip
};

class Normalizer {
  public:
    Normalizer() = default;
    explicit Normalizer(std::vector<NormalizerStep> steps);

    // Memory that apply() reuses for the next text.
    struct Buffers {
        std::string text, next;  // the results of two consecutive steps
        std::string whole;       // the result of a long text that is normalized in parts
    };

    bool empty() const { return steps_.empty(); }
    const std::vector<NormalizerStep>& steps() const { return steps_; }

    // Returns `text` (valid UTF-8) after all steps, as a view of `text` or of `buffers`. Uses
    // memory for the text before and after a step. Normal forms also need four times the longest
    // run of marks, or of vowels and trailing consonants of Hangul. Throws TextTooLong if the
    // result of a step exceeds max_text_bytes.
    std::string_view apply(std::string_view text, Buffers& buffers) const;

  private:
    std::string_view apply_steps(std::string_view text, Buffers& buffers) const;

    std::vector<NormalizerStep> steps_;
    // True if a text may be cut before stands_alone() characters (normalizer.cpp), and its parts
    // normalized separately, without a change of the result.
    bool is_local_ = true;
};

}  // namespace lm::text
