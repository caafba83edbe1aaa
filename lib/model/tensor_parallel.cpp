// SPDX-License-Identifier: Apache-2.0
#include "model/tensor_parallel.hpp"

namespace lm::model {

View TensorParallel::own_rows(const View& all) const {
    if (!cut_rows_) return all;
    const i64 n = all[0] / size_;
    return all.rows(rank_ * n, (rank_ + 1) * n);
}

View TensorParallel::gather(const View& own, const View& buffer) const {
    if (!cut_rows_) return own;
    group_->all_gather(own, buffer);
    return buffer;
}

View TensorParallel::sum(const View& parts) const {
    const View own = own_rows(parts);
    sum(parts, own);
    return own;
}

void TensorParallel::sum(const View& parts, const View& own) const {
    if (cut_rows_) {
        group_->reduce_scatter(parts, own);
    } else {
        all_sum(parts);
    }
}

void TensorParallel::all_sum(const View& x) const {
    if (several()) group_->all_reduce(x);
}

}  // namespace lm::model
