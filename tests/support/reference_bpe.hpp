// SPDX-License-Identifier: Apache-2.0
// A reference for encoders: byte-level BPE by its definition, which merges the adjacent pair of
// lowest rank, leftmost first, until no pair has a merge. Uses the list of merges of the model
// only.
#pragma once

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "support/reference_pretokenizer.hpp"
#include "text/bpe/merges/bpe_model.hpp"

namespace lm::test {

class ReferenceBpe {
  public:
    explicit ReferenceBpe(const text::BpeModel& model) : model_(&model) {
        for (u32 rank = 0; rank < model.merges().size(); ++rank) {
            const text::Merge& merge = model.merges()[rank];
            ranks_.emplace(std::pair(merge.left, merge.right), rank);
        }
    }

    // Returns the ids of one pre-token.
    std::vector<i32> of_pretoken(std::string_view pretoken) const {
        std::vector<i32> ids;
        for (const char c : pretoken) ids.push_back(model_->byte_id(static_cast<u8>(c)));
        std::vector<u32> ranks;  // rank of the pair of each id and the next one
        for (size_t i = 0; i + 1 < ids.size(); ++i) ranks.push_back(rank(ids, i));
        for (;;) {
            const auto best = std::ranges::min_element(ranks);
            if (best == ranks.end() || *best == none) return ids;
            const auto at = best - ranks.begin();
            ids[static_cast<size_t>(at)] = model_->merges()[*best].result;
            ids.erase(ids.begin() + at + 1);
            ranks.erase(best);
            const auto left = static_cast<size_t>(at);
            if (left < ranks.size()) ranks[left] = rank(ids, left);
            if (left > 0) ranks[left - 1] = rank(ids, left - 1);
        }
    }

    // Returns the ids of a text that `rule` cuts, with whole tokens of ignore_merges.
    std::vector<i32> of_text(text::PretokenizerRule rule, std::string_view text) const {
        std::vector<i32> ids;
        u32 begin = 0;
        for (const u32 end : ends(rule, text)) {
            const std::string_view pretoken = text.substr(begin, end - begin);
            const i32 whole = model_->find_whole(pretoken);
            const std::vector<i32> more = whole >= 0 ? std::vector{whole} : of_pretoken(pretoken);
            ids.insert(ids.end(), more.begin(), more.end());
            begin = end;
        }
        return ids;
    }

  private:
    static constexpr u32 none = ~0U;

    u32 rank(const std::vector<i32>& ids, size_t i) const {
        const auto at = ranks_.find({ids[i], ids[i + 1]});
        return at == ranks_.end() ? none : at->second;
    }

    static std::vector<u32> ends(text::PretokenizerRule rule, std::string_view text) {
        if (rule != text::PretokenizerRule::none) return ReferencePretokenizer(rule, text).ends();
        return text.empty() ? std::vector<u32>() : std::vector{static_cast<u32>(text.size())};
    }

    const text::BpeModel* model_;
    std::map<std::pair<i32, i32>, u32> ranks_;
};

}  // namespace lm::test
