// SPDX-License-Identifier: Apache-2.0
// The normalizers of tokenizer.json that are simple and exact: Unicode normal forms (by utf8proc),
// lower case, and a few edits of the text. Normal forms are those of Unicode 9, as in Hugging Face
// tokenizers: newer characters stay as they are.
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
    std::string pattern = {};        // replace: what is replaced, everywhere; not empty
    std::string content = {};        // replace: by this; prepend: this, unless the text is empty
    bool left = true, right = true;  // strip: on which sides
};

class Normalizer {
  public:
    Normalizer() = default;
    explicit Normalizer(std::vector<NormalizerStep> steps);

    // Memory that is kept from text to text.
    struct Buffers {
        std::string text, next;  // behind one step and the next one
        std::string whole;       // of a long text that is normalized part by part
    };

    bool empty() const { return steps_.empty(); }
    const std::vector<NormalizerStep>& steps() const { return steps_; }

    // `text` (valid UTF-8) after all steps; it may lie in `buffers`. Memory: the text before a step
    // and behind it, and for normal forms four times the longest run of marks, or of vowels and
    // finals of Hangul. Throws TextTooLong when a step makes more than 2 GiB of it.
    std::string_view apply(std::string_view text, Buffers& buffers) const;

  private:
    std::string_view apply_steps(std::string_view text, Buffers& buffers) const;

    std::vector<NormalizerStep> steps_;
    bool is_local_ = true;  // parts of a text may be normalized alone (stands_alone)
};

}  // namespace lm::text
