// SPDX-License-Identifier: Apache-2.0
// A stable sort of table row numbers: groups the rows of a gradient by their table row.
#pragma once

#include "cuda/cuda_device.hpp"

namespace lm::cuda {

struct Sorted {
    const i32* rows;    // [n], ascending; n_table_rows stands for all rows of other tables
    const i32* source;  // [n]: the index of each row before the sort, ascending among equal rows
};

// Sorts index[i] - start for i in [0, n). index: [n] int32 in device memory. The results are in
// memory acquired from `scratch` (cost::cuda_sort_bytes(n) bytes).
Sorted sort_rows(cudaStream_t stream, device::WorkspaceArena& scratch, const i32* index, i64 n,
                 i64 start, i64 n_table_rows);

}  // namespace lm::cuda
