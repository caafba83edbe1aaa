// SPDX-License-Identifier: Apache-2.0
// All mergers that this machine supports for a model.
#pragma once

#include <memory>
#include <vector>

#include "text/bpe/merges/pretoken_merger.hpp"
#include "text/bpe/x86/vector_merger.hpp"

namespace lm::test {

inline std::vector<std::unique_ptr<text::PretokenMerger>> all_mergers(const text::BpeModel& model) {
    std::vector<std::unique_ptr<text::PretokenMerger>> mergers;
    mergers.push_back(text::make_portable_merger(model));
    for (const auto words : {text::MergerWords::narrow, text::MergerWords::wide})
        if (auto merger = text::make_vector_merger(model, words))
            mergers.push_back(std::move(merger));
    return mergers;
}

}  // namespace lm::test
