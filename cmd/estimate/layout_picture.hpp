// SPDX-License-Identifier: Apache-2.0
// The picture of lm-estimate layout: step time against memory, a dot for each layout.
#pragma once

#include "cost/layout_search.hpp"
#include "picture.hpp"

namespace lm::estimate {

// Returns the picture, with labels at the `n_labels` fastest layouts that fit; the fastest layout
// is emphasized. If none fits, the picture states it and emphasizes the layout that needs least
// memory. `memory_bytes` is the memory of a GPU.
Picture layout_picture(const cost::LayoutSearch& found, i64 memory_bytes, size_t n_labels);

}  // namespace lm::estimate
