// SPDX-License-Identifier: Apache-2.0
// A choice of layers, as Megatron-LM's --window-attn-skip-freq and --no-rope-freq make it.
#pragma once

#include <algorithm>
#include <vector>

#include "base/types.hpp"

namespace lm::spec {

// Chooses the layers N, 2N, 3N, ... counted from 1, or those of a list.
struct LayerPattern {
    i64 every = 0;             // N; 0: the list chooses
    std::vector<bool> chosen;  // one entry for each layer; empty: no layer is chosen

    bool empty() const { return every == 0 && chosen.empty(); }
    // Returns whether layer `index`, counted from 0, is chosen.
    bool has(i64 index) const {
        if (every > 0) return (index + 1) % every == 0;
        return !chosen.empty() && chosen[static_cast<size_t>(index)];
    }
    // Returns the one form of the same choice among the first `n_layers` layers, so that equal
    // choices are equal: no layer, a number, or a list.
    LayerPattern canonical(i64 n_layers) const {
        std::vector<bool> all;
        for (i64 i = 0; i < n_layers; ++i) all.push_back(has(i));
        const i64 first = std::ranges::find(all, true) - all.begin();
        if (first == n_layers) return {};
        const LayerPattern regular{.every = first + 1, .chosen = {}};
        for (i64 i = 0; i < n_layers; ++i) {
            if (all[static_cast<size_t>(i)] != regular.has(i)) return {.every = 0, .chosen = all};
        }
        return regular;
    }
    friend bool operator==(const LayerPattern&, const LayerPattern&) = default;
};

}  // namespace lm::spec
