// SPDX-License-Identifier: Apache-2.0
// libFuzzer: the first byte selects a pre-tokenizer, the rest is the text. The fast pre-tokenizer,
// the portable one and the reference cut valid UTF-8 equally. Pre-tokens of invalid UTF-8 cover the
// text in order.
#include <cstdlib>
#include <string>
#include <vector>

#include "base/utf8.hpp"
#include "support/reference_pretokenizer.hpp"
#include "text/pretokenizer/pretokenizer.hpp"

namespace {

using lm::text::PretokenizerRule;

void require(bool condition) {
    if (!condition) std::abort();
}

std::vector<lm::u32> ends_of(lm::text::Pretokenizer& pretokenizer, std::string_view text) {
    std::vector<lm::u32> all;
    lm::u32 ends[128];
    pretokenizer.start(text);
    while (const lm::i64 n = pretokenizer.next(ends, 128)) {
        for (lm::i64 i = 0; i < n; ++i) {
            require(ends[i] > (all.empty() ? 0 : all.back()));
            all.push_back(ends[i]);
        }
    }
    require(text.empty() ? all.empty() : all.back() == text.size());
    return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const PretokenizerRule rule = lm::test::all_rules[data[0] % std::size(lm::test::all_rules)];
    // A copy, so that the sanitizer detects a read beyond its end.
    const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
    const auto fast = ends_of(*lm::text::make_pretokenizer(rule), text);
    const auto portable = ends_of(*lm::text::make_scalar_pretokenizer(rule), text);
    if (!lm::is_valid_utf8(text)) return 0;
    require(fast == portable);
    require(fast == lm::test::reference_ends(rule, text));
    return 0;
}
