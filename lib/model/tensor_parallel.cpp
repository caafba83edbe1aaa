// SPDX-License-Identifier: Apache-2.0
#include "model/tensor_parallel.hpp"

namespace lm::model {

View TensorParallel::own_rows(const View& all) const {
    if (!sequence_parallel_) return all;
    const i64 n = all[0] / size_;
    return all.rows(rank_ * n, (rank_ + 1) * n);
}

TensorParallel::Started TensorParallel::start_gather(const View& own, const View& buffer) const {
    if (!sequence_parallel_) return {own, {}};
    return {buffer, group_->start_all_gather(own, buffer)};
}

// With sequence parallelism a reduce-scatter writes a rank's rows of the sum to their place in the
// rank's `parts`. An all-reduce would move twice the data, half of it for rows of other ranks.
TensorParallel::Started TensorParallel::start_sum(const View& parts) const {
    const View own = own_rows(parts);
    if (!several()) return {own, {}};
    return {own, sequence_parallel_ ? group_->start_reduce_scatter(parts, own, comm::Reduction::sum)
                                    : group_->start_all_reduce(parts, comm::Reduction::sum)};
}

View TensorParallel::gather(const View& own, const View& buffer) const {
    Started started = start_gather(own, buffer);
    started.work.wait();
    return started.x;
}

View TensorParallel::sum(const View& parts) const {
    Started started = start_sum(parts);
    started.work.wait();
    return started.x;
}

void TensorParallel::sum(const View& parts, const View& own) const {
    if (sequence_parallel_) {
        group_->reduce_scatter(parts, own);
    } else {
        all_sum(parts);
    }
}

void TensorParallel::all_sum(const View& x) const {
    if (several()) group_->all_reduce(x);
}

}  // namespace lm::model
