// SPDX-License-Identifier: Apache-2.0
#include "text/special_tokens.hpp"

#include <algorithm>
#include <tuple>

namespace lm::text {

SpecialMatcher::SpecialMatcher(std::vector<SpecialToken> tokens) : tokens_(std::move(tokens)) {
    const auto lead = [](const SpecialToken& t) { return static_cast<u8>(t.content[0]); };
    std::ranges::sort(tokens_, [&](const SpecialToken& a, const SpecialToken& b) {
        return std::tuple(lead(a), b.content.size()) < std::tuple(lead(b), a.content.size());
    });
    for (const SpecialToken& token : tokens_) {
        ++first_[lead(token) + 1];
        if (leads_.empty() || leads_.back() != token.content[0]) leads_.push_back(token.content[0]);
    }
    for (int i = 0; i < 256; ++i) first_[i + 1] += first_[i];
}

SpecialMatcher::Match SpecialMatcher::find(std::string_view text, size_t from) const {
    for (size_t i = text.find_first_of(leads_, from); i != std::string_view::npos;
         i = text.find_first_of(leads_, i + 1)) {
        const auto lead = static_cast<u8>(text[i]);
        for (u32 k = first_[lead]; k < first_[lead + 1]; ++k) {
            if (text.substr(i).starts_with(tokens_[k].content)) return {i, &tokens_[k]};
        }
    }
    return {std::string_view::npos, nullptr};
}

}  // namespace lm::text
