// SPDX-License-Identifier: Apache-2.0
// The elements of a rank's flat buffers that the rank owns among the data-parallel ranks
// (parallel/buckets.hpp), computed from the layout alone.
#pragma once

#include <optional>

#include "parallel/buckets.hpp"
#include "spec/tensor_table.hpp"

namespace lm::parallel {

// Returns the end of the word embedding matrix, which begins at element 0 of the layout, if the
// first and the last stage share the matrix and `layout` is of one of these stages; else 0. `table`
// is tensor_table(config).
i64 shared_table_end(const spec::RankLayout& layout, const std::vector<spec::TensorSpec>& table,
                     const spec::ParallelConfig& parallel);

// Returns the ranges that data-parallel rank `dp_rank` owns, ascending. `bucket_elements`:
// --ddp-bucket-size.
std::vector<Range> owned_ranges(const spec::RankLayout& layout,
                                const std::vector<spec::TensorSpec>& table,
                                const spec::ParallelConfig& parallel, i64 dp_rank,
                                std::optional<i64> bucket_elements);

}  // namespace lm::parallel
