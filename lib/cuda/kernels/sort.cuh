// SPDX-License-Identifier: Apache-2.0
// A stable sort of row numbers: which rows of a gradient go to which row of a table.
#pragma once

#include "cuda/cuda_device.hpp"

namespace lm::cuda {

struct Sorted {
    const i32* rows;    // ascending; those that are not of [0, n_table_rows) are n_table_rows
    const i32* source;  // where each came from, ascending among equal rows
};

// Of index[i] - start for i in [0, n); the results lie in pieces of `scratch`
// (cost::cuda_sort_bytes).
Sorted sort_rows(cudaStream_t stream, Scratch& scratch, const i32* index, i64 n, i64 start,
                 i64 n_table_rows);

}  // namespace lm::cuda
