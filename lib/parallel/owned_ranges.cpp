// SPDX-License-Identifier: Apache-2.0
#include "parallel/owned_ranges.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace lm::parallel {

i64 shared_table_end(const spec::RankLayout& layout, const std::vector<spec::TensorSpec>& table,
                     const spec::ParallelConfig& parallel) {
    if (parallel.pp == 1) return 0;
    const auto shared = std::ranges::find_if(layout.tensors, [&table](const auto& tensor) {
        return table[static_cast<size_t>(tensor.index)].tied_head;
    });
    if (shared == layout.tensors.end()) return 0;
    LM_CHECK(shared->offset == 0,
             "expected the shared word embedding at element 0 of the flat buffer, got {}",
             shared->offset);
    return shared->end();
}

std::vector<Range> owned_ranges(const spec::RankLayout& layout,
                                const std::vector<spec::TensorSpec>& table,
                                const spec::ParallelConfig& parallel, i64 dp_rank,
                                std::optional<i64> bucket_elements) {
    std::vector<Range> owned;
    for (const Range& bucket :
         divide_into_buckets(layout.n_elements, parallel.dp,
                             bucket_elements.value_or(default_bucket_elements(parallel.dp)),
                             shared_table_end(layout, table, parallel))) {
        owned.push_back(part_of(bucket, parallel.dp, dp_rank));
    }
    return owned;
}

}  // namespace lm::parallel
