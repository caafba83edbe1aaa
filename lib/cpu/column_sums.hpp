// SPDX-License-Identifier: Apache-2.0
// Column sums of a matrix (gradients of biases and norm weights). Each block of
// cost::reduction_rows rows has one row of partial sums, and a fixed tree adds these partial rows.
// So the bits are the same for any thread count.
#pragma once

#include "cost/cpu_scratch.hpp"
#include "cpu/cpu_device.hpp"
#include "cpu/storage.hpp"

namespace lm::cpu {

class ColumnSums {
  public:
    ColumnSums(device::Context& context, i64 rows, i64 columns)
        : ColumnSums(context, rows, columns, arena_of(context.workspace)) {}
    ColumnSums(device::Context& context, i64 rows, i64 columns, device::WorkspaceArena scratch)
        : pool_(pool_of(context)),
          rows_(rows),
          columns_(columns),
          n_blocks_(ceil_div(rows, cost::reduction_rows)),
          partials_(scratch.reserve<float>(n_blocks_ * columns)) {}

    // Calls body(begin row, end row, partial row to write, worker) for each block, in parallel.
    template <typename Body>
    void for_blocks(const Body& body) {
        pool_.run_ranges(rows_, cost::reduction_rows, [&](i64 begin, i64 end, int worker) {
            body(begin, end, partials_ + begin / cost::reduction_rows * columns_, worker);
        });
    }
    // Writes the partial rows of a matrix x [rows, columns].
    void add_rows(const Source& x);
    // Adds the partial rows of all blocks; the result is in the first partial row.
    void reduce();
    // Computes target[0..n) = (accumulate ? target : 0) + sums of columns [first, first + n). Call
    // reduce() first.
    void put(float* target, i64 first, i64 n, bool accumulate) const;
    void finish(float* target, bool accumulate) {
        reduce();
        put(target, 0, columns_, accumulate);
    }

  private:
    ThreadPool& pool_;
    i64 rows_;
    i64 columns_;
    i64 n_blocks_;
    float* partials_;
};

}  // namespace lm::cpu
