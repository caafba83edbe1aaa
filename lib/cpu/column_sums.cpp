// SPDX-License-Identifier: Apache-2.0
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
