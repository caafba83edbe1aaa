// SPDX-License-Identifier: Apache-2.0
// Why sums have a fixed tree, here and in the reductions of flat.cpp.
//
// Additions of floating-point numbers are not associative, so the order of a sum is part of its
// result. The rule of this code is that shapes alone determine this order, never the number of
// threads, and never which thread finishes first. The usual ways break the rule:
//
// - One partial sum for each thread, as a reduction of OpenMP has it: other bits with another
//   --threads. The default of --threads is the number of cores that the process may use, so the
//   same command would give other bits on another machine, and in a smaller Slurm allocation.
// - Atomic additions into one result, as many GPU kernels have them: other bits in each run.
// - One thread for each column adds all rows: a fixed order, without partial sums. But a bias of
//   768 numbers divides into 3 tasks of 256 columns, while the rows, the long side, stay
//   sequential.
//
// So the rows are divided into blocks of cost::reduction_rows. The rows of a block are added in
// their order by whichever worker takes the block, and the tree then adds the blocks in pairs: 0
// and 1, 2 and 3, and so on. A side effect is accuracy: a number passes through at most 63 + log2(n
// / 64) additions, rounded up, instead of n - 1.
//
// The memory for this is one row of fp32 for 64 rows of the matrix, and it is in the plan
// (cost/workspace.cpp). Reading and adding the partial rows again is a 64th of the work.
//
// What is bought with it:
//
// - A resumed run has the bits of an uninterrupted one, on a machine with another number of cores,
//   too. So "is this resume correct" is a comparison of bytes and not of curves.
// - A wrong number appears again with --threads 1 under a debugger.
// - A race between threads usually changes bits, which tests/device/ops_test.cpp compares for each
//   operation with 1, 2 and 3 threads.
// - A step that is repeated to find a fault (train/step/step_guard.cpp) may compare bits with the
//   result of another rank, whose host may have other cores to spare.
//
// The rule does not make layouts equal. A micro-batch of another size has other blocks, and another
// number of data-parallel ranks has another sum over ranks; these agree within rounding only. Sums
// over ranks have the order of the members in groups of threads and over TCP (comm/reduce.hpp), and
// with MPI and NCCL the order that these libraries choose for the size, the ranks and, with NCCL,
// the machines. Equal bits in all layouts would need a tree over single samples, whose gradients
// would have to be kept apart and exchanged one by one.
#include "cpu/column_sums.hpp"

#include <algorithm>

#include "cpu/vector/vector_kernels.hpp"

namespace lm::cpu {

void ColumnSums::add_rows(const Source& x) {
    for_blocks([&](i64 begin, i64 end, float* partial, int) {
        float scratch[row_piece];
        for_pieces(columns_, [&](i64 column, i64 n) {
            x.copy(begin * columns_ + column, 1.0F, partial + column, n);
            for (i64 row = begin + 1; row < end; ++row) {
                const float* const more = x.row(row * columns_ + column, n, scratch);
                vector_kernels().add(partial + column, more, n);
            }
        });
    });
}

void ColumnSums::reduce() {
    constexpr i64 grain = 256;
    pool_.run_ranges(columns_, grain, [&](i64 begin, i64 end, int) {
        for (i64 stride = 1; stride < n_blocks_; stride *= 2) {
            for (i64 i = 0; i + stride < n_blocks_; i += 2 * stride) {
                float* const target = partials_ + i * columns_;
                vector_kernels().add(target + begin, target + stride * columns_ + begin,
                                     end - begin);
            }
        }
    });
}

void ColumnSums::put(float* target, i64 first, i64 n, bool accumulate) const {
    if (n_blocks_ == 0) {
        if (!accumulate) std::fill(target, target + n, 0.0F);
        return;
    }
    if (accumulate) {
        vector_kernels().add(target, partials_ + first, n);
    } else {
        std::copy(partials_ + first, partials_ + first + n, target);
    }
}

}  // namespace lm::cpu
